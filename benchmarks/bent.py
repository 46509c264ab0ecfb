"""Regret a user of straight and bent agents in worlds whose rewards bend, and where they do not: a CSV.

python benchmarks/bent.py > docs/measured/bent.csv       # about ten minutes
python benchmarks/bent.py --users 20000                  # the smaller size alone
"""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import csv
import sys
import warnings
from typing import Any

import gymnasium as gym
from privbandit_agents import make, play

WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "Smooth-v0, d = 1": ("privbandit/Smooth-v0", {"dim": 1}),
    "Smooth-v0, d = 2": ("privbandit/Smooth-v0", {}),
    "Smooth-v0, d = 5": ("privbandit/Smooth-v0", {"dim": 5}),
    "Smooth-v0, bumps of all sides": ("privbandit/Smooth-v0", {"rewards": "scales"}),
    "Classification-v0, wine": ("privbandit/Classification-v0", {"source": "wine"}),
    "Classification-v0, breast_cancer": ("privbandit/Classification-v0", {"source": "breast_cancer"}),
    "Classification-v0, digits": ("privbandit/Classification-v0", {"source": "digits"}),
    "Classification-v0, lpct-synthetic": ("privbandit/Classification-v0", {}),
    "Clicks-v0, 5 arms, 3 features": ("privbandit/Clicks-v0", {"n_arms": 5, "dim": 3}),
}
PRIVATE = ("jdp-smooth", "jdp-linucb", "jdp-glm")


def regret(name: str, world: str, users: int, seed: int, **settings: Any) -> float:
    """Return the regret a user of one run."""
    env_id, given = WORLDS[world]
    env = gym.make(env_id, horizon=users, **given)
    agent = make(name, env, seed=seed, **settings)
    return float(play(env, agent, users, seed=seed, checkpoints=[users]).regret[-1]) / users


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["world", "users", "epsilon", *PRIVATE, "linucb without privacy"])
    for world in WORLDS:
        for users in chosen.users:
            seeds = range(chosen.seeds)
            straight = sum(regret("linucb", world, users, seed) for seed in seeds) / chosen.seeds
            for epsilon in (0.5, 1.0, 4.0):
                found = [
                    sum(regret(name, world, users, seed, epsilon=epsilon) for seed in seeds) / chosen.seeds
                    for name in PRIVATE
                ]
                cells = [f"{one:.4f}" for one in (*found, straight)]
                table.writerow([world, users, f"{epsilon:g}", *cells])
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
