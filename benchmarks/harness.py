"""What the benchmarks share: rows beside their targets, the table, the command line, and timing side by side."""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from threadpoolctl import threadpool_limits

REPEATS = 7
Timing = Callable[[], float]
"""Sets a piece of work up, does it, and returns the seconds of the work alone."""


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
        bounds = {">=": self.at_least, "<=": self.at_most}
        return " and ".join(f"{sign} {bound:g}" for sign, bound in bounds.items() if bound is not None)

    @property
    def met(self) -> bool:
        above = self.at_least is None or self.measured >= self.at_least
        return above and (self.at_most is None or self.measured <= self.at_most)

    def __str__(self) -> str:
        number = f"{self.measured:.0f}" if abs(self.measured) >= 100 else f"{self.measured:.3g}"
        verdict = ("yes" if self.met else "NO") if self.target else ""
        return f"| {self.what} | {number} {self.unit}".rstrip() + f" | {self.target} | {verdict} |"


@dataclass(frozen=True)
class Options:
    """What the command line asks for: worker processes, to leave out what takes minutes, another checkout beside."""

    jobs: int = 2
    quick: bool = False
    before: str | None = None


Section = Callable[[Options], Iterator[Row]]


def main(about: str | None, sections: Mapping[str, Section]) -> int:
    """Print the rows of all sections, or of those after ``--only``, as one table.

    Returns:
        The exit code: 1 if a target is missed, else 0.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=tuple(sections), help="a section; may be repeated")
    parser.add_argument("--jobs", type=int, default=Options.jobs, help="worker processes (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="leave out what takes minutes")
    parser.add_argument(
        "--before", metavar="FOLDER", help="a checkout to measure beside this one (cost.py --only table)"
    )
    chosen = parser.parse_args()
    options = Options(chosen.jobs, chosen.quick, chosen.before)
    met = True
    print("| what | measured | target | met |\n|---|---|---|---|", flush=True)
    with threadpool_limits(1):
        for name in chosen.only or sections:
            for row in sections[name](options):
                print(row, flush=True)
                met = met and row.met
    return 0 if met else 1


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
