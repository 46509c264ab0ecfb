"""The README's loop over its whole envelope: what a user costs each private agent, over ``linucb`` in the same world.

Times are CPU seconds of ``select_action`` and ``update``; agent and unit take turns in one process, which serves no
other agent. ``--quick`` leaves out the longer of the two horizons and the largest worlds.
"""

import csv
import math
import multiprocessing
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from harness import Options, Row, each, least, main, timed
from privbandit_agents import make
from privbandit_agents.audits.views.reports import numbers
from privbandit_agents.base.local import Devices
from privbandit_agents.zoo.entries import AGENTS, FAMILIES
from privbandit_agents.zoo.registry import can_play

from privbandit_envs.datasets.dataset import Dataset

RECORDED = Path(__file__).parents[1] / "docs" / "measured" / "step-loop.csv"
HORIZONS = (10**4, 10**6)
FIRST, LATER, TURN = 500, 1000, 50
"""Users who are the first; who came before the later ones; and who are served before another agent's turn."""
SECONDS = 2.0
"""CPU time after which no further users are timed."""
LAYERED = (
    "lplr",
    "lpct",
    "lpct-prune",
    "lpct-p",
    "lpct-r",
    "lpdt",
    "phist",
    "smooth-ldp",
    "jdp-smooth",
    "jdp-kernel",
    "kernel-ldp",
)
MOST, MOST_LAYERED, MOST_DRAWS, MOST_BY_HORIZON, MOST_MEMORY = 8.0, 12.0, 1.6, 1.3, 300
"""Of the unit's time; of that of drawing a report's numbers, where this is more; of the shorter horizon's; and MiB."""


class World(NamedTuple):
    """A world of the envelope: its family, settings, numbers of arms and of features."""

    family: str
    settings: dict[str, Any]
    arms: int
    dim: int

    def __str__(self) -> str:
        return f"{self.family} {self.arms} x {self.dim}"


def made_up(labels: int, dim: int, rows: int = 4000) -> Dataset:
    """Return a data set of clouds, one a label."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, labels, rows)
    x = rng.standard_normal((labels, dim))[y] + rng.standard_normal((rows, dim))
    return Dataset(x, y, tuple(map(str, range(labels))), tuple(f"x{j}" for j in range(dim)))


WORLDS = (
    *(World("linear", {"n_arms": K, "dim": d}, K, d) for K, d in product((5, 100), (5, 10, 100))),
    *(World("sparse", {"dim": d}, 3, d) for d in (100, 300, 1000)),
    World("labels", {}, 2, 2),
    *(World("labels", {"source": name}, K, d) for name, K, d in (("wine", 3, 13), ("digits", 10, 64))),
    World("labels", {"source": made_up(26, 16), "n_public": 200}, 26, 16),
    *(World("clicks", {"n_arms": K, "dim": d}, K, d) for K, d in ((8, 3), (30, 10))),
    *(World("arms", {"n_arms": K}, K, 1) for K in (2, 50)),
    World("smooth", {}, 3, 2),
    *(World("assortments", {"n_items": N}, N, 5) for N in (30, 180)),
)
LARGE = {"linear 100 x 100", "sparse 3 x 300", "sparse 3 x 1000", "assortments 180 x 5"}


class Cost(NamedTuple):
    """CPU seconds a user of an agent and of the unit, over the first users and the later ones.

    Attributes:
        draw: seconds of drawing as many normals as a report has numbers; 0 if there is no report.
        memory: peak memory of the process above what it began with, in MiB.
    """

    first: float
    later: float
    unit_first: float
    unit_later: float
    draw: float
    memory: float


class Steps:
    """The ordinary loop of an agent and a world of its own; ``clock`` is what asking for the time takes."""

    def __init__(self, name: str, world: World, horizon: int, clock: float) -> None:
        self.clock, self.users, self.taken = clock, 0, 0.0
        self.env = gym.make(FAMILIES[world.family], horizon=horizon, **world.settings)
        self.agent: Any = make(name, self.env, seed=1)
        self.context, _ = self.env.reset(seed=1)

    def serve(self, users: int) -> None:
        """Serve more users, and add up the CPU seconds of choosing and learning."""
        env, agent, context, now, taken = self.env, self.agent, self.context, time.process_time, 0.0
        for _ in range(users):
            started = now()
            action = agent.select_action(context)
            taken += now() - started
            following, _, _, _, info = env.step(action)
            feedback = info["feedback"]
            started = now()
            agent.update(context, action, feedback)
            taken += now() - started
            context = following
        self.context = context
        self.users += users
        self.taken += taken - 2 * users * self.clock


def unit_of(world: World) -> str:
    return "ucb-mnl" if world.family == "assortments" else "linucb"


def in_turns(runs: list[Steps], users: int) -> list[float]:
    """Serve so many users each, fewer if they take long; return the CPU seconds a user of each run."""
    served, taken = [run.users for run in runs], [run.taken for run in runs]
    for _ in range(users // TURN):
        for run in runs:
            run.serve(TURN)
        if sum(run.taken for run in runs) - sum(taken) > SECONDS:
            break
    return [(run.taken - old) / (run.users - before) for run, old, before in zip(runs, taken, served, strict=True)]


def cost(case: tuple[str, int, int]) -> Cost:
    """Measure an agent by name, in a world by number, at a horizon."""
    name, world, horizon = case[0], WORLDS[case[1]], case[2]
    clock, before = each(time.process_time, 10_000), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    runs = [Steps(one, world, horizon, clock) for one in (name, unit_of(world))]
    first, unit_first = in_turns(runs, FIRST)
    if min(run.users for run in runs) == FIRST:
        in_turns(runs, LATER - FIRST)
    later, unit_later = in_turns(runs, FIRST)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return Cost(first, later, unit_first, unit_later, draw(runs[0]), memory)


def draw(run: Steps) -> float:
    """Return the CPU seconds of drawing as many normals as a report of the agent's devices has numbers."""
    if not isinstance(run.agent, Devices):
        return 0.0
    agent: Any = run.agent
    contexts = np.asarray(run.context)[None]
    records = agent.records_of(contexts, np.asarray(agent.select_action(contexts)), np.ones(1))
    size, rng = numbers(agent.randomize(*records)).size, np.random.default_rng(0)
    return least(lambda: timed(lambda: rng.standard_normal(size)), repeats=9)


def envelope(family: str, options: Options) -> Iterator[Row]:
    """Measure all private agents in the worlds of a family; then how they grow, and what grew since recorded."""
    worlds = [at for at, world in enumerate(WORLDS) if world.family == family]
    worlds = [at for at in worlds if not (options.quick and str(WORLDS[at]) in LARGE)]
    made = {at: gym.make(FAMILIES[family], horizon=HORIZONS[0], **WORLDS[at].settings) for at in worlds}
    horizons = HORIZONS[:1] if options.quick else HORIZONS
    recorded = {(row["world"], row["agent"]): row for row in csv.DictReader(RECORDED.open())}
    grew = [(0.0, "nothing")]
    for name in (name for name, entry in AGENTS.items() if entry.notion not in ("", "none") and "auto" not in name):
        most = MOST_LAYERED if name in LAYERED else MOST
        found = dict[int, list[Cost]]()
        for at, horizon in ((at, horizon) for at in worlds if can_play(name, made[at]) for horizon in horizons):
            with multiprocessing.get_context("fork").Pool(1) as alone:  # so that its memory is its own
                one = alone.apply(cost, ((name, at, horizon),))
            found.setdefault(at, []).append(one)
            here = f"{name}, {WORLDS[at]}, T = 10^{math.log10(horizon):.0f}"
            for part in ("first", "later"):
                seconds, unit = getattr(one, part), getattr(one, f"unit_{part}")
                words = f"of {unit_of(WORLDS[at])}, {1e6 * seconds:.0f} us a user"
                if (drawn := one.draw / unit) > 1:
                    words += f", {seconds / one.draw:.2f} of its report's draw"
                yield Row(f"{here}, {part} users", seconds / unit, words, at_most=max(most, MOST_DRAWS * drawn))
                if (row := recorded.get((str(WORLDS[at]), f"`{name}`"))) and horizon == HORIZONS[0]:
                    grew.append((seconds / unit / float(row[f"{part} users"]), f"{here}, {part} users"))
            yield Row(f"{here}, memory", one.memory, "MiB", at_most=MOST_MEMORY)
        for at, (short, *long) in found.items():
            for cost_of in long:
                exponent = math.log(cost_of.later / short.later) / math.log(HORIZONS[1] / HORIZONS[0])
                words = f"times, exponent {exponent:.2f} of T"
                ratio = cost_of.later / short.later
                yield Row(f"{name}, {WORLDS[at]}, T = 10^6 over 10^4", ratio, words, at_most=MOST_BY_HORIZON)
        yield from exponents(name, {at: costs[0].later for at, costs in found.items()})
    yield Row(f"grew most since {RECORDED.name}: {max(grew)[1]}", max(grew)[0], "times what was recorded")


def exponents(name: str, found: Mapping[int, float]) -> Iterator[Row]:
    """Compare the fewest and the most arms at equal features, and features at equal arms, by seconds in worlds."""
    for letter, size, other in (("K", "arms", "dim"), ("d", "dim", "arms")):
        groups = dict[tuple[str, int], list[int]]()
        for at in sorted(found, key=lambda at: getattr(WORLDS[at], size)):
            groups.setdefault((WORLDS[at].family, getattr(WORLDS[at], other)), []).append(at)
        for (family, fixed), [low, *_, high] in ((key, worlds) for key, worlds in groups.items() if len(worlds) > 1):
            few, many = (getattr(WORLDS[at], size) for at in (low, high))
            if many < 5 * few:
                continue  # too near to tell
            exponent = math.log(found[high] / found[low]) / math.log(many / few)
            yield Row(f"{name}, {family}, exponent of {letter}, {few} to {many} at {other} {fixed}", exponent)


if __name__ == "__main__":
    sys.exit(main(__doc__, {family: partial(envelope, family) for family in FAMILIES}))
