"""Regret after a warm start from an old log, over that of a cold start, and after one from a log that misleads.

    python benchmarks/warm.py > docs/measured/warm.csv
    python benchmarks/warm.py --parts > docs/measured/warm-parts.csv

The log has 2000 users of uniform play in the same world, whom the agent learns from at its own epsilon = 1. The one
that misleads has the same rewards in another order: nothing in it is true but their mean. Then come 5000 users. With
``--parts`` agents that a false log hurts learn from its first 500 or 125 rows alone.
"""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import csv
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from privbandit_agents import Log, log, make, play
from privbandit_agents.zoo.entries import AGENTS
from privbandit_agents.zoo.registry import field_names

WORLDS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "Linear-v0": (
        "privbandit/Linear-v0",
        {"n_arms": 10, "dim": 5},
        ("linucb", "jdp-linucb", "reward-dp-linucb", "shuffle-linucb", "auto-local"),
    ),
    "Clicks-v0": ("privbandit/Clicks-v0", {"n_arms": 8, "dim": 3}, ("linucb", "auto-joint")),
    "Assortment-v0": (
        "privbandit/Assortment-v0",
        {"n_items": 30, "capacity": 3, "dim": 5},
        ("ucb-mnl", "auto-joint", "auto-local"),
    ),
    "Classification-v0 (digits-binary)": (
        "privbandit/Classification-v0",
        {"source": "digits-binary"},
        ("linucb", "auto-joint", "auto-local"),
    ),
    "Bandit-v0": ("privbandit/Bandit-v0", {"n_arms": 8}, ("ucb1", "linucb")),
    "SparseLinear-v0": ("privbandit/SparseLinear-v0", {"dim": 60, "sparsity": 3}, ("auto-joint", "auto-local")),
}
HURT = {
    "Linear-v0": ("linucb", "jdp-linucb", "reward-dp-linucb", "shuffle-linucb"),
    "Clicks-v0": ("linucb",),
    "Assortment-v0": ("ucb-mnl", "auto-joint", "auto-local"),
    "Bandit-v0": ("ucb1", "linucb"),
    "SparseLinear-v0": ("auto-joint",),
}
"""Agents whom a false log of 2000 rows costs more than 1.2 times a cold start."""
OLD, USERS, SEEDS = 2000, 5000, 8


def old(env_id: str, settings: dict[str, Any], seed: int) -> Log:
    """Return a log of uniform play."""
    env = gym.make(env_id, horizon=OLD, **settings).unwrapped
    return log(env, make("uniform", env, seed=1000 + seed), OLD, seed=seed)


def regret(name: str, env_id: str, settings: dict[str, Any], seed: int, warm: Log | None) -> float:
    env = gym.make(env_id, horizon=USERS, **settings)
    chosen = {"epsilon": 1.0} if "epsilon" in field_names(AGENTS[name].load().Config) else {}
    agent = make(name, env, seed=seed, warm=warm, **chosen)
    return float(play(env, agent, USERS, seed=seed, checkpoints=[USERS]).regret[-1])


def ratios(name: str, world: str, seeds: int, parts: Sequence[int]) -> list[str]:
    """Return the mean regret of a cold start, and for each part of the log that after it, and after a false one."""
    env_id, settings, _ = WORLDS[world]
    sums = np.zeros(1 + 2 * len(parts))
    for seed in range(seeds):
        known = old(env_id, settings, seed)
        wrong = np.random.default_rng(seed).permutation(OLD)
        misleading = replace(known, rewards=known.rewards[wrong], feedback=known.feedback[wrong])
        logs = [None, *(one[:rows] for rows in parts for one in (known, misleading))]
        sums += [regret(name, env_id, settings, seed, one) for one in logs]
    return [f"{sums[0] / seeds:.0f}", *(f"{one / sums[0]:.2f}" for one in sums[1:])]


def main() -> int:
    warnings.simplefilter("ignore")
    table = csv.writer(sys.stdout, lineterminator="\n")
    parts: Sequence[int]
    if in_parts := "--parts" in sys.argv:
        parts, seeds = (500, 125), 4
        told = [f"{what} {rows} rows over cold" for rows in parts for what in ("after", "after false")]
    else:
        parts, seeds = (OLD,), SEEDS
        told = ["warm over cold", "after a log that misleads over cold"]
    table.writerow(["world", "agent", "cold start", *told])
    for world, (_, _, names) in WORLDS.items():
        for name in names if not in_parts else HURT.get(world, ()):
            table.writerow([world, name, *ratios(name, world, seeds, parts)])
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
