"""Private classification trees: the time and the memory of a fit.

Times are CPU times of one thread beside that of drawing what the paper's users report, n x 2 m Laplace numbers for
m leaves; all times of a ratio take turns in one run.
"""

import resource
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from harness import Options, Row, Timing, apart, best_of, each, main, timed
from privbandit_agents.classifiers import LPCTClassifier
from privbandit_agents.local.trees.report import LeafReport

from privbandit_envs.families.classification import eta

PRIVATE, LEAVES = 10_000, 256
REPORTS = (("auto", 0.5), ("auto", 1.0), ("auto", 2.0), ("auto", 4.0), ("auto", 8.0), ("grr", 1.0), ("laplace", 1.0))
"""Report and epsilon; ``auto`` is the one of least variance."""
TAXI = 3_297_639, 117_367, 93
"""Private rows, public rows and features of the largest data set of the paper."""


def fits(options: Options) -> Iterator[Row]:
    """Measure how many fits, and how many draws of exact sums, the Laplace numbers take the time of."""
    rng = np.random.default_rng(0)
    private, public = rows(PRIVATE, 1.0, rng), rows(1000, 5.0, rng)
    leaf = rng.integers(0, LEAVES, PRIVATE)
    numbers: Timing = lambda: timed(lambda: rng.laplace(size=(PRIVATE, 2 * LEAVES)))  # noqa: E731
    for kind, epsilon in REPORTS:
        report = LeafReport(kind, epsilon, LEAVES, 2)
        single = partial(timed, partial(fitted, kind, epsilon, False, private, public))
        summed = partial(timed, partial(fitted, kind, epsilon, True, private, public))
        alone = partial(each, partial(report.total, leaf, private[1], rng))
        exact = [summed, alone] if report.randomizer.exact_sum else []
        ground, by_rows, *by_sums = best_of(numbers, single, *exact)
        label = f"{kind} ({report.kind}), epsilon={epsilon:g}"
        yield Row(f"{label}: Laplace numbers over a fit", ground / by_rows, f"({1e3 * by_rows:.0f} ms)", at_least=5)
        if by_sums:
            yield Row(f"{label}: over a fit from exact sums", ground / by_sums[0], at_least=500)
            yield Row(f"{label}: over the exact sums alone", ground / by_sums[1])


def taxi(options: Options) -> Iterator[Row]:
    """Measure a fit of generated rows as many as the taxi trips, in a process of its own."""
    for partition in () if options.quick else ("cart", "max-edge"):
        seconds, gigabytes, right = apart(taxi_fit, partition)
        label = f"lpct, {partition}, epsilon=2, {TAXI[0]} x {TAXI[2]} generated rows"
        yield Row(f"{label}: a fit", seconds, f"s (accuracy {right:.3f})", at_most=60)
        yield Row(f"{label}: peak memory, rows included", gigabytes, "GB", at_most=3)


def rows(n: int, gamma: float, rng: np.random.Generator) -> tuple[Any, Any]:
    x = rng.random((n, 2))
    return x, (rng.random(n) < eta(x, gamma)).astype(int)


def fitted(kind: str, epsilon: float, aggregate: bool, private: Any, public: Any) -> Any:
    return LPCTClassifier(epsilon, report=kind, depth=8, aggregate=aggregate, random_state=0).fit(*private, *public)


def taxi_fit(partition: str) -> tuple[float, float, float]:
    """Return the seconds of a fit, the peak memory of the process with its rows in GB, and the accuracy."""
    n, public, d = TAXI
    rng = np.random.default_rng(0)
    x = rng.random((n, d), np.float32)
    y = (x[:, 0] + x[:, 1] > 1) ^ (rng.random(n, np.float32) < 0.1)
    known = rng.random((public, d), np.float32)
    answers = (known[:, 0] + known[:, 1] > 1) ^ (rng.random(public, np.float32) < 0.1)
    started = time.perf_counter()
    model = LPCTClassifier(2.0, partition=partition, random_state=0).fit(x, y, known, answers)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return seconds, peak, float((model.predict(x[:20_000]) == (x[:20_000, 0] + x[:20_000, 1] > 1)).mean())


if __name__ == "__main__":
    sys.exit(main(__doc__, {"fits": fits, "taxi": taxi}))
