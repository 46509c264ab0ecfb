"""Regret against the mean delay of feedback, with privacy and without.

    python benchmarks/delays.py
    python benchmarks/delays.py --users 10000 --seeds 8 --law heavy --missing 0.1

Rows are agents, columns are mean delays in users; entries are mean regret and its standard error over seeds.
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


def regret(agent: str, mean: float, seed: int, given: argparse.Namespace) -> float:
    env = gym.make(**WORLDS[agent], horizon=given.users)
    late = DelayFeedback(env, Delay(mean, given.law, given.missing))
    config = {"epsilon": given.epsilon} if agent in ("jdp-linucb", "lplr", "newton-mnl") else {}
    player = make(agent, late, seed=seed, **config)
    return float(play(late, player, given.users, seed=seed, checkpoints=[given.users]).regret[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--law", default="geometric")
    parser.add_argument("--missing", type=float, default=0.0)
    parser.add_argument("--agents", nargs="*", default=["linucb", "jdp-linucb", "lplr", "newton-mnl"])
    given = parser.parse_args()
    started = time.process_time()
    print("| agent | " + " | ".join(f"delay {mean}" for mean in MEANS) + " |\n|---|" + "---|" * len(MEANS))
    for agent in given.agents:
        cells = []
        for mean in MEANS:
            found = [regret(agent, mean, given.first_seed + k, given) for k in range(given.seeds)]
            spread = np.std(found, ddof=1) / len(found) ** 0.5 if len(found) > 1 else 0.0
            cells.append(f"{np.mean(found):.0f} +- {spread:.0f}")
        print(f"| `{agent}` | " + " | ".join(cells) + " |", flush=True)
    print(f"{time.process_time() - started:.0f} CPU seconds")


if __name__ == "__main__":
    main()
