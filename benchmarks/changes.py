"""Regret where theta jumps three times: agents with a window and without, of each notion of privacy.

    python benchmarks/changes.py
    python benchmarks/changes.py --drift 0.0005 --jumps

Columns are dynamic regret (against the best policy of the moment), static regret (against the best fixed policy) and
dynamic regret after each quarter of the users: means over seeds, the first with its standard error.
"""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import time
from typing import Any

import gymnasium as gym
import numpy as np
from privbandit_agents import make, play

import privbandit_envs  # noqa: F401  (registers the environments)

FIRST_SEED = 990_000
PAIRS = {
    "linucb": {},
    "sw-linucb": {"window": 1000},
    "jdp-linucb": {},
    "sw-jdp-linucb": {"window": 1000},
    "ldp-linucb": {},
    "sw-ldp-linucb": {"window": 3000},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=16_000)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--jumps", type=int, nargs="*", default=[4000, 8000, 12_000])
    parser.add_argument("--drift", type=float, default=0.0)
    given = parser.parse_args()
    started, quarters = time.process_time(), [given.users * k // 4 for k in (1, 2, 3, 4)]
    world = {"n_arms": 5, "dim": 3, "horizon": given.users, "jumps": given.jumps, "drift": given.drift}
    print("| agent | dynamic | static | quarters |\n|---|---|---|---|")
    for name, own in PAIRS.items():
        config: dict[str, Any] = {**own, **({"epsilon": given.epsilon} if "dp-" in name else {})}
        rows, static = [], []
        for seed in range(given.first_seed, given.first_seed + given.seeds):
            env = gym.make("privbandit/Linear-v0", **world)
            found = play(env, make(name, env, seed=seed, **config), given.users, seed=seed, checkpoints=quarters)
            rows.append(found.regret)
            static.append((found.regret if found.static is None else found.static)[-1])
        mean, error = np.mean(rows, axis=0), np.std([row[-1] for row in rows], ddof=1) / len(rows) ** 0.5
        parts = ", ".join(f"{part:.0f}" for part in np.diff(mean, prepend=0.0))
        print(f"| `{name}` | {mean[-1]:.0f} +- {error:.0f} | {np.mean(static):.0f} | {parts} |", flush=True)
    print(f"{time.process_time() - started:.0f} CPU seconds")


if __name__ == "__main__":
    main()
