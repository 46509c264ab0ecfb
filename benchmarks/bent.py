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
FOURIER = "with 16 Fourier features"


def regret(name: str, world: str, users: int, seeds: int, features: str | None = None, **settings: Any) -> str:
    """Return the regret a user, the mean of some runs."""
    env_id, given = WORLDS[world]
    env, total = gym.make(env_id, horizon=users, features=features, **given), 0.0
    for seed in range(seeds):
        agent = make(name, env, seed=seed, **settings)
        total += float(play(env, agent, users, seed=seed, checkpoints=[users]).regret[-1])
    return f"{total / users / seeds:.4f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    table = csv.writer(sys.stdout, lineterminator="\n")
    without = "linucb without privacy"
    names = *PRIVATE, f"jdp-linucb {FOURIER}", without, f"{without} {FOURIER}"
    table.writerow(["world", "users", "epsilon", *names])
    for world in WORLDS:
        for users in chosen.users:
            size = world, users, chosen.seeds
            free = [regret("linucb", *size, features) for features in (None, "fourier")]
            for epsilon in (0.5, 1.0, 4.0):
                found = [regret(name, *size, epsilon=epsilon) for name in PRIVATE]
                found.append(regret("jdp-linucb", *size, "fourier", epsilon=epsilon))
                table.writerow([world, users, f"{epsilon:g}", *found, *free])
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
