"""Private selection of k of d coordinates, and the iterative hard thresholding that is built on it.

David Durfee and Ryan Rogers, "Practical Differentially Private Top-k Selection with Pay-what-you-get Composition",
NeurIPS 2019 (one-shot Gumbel selection); Cynthia Dwork, Weijie Su and Li Zhang, "Differentially Private False Discovery
Rate Control", 2021 (peeling); Sunrit Chakraborty, Saptarshi Roy and Debabrota Basu, "FLIPHAT: Joint Differential
Privacy for High Dimensional Sparse Linear Bandits", 2024, Algorithms 1 and 3 (noisy iterative hard thresholding).
Proofs: docs/privacy/selection.md and docs/privacy/iterative-hard-thresholding.md.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from privbandit_agents.privacy._validate import budget, count, failure, positive, renamed
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho
from privbandit_agents.privacy.accounting.costs import Cost, gaussian_loss, in_units, zcdp
from privbandit_agents.privacy.mechanisms import secure
from privbandit_agents.privacy.mechanisms.additive import normal_of_laplace
from privbandit_agents.privacy.mechanisms.discrete import noisy
from privbandit_agents.privacy.mechanisms.grid import covering, on_finer_grid, rounded
from privbandit_agents.privacy.vectors import Floats, finite

Chosen = tuple[NDArray[np.intp], Floats]
"""A release: coordinates, and their noisy values."""


@dataclass(frozen=True)
class GumbelTopK:
    """Select the k coordinates of largest modulus by one Gumbel vector; release them with Gaussian noise.

    Coordinates that are public already (the support of an earlier release) need no selection: up to ``kept`` of them
    are released beside the k new ones, at the price of their Gaussian noise alone.

    >>> mechanism = GumbelTopK.from_rho(rho=1e4, k=2, sup_sensitivity=1.0)
    >>> chosen, values = mechanism.release([5.0, 0.0, -9.0, 1.0], np.random.default_rng(0))
    >>> sorted(chosen.tolist()), sorted(values.round().tolist())
    ([0, 2], [-9.0, 5.0])

    *Formal guarantees.* zCDP. With sup-norm sensitivity D the top k of |v| + beta Gumbel costs k (2 D / beta)^2 / 8,
    also among the coordinates outside a public set, and fresh Gaussian noise on the signed originals costs (k + kept)
    D^2 / (2 sigma^2). Together rho = (D^2 / 2)(k / beta^2 + (k + kept) / sigma^2). The Gumbel scores are never
    released. k, kept, beta, sigma and the public coordinates may depend on the data through earlier releases alone.
    As floats it is exact: coordinates are chosen one after the other with weights that are integers (the law of the top
    k by Gumbel noise), and the Gaussian noise is discrete, on a grid; D grows by the rounding to that grid.

    Attributes:
        k: number of coordinates to select, >= 0.
        beta: scale of the Gumbel noise, >= 0.
        sigma: standard deviation of the Gaussian noise, >= 0.
        rho: what one release costs.
        kept: largest number of coordinates released without selection.
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.
    """

    k: int
    beta: float
    sigma: float
    rho: float
    kept: int = 0
    noise: str = "numpy"

    def __post_init__(self) -> None:
        secure.check(self.noise)

    @classmethod
    def from_rho(
        cls,
        rho: float,
        k: int,
        sup_sensitivity: float,
        selection: float = 0.5,
        kept: int = 0,
        noise: str = "numpy",
    ) -> Self:
        """Return the mechanism that is rho-zCDP; ``selection`` is the share of rho spent on choosing, if k > 0."""
        if not k >= 0 or not kept >= 0 or k + kept < 1:
            raise ValueError(f"k and kept must be >= 0 and not both 0; got {k} and {kept}.")
        unit = positive(sup_sensitivity=sup_sensitivity) / math.sqrt(2 * budget(rho=rho))
        share = failure(selection=selection) if k else 0.0
        to_choose, to_tell = math.sqrt(k / share) if k else 0.0, math.sqrt((k + kept) / (1 - share))
        beta, sigma = (covering(unit * factor, factor / math.sqrt(2 * rho)) for factor in (to_choose, to_tell))
        return cls(k, beta, sigma, rho, kept, noise)

    calibrate = renamed("from_rho")

    @property
    def cost(self) -> Cost:
        return zcdp(self.rho)

    def release(
        self, value: ArrayLike, rng: Generator, public: NDArray[np.intp] | None = None
    ) -> tuple[NDArray[np.intp], Floats]:
        """Return (coordinates, their noisy values): the public ones in rising order, then the chosen in no order.

        Args:
            value: the exact vector, shape (d,).
            rng: of the noise.
            public: coordinates to release without selection, at most ``kept`` different ones.
        """
        exact = finite(value)
        known = np.empty(0, dtype=np.intp) if public is None else np.unique(public)
        if len(known) > self.kept:
            raise ValueError(f"at most {self.kept} public coordinates are paid for; got {len(known)}.")
        choosing, telling = (secure.branch(self.noise, rng) for _ in range(2))
        chosen = peeled(exact, self.beta, known, min(self.k, len(exact) - len(known)), choosing)
        released = np.concatenate([known, chosen])
        return released, noisy(exact[released], self.sigma, telling)

    def loss(self, exact: ArrayLike, other: ArrayLike, released: Chosen) -> Cost:
        """Return (range of the moduli's moves / beta)^2 / 8 for each choice, plus the Gaussian loss of the values."""
        rounds, spread = choices(self.k, exact, other, released)
        values = gaussian_loss(float(np.linalg.norm(np.subtract(exact, other)[released[0]])), self.sigma)
        return Cost(rho=rounds * in_units(spread, self.beta) ** 2 / 8) + values

    def standardised(self, exact: ArrayLike, released: Chosen) -> Floats:
        """Return the noise of the values as standard normals; that of the selection is no number that is released."""
        return np.asarray((released[1] - np.asarray(exact)[released[0]]) / self.sigma)


def choices(k: int, exact: ArrayLike, other: ArrayLike, released: Chosen) -> tuple[int, float]:
    """Return how many of the released coordinates were chosen, and the range of the candidates' moves in modulus.

    Public coordinates come first, and are no candidates.
    """
    rounds = min(k, len(released[0]))
    moves = np.delete(np.abs(other) - np.abs(exact), released[0][: len(released[0]) - rounds])
    return rounds, float(np.ptp(moves)) if rounds else 0.0


def peeled(exact: Floats, beta: float, known: NDArray[np.intp], k: int, rng: Generator) -> NDArray[np.intp]:
    """Choose k coordinates outside the known ones, one after the other, each with odds exp(|value| / beta).

    *Formal guarantees.* As the top k of |value| + beta Gumbel. Values are rounded to a grid first, and those that lie
    200 beta below the largest that is left count as that much below it: a score moves by no more than a step above what
    the values move. Weights are integers within 2e-13 of the exponentials, four of which are less than a step, and
    random integers decide.
    """
    modulus = np.abs(on_finer_grid(exact, beta))
    modulus[known] = -np.inf
    if beta == 0:
        return np.argpartition(-modulus, k - 1)[:k] if k else np.empty(0, dtype=np.intp)
    chosen, largest, far = np.empty(k, dtype=np.intp), np.inf, True
    sums, gone = list[int](), 0
    for position in range(k):
        if far and modulus.max() < largest:  # else the odds are what they were
            largest, sums = modulus.max(), []
            weights, far = odds((modulus - largest) / beta)
        if not sums or 2 * gone >= sums[-1]:
            sums, gone = list(accumulate(weights)), 0
        choice = bisect_right(sums, below(sums[-1], rng))
        while weights[choice] == 0:  # chosen before: drawn again, which leaves the odds of the others
            choice = bisect_right(sums, below(sums[-1], rng))
        chosen[position] = choice
        gone += weights[choice]
        weights[choice], modulus[choice] = 0, -np.inf
    return chosen


def odds(scores: Floats) -> tuple[list[int], bool]:
    """Return integers in proportion to exp(max(score, -200)), 0 for -infinity, and whether a score is below -200."""
    far = 200.0  # e^-200 is beyond every sample
    fractions, exponents = np.frexp(np.exp(np.maximum(scores, -far)))
    mantissas = np.where(np.isneginf(scores), 0, np.ldexp(fractions, 53)).astype(np.int64)
    weights = [m << (e + 300) for m, e in zip(mantissas.tolist(), exponents.tolist(), strict=True)]  # e^-200 > 2^-300
    return weights, bool(((scores < -far) & np.isfinite(scores)).any())


def below(limit: int, rng: Generator) -> int:
    """Return a uniform integer of 0, ..., limit - 1."""
    bits = limit.bit_length()
    while True:
        number = int.from_bytes(rng.bytes(-(-bits // 8)), "little") >> (-bits % 8)
        if number < limit:
            return number


@dataclass(frozen=True)
class LaplacePeeling:
    """k rounds of report-noisy-max on the modulus, then Laplace noise on the k values, as published.

    *Formal guarantees.* With sup-norm sensitivity D and x = D / scale: pure 3 k x and, counted in zCDP, 2.5 k x^2.
    Whether (epsilon, delta) follows depends on the scale that the caller derives; ``published_scale`` is the published
    one, 2 D sqrt(3 k log(1/delta)) / epsilon.

    Attributes:
        k: number of coordinates.
        scale: of every Laplace variate, >= 0.
        sup_sensitivity: D, for the cost.
    """

    k: int
    scale: float
    sup_sensitivity: float

    @staticmethod
    def published_scale(epsilon: float, delta: float, k: int, sup_sensitivity: float) -> float:
        root = math.sqrt(3 * count(k=k) * math.log(1 / failure(delta=delta)))
        return 2 * positive(sup_sensitivity=sup_sensitivity) * root / budget(epsilon=epsilon)

    @property
    def cost(self) -> Cost:
        return zcdp(2.5 * self.k * (self.sup_sensitivity / self.scale) ** 2 if self.scale else math.inf)

    def release(self, value: ArrayLike, rng: Generator) -> tuple[NDArray[np.intp], Floats]:
        """Return (chosen coordinates in the order of choice, their noisy values)."""
        exact = finite(value)
        modulus, chosen = np.abs(exact), np.empty(min(self.k, len(exact)), dtype=np.intp)
        for position in range(len(chosen)):
            scores = modulus + self.scale * rng.laplace(size=len(exact))
            chosen[position] = scores.argmax()
            modulus[chosen[position]] = -np.inf
        return chosen, rounded(exact[chosen] + self.scale * rng.laplace(size=len(chosen)), self.scale)

    def loss(self, exact: ArrayLike, other: ArrayLike, released: Chosen) -> Cost:
        """Return range of the moduli's moves / scale for each choice, plus |move| / scale for each value."""
        rounds, spread = choices(self.k, exact, other, released)
        values = np.abs(np.subtract(exact, other)[released[0]])
        costs = [in_units(part, self.scale) for part in (*[spread] * rounds, *values)]
        return Cost(pure=sum(costs), pure_rho=sum(cost * cost / 2 for cost in costs))

    def standardised(self, exact: ArrayLike, released: Chosen) -> Floats:
        """Return the noise of the values as standard normals."""
        return normal_of_laplace((released[1] - np.asarray(exact)[released[0]]) / self.scale)


def step_sensitivity(eta: float, x_max: float, R: float, C: float, n: int) -> float:
    """Return how far replacing one of n users moves a gradient step of the mean of (y - x . theta)^2, in sup norm.

    *Formal guarantees.* 4 eta x_max (R + x_max C) / n for |x|_inf <= x_max, |y| <= R and |theta|_1 <= C; attained at
    theta = C e1 by y = R, x = x_max (-1, 1, ..., 1) against y = R, x = -x_max 1. The number of users enters once.

    Args:
        eta: step size, > 0.
        x_max: bound on the features, > 0.
        R: bound on the reward, > 0.
        C: bound on the l1 norm of the iterate, > 0.
        n: number of users, >= 1.
    """
    return 4 * positive(eta=eta) * positive(x_max=x_max) * published_bound(x_max, R, C) / count(n=n)


def published_sensitivity(eta: float, x_max: float, R: float, C: float, n: int) -> float:
    """Return eta B / n with B = R + x_max C, which the paper takes for the sensitivity: 4 x_max times too small."""
    return positive(eta=eta) * published_bound(x_max, R, C) / count(n=n)


def published_bound(x_max: float, R: float, C: float) -> float:
    return positive(R=R) + positive(x_max=x_max) * positive(C=C)


def concentrated(rho: float, iterations: int, s: int, sensitivity: float, selection: float = 0.5) -> GumbelTopK:
    """Return the selection and release of one of M iterations that are rho-zCDP together: rho / M each."""
    return GumbelTopK.from_rho(budget(rho=rho) / count(iterations=iterations), s, sensitivity, selection)


def basic(epsilon: float, delta: float, iterations: int, s: int, sensitivity: float) -> LaplacePeeling:
    """Return the peeling of one of M iterations that are (epsilon, delta)-DP together by basic composition.

    *Formal guarantees.* Each iteration is (epsilon / M, delta / M)-DP: its scale is the smallest that the pure bound or
    the zCDP bound of ``LaplacePeeling`` proves, or the paper's where that is larger, which is where its lemma is
    proved.
    """
    one, failing = budget(epsilon=epsilon) / count(iterations=iterations), failure(delta=delta) / iterations
    scale = positive(sensitivity=sensitivity) / max(one / (3 * s), math.sqrt(epsilon_to_rho(one, failing) / (2.5 * s)))
    return LaplacePeeling(s, max(scale, LaplacePeeling.published_scale(one, failing, s, sensitivity)), sensitivity)


def published(
    epsilon: float, delta: float, iterations: int, s: int, sensitivity: float, stated: float
) -> LaplacePeeling:
    """Return the paper's peeling of one of M iterations: its noise covers the stated sensitivity, not the real one.

    *Formal guarantees.* None at the claimed budget; ``cost`` gives the real cost of a release.
    """
    one, failing = budget(epsilon=epsilon) / count(iterations=iterations), failure(delta=delta) / iterations
    return LaplacePeeling(s, LaplacePeeling.published_scale(one, failing, s, stated), sensitivity)


def project_on_l1_ball(vector: Floats, radius: float) -> Floats:
    """Return the nearest point of l1 norm at most the radius; entries are first clipped to a million radii."""
    vector = np.clip(vector, -1e6 * radius, 1e6 * radius)
    modulus = np.abs(vector)
    if modulus.sum() <= radius:
        return vector
    ordered = np.sort(modulus)[::-1]
    excess = (np.cumsum(ordered) - radius) / np.arange(1, len(vector) + 1)
    threshold = excess[np.flatnonzero(ordered > excess)[-1]]
    projected = np.sign(vector) * np.maximum(modulus - threshold, 0.0)
    return np.asarray(projected * min(1.0, radius / np.abs(projected).sum()))
