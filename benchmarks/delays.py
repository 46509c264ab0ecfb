"""Regret under batches and delay, of agents in all families, beside what the regime must cost.

    python benchmarks/delays.py                              # a row for each agent and family
    python benchmarks/delays.py --seeds 1 --agents linucb jdp-linucb --families clicks arms
    python benchmarks/delays.py --page --seeds 8 --out docs/measured/delays.csv

The last one is the table of docs/howto/changes.md: a default agent of each family and notion, by the size of batches.

The floor of a regime is the undelayed regret of the same agent plus the regret of uniform play over its first batch, or
for as long as the mean delay. Cells are regret / floor, with a star if that is above 1.5; the exit code is 1 then.
"""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import csv
import sys
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from privbandit_agents import LearningAgent, make, play
from privbandit_agents.zoo.entries import AGENTS, FAMILIES
from privbandit_agents.zoo.registry import can_play, field_names

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


def regret(name: str, family: str, users: int, epsilon: float, seed: int, law: Mapping[str, Any] | None) -> float:
    """Return the regret of one run."""
    warnings.simplefilter("ignore")
    env = gym.make(FAMILIES[family], horizon=users, feedback=law, **WORLDS[family])
    settings = {"epsilon": epsilon} if "epsilon" in field_names(AGENTS[name].load().Config) else {}
    agent = make(name, env, seed=seed, **settings)
    return float(play(env, agent, users, seed=seed, checkpoints=[users], by_counts=False).regret[-1])


def means(given: argparse.Namespace, name: str, family: str) -> dict[str, float]:
    """Return the mean regret of an agent by regime, and without one."""
    known = {"": None, **regimes(given.users, given.page)} if name != "uniform" else {"": None}
    run = partial(regret, name, family, given.users, given.epsilon)
    return {key: float(np.mean([run(seed, law) for seed in range(given.seeds)])) for key, law in known.items()}


def cases(given: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the agents and families that are played: those that own their loop take no late reports."""
    for family in given.families:
        env = gym.make(FAMILIES[family], horizon=10, **WORLDS[family])
        for name in given.agents:
            owner = issubclass(AGENTS[name].load(), LearningAgent)
            shown = not given.page or name in DEFAULTS[family]
            if shown and name != "uniform" and not owner and not AGENTS[name].successor and can_play(name, env):
                yield name, family


def row(
    name: str, family: str, found: Mapping[str, float], uniform: float, laws: Regimes, users: int
) -> dict[str, str]:
    """Return the numbers of an agent in a family, as text; a star marks what is above the bound."""
    cells = {"family": family, "agent": f"`{name}`", "notion": AGENTS[name].notion, "at once": f"{found['']:.0f}"}
    for key, law in laws.items():
        floor = found[""] + uniform * min(1.0, law["mean"] / users)
        mark = "*" if found[key] > MOST * floor else ""
        cells[key] = f"{found[key]:.0f} / {floor:.0f}{mark}"
    return {**cells, "uniform": f"{uniform:.0f}"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--agents", nargs="+", default=list(AGENTS), choices=list(AGENTS), metavar="NAME")
    parser.add_argument("--families", nargs="+", default=list(WORLDS), choices=list(WORLDS), metavar="FAMILY")
    parser.add_argument("--page", action="store_true", help="the agents and the batches of the page alone")
    parser.add_argument("--out", type=Path, help="a CSV file beside the printed table")
    given = parser.parse_args()
    rows = []
    with ProcessPoolExecutor(given.jobs) as pool:
        played = [*cases(given)]
        uniform = {family: pool.submit(means, given, "uniform", family) for family in given.families}
        waiting = [(name, family, pool.submit(means, given, name, family)) for name, family in played]
        for name, family, future in waiting:
            laws = regimes(given.users, given.page)
            rows.append(row(name, family, future.result(), uniform[family].result()[""], laws, given.users))
            if len(rows) == 1:
                print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
            print("| " + " | ".join(rows[-1].values()) + " |", flush=True)
    if given.out is not None:
        with given.out.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return int(any("*" in cell for cells in rows for cell in cells.values()))


if __name__ == "__main__":
    sys.exit(main())
