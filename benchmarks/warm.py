"""Regret after a warm start from an old log, over that of a cold start, and after one from a log that misleads.

    python benchmarks/warm.py > docs/measured/warm.csv
    python benchmarks/warm.py --parts > docs/measured/warm-parts.csv

The log has 2000 users of uniform play in the same world, whom the agent learns from at its own epsilon = 1. The one
that misleads has the same rewards in another order: nothing in it is true but their mean. Then come 5000 users. With
``--parts`` agents that a false log hurts learn from its first 500 or 125 rows alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from harness import Line, options, regret, results, written
from privbandit_agents import Log, log, make

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
    "Classification-v0 (digits-binary)": ("auto-joint",),
    "Assortment-v0": ("ucb-mnl", "auto-joint", "auto-local"),
    "Bandit-v0": ("ucb1", "linucb"),
    "SparseLinear-v0": ("auto-joint",),
}
"""Agents whom a false log of 2000 rows costs more than 1.2 times a cold start."""
OLD, USERS = 2000, 5000


def old(env_id: str, settings: dict[str, Any], seed: int) -> Log:
    """Return a log of uniform play."""
    env = gym.make(env_id, horizon=OLD, **settings).unwrapped
    return log(env, make("uniform", env, seed=1000 + seed), OLD, seed=seed)


def line(name: str, world: str, seeds: int, parts: Sequence[int]) -> Line:
    """Return the mean regret of a cold start, and for each part of the log that after it, and after a false one."""
    env_id, settings, _ = WORLDS[world]
    sums = np.zeros(1 + 2 * len(parts))
    for seed in range(seeds):
        env = gym.make(env_id, horizon=USERS, **settings)
        known = old(env_id, settings, seed)
        wrong = np.random.default_rng(seed).permutation(OLD)
        misleading = replace(known, rewards=known.rewards[wrong], feedback=known.feedback[wrong])
        logs = [None, *(one[:rows] for rows in parts for one in (known, misleading))]
        sums += [regret(name, env, seed, warm=one, epsilon=1.0) for one in logs]
    told = ["warm over cold", "after a log that misleads over cold"]
    if len(parts) > 1:
        told = [f"{what} {rows} rows over cold" for rows in parts for what in ("after", "after false")]
    shares = zip(told, (f"{one / sums[0]:.2f}" for one in sums[1:]), strict=True)
    return {"world": world, "agent": name, "cold start": f"{sums[0] / seeds:.0f}", **dict(shares)}


if __name__ == "__main__":
    parser = options(__doc__, seeds=8)
    parser.add_argument("--parts", action="store_true", help="agents that a false log hurts, from a part of one")
    given = parser.parse_args()
    played, parts = (
        (HURT, (500, 125)) if given.parts else ({key: names for key, (_, _, names) in WORLDS.items()}, (OLD,))
    )
    cases = [(name, world, given.seeds, parts) for world, names in played.items() for name in names]
    written(given, results(given, line, cases))
