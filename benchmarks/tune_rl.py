"""Search hyperparameters of the reinforcement-learning baselines with Optuna, on worlds that no table uses.

    python benchmarks/tune_rl.py ppo arms --trials 30
    python benchmarks/tune_rl.py dqn wide --users 5000 --worlds 2

A trial plays the worlds of the tuning seeds, from 980000 on, through ``play``; its value is the mean share of uniform
play's regret. The first trial is what ``rl.yaml`` says. All trials, best first, are written to
``benchmarks/tuned/<agent>-<kind>.yaml`` after each of them. Needs the extras ``rl`` and ``tune``.
"""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import time
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import yaml
from privbandit_agents import make, play
from privbandit_agents.baselines.rl.settings import hyperparameters

FIRST_SEED = 980_000
WORLDS = {
    "mlp": "privbandit/Classification-v0",
    "arms": "privbandit/Linear-v0",
    "wide": "privbandit/SparseLinear-v0",
    "items": "privbandit/Assortment-v0",
}
CHOICES: dict[str, dict[str, list[Any]]] = {
    "dqn": {
        "gradient_steps": [1, 2, 4],
        "exploration_fraction": [0.01, 0.02, 0.05, 0.2],
        "reward_scale": [0.3, 0.5, 1.0],
        "batch_size": [64, 128, 256],
    },
    "ppo": {
        "n_steps": [4, 8, 16, 32],
        "n_epochs": [2, 4, 10],
        "clip_range": [0.2, 0.5, 1.0],
        "batch_size": [32, 64, 128],
    },
    "a2c": {"n_steps": [1, 4, 8, 16], "normalize_advantage": [False, True], "max_grad_norm": [0.5, 10.0]},
}
"""What is chosen from a list, besides the learning rate and how it falls."""


def suggested(trial: Any, agent: str) -> dict[str, Any]:
    """Return the settings of a trial of Optuna's."""
    settings = {name: trial.suggest_categorical(name, options) for name, options in CHOICES[agent].items()}
    settings["learning_rate"] = trial.suggest_float("learning_rate", 1e-3, 1.0, log=True)
    settings["schedule"] = trial.suggest_categorical("schedule", ["constant", "sqrt", "inverse"])
    return settings


def share(agent: str, kind: str, settings: dict[str, Any], users: int, worlds: int) -> float:
    """Return the mean share of uniform play's regret over the worlds of the tuning seeds."""
    return (
        sum(
            regret(agent, kind, seed, users, **settings) / uniform(kind, seed, users)
            for seed in range(FIRST_SEED, FIRST_SEED + worlds)
        )
        / worlds
    )


@cache
def uniform(kind: str, seed: int, users: int) -> float:
    return regret("uniform", kind, seed, users)


def regret(agent: str, kind: str, seed: int, users: int, **settings: Any) -> float:
    env = gym.make(WORLDS[kind], horizon=users)
    return float(play(env, make(agent, env, seed=seed, **settings), seed=seed, checkpoints=[users]).regret[-1])


def search(agent: str, kind: str, trials: int, users: int, worlds: int, folder: Path) -> Path:
    """Run the trials; return the file that has them."""
    import optuna

    path, rows = folder / f"{agent}-{kind}.yaml", list[dict[str, Any]]()
    folder.mkdir(parents=True, exist_ok=True)

    def objective(trial: Any) -> float:
        settings, started = suggested(trial, agent), time.process_time()
        found = share(agent, kind, settings, users, worlds)
        rows.append({"share": round(found, 4), "cpu_seconds": round(time.process_time() - started, 1), **settings})
        head = {"agent": agent, "env": WORLDS[kind], "users": users, "first_seed": FIRST_SEED, "worlds": worlds}
        best_first = sorted(rows, key=lambda row: float(row["share"]))
        path.write_text(yaml.safe_dump({**head, "trials": best_first}, sort_keys=False), encoding="utf-8")
        return found

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=FIRST_SEED))
    today = hyperparameters(agent.upper(), kind, {"policy": None})
    study.enqueue_trial({name: today[name] for name in (*CHOICES[agent], "learning_rate", "schedule")})
    study.optimize(objective, n_trials=trials)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agent", choices=CHOICES)
    parser.add_argument("kind", choices=WORLDS)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--worlds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "tuned")
    given = parser.parse_args()
    print(search(given.agent, given.kind, given.trials, given.users, given.worlds, given.out))


if __name__ == "__main__":
    main()
