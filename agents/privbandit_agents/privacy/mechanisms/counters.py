"""Continual counters: private prefix sums of a stream of vectors.

T.-H. Hubert Chan, Elaine Shi and Dawn Song, "Private and Continual Release of Statistics", ICALP 2010 (the binary
tree); Hendrik Fichtenberger, Monika Henzinger and Jalaj Upadhyay, "Constant Matters: Fine-grained Error Bound on
Differentially Private Continual Observation", ICML 2023 (the square root of the prefix-sum matrix); Krishnamurthy
Dvijotham, Brendan McMahan, Krishna Pillutla, Thomas Steinke and Abhradeep Thakurta, "Efficient and Near-Optimal Noise
Generation for Streaming Differential Privacy", FOCS 2024 (buffers); Sergey Denisov, Brendan McMahan, Keith Rush, Adam
Smith and Abhradeep Thakurta, "Improved Differential Privacy for SGD via Optimal Private Linear Operators on Adaptive
Streams", NeurIPS 2022 (Gaussian noise stays private when later users react to earlier releases). Proofs:
docs/privacy/continual-counting.md.

Every counter writes the lower-triangular matrix A of ones as R C and releases R (C x + Z) = A x + R Z, where the rows
of Z are independent N(0, scale^2 I). So rho = (largest column norm of C)^2 sensitivity^2 / (2 scale^2). A different R
has a different C = R^-1 A: a truncated or approximated R is calibrated to its own C, never to the exact one.

A counter that knows the ``mass`` of its terms forms C x in floats, rounds each row to a grid, adds discrete Gaussian
noise of the same grid, and applies R to the sum: exact for the numbers that leave.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike

from privbandit_agents.privacy._validate import budget, count, positive
from privbandit_agents.privacy.accounting.costs import Cost, gaussian_dp, gaussian_loss
from privbandit_agents.privacy.keys import Unseeded
from privbandit_agents.privacy.mechanisms import secure
from privbandit_agents.privacy.mechanisms.additive import scale_for
from privbandit_agents.privacy.mechanisms.discrete import GridGaussian, integers
from privbandit_agents.privacy.mechanisms.grid import FINER, step_of
from privbandit_agents.privacy.vectors import Floats, finite

MOST_BYTES = 200 * 2**20
"""Memory that a Toeplitz counter may take by default."""
STEPS_A_BLOCK = 256
"""Noise of at least this many steps is prepared at once."""
NUMBERS_AHEAD = 2048
"""Numbers of discrete noise that are drawn at once: the sampler's start costs more than a number."""


class Counter(ABC):
    """Noisy prefix sums of vectors under zero-concentrated differential privacy.

    The attributes are arrays, numbers and the generator, so that saving them saves the counter mid-stream.

    >>> counter = BinaryTree(horizon=4, dim=2, sensitivity=1.0, rho=math.inf, rng=np.random.default_rng(0))
    >>> counter.add([1.0, 2.0])
    array([1., 2.])
    >>> counter.add([3.0, 4.0])
    array([4., 6.])

    *Formal guarantees.* All releases together are rho-zCDP, also for terms chosen in view of earlier releases.
    Sensitivity in the l2 norm; neighbours: one user's term is replaced, the horizon is public. Terms of norm at most K
    have sensitivity 2 K, and sqrt(2) K if their inner products are never negative, as for positive semi-definite
    matrices through ``svec``. With ``mass`` this holds for the floats that leave, rounding included, else for real
    numbers.

    | edge case | what happens |
    |---|---|
    | rho = infinity | no noise is added |
    | rho 0, negative or NaN | ValueError |
    | noise of a scale below 2^-900 or above 2^900 | ValueError, since floats would lose it |
    | a term with NaN or infinity | ValueError; the counter stays as it was |
    | more terms than the horizon | RuntimeError; the counter stays as it was |

    Args:
        horizon: number of terms T, fixed in advance; the counter stops there.
        dim: length d of a term.
        sensitivity: l2 norm of the largest difference that replacing one user's term can make, > 0.
        rho: of the whole sequence of releases, > 0; infinity adds no noise.
        rng: of the noise; no other mechanism may share it.
        bound: terms of a larger l2 norm are scaled down to it, in float64; by default they are taken as they are, and
            ``sensitivity`` is the caller's promise.
        mass: l2 norms of all terms add up to at most this, > 0, the caller's promise: noise is discrete then, and
            exact. None: noise is in floats.
        noise: ``"numpy"``, or with a mass ``"secure"``: the operating system's random numbers; unseeded.

    Raises:
        ValueError: an argument out of range.
    """

    fixed: ClassVar[frozenset[str]] = frozenset({"mass", "noise"})

    def __init__(
        self,
        horizon: int,
        dim: int,
        sensitivity: float,
        rho: float,
        rng: Generator,
        *,
        bound: float | None = None,
        mass: float | None = None,
        noise: str = "numpy",
    ) -> None:
        self.horizon, self.dim = count(horizon=horizon), count(dim=dim)
        self.mass = None if mass is None else positive(mass=mass)
        if secure.check(noise) == "secure" and mass is None:
            raise ValueError("noise='secure' needs a mass, so that noise is discrete; got mass=None.")
        self.noise = noise
        self._set_up()
        self.bound = math.inf if bound is None else positive(bound=bound)
        self.rho = budget(rho=rho)
        self.scale = self._calibrated(positive(sensitivity=sensitivity))
        self.rng = rng
        self.t = 0
        self.total = np.zeros(self.dim)
        self.ahead = np.zeros((0, self.dim))  # noise of the next releases, in steps of the grid

    def _calibrated(self, sensitivity: float) -> float:
        """Return the scale of the noise for what replacing one user moves."""
        if self.mass is None:
            return scale_for(sensitivity * self.column_norm(), math.sqrt(2 * self.rho))
        moved = (sensitivity + 2 * rounding(self.horizon) * self.mass) * self.column_norm() * (1 + 1e-12)
        return GridGaussian.from_rho(self.rho, moved, self.noise, self.horizon * self.dim).sigma

    @property
    def cost(self) -> Cost:
        """What all releases up to the horizon cost together."""
        return gaussian_dp(self.rho)

    def add(self, x: ArrayLike) -> Floats:
        """Take the next term, shape (d,), and return the noisy sum of all terms so far, shape (d,).

        Raises:
            ValueError: the shape is wrong, or an entry is not finite.
            RuntimeError: the horizon is reached.
        """
        term = finite(x)
        if term.shape != (self.dim,):
            raise ValueError(f"a term must have shape ({self.dim},); got {term.shape}.")
        return np.asarray(self.extend(term[None])[0])

    def extend(self, terms: ArrayLike) -> Floats:
        """Take the next n terms, shape (n, d), and return the n noisy sums after each of them, shape (n, d).

        Sums and noise are those of n calls of ``add``, bit for bit, so that terms may be grouped at will.

        Raises:
            ValueError: the shape is wrong, or an entry is not finite; no term is taken in.
            RuntimeError: the terms would pass the horizon; no term is taken in.
        """
        rows = finite(terms)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"terms must have shape (n, {self.dim}); got {rows.shape}.")
        if self.bound < math.inf:
            rows = np.array([clip(row, self.bound) for row in rows]).reshape(rows.shape)
        if len(rows) > self.horizon - self.t:
            raise RuntimeError(f"the counter ends after its horizon of {self.horizon} terms; start a new one.")
        if self.mass is not None and self.scale:
            return np.array([self._told(row) for row in rows]).reshape(rows.shape)
        sums = np.add.accumulate(np.concatenate([self.total[None], rows]), axis=0)  # one after the other
        noisy: Floats = sums[1:] + self._noise(len(rows)) if self.scale else sums[1:]
        self.t, self.total = self.t + len(rows), sums[-1].copy()
        return noisy

    def _told(self, row: Floats) -> Floats:
        """Return the next release: R of all rows of C x + Z so far, which are on the grid; terms enter these alone."""
        step, drawn = step_of(self.scale, FINER), self._drawn()
        told = self._decoded((np.rint(self._encoded(row) / step) + drawn) * step)
        self.t, self.total = self.t + 1, self.total + row
        return told

    def _drawn(self) -> Floats:
        """Return the next row of Z, discrete noise in steps of the grid, shape (d,)."""
        if not len(self.ahead):
            rows, step = min(max(NUMBERS_AHEAD // self.dim, 1), self.horizon - self.t), step_of(self.scale, FINER)
            drawn = integers(self.scale / step, rows * self.dim, secure.source(self.noise, self.rng))
            self.ahead = drawn.reshape(rows, self.dim).astype(np.float64)  # whole numbers below 2^53
        row, self.ahead = self.ahead[0], self.ahead[1:]
        return np.asarray(row)

    def forget(self) -> None:
        """Forget the noise that is drawn for releases to come; it will be drawn anew."""
        self.ahead = self.ahead[:0]

    def __getstate__(self) -> dict[str, object]:
        """Return the attributes; without a seed no copy has the noise of releases to come."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        if isinstance(self.rng, Unseeded):
            other.forget()
        return vars(other)

    def loss(self, exact: ArrayLike, other: ArrayLike, released: object) -> Cost:
        """Return |R^-1 A Delta|^2 / (2 scale^2) for the differences Delta of all terms so far, few of them not 0."""
        moved = self._bounded(exact) - self._bounded(other)
        users = np.flatnonzero(moved.any(axis=1))
        steps = np.arange(len(moved))[:, None] >= users  # the columns of A of these users
        return gaussian_loss(float(np.linalg.norm(self.whiten(steps.astype(float)) @ moved[users])), self.scale)

    def standardised(self, exact: ArrayLike, released: ArrayLike) -> Floats:
        """Return the noise of all sums as independent standard normals, given all terms so far."""
        noise = np.subtract(released, np.cumsum(self._bounded(exact), axis=0))
        return np.ravel(self.whiten(noise) / self.scale)

    def _bounded(self, terms: ArrayLike) -> Floats:
        """Return terms, clipped as they are added."""
        rows = np.asarray(terms, dtype=np.float64)
        return rows if self.bound == math.inf else np.array([clip(row, self.bound) for row in rows])

    def standard_deviation(self, t: int) -> float:
        """Return the standard deviation of every coordinate's noise in the release after t terms."""
        if count(t=t) > self.horizon:
            raise ValueError(f"t must be at most the horizon {self.horizon}; got {t}.")
        return self.scale * self.row_norm(t)

    @abstractmethod
    def _set_up(self) -> None:
        """Prepare what ``column_norm`` and the noise need; ``horizon`` and ``dim`` are known."""

    @abstractmethod
    def column_norm(self) -> float:
        """Return the largest l2 norm of a column of the encoder C."""

    @abstractmethod
    def row_norm(self, t: int) -> float:
        """Return the l2 norm of row t = 1, ..., T of the decoder R."""

    @abstractmethod
    def whiten(self, series: Floats) -> Floats:
        """Return R^-1 of a series that begins with the first release, shape (n, m): of the noise R Z it leaves Z."""

    @abstractmethod
    def _noise(self, n: int) -> Floats:
        """Return the noise of the releases after t + 1, ..., t + n terms, shape (n, d); called in order."""

    @abstractmethod
    def _encoded(self, row: Floats) -> Floats:
        """Return row t + 1 of C x, given term t + 1, shape (d,); every entry within ``rounding`` of it.

        That is relative to the sum of the sizes of the terms.
        """

    @abstractmethod
    def _decoded(self, row: Floats) -> Floats:
        """Return row t + 1 of R y, given row t + 1 of y, shape (d,)."""


class BinaryTree(Counter):
    """Sums of dyadic blocks with noise of their own; a release adds one block for every binary one of t.

    A user is in one block of every length 1, 2, 4, ..., so the column norm is the square root of the number of levels m
    = floor(log2 T) + 1; the first user attains it. Memory: m d numbers.

    *Formal guarantees.* As ``Counter``, with scale^2 = sensitivity^2 m / (2 rho) for every block.
    """

    def _set_up(self) -> None:
        self.blocks = np.zeros((self.horizon.bit_length(), self.dim))
        self.exact = np.zeros((0 if self.mass is None else len(self.blocks), self.dim))  # blocks without noise

    def column_norm(self) -> float:
        return math.sqrt(self.horizon.bit_length())

    def row_norm(self, t: int) -> float:
        return math.sqrt(int(t).bit_count())

    def whiten(self, series: Floats) -> Floats:
        ends = np.arange(1, len(series) + 1)
        padded = np.concatenate([np.zeros((1, series.shape[1])), series])
        return np.asarray(padded[ends] - padded[ends & (ends - 1)])  # what is left is the block that ends here

    def _noise(self, n: int) -> Floats:
        noise = self.scale * self.rng.standard_normal((n, self.dim))
        for step, t in enumerate(range(self.t + 1, self.t + n + 1)):
            noise[step] = self._ended(t, noise[step])
        return noise

    def _ended(self, t: int, row: Floats) -> Floats:
        """Return the sum of the blocks of which t terms are made, given the one that ends at t."""
        level = (t & -t).bit_length() - 1  # it swallows the shorter ones
        self.blocks[:level] = 0
        self.blocks[level] = row
        return np.asarray(self.blocks.sum(axis=0))

    def _encoded(self, row: Floats) -> Floats:
        t = self.t + 1
        level = (t & -t).bit_length() - 1
        block: Floats = row + self.exact[:level].sum(axis=0)
        self.exact[level] = block
        return block

    def _decoded(self, row: Floats) -> Floats:
        return self._ended(self.t + 1, row)


class SquareRootToeplitz(Counter):
    """R = C = square root of A: the Toeplitz matrix with r_0 = 1, r_k = r_{k-1} (1 - 1/(2k)).

    The noise after t terms is sum_k r_k Z_{t-k}, worked out for many steps at once by Fourier transforms: O(d log T) a
    step on average. Memory: drawn and prepared noise, at most 2 T d numbers. A bandwidth sets r_k = 0 from k =
    bandwidth on and bounds the memory by 3 max(bandwidth, 256) d numbers, but costs noise: at T / 100 it is no better
    than the tree. ``BufferedToeplitz`` bounds the memory at almost no loss.

    *Formal guarantees.* As ``Counter``. The column norm is that of the encoder R^-1 A of the R in use: sqrt(sum r_k^2)
    without a bandwidth; with one, the norm of the solution c of R c = (1, ..., 1).

    Args are those of ``Counter``, and ``bandwidth``: the number of coefficients kept; all of them by default.
    """

    def __init__(
        self,
        horizon: int,
        dim: int,
        sensitivity: float,
        rho: float,
        rng: Generator,
        *,
        bound: float | None = None,
        mass: float | None = None,
        noise: str = "numpy",
        bandwidth: int | None = None,
    ) -> None:
        longest = toeplitz_horizon(horizon)
        kept = longest if bandwidth is None else min(count(bandwidth=bandwidth), longest)
        self.decoder = square_root_coefficients(kept)
        super().__init__(horizon, dim, sensitivity, rho, rng, bound=bound, mass=mass, noise=noise)

    @staticmethod
    def bytes_of(horizon: int, dim: int) -> int:
        """Return how many bytes the noise of a whole stream takes without a bandwidth."""
        return 100 * horizon * dim  # bytes, transforms included

    def _set_up(self) -> None:
        self.drawn, self.prepared = np.zeros((0, self.dim)), np.zeros((0, self.dim))  # Z, and R Z ahead of its release
        self.used = 0
        kept = (0 if self.mass is None else self.horizon), self.dim
        self.taken, self.shown = np.zeros(kept), np.zeros(kept)  # terms, and rows of C x + Z

    @property
    def encoder(self) -> Floats:
        """The first column of R^-1 A, which the later ones repeat from a later start; shape (T,)."""
        if len(self.decoder) == self.horizon:
            return self.decoder
        return np.asarray(scipy.signal.lfilter([1.0], self.decoder, np.ones(self.horizon)))

    def column_norm(self) -> float:
        return float(np.linalg.norm(self.encoder))

    def row_norm(self, t: int) -> float:
        return float(np.linalg.norm(self.decoder[:t]))

    def whiten(self, series: Floats) -> Floats:
        return unfiltered(series, self.decoder[: len(series)])

    def _noise(self, n: int) -> Floats:
        noise = np.empty((n, self.dim))
        done = 0
        while done < n:
            if self.used == len(self.prepared):
                self._prepare(self.horizon - self.t - done)
            step = min(n - done, len(self.prepared) - self.used)
            noise[done : done + step] = self.prepared[self.used : self.used + step]
            self.used += step
            done += step
        return noise

    def _prepare(self, left: int) -> None:
        """Draw one step for each of the past; the sequence does not depend on how it is cut."""
        past = self.drawn[max(len(self.drawn) - len(self.decoder) + 1, 0) :]  # has a part in later releases
        steps = min(max(len(past), STEPS_A_BLOCK), left)
        drawn = np.concatenate([past, self.scale * self.rng.standard_normal((steps, self.dim))])
        told = scipy.signal.oaconvolve(drawn, self.decoder[: len(drawn), None], axes=0)[len(past) : len(drawn)]
        self.prepared, self.drawn, self.used = told.copy(), drawn, 0

    def _encoded(self, row: Floats) -> Floats:
        self.taken[self.t] = row
        return np.asarray(self.encoder[self.t :: -1] @ self.taken[: self.t + 1])

    def _decoded(self, row: Floats) -> Floats:
        self.shown[self.t] = row
        last = self.shown[max(self.t + 1 - len(self.decoder), 0) : self.t + 1]
        return np.asarray(self.decoder[: len(last)][::-1] @ last)

    def forget(self) -> None:
        super().forget()
        self.drawn = self.drawn[: len(self.drawn) - len(self.prepared) + self.used]
        self.prepared, self.used = self.prepared[:0], 0


class BufferedToeplitz(Counter):
    """The square-root Toeplitz counter with its coefficients written as a sum of a few decaying exponentials.

    r_k is approximated by sum_j w_j x_j^k with w_j = (h / pi) sqrt(x_j (1 - x_j)), where the log(x_j / (1 - x_j)) are h
    = 2.5 apart. Each exponential needs one decaying sum of the past noise. Memory: (log(T) + 6) / 2.5 + 1 sums of d
    numbers, half of the tree's; the variance is within 1 % of the exact square root's for T up to 10^6.

    *Formal guarantees.* As ``Counter``, whatever the quality of the approximation: the column norm is that of the
    encoder R~^-1 A.
    """

    def _set_up(self) -> None:
        spacing = 2.5  # h
        u = np.arange(-3.0, math.log(toeplitz_horizon(self.horizon)) + 3 + spacing / 2, spacing)
        self.decay = 1 / (1 + np.exp(-u))
        self.weights = spacing / math.pi * np.sqrt(self.decay * (1 - self.decay))
        self.sums = np.zeros((len(u), self.dim))
        total = self.weights.sum()
        root = np.sqrt(self.weights * self.decay / total)
        self.poles = np.linalg.eigvalsh(np.diag(self.decay) - np.outer(root, root))
        if self.mass is not None:
            self._expand()

    def _expand(self) -> None:
        """Write the coefficients of R~^-1 A as a sum of exponentials, too: c_k = sum_i a_i p_i^k, all a_i > 0.

        Its filter is prod (1 - x_j z^-1) / (sum w (1 - z^-1) prod (1 - p_i z^-1)) over the poles p_i but the first,
        which is 0; a_i are its residues.
        """
        total, poles = self.weights.sum(), np.append(self.poles[1:], 1.0)
        others = np.where(np.eye(len(poles), dtype=bool), 1.0, 1 - poles / poles[:, None])
        residues = np.prod(1 - self.decay / poles[:, None], axis=1) / np.prod(others, axis=1) / total
        rest = np.prod(self.decay / poles) / total  # the coefficient at which the others are not
        self.rates, self.residues = np.append(0.0, poles), np.append(rest, residues)
        self.exact = np.zeros((len(self.rates), self.dim))

    def column_norm(self) -> float:
        """Return the norm of the first column of R~^-1 A, which the later ones repeat from a later start.

        R~ is the filter sum_j w_j / (1 - x_j z^-1): its inverse has the x_j as zeros and the eigenvalues ``poles`` as
        poles.
        """
        if self.mass is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                sums = geometric_sums(np.outer(self.rates, self.rates), self.horizon)
            sums[-1, -1] = self.horizon  # of the rate 1
            return math.sqrt(self.residues @ sums @ self.residues) * (1 + 1e-6)
        first = np.full(self.horizon, 1 / self.weights.sum())
        for zero, pole in zip(self.decay, self.poles, strict=True):
            first = scipy.signal.lfilter([1.0, -zero], [1.0, -pole], first)
        return float(np.linalg.norm(first)) * (1 + 1e-6)  # more than the rounding

    def row_norm(self, t: int) -> float:
        """Return sqrt(sum over k < t of r~_k^2), a double geometric sum."""
        return math.sqrt(self.weights @ geometric_sums(np.outer(self.decay, self.decay), t) @ self.weights)

    def whiten(self, series: Floats) -> Floats:
        coefficients = self.decay ** np.arange(len(series))[:, None] @ self.weights
        return unfiltered(series, coefficients)

    def _noise(self, n: int) -> Floats:
        noise = self.scale * self.rng.standard_normal((n, self.dim))
        for step in range(n):
            noise[step] = self._decoded(noise[step])
        return noise

    def _decoded(self, row: Floats) -> Floats:
        self.sums *= self.decay[:, None]
        self.sums += row
        return np.asarray(self.weights @ self.sums)

    def _encoded(self, row: Floats) -> Floats:
        self.exact *= self.rates[:, None]
        self.exact += row
        return np.asarray(self.residues @ self.exact)


def geometric_sums(ratios: Floats, t: int) -> Floats:
    """Return the sums over k < t of the k-th powers of numbers in [0, 1); NaN of 1."""
    return np.asarray(-np.expm1(t * np.log(ratios)) / (1 - ratios))


def rounding(horizon: int) -> float:
    """Return by how much a row of C x may be off, relative to the sum of the sizes of the terms.

    Each of these is rounded at most 2 T + 64 times on its way, by 2^-53; of trees far less often, and others are not
    longer than 10^8.
    """
    return (horizon + 64) * 2.0**-52


def toeplitz_horizon(horizon: int) -> int:
    """Return a horizon that a Toeplitz counter can be calibrated for.

    Raises:
        ValueError: it is no integer from 1 to 10^8.
    """
    longest = 10**8  # calibration takes 8 to 16 bytes a term
    if count(horizon=horizon) > longest:
        raise ValueError(f"a Toeplitz counter takes horizons up to {longest}, a tree longer ones; got {horizon}.")
    return horizon


def square_root_coefficients(n: int) -> Floats:
    """Return r_0 = 1, r_k = r_{k-1} (1 - 1/(2k)) for k < n: the power series of (1 - z)^(-1/2)."""
    return np.cumprod(np.concatenate([[1.0], 1 - 0.5 / np.arange(1, n)]))


def unfiltered(series: Floats, coefficients: Floats) -> Floats:
    """Return R^-1 series, shape (n, m), for a lower-triangular Toeplitz matrix R with these first coefficients."""
    inverse = scipy.signal.lfilter([1.0], coefficients, np.eye(1, len(series))[0])
    return np.asarray(scipy.signal.oaconvolve(series, inverse[:, None], axes=0)[: len(series)])


def clip(x: Floats, bound: float) -> Floats:
    """Return a finite x scaled down to l2 norm at most ``bound``, without overflow."""
    largest = float(np.abs(x).max(initial=0.0))
    if largest == 0:
        return x
    unit = x / largest
    length = float(np.linalg.norm(unit))
    return x if length * largest <= bound else unit * (bound / length)
