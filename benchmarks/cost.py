"""What a user costs: every agent in every world that it plays, and how that grows with users, arms and features.

``table`` plays 20 000 users in a process for each cell, or as many as come in twenty seconds: the row then says how
many. A run's speed stands over the floor (numpy's generator filling as many float32 Gaussians as the contexts have
numbers) and over the world's own loop of steps; "own" is the share of the time that the world did not take. With
``--before`` each cell is played in another checkout, too, for three seconds at most. ``memory`` plays every agent in
every world, in one of 400 features and on generated hotels, at 20 000 and 100 000 users, and fast agents at a million:
it says what each takes above its imports, or why it refuses. ``figure`` draws costs and memory of the main agents as
docs/costs.png.

    python benchmarks/cost.py --only table
    python benchmarks/cost.py --only table --before ../privbandit-0.2.0
    python benchmarks/cost.py --only memory
    python benchmarks/cost.py --only figure
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from harness import Options, Row, main, timed
from privbandit_agents import AGENTS, make, play

ROUNDS, WARM = 20_000, 50
LONGEST, LONGEST_BEFORE = 20.0, 3.0
"""Seconds that a cell's run may take, here and in another checkout; it is stopped then, and its first users count."""
LEAST = 0.02
"""Of the floor where a context has 200 numbers or more, of the loop of steps elsewhere."""
SLOW = {
    "ppo": "torch and stable-baselines3 take the time",
    "a2c": "torch and stable-baselines3 take the time",
    "dqn": "torch and stable-baselines3 take the time",
    "shuffle-linucb": "a device tosses coins for every number of x x', 80 600 of them in sparse",
}
"""Agents that may be slower, and why."""
MOST_MEMORY = 4 * 2**30
"""Bytes that a cell may take."""
MIB, FAST = 300, 20_000
"""Above its imports an agent takes at most so much; and those of more users a second are played at a million users."""
WIDE: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "linear": (("privbandit/Linear-v0", {"dim": 400}),),
    "assortments": (("privbandit/Assortment-v0", {"source": "expedia-sample"}),),
}
"""Further worlds of a family, which have many features."""
PICTURE = Path(__file__).parents[1] / "docs" / "costs.png"
MAIN = ("uniform", "linucb", "jdp-linucb", "ldp-linucb", "ldp-greedy", "prec-ts", "private-pursuit")
GROWTH: dict[str, dict[str, tuple[int, ...]]] = {
    "users": {"horizon": (1000, 3000, 10_000, 30_000, 100_000)},
    "arms": {"n_arms": (2, 5, 10, 20, 50)},
    "features": {"dim": (5, 10, 20, 50, 100, 200)},
}
"""What grows in a panel, and the setting of Linear-v0 that says it; 10 arms, 20 features and 10 000 users otherwise."""


def table(options: Options) -> Iterator[Row]:
    """Measure every agent in every world that it plays."""
    from privbandit_agents.zoo.entries import FAMILIES

    rounds = ROUNDS // 20 if options.quick else ROUNDS
    for name, entry in AGENTS.items():
        for family in entry.families:
            cell = measured(name, FAMILIES[family], rounds)
            wide = cell["numbers"] >= 200
            share = cell["rate"] * cell["floor" if wide else "steps"]
            words = f"of {'the floor' if wide else 'the steps'}, {told(cell, rounds)}"
            if options.before:
                words += f"; before: {before(options.before, name, FAMILIES[family], rounds)}"
            reason = f" ({SLOW[name]})" if name in SLOW else ""
            yield Row(f"{name}, {family}{reason}", share, words, at_least=None if name in SLOW else LEAST)


def memory(options: Options) -> Iterator[Row]:
    """Measure what every agent takes in every world that it plays, and in wide ones, or say why it refuses."""
    from privbandit_agents.zoo.entries import FAMILIES

    for name, entry in AGENTS.items():
        for family in entry.families:
            for world, kwargs in ((FAMILIES[family], {}), *WIDE.get(family, ())):
                rate = 0.0
                for rounds in (1000,) if options.quick else (ROUNDS, 5 * ROUNDS, 50 * ROUNDS):
                    if rounds > 5 * ROUNDS and rate < FAST:
                        continue
                    where = f"{name}, {world} {kwargs or ''}, {rounds:,} users"
                    try:
                        cell = measured(name, world, rounds, kwargs, bare=False)
                    except subprocess.CalledProcessError as error:
                        yield Row(f"{where}: {error.stderr.strip().splitlines()[-1][:300]}", 0, "MiB")
                        continue
                    rate = cell["rate"]
                    words = f"of {MIB} MiB: {rate:,.0f} users/s, {cell['users']:,.0f} users, {cell['memory']:.0f} MiB"
                    yield Row(where, cell["memory"] / MIB, words, at_most=1)


def told(cell: dict[str, float], rounds: int) -> str:
    """Return what a cell cost, in words."""
    fewer = f" ({cell['users']:.0f} users)" if cell["users"] < rounds else ""
    own = 1 - min(1, cell["rate"] * cell["world"])
    return f"{cell['rate']:,.0f} users/s{fewer}, own {own:.0%}, {cell['memory']:.0f} MiB"


def before(checkout: str, name: str, env_id: str, rounds: int) -> str:
    """Return what a cell costs in another checkout, in words; "-" where there is no such agent."""
    try:
        return told(measured(name, env_id, rounds, checkout=checkout), rounds)
    except subprocess.CalledProcessError as error:
        if "MemoryError" in error.stderr:
            return f"more than {MOST_MEMORY / 2**30:.0f} GiB"
        if "agent must be one of" in error.stderr or "no agent is called" in error.stderr or " plays " in error.stderr:
            return "-"
        raise


def figure(options: Options) -> Iterator[Row]:
    """Draw microseconds a user against users, arms and features, and memory against users."""
    import matplotlib
    from privbandit_agents.experiments.views.style import STYLE

    with matplotlib.rc_context(STYLE):
        yield from drawn(options)


def drawn(options: Options) -> Iterator[Row]:
    """Draw as ``figure``; an agent has the color and the dashes that it has in all figures."""
    from matplotlib.ticker import NullFormatter
    from privbandit_agents.experiments.results.statistics import Interval
    from privbandit_agents.experiments.views.style import (
        Label,
        Line,
        empty_picture,
        label_points,
        save,
        styles_of,
        write_caption,
        write_title,
    )

    none = np.empty(0)
    lines = [Line(name, name, none, Interval(none, none, none), 1, notion=AGENTS[name].notion) for name in MAIN]
    styles = styles_of([lines])
    shared = {name: "s" if "marker" in style else "o" for name, style in styles.items()}  # of one color and notion
    looks = {name: {**styles[name], "marker": shared[name], "markersize": 4, "markevery": 1} for name in MAIN}
    picture, axes = empty_picture(4, labels=len(MAIN))
    panels = dict(zip([*GROWTH, "memory"], axes, strict=True))
    ends: dict[str, list[Label]] = {what: [] for what in panels}
    for name in MAIN[:2] if options.quick else MAIN:
        for what, grid in GROWTH.items():
            ((setting, values),) = grid.items()
            cells = []
            for value in values[:2] if options.quick else values:
                rounds = value if setting == "horizon" else 10_000
                kwargs = {} if setting == "horizon" else {setting: value}
                cells.append(measured(name, "privbandit/Linear-v0", rounds, kwargs) | {"at": value})
            at, costs = [cell["at"] for cell in cells], [1e6 / cell["rate"] for cell in cells]
            lines_of = {what: costs}
            if setting == "horizon":
                lines_of["memory"] = [max(cell["memory"], 0.1) for cell in cells]
            for there, found in lines_of.items():
                panels[there].loglog(at, found, **looks[name])
                ends[there].append(Label(at[-1], found[-1], name, styles[name]["color"]))
            yield Row(f"{name}, {what} {at[0]:,} to {at[-1]:,}", costs[-1] / costs[0], "times the cost of a user")
    for what, panel in panels.items():
        panel.set_title(f"memory by {next(iter(GROWTH))}" if what == "memory" else f"time by {what}")
        panel.set(xlabel="users" if what == "memory" else what)
        panel.set(ylabel="MiB above the imports" if what == "memory" else "microseconds a user")
        panel.grid(axis="y")
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_minor_formatter(NullFormatter())  # numbers between powers of ten would overlap
        panel.set(xlim=panel.get_xlim(), ylim=panel.get_ylim())  # labels stand by these
        label_points(panel, ends[what])
    write_title(picture, "What a user costs in Linear-v0, drawing included")
    write_caption(picture, "one run a point, 10 arms, 20 features and 10,000 users unless on the axis", [lines])
    if not options.quick:
        save(picture, PICTURE)


class TooLong(Exception):  # noqa: N818 (the name says it)
    """A run has taken as long as it may."""


def measured(
    name: str,
    env_id: str,
    rounds: int,
    kwargs: dict[str, Any] | None = None,
    checkout: str | None = None,
    bare: bool = True,
) -> dict[str, float]:
    """Measure a cell in a process of its own, with another checkout's packages if named; ``bare``: the world, too."""
    longest = LONGEST if checkout is None else LONGEST_BEFORE
    cell = json.dumps([name, env_id, rounds, kwargs or {}, longest, bare])
    there = {} if checkout is None else {"PYTHONPATH": os.pathsep.join([checkout, os.path.join(checkout, "agents")])}
    command = [sys.executable, __file__, "--cell", cell]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **there})
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found


def cell_of(
    name: str, env_id: str, rounds: int, kwargs: dict[str, Any], longest: float, bare: bool
) -> dict[str, float]:
    """Return users a second, MiB above the imports, users; if ``bare``, CPU seconds a user of floor, blocks, steps."""
    env: Any = gym.make(env_id, horizon=rounds, **kwargs)
    play(env, make(name, env, seed=2), min(rounds, WARM), seed=2)  # imports what it needs
    agent, played = make(name, env, seed=1), [0, 0.0]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()

    def look(curve: Any) -> None:
        played[:] = curve.users, time.process_time() - started
        if played[1] > longest:
            raise TooLong

    with suppress(TooLong):
        play(env, agent, rounds, seed=1, on_checkpoint=look)
        played[:] = rounds, time.process_time() - started
    users, run = played
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    found = {"rate": users / run, "memory": memory, "users": users}
    if not bare:
        return {key: float(value) for key, value in found.items()}
    # the same users without an agent
    numbers = int(np.prod(env.observation_space.shape))
    rng, buffer = np.random.default_rng(0), np.empty((64, numbers), np.float32)
    drawn = timed(lambda: rng.standard_normal(dtype=np.float32, out=buffer), rounds // 64)
    world, action = env.unwrapped, env.action_space.sample()
    actions = np.stack([action] * 512)
    blocks = [512] * (rounds // 512) + [rounds % 512] * (rounds % 512 > 0)
    world.reset(seed=1)
    served = timed(lambda: [(world.upcoming(n), world.serve(actions[:n])) for n in blocks])
    env.reset(seed=1)
    steps = timed(lambda: env.step(action), rounds)
    found |= {"floor": drawn / rounds, "world": served / rounds, "steps": steps / rounds, "numbers": numbers}
    return {key: float(value) for key, value in found.items()}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--cell"]:
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
        print(json.dumps(cell_of(*json.loads(sys.argv[2]))))
    else:
        sys.exit(main(__doc__, {"table": table, "memory": memory, "figure": figure}))
