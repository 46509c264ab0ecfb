"""Signals at any moment: what a command leaves, once it was run again, is what it leaves if nothing disturbs it.

Each campaign is one command. It is stopped by SIGINT, SIGTERM or SIGKILL at a random moment, then run to its end, and
all contents of its folder are compared with those of an undisturbed run: results bit for bit, tables, figures, pages.
Only times and speeds may differ.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl
from campaign_runs import (  # type: ignore[import-not-found]
    STOPPED,
    Ended,
    end,
    here,
    numbers,
    prepare,
    start,
)
from numpy.random import Generator
from privbandit_agents.experiments.suite import tasks

PLAN = """
{env: privbandit/Linear-v0, agent: linucb, horizon: 400, trials: 4, tuning: 2, final: 3, checkpoints: 5,
 env_kwargs: {dim: 3, n_arms: 3}, search: {alpha: [0.5, 1.0, 2.0, 4.0]}}
"""
SWEEP = """
envs: [{id: privbandit/Linear-v0, dim: 3}]
agents: [{name: uniform}, {name: ldp-linucb}]
horizon: 2000
checkpoints: 10
seeds: 1
"""
OFFLINE = """
title: Trees
about: they are made up
offline:
  worlds: [{source: lpct-synthetic, n_private: 100, n_test: 50, n_public: 20}]
  epsilons: [1, 4]
  replications: 1
  methods: [{name: LPCT, agent: lpct, settings: {depth: 1}}]
scales: {smoke: {replications: 1}}
figures: [{name: budgets, x: epsilon}]
tables: [{name: contest}]
statements:
  - {says: It does., where: here, measure: {mean: {method: LPCT, epsilon: 4}}, at_least: 0.2}
"""
LOG = ["log", "--env", "privbandit/Linear-v0", "--set", "env.dim=3", "--set", "env.n_arms=3", "--agent", "uniform"]
COST = ["cost", "log.csv", "--action", "action", "--reward", "reward", "--propensity", "propensity", "--seeds", "2"]
COST += ["--epsilon", "1", "--notions", "reward", "--always", "--jobs", "1"]
RUN = ["run", "--env", "privbandit/Linear-v0", "--set", "env.dim=3", "--agent", "uniform", "--agent", "linucb"]
ALL: Mapping[str, list[str]] = {
    "run": [*RUN, "--horizon", "1000", "--seeds", "1", "--jobs", "2"],
    "sweep": ["sweep", "small.yaml", "--jobs", "2", "--save-every", "0.05"],
    "tune": ["tune", "plan.yaml"],
    "score": ["score", "epsilon-greedy", "--quick", "--jobs", "1"],
    "cost": COST,
    "log": [*LOG, "-n", "3000"],
    "reproduce": ["reproduce", "trees.yaml", "--jobs", "1"],
    "report": ["report", "out"],
}
"""Commands so small that most of their time is the start of Python."""
ONE_TASK = """
import signal

import privbandit

signal.signal(signal.SIGINT, privbandit.stop)  # as the command does it until it is imported

from dataclasses import replace
from privbandit_agents.experiments.suite import tasks

suite = tasks.load_suite()
tasks.load_suite = lambda version="v1": replace(suite, tasks={"linear-small": suite.tasks["linear-small"]})
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    privbandit.main()
"""
"""The module that runs ``score`` on one task of the suite: all tasks take minutes."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
VOLATILE = re.compile(r"second|per_s|rounds.s|users.s|memory|speed|rate_s|date|^times$|^made$")
"""Names of columns and keys that tell times and speeds."""
SPEEDY = {"score": ("score.html", "score.png")}
"""Files that show speeds."""


def contents(name: str, out: Path) -> dict[str, Any]:
    """Return all that a command left, by path, without times and speeds."""
    if out.is_file():
        return {"log": out.read_bytes()}
    found: dict[str, Any] = {"results": numbers(out)}
    for path in sorted(out.rglob("*")):
        place = path.relative_to(out)
        if path.is_dir() or place.parts[0] == "trials" or place.name in SPEEDY.get(name, ()):
            continue
        if "tfevents" in path.name:
            found[str(place.parent)] = "events"
        elif ".stale" not in path.name:  # what earlier tunings found
            found[str(place)] = content(path)
    return found


def content(path: Path) -> Any:
    if path.suffix == ".parquet" or path.suffix == ".csv":
        frame = (pl.read_parquet if path.suffix == ".parquet" else pl.read_csv)(path)
        return (
            frame.drop(column for column in frame.columns if VOLATILE.search(column))
            .to_dict(as_series=False)
            .__repr__()
        )
    if path.suffix == ".json":
        return steady(json.loads(path.read_text()))
    if path.suffix in (".md", ".tex"):
        rows = [line.split("|" if path.suffix == ".md" else "&") for line in path.read_text().splitlines()]
        fast = [place for row in rows for place, cell in enumerate(row) if VOLATILE.search(cell)]
        return [[cell for place, cell in enumerate(row) if place not in fast] for row in rows]
    return path.read_bytes()


def steady(value: Any) -> Any:
    """Return a JSON value without times and speeds."""
    if isinstance(value, dict):
        return {key: steady(inner) for key, inner in value.items() if not VOLATILE.search(key)}
    return [steady(inner) for inner in value] if isinstance(value, list) else value


def whole(folder: Path, name: str) -> tuple[dict[str, Any], float]:
    """Run a command undisturbed; return what it left, and how long it took."""
    prepare(folder)
    (folder / "home").mkdir(exist_ok=True)
    for file, text in {"plan.yaml": PLAN, "small.yaml": SWEEP, "trees.yaml": OFFLINE, "one_task.py": ONE_TASK}.items():
        (folder / file).write_text(text)
    if name == "cost":
        assert end(start(folder, *LOG, "-n", "600", "--out", "log.csv")).code == 0
    if name == "report":
        assert end(start(folder, *ALL["run"], "--out", "results")).code == 0
    place(folder, name)
    started = time.monotonic()
    found = end(begun(folder, name))
    took = time.monotonic() - started
    if found.fault(0):
        raise RuntimeError(f"{name} does not even run undisturbed: {found.fault(0)}")
    whole = contents(name, folder / target(name))
    cleared(folder, name)
    return whole, took


def cleared(folder: Path, name: str) -> None:
    """Remove what a command left."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / target(name)).unlink(missing_ok=True)


def begun(folder: Path, name: str) -> "subprocess.Popen[str]":
    module = "one_task" if name == "score" else "privbandit"
    process: subprocess.Popen[str] = start(folder, *arguments(name), module=module)
    return process


def target(name: str) -> str:
    return "out.npz" if name == "log" else "out"  # always the same: results of ``cost`` are of a world in a folder


def arguments(name: str) -> list[str]:
    return ALL[name] if name == "report" else [*ALL[name], "--out", target(name)]


def place(folder: Path, name: str) -> None:
    """Put the results that a report reads into its folder."""
    if name == "report":
        shutil.copytree(folder / "results" / "trials", folder / "out" / "trials")


def disturbed(name: str, rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Stop a command at random moments, run it again, and compare."""
    deadline, number = time.monotonic() + seconds, 0
    suite = tasks.load_suite()
    one = replace(suite, tasks={"linear-small": suite.tasks["linear-small"]})
    with (
        mock.patch.dict(os.environ, {"HOME": str(folder / "home")}),
        mock.patch("privbandit_agents.cli.score.load_suite", lambda version: one),
    ):
        expected, took = whole(folder, name)
        while time.monotonic() < deadline or number < 3:
            chosen = SIGNALS[number % 3]
            place(folder, name)
            moment = float(rng.uniform(0.02, 1.1)) * took
            problem = stopped(begun(folder, name), chosen, moment) or resumed(folder, name, expected)
            yield f"{name}, {chosen.name} after {moment:.2f} of {took:.2f} s: {problem}" if problem else ""
            cleared(folder, name)
            number += 1


def stopped(process: "subprocess.Popen[str]", chosen: signal.Signals, moment: float) -> str:
    """Stop a command; return what is wrong with its end, and with what it leaves running."""
    time.sleep(moment)
    with suppress(ProcessLookupError):
        process.send_signal(chosen)
    if chosen == signal.SIGKILL:
        process.wait()
        time.sleep(2)  # seconds in which workers notice
    found: Ended = end(process)
    gone = time.monotonic() + 3
    while alive(process.pid) and time.monotonic() < gone:
        time.sleep(0.1)
    if alive(process.pid):
        os.killpg(process.pid, signal.SIGKILL)
        return f"processes are left: {found.err[-300:]}"
    early = found.code == -chosen  # Python was not up yet, or it is SIGKILL
    problem = "" if early and "Traceback" not in found.err else str(found.fault(0, *STOPPED))
    return problem or ("it printed of leaks" if "leaked" in found.err else "")


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def resumed(folder: Path, name: str, expected: dict[str, Any]) -> str:
    """Run a command to its end where it was stopped; return what is wrong with what it left."""
    with chdir(folder):
        if problem := here(*arguments(name)).fault(0):
            return f"run again: {problem}"
    left = [path.name for path in folder.rglob(".*.????????")]
    if left or (folder / "out" / "unfinished").exists():
        return f"something is left: {left or 'unfinished'}"
    found = contents(name, folder / target(name))
    differing = [key for key in {**found, **expected} if found.get(key) != expected.get(key)]
    return f"{', '.join(differing)} differs" if differing else ""


CAMPAIGNS: Mapping[str, Callable[[Generator, Path, float], Iterator[str]]] = {
    f"signals at {name}": partial(disturbed, name) for name in ALL
}
