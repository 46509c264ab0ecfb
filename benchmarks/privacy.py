"""What privacy mechanisms cost: sums by their law, the noise of counters and reports, and what audits reach.

Ratios of times are of CPU times measured in turns in one run.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from harness import Options, Row, best_of, each, main, timed
from numpy.typing import NDArray
from privbandit_agents.audits.games.local import LocalGame
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.local.trees.report import LeafReport
from privbandit_agents.privacy.mechanisms.counters import BinaryTree, BufferedToeplitz, Counter, SquareRootToeplitz
from privbandit_agents.privacy.randomizers.categories import KaryRandomizedResponse, SubsetSelection
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot, SignedSubset, UnaryEncoding
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from privbandit_agents.privacy.randomizers.sphere import BinCapSign, Hemisphere

USERS = 10_000
SUMS: dict[str, LocalRandomizer] = {
    "Laplace, 256 cells": LaplaceOneHot(1.0, 256),
    "k-ary randomized response, 1024 cells": KaryRandomizedResponse(1.0, 1024),
    "unary encoding, 512 cells": UnaryEncoding(1.0, 512),
    "signed subset of all 256 cells": SignedSubset(1.0, 256),
    "bin-cap sign of a number, 256 cells": BinCapSign(1.0, 256, 1),
    "subset selection, 256 cells": SubsetSelection(2.0, 256),
    "signed subset of 79 out of 256 cells": SignedSubset(2.0, 256),
    "bin-cap sign, 50 cells, D = 6": BinCapSign(2.0, 50, 6),
    "hemisphere, 50 cells, D = 6": Hemisphere(2.0, 50, 6),
}
HORIZONS = (100, 1000, 10_000, 100_000)
DIM = 20
"""Numbers that a counter adds up: a Gram matrix and a vector for five features."""
VARIANCES: list[tuple[str, float, int, float]] = [
    ("signed-subset", 0.5, 64, 4.17),
    ("signed-subset", 1, 64, 1.17),
    ("signed-subset", 2, 16, 0.289),
    ("signed-subset", 2, 64, 0.308),
    ("signed-subset", 4, 64, 0.0292),
    ("grr", 1, 64, 22.0),
    ("grr", 4, 16, 0.0149),
    ("laplace", 1, 64, 40.0),
    ("laplace", 2, 64, 10.0),
]
"""Report, epsilon, leaves, and the variance of S = (y - 1/2) e_leaf for a user outside the leaf (docs/privacy)."""
AUDITED, EPSILONS = ("laplace", "signed-subset", "ternary", "grr"), (0.5, 1.0, 2.0, 4.0, 8.0)


def sums(options: Options) -> Iterator[Row]:
    """Measure how much faster the law of a sum is than 10^4 users one by one; exact laws have a target."""
    for name, randomizer in SUMS.items():
        rng = np.random.default_rng(0)
        cells = rng.integers(-1, randomizer.cells, USERS)
        values = None if randomizer.categorical else rng.uniform(-0.4, 0.4, (USERS, randomizer.dim))
        single = partial(one_by_one, randomizer, cells, values, rng)
        law = partial(randomizer.approximate_sum, cells, values, rng)
        by_users, by_law = best_of(partial(timed, single), partial(each, law), repeats=3)
        kind, target = ("exact", 100) if randomizer.exact_sum else ("Gaussian", None)
        unit = f"times as fast, {kind} ({1e3 * by_users:.1f} ms and {1e3 * by_law:.3f} ms)"
        yield Row(f"sum of 10^4 reports, {name}", by_users / by_law, unit, at_least=target)


def one_by_one(randomizer: LocalRandomizer, cells: Any, values: Any, rng: np.random.Generator) -> Any:
    """Return the estimate of a sum from a report of every user."""
    return randomizer.estimate(randomizer.randomize(cells, values, rng)).sum(axis=0)


def counters(options: Options) -> Iterator[Row]:
    """Measure the noise of counters beside that of the binary tree, in units of sensitivity / sqrt(2 rho)."""
    for horizon in HORIZONS:
        tree = deviations(BinaryTree(horizon, 1, 1.0, 0.5, np.random.default_rng(0)))
        kinds: dict[str, Callable[..., Counter]] = {
            "tree": BinaryTree,
            "Toeplitz": SquareRootToeplitz,
            f"Toeplitz, bandwidth {horizon // 10}": partial(SquareRootToeplitz, bandwidth=horizon // 10),
            "Toeplitz, buffered": BufferedToeplitz,
        }
        for name, make in kinds.items():
            counter = make(horizon, DIM, 1.0, 0.5, np.random.default_rng(0))
            own, x = deviations(counter), np.ones(DIM)
            step = 1e6 * timed(partial(counter.add, x), horizon) / horizon
            held = horizon == 10_000 and name in ("Toeplitz", "Toeplitz, buffered")  # only these have targets
            memory = sum(value.nbytes for value in vars(counter).values() if isinstance(value, np.ndarray))
            cost = f"{memory / 1e3:.1f} kB, {step:.1f} us a step"
            mean, worst = tree.mean() / own.mean(), tree.max() / own.max()
            label = f"T = {horizon}, {name}: noise of the tree over its own"
            yield Row(f"{label}, mean", mean, f"(sd {own.mean():.2f}; {cost})", at_least=2.3 if held else None)
            yield Row(f"{label}, at worst", worst, f"(sd {own.max():.2f})", at_least=3.3 if held else None)


def deviations(counter: Counter) -> NDArray[np.float64]:
    """Return the standard deviation of the noise at up to ten thousand times, the worst one among them."""
    times = np.unique(np.linspace(1, counter.horizon, min(counter.horizon, 10_000)).astype(int))
    all_ones = (1 << (counter.horizon + 1).bit_length() - 1) - 1  # the tree's worst time
    return np.array([counter.standard_deviation(int(t)) for t in np.union1d(times, all_ones)])


def reports(options: Options, draws: int = 200_000) -> Iterator[Row]:
    """Measure variances of the trees' reports beside those of docs/privacy, by formula and drawn."""
    rng = np.random.default_rng(0)
    draws = draws // 10 if options.quick else draws
    for kind, epsilon, leaves, wanted in VARIANCES:
        report = LeafReport(kind, epsilon, leaves, 2)
        total = 0.0
        for _ in range(draws // 2000):
            found = report.estimate(report.randomize(np.zeros(2000, int), np.ones(2000, int), rng))[:, 1:, 0]
            total += float((found**2).mean())
        label = f"variance of {kind}, epsilon={epsilon:g}, {leaves} leaves, over {wanted:g}"
        for how, variance in (("formula", report.variance[0] / 4), ("drawn", total / (draws // 2000) / 4)):
            yield Row(f"{label}: {how}", variance / wanted, f"({variance:.4g})", at_least=0.98, at_most=1.02)


def audits(options: Options, runs: int = 700_000) -> Iterator[Row]:
    """Measure what audits of the trees' reports reach of the claim; none may refute it (95 % confidence for all)."""
    confidence = 1 - 0.05 / (len(AUDITED) * len(EPSILONS))
    for kind in () if options.quick else AUDITED:
        for epsilon in EPSILONS:
            game = LocalGame("lpct", {"epsilon": epsilon, "report": kind})
            found = audit(game, runs, np.random.default_rng(0), confidence=confidence)
            share = found.lower_bound / epsilon
            yield Row(f"audit of {kind}, epsilon={epsilon:g}", share, "of the claim", at_least=0.85, at_most=1)


if __name__ == "__main__":
    sections = {"sums": sums, "counters": counters, "reports": reports, "audits": audits}
    sys.exit(main(__doc__, sections))
