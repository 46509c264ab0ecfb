"""Regret under batches and delay, of agents in all families, beside what the regime must cost.

    python benchmarks/delays.py                              # a row for each agent and family
    python benchmarks/delays.py --seeds 1 --agents linucb jdp-linucb --families clicks arms
    python benchmarks/delays.py --page --seeds 8 --out docs/measured/delays.csv

The last one is the table of docs/howto/changes.md: a default agent of each family and notion, by the size of batches.

The floor of a regime is the undelayed regret of the same agent plus the regret of uniform play over its first batch, or
for as long as the mean delay. Cells are regret / floor, with a star if that is above 1.5; the exit code is 1 then.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym
from harness import Line, options, regret, results, written
from privbandit_agents import LearningAgent
from privbandit_agents.zoo.entries import AGENTS, FAMILIES
from privbandit_agents.zoo.registry import can_play

MOST = 1.5
"""Times the floor, above which a row is marked."""
WORLDS: dict[str, dict[str, Any]] = {
    "linear": {"n_arms": 5, "dim": 5},
    "sparse": {"dim": 60, "sparsity": 3},
    "assortments": {"n_items": 15, "capacity": 3},
    "labels": {},
    "clicks": {"n_arms": 8, "dim": 3},
    "arms": {"n_arms": 8},
    "smooth": {},
}
DEFAULTS = {
    "linear": ("linucb", "jdp-linucb", "shuffle-linucb", "prec-ts"),
    "sparse": ("sa-lasso", "private-pursuit", "shuffle-linucb", "ldp-lasso"),
    "assortments": ("ucb-mnl", "newton-mnl", "ldp-mnl"),
    "labels": ("epsilon-greedy", "jdp-linucb", "shuffle-linucb", "kernel-ldp"),
    "clicks": ("linucb", "jdp-linucb", "shuffle-linucb", "ldp-clicks"),
    "arms": ("ucb1", "adap-klucb", "ldp-ucb"),
    "smooth": ("linucb", "jdp-linucb", "shuffle-linucb", "smooth-ldp"),
}
"""The agents of a family on the page, by notion: none, joint, shuffle, local."""
Regimes = Mapping[str, Mapping[str, Any]]


def regimes(users: int, page: bool = False) -> Regimes:
    """Return the regimes by the names of their columns."""
    sizes = (10, 50, 200, 500, users // 4) if page else (50, 500, users // 8)
    batches = {f"batch {size}": {"mean": size, "law": "batch"} for size in sizes}
    delays = {f"{law} {500}": {"mean": 500, "law": law} for law in ("fixed", "geometric")}
    return {**batches, **delays}


def means(name: str, family: str, given: argparse.Namespace) -> dict[str, float]:
    """Return the mean regret of an agent by regime, and without one; of uniform play without one alone."""
    known: dict[str, Any] = {"": None, **(regimes(given.users, given.page) if name != "uniform" else {})}
    found = {}
    for key, law in known.items():
        env = gym.make(FAMILIES[family], horizon=given.users, feedback=law, **WORLDS[family])
        runs = (regret(name, env, seed, by_counts=False, epsilon=given.epsilon) for seed in range(given.seeds))
        found[key] = sum(runs) / given.seeds
    return found


def cases(given: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the agents and families that are played: those that own their loop take no late reports."""
    for family in given.families:
        env = gym.make(FAMILIES[family], horizon=10, **WORLDS[family])
        for name in given.agents:
            owner = issubclass(AGENTS[name].load(), LearningAgent)
            shown = not given.page or name in DEFAULTS[family]
            if shown and name != "uniform" and not owner and not AGENTS[name].successor and can_play(name, env):
                yield name, family


def line(name: str, family: str, found: Mapping[str, float], uniform: float, laws: Regimes, users: int) -> Line:
    """Return the numbers of an agent in a family, as text; a star marks what is above the bound."""
    cells = {"family": family, "agent": f"`{name}`", "notion": AGENTS[name].notion, "at once": f"{found['']:.0f}"}
    for key, law in laws.items():
        floor = found[""] + uniform * min(1.0, law["mean"] / users)
        mark = "*" if found[key] > MOST * floor else ""
        cells[key] = f"{found[key]:.0f} / {floor:.0f}{mark}"
    return {**cells, "uniform": f"{uniform:.0f}"}


def main() -> int:
    parser = options(__doc__, seeds=2)
    parser.add_argument("--users", type=int, default=4000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--agents", nargs="+", default=list(AGENTS), choices=list(AGENTS), metavar="NAME")
    parser.add_argument("--families", nargs="+", default=list(WORLDS), choices=list(WORLDS), metavar="FAMILY")
    parser.add_argument("--page", action="store_true", help="the agents and the batches of the page alone")
    given = parser.parse_args()
    played, laws, uniform = list(cases(given)), regimes(given.users, given.page), dict[str, float]()
    whole = [*(("uniform", family) for family in given.families), *played]

    def lines() -> Iterator[Line]:
        for (name, family), found in zip(whole, results(given, means, [(*one, given) for one in whole]), strict=True):
            if name == "uniform":
                uniform[family] = found[""]
            else:
                yield line(name, family, found, uniform[family], laws, given.users)

    return int(any("*" in cell for cells in written(given, lines()) for cell in cells.values()))


if __name__ == "__main__":
    sys.exit(main())
