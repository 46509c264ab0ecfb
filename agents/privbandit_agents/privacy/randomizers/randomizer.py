"""What every local randomizer is: one report a user, an unbiased estimate of it, and its exact density."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.privacy._validate import budget, count
from privbandit_agents.privacy.accounting.costs import Cost, pure
from privbandit_agents.privacy.mechanisms import secure
from privbandit_agents.privacy.vectors import length, lengths, modest

Array = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Arithmetic: TypeAlias = Literal["exact", "real"]
RANGE = 1e100
"""Coordinates are clipped to [-RANGE, RANGE] first of all, so that no norm overflows."""

LARGE = 32
"""From this dimension on, Gaussian vectors are drawn by a Cholesky factor."""


class LocalRandomizer(ABC):
    """Release a user's cell j in 0, ..., m - 1 and value z in R^D: a private one-hot block, with z at j.

    The l2 norm of a value is clipped to ``radius``, 1 unless a subclass sets another one; a categorical randomizer has
    the value 1 for everybody and takes ``values=None``. A user costs a fixed number of variates: a report does not
    depend on how many users were drawn together. A subclass implements the five methods with an underscore.

    *Formal guarantees.* Pure epsilon-local differential privacy of one report; any two inputs (cell, value) are
    neighbours, the inactive one included. The subclass proves its bound on the likelihood ratio, and ``log_likelihood``
    is the exact density to check it with. Reports are independent: those of different users are epsilon-private
    together, k reports about one user are k epsilon-private.

    | input | treated as |
    |---|---|
    | the cell -1 | an inactive user: a report like everybody else's, with an estimate of mean 0 in every cell |
    | a value with NaN or infinity | the zero vector |
    | a value of norm above ``radius`` | scaled down, in float64, before anything is drawn |
    | ``epsilon=math.inf`` | no promise: the report is the one-hot block itself, shape (m, D) |

    Args:
        epsilon: > 0, or infinity.
        cells: number of public cells m.
        dim: dimension D of a value.
        noise: ``"numpy"``, or for discrete reports ``"secure"``: the operating system's random numbers; unseeded.

    Attributes:
        exact_sum: whether ``randomize_sum`` is there.
    """

    norm_order: ClassVar[int] = 2
    categorical: ClassVar[bool] = False
    discrete: bool = False
    """Whether chance decides by comparing uniforms of 53 bits with thresholds, and by nothing else."""
    realised: bool = True
    """Whether thresholds of 53 bits keep epsilon in both directions; decided at construction."""
    radius: float = 1.0
    allow_inactive: bool = True
    entries_a_block: ClassVar[int] = 2**15
    """Entries of the reports that are drawn at once, so that they stay in cache."""

    def __init__(self, epsilon: float, cells: int, dim: int = 1, noise: str = "numpy") -> None:
        self.epsilon, self.cells, self.dim = budget(epsilon=epsilon), count(cells=cells), count(dim=dim)
        self.exact_sum, self.noise = True, secure.check(noise)

    @property
    def arithmetic(self) -> Arithmetic:
        """Scope of the guarantee: the reports as they leave (``"exact"``), or real numbers (``"real"``)."""
        return "exact" if self.discrete and self.realised else "real"

    def randomize(self, cells: Array, values: Array | None, rng: Generator) -> Array:
        """Draw the reports of n users.

        Args:
            cells: each user's cell, shape (n,), -1 if inactive.
            values: each user's value, shape (n, D); None for categorical randomizers.
            rng: the noise.

        Returns:
            Array with n rows; the class defines a row.
        """
        own, z = self.sanitise(cells, values)
        if math.isinf(self.epsilon):
            return self._block(own, z)
        rng = secure.source(self.noise, rng)
        block = max(1, self.entries_a_block // (self.cells * self.dim))
        if len(own) <= block:
            return self._draw(own, z, rng)
        parts = [slice(start, start + block) for start in range(0, len(own), block)]
        return np.concatenate([self._draw(own[part], z[part], rng) for part in parts])

    def estimate(self, reports: Array) -> Floats:
        """Return unbiased estimates, shape (n, m, D): mean z in a user's own cell and 0 in the others."""
        return reports if math.isinf(self.epsilon) else self._unbias(reports)

    def estimate_sum(self, reports: Array) -> Floats:
        """Return ``estimate(reports).sum(axis=0)``, shape (m, D)."""
        return np.asarray(reports.sum(axis=0) if math.isinf(self.epsilon) else self._unbias_sum(reports))

    def log_likelihood(self, reports: Array, cell: int, value: Array | float | None = None) -> Floats:
        """Return the log density of each report if the input were (cell, value), shape (n,); it may be -inf.

        The base measure is the same for all inputs; the class names it.

        Args:
            reports: as from ``randomize``.
            cell: -1 for an inactive user.
            value: shape (D,), or a number if D = 1; None for categorical randomizers.
        """
        own, z = self.sanitise(np.array([cell]), None if value is None else np.reshape(value, (1, -1)))
        if math.isinf(self.epsilon):
            return np.where((reports == self._block(own, z)).all(axis=(1, 2)), 0.0, -math.inf)
        return self._log_density(reports, int(own[0]), z[0])

    def variance(self, own: bool) -> float:
        """Return the variance of an active user's estimate, by coordinate, in the own cell or in another one.

        It is the mean over the D coordinates; in the own cell at a value of the largest norm, where it is smallest.
        """
        return 0.0 if math.isinf(self.epsilon) else self._variance(own)

    def randomize_sum(self, cells: Array, values: Array | None, rng: Generator, counts: Array | None = None) -> Floats:
        """Draw ``estimate(randomize(cells, values, rng)).sum(axis=0)``, shape (m, D), by its exact law.

        The inputs are fixed beforehand: none of them reacts to another user's report.

        Args:
            cells: shape (n,).
            values: shape (n, D), or None.
            rng: the noise.
            counts: how many users have each input, shape (n,); default: one. Their number costs no time.

        Raises:
            NotImplementedError: there is no exact law (``exact_sum`` is False).
        """
        if not self.exact_sum:
            raise NotImplementedError(
                f"{type(self).__name__} has no exact law of the sum; use approximate_sum for many users, "
                "or sum estimate(randomize(...))."
            )
        return self.approximate_sum(cells, values, rng, counts)

    def approximate_sum(
        self, cells: Array, values: Array | None, rng: Generator, counts: Array | None = None
    ) -> Floats:
        """Draw the sum of the estimates, shape (m, D), from the Gaussian with its exact mean and covariance.

        For simulation with 500 users or more; an exact law (``exact_sum``) is drawn instead where there is one.
        """
        own, z = self.sanitise(cells, values)
        number = np.ones(len(own), np.int64) if counts is None else np.asarray(counts)
        if number.shape != own.shape or number.dtype.kind not in "iu" or (number < 0).any():
            raise ValueError(f"counts must be {len(own)} integers >= 0; got shape {number.shape} of {number.dtype}.")
        crowd = Crowd(own, z, number.astype(np.int64), self.cells)
        return crowd.sums() if math.isinf(self.epsilon) else self._draw_sum(crowd, rng)

    @property
    def cost(self) -> Cost:
        """What one report costs."""
        return pure(self.epsilon)

    @property
    def entries(self) -> int:
        """How many numbers an estimate has."""
        return self.cells * self.dim

    @property
    def deviation(self) -> float:
        """The standard deviation of a coordinate of an estimate, in the own cell."""
        return float(self.variance(own=True) ** 0.5)

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        """Whether sums of estimates are drawn at once; ``"normal"``: from their normal limit."""
        return "" if self.noise == "secure" else "exact" if self.exact_sum else "normal"

    @property
    def fewest_summed(self) -> float:
        """From how many users on ``total`` of one user an input may stand for their reports; infinity: never."""
        return math.inf

    def total(self, cells: Array, vectors: Any, rng: Generator, counts: Array | None = None) -> Floats:
        """Draw ``approximate_sum``, of values that are dense, by their factors, or None."""
        return self.approximate_sum(cells, dense(vectors), rng, counts)

    def sanitise(self, cells: Array, values: Array | None) -> tuple[Ints, Floats]:
        """Return cells (n,) and float64 values (n, D), every one of them within the bounds.

        Raises:
            ValueError: wrong shapes, or a cell that does not exist.
        """
        own, lowest = np.asarray(cells), -1 if self.allow_inactive else 0
        if own.ndim != 1 or own.dtype.kind not in "iu":
            raise ValueError(f"cells must be n integers; got shape {own.shape} of {own.dtype}.")
        least, most = (own[0], own[0]) if len(own) == 1 else (own.min(initial=0), own.max(initial=0))
        if not lowest <= least <= most < self.cells:
            raise ValueError(
                f"cells must be {lowest}, ..., {self.cells - 1}; got others (not shown: they may be raw data)."
            )
        return own.astype(np.intp, copy=False), self._clip(values, len(own))

    def _clip(self, values: Array | None, n: int) -> Floats:
        if self.categorical != (values is None):
            needs = "None: the cell is all there is" if self.categorical else f"n vectors of {self.dim} numbers"
            raise ValueError(f"values must be {needs}; got {type(values).__name__}.")
        if values is None:
            return np.ones((n, 1))
        z = np.asarray(values, np.float64)
        if z.shape != (n, self.dim):
            raise ValueError(f"values must have shape {(n, self.dim)}; got {z.shape}.")
        if self.norm_order == 2 and modest(z, self.radius * (1 - 1e-9)):
            return z  # all of them are inside
        if not modest(z, RANGE):
            z = np.clip(np.where(np.isfinite(z).all(axis=1, keepdims=True), z, 0.0), -RANGE, RANGE)
        elif n == 1 and self.norm_order == 2 and length(z[0]) <= self.radius:
            return z
        norms = lengths(z) if self.norm_order == 2 else np.linalg.norm(z, self.norm_order, axis=1, keepdims=True)
        return np.asarray(z / np.maximum(norms / self.radius, 1.0))

    def _block(self, own: Ints, z: Floats) -> Floats:
        if self.cells == 1:  # their values, but for inactive users
            here = own[0] >= 0 if len(own) == 1 else (own >= 0)[:, None]
            return (z * here)[:, None]
        block = np.zeros((len(own), self.cells + 1, self.dim))
        block[np.arange(len(own)), own] = z  # the cell -1 is the last one, and is dropped
        return block[:, :-1]

    @abstractmethod
    def _draw(self, own: Ints, z: Floats, rng: Generator) -> Array:
        """Draw reports at a finite epsilon."""

    @abstractmethod
    def _unbias(self, reports: Array) -> Floats:
        """Estimate at a finite epsilon."""

    def _unbias_sum(self, reports: Array) -> Floats:
        return np.asarray(self._unbias(reports).sum(axis=0))

    @abstractmethod
    def _log_density(self, reports: Array, cell: int, z: Floats) -> Floats:
        """Return the log densities at a finite epsilon."""

    @abstractmethod
    def _variance(self, own: bool) -> float:
        """Return the variance at a finite epsilon."""

    @abstractmethod
    def _draw_sum(self, crowd: "Crowd", rng: Generator) -> Floats:
        """Draw the sum at a finite epsilon: its exact law if ``exact_sum``, else the Gaussian."""


@dataclass(frozen=True)
class Tilt:
    """A base measure whose density is raised by e^epsilon on an agree event of base probability ``chance``.

    The density of a report is (e^epsilon 1_G + 1_{not G}) / Z with Z = e^epsilon f + 1 - f. The event G depends on the
    input, its base probability f does not.

    *Formal guarantees.* Any two inputs have likelihood ratios of at most e^epsilon, reached where one agrees and the
    other does not, also after the input is randomised first. A draw from the base measure is safe to send for an
    inactive user. Proof: docs/privacy/local-randomizers.md.

    Attributes:
        epsilon: > 0.
        chance: f in (0, 1), a number or an array of them.
    """

    epsilon: float
    chance: Any

    @property
    def agree(self) -> Any:
        """The probability that the report agrees with the input, e^epsilon f / Z."""
        return scipy.special.expit(self.epsilon + scipy.special.logit(self.chance))

    @property
    def log_total(self) -> Any:
        return np.logaddexp(self.epsilon + np.log(self.chance), np.log1p(-self.chance))

    @property
    def low(self) -> Any:
        """The density off the event, 1 / Z."""
        return np.exp(-self.log_total)

    @property
    def contrast(self) -> Any:
        """The density on the event minus the one off it, (e^epsilon - 1) / Z."""
        return -math.expm1(-self.epsilon) / (self.chance + (1 - self.chance) * math.exp(-self.epsilon))

    def log_density(self, weight: Array) -> Floats:
        """Return the log density of reports that agree with a mixed input with probability ``weight``."""
        with np.errstate(divide="ignore"):
            mixed = np.logaddexp(np.log(weight) + self.epsilon, np.log1p(-weight))
        return np.asarray(mixed - self.log_total)


@dataclass(frozen=True)
class Crowd:
    """Users by their inputs: ``number[i]`` of them have the cell ``own[i]`` and the value ``z[i]``.

    Attributes:
        own: cells, -1 for inactive users, shape (k,).
        z: values, shape (k, D).
        number: shape (k,).
        cells: m.
    """

    own: Ints
    z: Floats
    number: Ints
    cells: int

    @property
    def users(self) -> int:
        return int(self.number.sum())

    def counts(self, of: NDArray[np.bool_] | slice = slice(None)) -> Ints:
        """Return the number of users in each cell, shape (m,); the cell -1 is left out."""
        return self.tally(self.number[of], self.own[of])

    def sums(self, of_values: Floats | None = None) -> Floats:
        """Return the sum of the values of each cell's users, shape (m, D); the cell -1 is left out."""
        z = self.z if of_values is None else of_values
        sums = np.zeros((self.cells + 1, z.shape[1]))
        np.add.at(sums, self.own, z * self.number[:, None])
        return sums[:-1]

    def grams(self, vectors: Floats) -> Floats:
        """Return the sum of v v' over each cell's users, given each input's vector v, shape (m, D, D)."""
        total = np.zeros((self.cells, vectors.shape[1], vectors.shape[1]))
        for cell in np.unique(self.own[self.own >= 0]):
            here = self.own == cell
            total[cell] = vectors[here].T @ (vectors[here] * self.number[here, None])
        return total

    def tally(self, number: Ints, cells: Ints) -> Ints:
        """Return the total of ``number`` in each cell, shape (m,)."""
        total = np.zeros(self.cells + 1, np.int64)
        np.add.at(total, cells, number)
        return total[:-1]


def dense(vectors: Any) -> Any:
    """Return vectors as an array, whether they are one or by their factors; or None."""
    return vectors if vectors is None or isinstance(vectors, np.ndarray) else vectors.dense()


def gaussian(mean: Floats, covariance: Floats, rng: Generator) -> Floats:
    """Draw Gaussian vectors of the given means (..., D) and covariances (..., D, D), singular ones too."""
    noise = rng.standard_normal(mean.shape)
    if mean.shape[-1] >= LARGE:  # a tenth of the time, where no covariance is singular
        try:
            return np.asarray(mean + (np.linalg.cholesky(covariance) @ noise[..., None])[..., 0])
        except np.linalg.LinAlgError:
            pass
    values, vectors = np.linalg.eigh(covariance)
    noise *= np.sqrt(np.maximum(values, 0.0))
    return np.asarray(mean + (vectors @ noise[..., None])[..., 0])
