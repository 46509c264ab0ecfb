"""The law of a discrete report as it is drawn, in rational arithmetic: what uniforms of 53 bits really give.

Nothing is read of a randomizer but the reports that it makes of given uniforms. Each uniform is one of 2^53 values; the
places where a report changes with it are found by bisection, and the lengths between them are probabilities.
"""

from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from itertools import combinations
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from privbandit_agents.privacy.randomizers.thresholds import STEPS

PRECISE = Context(prec=60)
Array = NDArray[Any]
Law = dict[bytes, Fraction]


class Input(NamedTuple):
    """A device's input to the randomizer: a cell, and a value or None."""

    cell: int
    value: Array | None = None


class Script:
    """A generator with given uniforms, one row a user; it remembers how many a user takes."""

    def __init__(self, rows: Array) -> None:
        self.rows, self.width = rows, 0

    def random(self, size: int | tuple[int, ...]) -> Array:
        users, *of_one = (1, size) if isinstance(size, int) else size  # an integer asks for one user's
        self.width = prod(of_one)
        part, self.rows = self.rows[:users], self.rows[users:]
        return (part[:, : self.width] / STEPS).reshape(size)


class Axis(NamedTuple):
    """One uniform of a user: integers that stand for all that make the same reports, and how many these are."""

    stand: Array
    numbers: Array
    byte: bool = False

    def of(self, tried: Array) -> Array:
        """Return what stands for each of the integers."""
        if self.byte:
            return tried & (255 << 21)
        return self.stand[np.searchsorted(self.stand, tried, side="right") - 1]


def law(
    randomizer: LocalRandomizer, given: Input, public: Array | None = None, signs: int | None = None, seed: int = 0
) -> Law:
    """Return the probability of every report of an input, by the report's bytes.

    Args:
        randomizer: of discrete reports of small size.
        given: the input.
        public: the last uniforms of a user, as integers below 2^53, where the law given these is asked for.
        signs: which uniform gives the signs of up to eight cells, by the last byte of its first 32 bits.
        seed: of the surroundings in which changes are looked for.

    Raises:
        AssertionError: a report depends on its uniforms in a way that was not found.
    """
    tail = np.zeros(0, np.int64) if public is None else np.asarray(public, np.int64)
    free = width(randomizer, given) - len(tail)
    rng = np.random.default_rng(seed)
    surroundings = 96  # in which changes are looked for
    routes = np.where(
        rng.random((surroundings, free)) < 0.5,
        rng.choice([0, STEPS - 1], (surroundings, free)),
        uniforms(rng, surroundings, free),
    )

    def reports(rows: Array) -> list[bytes]:
        return made(randomizer, given, np.concatenate([rows, np.tile(tail, (len(rows), 1))], axis=1))

    byte = Axis(np.arange(256) << 21, np.full(256, STEPS // 256), True)
    axes = [byte if axis == signs else changes(reports, routes, axis) for axis in range(free)]
    places = np.stack([mesh.ravel() for mesh in np.meshgrid(*(np.arange(len(a.stand)) for a in axes))], axis=1)
    rows = np.stack([axis.stand[place] for axis, place in zip(axes, places.T, strict=True)], axis=1)
    weights = [axis.numbers.tolist() for axis in axes]
    found: Law = {}
    for report, place in zip(reports(rows), places.tolist(), strict=True):
        weight = prod(numbers[index] for numbers, index in zip(weights, place, strict=True))
        found[report] = found.get(report, Fraction(0)) + Fraction(weight, STEPS**free)
    # a report of any other uniforms is that of what stands for them
    tried = uniforms(rng, 2000, free)
    standing = np.stack([axis.of(column) for axis, column in zip(axes, tried.T, strict=True)], axis=1)
    assert reports(tried) == reports(standing), "a change was overlooked"
    return found


def changes(reports: Callable[[Array], list[bytes]], routes: Array, number: int) -> Axis:
    """Return the intervals of one uniform in which no report changes."""
    parts = 256  # no two changes of a report with one uniform are nearer than a 256th
    grid = np.append(np.arange(parts, dtype=np.int64) * (STEPS // parts), STEPS - 1)
    rows = np.repeat(routes, len(grid), axis=0)
    rows[:, number] = np.tile(grid, len(routes))
    seen = np.array(reports(rows), dtype=object).reshape(len(routes), -1)
    route, place = np.nonzero(seen[:, 1:] != seen[:, :-1])
    low, high, before = grid[place], grid[place + 1], seen[route, place]
    while (high - low > 1).any():
        middle = (low + high) // 2
        rows = routes[route]
        rows[:, number] = middle
        same = np.array(reports(rows), dtype=object) == before
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    starts = np.unique(np.append(0, high))
    return Axis(starts, np.diff(np.append(starts, STEPS)))


def made(randomizer: LocalRandomizer, given: Input, rows: Array) -> list[bytes]:
    """Return the reports of an input that rows of uniforms make, as bytes."""
    cells = np.full(len(rows), given.cell)
    values = None if given.value is None else np.tile(given.value, (len(rows), 1))
    reports = randomizer.randomize(cells, values, cast(Generator, Script(rows)))
    return [np.ascontiguousarray(report + 0).tobytes() for report in reports]  # + 0: no zero has a sign


def width(randomizer: LocalRandomizer, given: Input) -> int:
    """Return how many uniforms a report takes."""
    script = Script(np.zeros((1, 2**12), np.int64))
    values = None if given.value is None else given.value[None]
    randomizer.randomize(np.array([given.cell]), values, cast(Generator, script))
    return script.width


def uniforms(rng: Generator, n: int, axes: int) -> Array:
    return rng.integers(STEPS, size=(n, axes))


def realised(laws: list[Law]) -> Fraction | None:
    """Return the largest ratio of two inputs' probabilities of one report; None: a report is possible for one alone."""
    if any(one.keys() != other.keys() for one, other in combinations(laws, 2)):
        return None
    return max(max(one[r] / other[r], other[r] / one[r]) for one, other in combinations(laws, 2) for r in one)


def epsilon_of(ratio: Fraction) -> float:
    """Return the logarithm of a ratio."""
    return float(PRECISE.ln(PRECISE.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))))


def within(ratio: Fraction | None, epsilon: float) -> bool:
    """Return whether a ratio is at most e^epsilon, rounding against it."""
    return ratio is not None and ratio <= Fraction(Decimal(epsilon).exp(PRECISE)) * (1 - Fraction(1, 10**58))
