"""Local randomizers of a category: k-ary randomized response and subset selection.

Peter Kairouz, Keith Bonawitz and Daniel Ramage, "Discrete Distribution Estimation under Local Privacy", ICML 2016
(k-ary randomized response); Min Ye and Alexander Barg, "Optimal Schemes for Discrete Distribution Estimation under
Locally Differential Privacy", IEEE Trans. Inf. Theory 64, 2018 (subset selection).
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.random import Generator

from privbandit_agents.privacy._validate import count
from privbandit_agents.privacy.randomizers.randomizer import Array, Crowd, Floats, Ints, LocalRandomizer, Tilt, gaussian
from privbandit_agents.privacy.randomizers.thresholds import at_most, even, exponential, realises


class Categories(LocalRandomizer):
    """A randomizer of k categories: the cells, and one for the inactive users if there may be any.

    Without that category an estimate sums to 1 over the cells, and an inactive user would count as 1/m in each.
    """

    categorical = True
    discrete = True

    def __init__(self, epsilon: float, cells: int, allow_inactive: bool = True, noise: str = "numpy") -> None:
        super().__init__(epsilon, cells, noise=noise)
        self.allow_inactive = allow_inactive
        self.categories = self.cells + allow_inactive
        if self.categories < 2:
            raise ValueError("cells must be >= 2 where no user may be inactive; got 1.")

    def _category(self, own: Ints) -> Ints:
        return np.where(own < 0, self.cells, own)

    def _by_category(self, crowd: Crowd) -> Ints:
        inside = crowd.counts()
        return np.append(inside, crowd.users - inside.sum())[: self.categories]


class KaryRandomizedResponse(Categories):
    """k-ary randomized response; a report is a category, an integer (m: inactive).

    It is the own category with probability p = e^epsilon / (e^epsilon + k - 1), else any other one.

    >>> randomizer = KaryRandomizedResponse(epsilon=1.0, cells=3)
    >>> reports = randomizer.randomize(np.array([0, 1, 2, -1]), None, np.random.default_rng(0))
    >>> reports.shape, randomizer.estimate(reports).shape
    ((4,), (4, 3, 1))

    *Formal guarantees.* Pure epsilon-local DP when a user's cell is replaced: a ``Tilt`` of the uniform law on the
    event "the report is the own category", f = 1/k; reached at a report of j under j and under j'. Inactive users have
    a category of their own, k = m + 1; ``allow_inactive=False`` saves it, k = m, and refuses the cell -1. With q = (1 -
    p) / (k - 1) the variance is q (1 - q) / (p - q)^2 in another cell, p (1 - p) / (p - q)^2 in the own one.

    Args:
        epsilon: > 0, or infinity.
        cells: m.
        allow_inactive: whether there may be users without a cell.
        noise: as in ``LocalRandomizer``.
    """

    def __init__(self, epsilon: float, cells: int, allow_inactive: bool = True, noise: str = "numpy") -> None:
        super().__init__(epsilon, cells, allow_inactive, noise)
        self.tilt = Tilt(self.epsilon, 1 / self.categories)
        self.truth = float(self.tilt.contrast) / self.categories  # p - q: answer truly, otherwise uniformly
        self.lie = float(self.tilt.low) / self.categories  # q
        self.truthful = at_most((exponential(self.epsilon) - 1) / self.categories * even(0, self.categories))

    def _draw(self, own: Ints, z: Floats, rng: Generator) -> Array:
        truth, answer = rng.random((len(own), 2)).T
        return np.where(truth < self.truthful, self._category(own), (answer * self.categories).astype(np.intp))

    def _unbias(self, reports: Array) -> Floats:
        return self._scale(reports[:, None] == np.arange(self.cells), 1)[..., None]

    def _unbias_sum(self, reports: Array) -> Floats:
        return self._scale(np.bincount(reports, minlength=self.categories)[: self.cells], len(reports))[:, None]

    def _scale(self, counts: Array, n: int) -> Floats:
        return np.asarray((counts - n * self.lie) / self.truth)

    def _log_density(self, reports: Array, cell: int, z: Floats) -> Floats:
        return self.tilt.log_density((reports == self._category(np.array(cell))).astype(float))

    def _variance(self, own: bool) -> float:
        others = (self.categories - 1) * self.lie  # 1 - p
        return (others * (1 - others) if own else self.lie * (1 - self.lie)) / self.truth**2

    def _draw_sum(self, crowd: Crowd, rng: Generator) -> Floats:
        truths = rng.binomial(self._by_category(crowd), self.truth)
        answers = truths + rng.multinomial(crowd.users - truths.sum(), np.full(self.categories, 1 / self.categories))
        return self._scale(answers[: self.cells], crowd.users)[:, None]


class SubsetSelection(Categories):
    """Report w of k categories, the own one among them with odds raised by e^epsilon; a report is k bits.

    *Formal guarantees.* Pure epsilon-local DP when a user's cell is replaced: a ``Tilt`` of the uniform law of subsets
    on the event "the subset holds the own category", f = w/k; reached at a subset that holds j but not j'. Inactive
    users as in ``KaryRandomizedResponse``. With p the probability of the own category and q = (w - p) / (k - 1) of
    another one the variances are p (1 - p) / (p - q)^2 and q (1 - q) / (p - q)^2.

    Args:
        epsilon: > 0, or infinity.
        cells: m.
        size: w in 1, ..., k - 1; None: the one of least variance in the other cells, about k / (e^epsilon + 1).
        allow_inactive: whether there may be users without a cell.
        noise: as in ``LocalRandomizer``.
    """

    entries_a_block = 2**18

    def __init__(
        self,
        epsilon: float,
        cells: int,
        size: int | None = None,
        allow_inactive: bool = True,
        noise: str = "numpy",
    ) -> None:
        super().__init__(epsilon, cells, allow_inactive, noise)
        self.exact_sum = math.isinf(self.epsilon)
        self.size = chosen_size(size, self.categories - 1, lambda w: self._other_variance(w))
        self.tilt = Tilt(self.epsilon, self.size / self.categories)
        self.p, self.q, self.gap = (float(x) for x in self._probabilities(self.size))
        others = self.categories - self.size
        odds = exponential(self.epsilon) * Fraction(self.size, others)
        slack = even(min(self.size, others), self.categories)
        self.holding = at_most(odds * slack)
        # a subset with the own category, and one without, relative to uniform subsets
        held, kept = Fraction(self.holding), Fraction(self.size, self.categories)
        self.realised = realises(self.epsilon, [held / kept, (1 - held) / (1 - kept)], slack)

    def _probabilities(self, size: int | Ints) -> tuple[Any, Any, Any]:
        k, f = self.categories, size / self.categories
        tilt = Tilt(self.epsilon, f)
        p, gap = tilt.agree, (1 - f) * f * tilt.contrast * k / (k - 1)
        return p, (size - p) / (k - 1), gap

    def _other_variance(self, size: int | Ints) -> Any:
        _, q, gap = self._probabilities(size)
        return q * (1 - q) / gap**2

    def _draw(self, own: Ints, z: Floats, rng: Generator) -> Array:
        uniforms = rng.random((len(own), 1 + min(self.size, self.categories - self.size)))
        return subsets(self.size, self.categories, uniforms[:, 1:], self._category(own), uniforms[:, 0] < self.holding)

    def _unbias(self, reports: Array) -> Floats:
        return ((reports[:, : self.cells] - self.q) / self.gap)[..., None]

    def _log_density(self, reports: Array, cell: int, z: Floats) -> Floats:
        return self.tilt.log_density(reports[:, cell].astype(float))  # the cell -1 is the last category

    def _variance(self, own: bool) -> float:
        probability = self.p if own else self.q
        return probability * (1 - probability) / self.gap**2

    def _draw_sum(self, crowd: Crowd, rng: Generator) -> Floats:
        k, w, p, q = self.categories, self.size, self.p, self.q
        users = self._by_category(crowd)
        both = ((w - 1) * (w - 2) * p + w * (w - 1) * (1 - p)) / max((k - 1) * (k - 2), 1)  # two that are not own
        with_own = p * (w - 1) / (k - 1)
        pairs = users[:, None] + users
        covariance = (crowd.users - pairs) * (both - q * q) + pairs * (with_own - p * q)
        np.fill_diagonal(covariance, users * p * (1 - p) + (crowd.users - users) * q * (1 - q))
        cells = slice(self.cells)
        return gaussian(users[cells].astype(float), covariance[cells, cells] / self.gap**2, rng)[:, None]


def chosen_size(size: int | None, largest: int, variance: Callable[[Ints], Floats]) -> int:
    """Return the size of a subset, at most ``largest``; None is the one of least variance."""
    if size is None:
        sizes = np.arange(1, largest + 1)
        return int(sizes[np.argmin(variance(sizes))])
    if count(size=size) > largest:
        raise ValueError(f"size must be at most {largest}; got {size}.")
    return int(size)


def subsets(size: int, k: int, uniforms: Floats, own: Ints, holds: Array) -> Array:
    """Return uniform subsets of ``size`` of k elements, given whether they hold the own one, Boolean (n, k).

    The others are drawn by Floyd's algorithm (Bentley and Floyd, "A Sample of Brilliance", CACM 1987): one uniform an
    element, of shape (n, min(size, k - size)). If they are more than half, those left out are drawn. ``own`` is an
    element for each row, and ``holds`` whether the subset has it, both of shape (n,).
    """
    if 2 * size > k:
        return ~subsets(k - size, k, uniforms, own, ~holds)
    lasts = np.arange(k - 1 - size, k - 1)  # the own element is out, and the last one in its place
    if len(own) == 1:
        return subset(k, (uniforms[0] * (lasts + 1)).astype(int).tolist(), own.item(), bool(holds.item()))
    member, start = np.zeros(len(own) * k, bool), np.arange(len(own)) * k
    picks = (uniforms * (lasts + 1)).astype(np.int32).T.copy()
    for step, (last, pick) in enumerate(zip(lasts, picks, strict=True)):
        at = start + pick
        np.copyto(at, start + last, where=member[at])
        member[at] = True if step else ~holds  # who has the own element has one less of the others
    rows = np.arange(len(own))
    members = member.reshape(-1, k)
    members[rows, k - 1] = members[rows, own]
    members[rows, own] = holds
    return members


def subset(k: int, picks: list[int], own: int, holds: bool) -> Array:
    """Return what ``subsets`` does for one row, shape (1, k): plain integers are ten times as fast."""
    member, first = bytearray(k), k - 1 - len(picks)
    member[picks[0]] = not holds  # who has the own element has one less of the others
    for last, pick in enumerate(picks[1:], first + 1):
        member[last if member[pick] else pick] = True
    member[k - 1] = member[own]
    member[own] = holds
    return np.frombuffer(member, bool)[None]
