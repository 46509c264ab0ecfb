"""What the benchmarks share: tables and rows beside targets, the command line, jobs with progress, and timing."""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import csv
import io
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Any, TypeVar

from privbandit_agents import Log, make, play
from privbandit_agents.experiments.running.progress import Steps
from privbandit_agents.experiments.views.table import Column, Table
from privbandit_agents.zoo.entries import AGENTS
from privbandit_agents.zoo.registry import field_names
from rich.console import Console
from threadpoolctl import threadpool_limits

REPEATS = 7
Timing = Callable[[], float]
"""Sets a piece of work up, does it, and returns the seconds of the work alone."""
Line = Mapping[str, Any]
"""Cells of a table by the titles of their columns."""
Made = TypeVar("Made")


@dataclass(frozen=True)
class Row:
    """One number, words behind it, and its target if it has one: a least value, a greatest one, or both."""

    what: str
    measured: float
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def target(self) -> str:
        bounds = {"at least": self.at_least, "at most": self.at_most}
        return " and ".join(f"{sign} {bound:g}" for sign, bound in bounds.items() if bound is not None)

    @property
    def met(self) -> bool:
        above = self.at_least is None or self.measured >= self.at_least
        return above and (self.at_most is None or self.measured <= self.at_most)

    @property
    def line(self) -> Line:
        number = f"{self.measured:.0f}" if abs(self.measured) >= 100 else f"{self.measured:.3g}"
        verdict = ("yes" if self.met else "NO") if self.target else ""
        return {"what": self.what, "measured": f"{number} {self.unit}".strip(), "target": self.target, "met": verdict}


Options = argparse.Namespace
Section = Callable[[Options], Iterator[Row]]
"""Yields rows, given the arguments of the command line."""


def options(about: str | None, seeds: int | None = None) -> argparse.ArgumentParser:
    """Return the command line that all benchmarks have; ``--seeds`` if one is given by default."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, help="worker processes (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also a CSV file of the table")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown, not as CSV")
    if seeds is not None:
        parser.add_argument("--seeds", type=int, default=seeds, help="runs of a cell (default: %(default)s)")
    return parser


def results(given: Options, work: Callable[..., Made], cases: Iterable[Sequence[Any]]) -> Iterator[Made]:
    """Yield what work makes of each case, in their order, by ``--jobs`` processes; progress goes to the error stream.

    Warnings are not shown, and linear algebra has one thread.
    """
    every = list(cases)
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(threadpool_limits(1))
        steps = stack.enter_context(Steps(len(every), "cases", Console(stderr=True)))
        pool = None if given.jobs == 1 else stack.enter_context(ProcessPoolExecutor(given.jobs))
        found = starmap(work, every) if pool is None else pool.map(work, *zip(*every, strict=True))
        for done, (case, made) in enumerate(zip(every, found, strict=True), 1):
            yield made
            steps.show(done, ", ".join(map(str, case)))


def written(given: Options, lines: Iterable[Line]) -> list[Line]:
    """Print the lines of a table as they come, as CSV or Markdown, and write them to ``--out``; return them."""
    found = []
    for line in lines:
        found.append(line)
        if given.markdown:
            columns = [Column(title, title, True) for title in line]
            text = "".join(Table([line], columns).markdown.splitlines(True)[0 if len(found) == 1 else 2 :])
        else:
            text = as_csv([line], head=len(found) == 1)
        print(text, end="", flush=True)
    if given.out is not None:
        given.out.write_text(as_csv(found), encoding="utf-8")
    return found


def as_csv(lines: Sequence[Line], head: bool = True) -> str:
    """Return lines as CSV; ``head``: with the titles of the first one."""
    made = io.StringIO()
    writer = csv.DictWriter(made, lines[0], lineterminator="\n")
    if head:
        writer.writeheader()
    writer.writerows(lines)
    return made.getvalue()


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def regret(name: str, env: Any, seed: int, warm: Log | None = None, by_counts: bool = True, **settings: Any) -> float:
    """Return the regret of one run of an agent, which gets those of the settings that it has, up to the horizon."""
    known = field_names(AGENTS[name].load().Config)
    chosen = {key: value for key, value in settings.items() if key in known}
    users, agent = env.unwrapped.horizon, make(name, env, seed=seed, warm=warm, **chosen)
    return float(play(env, agent, users, seed=seed, checkpoints=[users], by_counts=by_counts).regret[-1])


def main(about: str | None, sections: Mapping[str, Section]) -> int:
    """Print the rows of all sections, or of those after ``--only``, as one table.

    Returns:
        The exit code: 1 if a target is missed, else 0.
    """
    parser = options(about)
    parser.add_argument("--only", action="append", choices=tuple(sections), help="a section; may be repeated")
    parser.add_argument("--quick", action="store_true", help="leave out what takes minutes")
    parser.add_argument(
        "--before", metavar="FOLDER", help="a checkout to measure beside this one (cost.py --only table)"
    )
    parser.set_defaults(jobs=2, markdown=True)
    given = parser.parse_args()
    with threadpool_limits(1):
        lines = written(given, (row.line for name in given.only or sections for row in sections[name](given)))
    return int(any(line["met"] == "NO" for line in lines))


def apart(work: Callable[..., Made], *arguments: Any) -> Made:
    """Return what work returns in a new process, whose memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def timed(work: Callable[[], object], times: int = 1) -> float:
    """Return the CPU seconds of doing a piece of work so many times."""
    started = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - started


def each(work: Callable[[], object], times: int = 10) -> float:
    """Return the CPU seconds of a short piece of work, as the mean of so many one after the other."""
    return timed(work, times) / times


def best_of(*timings: Timing, repeats: int = REPEATS) -> list[float]:
    """Return the least time of each, after one round to warm up.

    They take turns, so that all of them meet the same machine and their ratios can be trusted.
    """
    for timing in timings:
        timing()
    return [min(times) for times in zip(*([timing() for timing in timings] for _ in range(repeats)), strict=True)]


def least(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the least CPU seconds of one piece of work."""
    return best_of(lambda: timed(work), repeats=repeats)[0]
