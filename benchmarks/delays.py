"""Regret against the mean delay of feedback, with privacy and without.

    python benchmarks/delays.py
    python benchmarks/delays.py --users 10000 --seeds 8 --law heavy --missing 0.1

Rows are agents, columns are mean delays in users, and what uniform play loses; entries are mean regret and its standard
error over seeds. ``lplr`` plays more users, since it has learned nothing after 4000, and fewer seeds.
"""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import time
from typing import Any

import gymnasium as gym
import numpy as np
from privbandit_agents import make, play

from privbandit_envs import Delay, DelayFeedback

FIRST_SEED = 990_000
ARMS: dict[str, Any] = {"id": "privbandit/Linear-v0", "n_arms": 5, "dim": 5}
SETS: dict[str, Any] = {"id": "privbandit/Assortment-v0", "n_items": 15, "capacity": 3}
WORLDS = {"linucb": ARMS, "jdp-linucb": ARMS, "lplr": ARMS, "ucb-mnl": SETS, "newton-mnl": SETS, "uniform": ARMS}
MEANS = (0, 10, 100, 1000)
USERS, SEEDS = {"lplr": 30_000}, {"lplr": 5}
"""Where they are others than by default."""


def regret(agent: str, users: int, mean: float, seed: int, given: argparse.Namespace) -> float:
    env = gym.make(**WORLDS[agent], horizon=users)
    late = DelayFeedback(env, Delay(mean, given.law, given.missing))
    config = {"epsilon": given.epsilon} if agent in ("jdp-linucb", "lplr", "newton-mnl") else {}
    player = make(agent, late, seed=seed, **config)
    return float(play(late, player, users, seed=seed, checkpoints=[users]).regret[-1])


def uniform(agent: str, users: int, seed: int) -> float:
    env = gym.make(**WORLDS[agent], horizon=users)
    return float(play(env, make("uniform", env, seed=seed), users, seed=seed, checkpoints=[users]).regret[-1])


def cell(found: list[float]) -> str:
    spread = np.std(found, ddof=1) / len(found) ** 0.5 if len(found) > 1 else 0.0
    return f"{np.mean(found):.0f} +- {spread:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, help="default: 4000, or 30000 for lplr")
    parser.add_argument("--seeds", type=int, help="default: 12, or 5 for lplr")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--law", default="geometric")
    parser.add_argument("--missing", type=float, default=0.0)
    parser.add_argument("--agents", nargs="*", default=["linucb", "jdp-linucb", "lplr", "newton-mnl"])
    given = parser.parse_args()
    started = time.process_time()
    columns = ["users", "seeds", *(f"delay {mean}" for mean in MEANS), "uniform"]
    print("| agent | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for agent in given.agents:
        users, many = given.users or USERS.get(agent, 4000), given.seeds or SEEDS.get(agent, 12)
        seeds = range(given.first_seed, given.first_seed + many)
        cells = [cell([regret(agent, users, mean, seed, given) for seed in seeds]) for mean in MEANS]
        cells.append(cell([uniform(agent, users, seed) for seed in seeds]))
        print(f"| `{agent}` | {users} | {many} | " + " | ".join(cells) + " |", flush=True)
    print(f"{time.process_time() - started:.0f} CPU seconds")


if __name__ == "__main__":
    main()
