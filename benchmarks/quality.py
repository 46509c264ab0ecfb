"""How well the baselines play: final regret over ten seeds beside uniform play, in the papers' settings."""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import sys
from typing import Any

import gymnasium as gym
import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from privbandit_agents import make, play

import privbandit_envs  # noqa: F401

SEEDS = 10
ROWS: list[tuple[str, str, dict[str, Any], int, float]] = [
    ("sa-lasso", "privbandit/SparseLinear-v0", {}, 20_000, 30),
    ("ucb-mnl", "privbandit/Assortment-v0", {"features": "gaussian"}, 10_000, 3),
    ("ucb-mnl", "privbandit/Assortment-v0", {"features": "unit"}, 10_000, 6),
]


def curve(name: str, env_id: str, kwargs: dict[str, Any], horizon: int, seed: int) -> NDArray[np.float64]:
    """Return the regret of one run at 200 even checkpoints."""
    env = gym.make(env_id, horizon=horizon, **kwargs)
    return play(env, make(name, env, seed=seed), horizon, seed=seed).regret


def curves(name: str, env_id: str, kwargs: dict[str, Any], horizon: int) -> NDArray[np.float64]:
    """Return the regret of all seeds, shape (seeds, 200)."""
    runs = Parallel(n_jobs=-1)(delayed(curve)(name, env_id, kwargs, horizon, seed) for seed in range(SEEDS))
    return np.array(runs)


def final(regret: NDArray[np.float64]) -> str:
    """Return mean and 95 % half-width (t with 9 degrees of freedom) of the final regret."""
    last = regret[:, -1]
    return f"{last.mean():.2f} +- {2.262 * last.std(ddof=1) / np.sqrt(len(last)):.2f}"


def main() -> int:
    """Print the tables; exit 1 if a target is missed."""
    met = []
    print("| agent | environment | T | regret | uniform | target | met |\n|---|---|---|---|---|---|---|")
    for name, env_id, kwargs, horizon, target in ROWS:
        regret, uniform = curves(name, env_id, kwargs, horizon), curves("uniform", env_id, kwargs, horizon)
        met.append(regret[:, -1].mean() <= target)
        setting = f"{env_id.split('/')[1]} {' '.join(kwargs.values())}"
        verdict = "yes" if met[-1] else "NO"
        print(f"| {name} | {setting} | {horizon} | {final(regret)} | {final(uniform)} | <= {target:g} | {verdict} |")
    print("\n| LinUCB on Linear-v0, T | 2500 | 5000 | 10000 | 20000 | slope of log regret in log T |")
    print("|---|---|---|---|---|---|")
    at = np.array([25, 50, 100, 200]) - 1
    mean = curves("linucb", "privbandit/Linear-v0", {}, 20_000).mean(axis=0)[at]
    slope = float(np.polyfit(np.log([2500, 5000, 10_000, 20_000]), np.log(mean), 1)[0])
    met.append(slope < 0.75)
    print(f"| regret | {' | '.join(f'{value:.0f}' for value in mean)} | {slope:.2f} (sublinear: < 0.75) |")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
