"""What one user contributes to a linear regression: its statistics as one vector of bounded norm."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

from privbandit_agents.privacy._validate import positive
from privbandit_agents.privacy.vectors import LIMIT, above_diagonal, length, lengths, modest, smat, svec

Array = NDArray[Any]
Floats = NDArray[np.float64]
WEIGHT = math.sqrt(0.5)
"""Weight of the second moment beside the first; the largest for which the sensitivity is that of the first alone."""
SENSITIVITY = 2.0 * (1 + 1e-12)
"""Of packed records: 2 in real numbers, and what rounding adds."""
WEIGHED = math.sqrt(5.0) * (1 + 1e-12)
"""The same of records that are weighed by information, at a weight of 1: no longer 2, since lengths do not cancel."""
NORM, ROOT = math.sqrt(1.5), math.sqrt(2)


def sanitise(features: ArrayLike, reward: ArrayLike) -> tuple[Floats, Floats]:
    """Return features (n, d) with norm at most 1 and rewards (n,) in [-1, 1], in float64.

    Records with an entry that is not finite become (0, 0); entries are clipped to +-1e6 and the features then scaled
    into the unit ball.
    """
    x, y = np.asarray(features, dtype=np.float64), np.asarray(reward, dtype=np.float64)
    one = y.shape == (1,)  # numbers are quicker than arrays of one
    if one and abs(y.item()) <= 1.0 and modest(x, 1 - 1e-9):
        return x, y  # they are inside
    if not (modest(x, LIMIT) and (-LIMIT <= y.item() <= LIMIT if one else modest(y, LIMIT))):
        bad = ~(np.isfinite(x).all(axis=-1) & np.isfinite(y))
        x = np.clip(np.where(bad[..., None], 0.0, x), -LIMIT, LIMIT)
        y = np.where(bad, 0.0, y)
    if one:
        norm, answer = length(x[0]), y.item()
        return x / norm if norm > 1 else x, y if -1 <= answer <= 1 else np.array([min(max(answer, -1.0), 1.0)])
    return x / np.maximum(lengths(x), 1.0), np.minimum(np.maximum(y, -1.0), 1.0)


def sanitise_apart(features: ArrayLike, reward: ArrayLike) -> tuple[Floats, Floats]:
    """Return features and rewards as ``sanitise`` does, but each by itself: no reward changes the features.

    Features with an entry that is not finite become 0 whatever the reward is, and a reward that is not finite becomes 0
    whatever the features are.
    """
    x, _ = sanitise(features, np.zeros(np.shape(reward)))
    y = np.asarray(reward, dtype=np.float64)
    return x, np.clip(np.where(np.isfinite(y), y, 0.0), -1.0, 1.0)


def pack(features: ArrayLike, reward: ArrayLike) -> Floats:
    """Return z = (y x, w svec(x x')), shape (n, d + d (d + 1) / 2), for sanitised features x (n, d) and rewards y (n,).

    *Formal guarantees.* |z| <= sqrt(1 + w^2) and, replacing the whole record, |z - z'| <= 2, for any input whatever;
    attained by (x, 1) against (x, -1) with |x| = 1. Rounding may add a few 2^-53 a coordinate, which ``SENSITIVITY``
    covers. Proof: docs/privacy/regression-moments.md.
    """
    return Lifted.packed(*sanitise(features, reward)).dense()


@dataclass(slots=True)
class Lifted:
    """The vectors (head, w svec(x x'), tail) of n users, by their factors: no user takes d^2 numbers until ``dense``.

    Attributes:
        head: shape (n, a).
        x: shape (n, d).
        weight: w > 0.
        tail: shape (n, b); None: b = 0.
    """

    head: Floats
    x: Floats
    weight: float = WEIGHT
    tail: Floats | None = None

    @classmethod
    def packed(cls, x: Floats, y: Floats, tail: Floats | None = None) -> "Lifted":
        """Return what ``pack`` makes of sanitised features (n, d) and rewards (n,), and more numbers behind it."""
        return cls(y[..., None] * x, x, tail=tail)

    def __len__(self) -> int:
        return len(self.head)

    def __getitem__(self, rows: Any) -> "Lifted":
        return Lifted(self.head[rows], self.x[rows], self.weight, None if self.tail is None else self.tail[rows])

    @property
    def size(self) -> int:
        """The length D of a vector."""
        d = self.x.shape[1]
        return int(self.head.shape[1] + d * (d + 1) // 2 + (0 if self.tail is None else self.tail.shape[1]))

    def dense(self) -> Floats:
        """Return the vectors, shape (n, D)."""
        (users, first), x, d, tail = self.head.shape, self.x, self.x.shape[1], self.tail
        if not d and tail is None:
            return self.head
        last = first + d * (d + 1) // 2
        vectors = np.empty((users, last if tail is None else last + tail.shape[1]))
        vectors[:, :first] = self.head
        np.multiply(x, x, out=vectors[:, first : first + d])
        rows, columns = above_diagonal(d)
        above = np.multiply(x.take(rows, axis=1), x.take(columns, axis=1), out=vectors[:, first + d : last])
        above *= ROOT
        products = vectors[:, first:last]
        products *= self.weight
        if tail is not None:
            vectors[:, last:] = tail
        return vectors

    def sum(self, weights: Floats | None = None) -> Floats:
        """Return the sum of the vectors, each times its weight, shape (D,): one product of matrices."""
        weights = np.ones(len(self)) if weights is None else weights
        parts = [weights @ self.head, self.weight * svec(self.x.T @ (weights[:, None] * self.x))]
        return np.concatenate(parts if self.tail is None else [*parts, weights @ self.tail])

    def times(self, vector: Floats) -> Floats:
        """Return the inner products with a vector (D,), shape (n,)."""
        first, d = self.head.shape[1], self.x.shape[1]
        last = first + d * (d + 1) // 2
        along = self.head @ vector[:first] + self.weight * np.vecdot(self.x @ smat(vector[first:last]), self.x)
        return np.asarray(along if self.tail is None else along + self.tail @ vector[last:])

    def gram(self) -> Floats:
        """Return the inner products of the vectors, shape (n, n)."""
        products = self.head @ self.head.T + (self.weight * (self.x @ self.x.T)) ** 2
        return np.asarray(products if self.tail is None else products + self.tail @ self.tail.T)


def weighed(x: Floats, y: Floats, stretch: Floats) -> tuple[Floats, Floats]:
    """Return sqrt(b) v and (a / sqrt(b)) y of sanitised records: r v = S x, |v| = 1, a = min(1, 1/r), b = min(1, r).

    Their products are a y v and b v v': a vector z = (a y v, svec(b v v')), whose weights are by information.

    *Formal guarantees.* |z - z'| <= sqrt(5) for any two records and any S, which ``WEIGHED`` declares, and not 2:
    approached by y = 1 at r -> 0, where z = (v, 0), against y = -1 at r = 1 in the same direction, where z = (-v,
    svec(v v')). A record with r < 1e-9 counts as 0. Proof: docs/privacy/regression-moments.md.

    Args:
        x: shape (n, d).
        y: shape (n,).
        stretch: S, shape (d, d).
    """
    v = np.vecdot(x[:, None, :], stretch)
    long = lengths(v)
    v /= np.where(long > 1e-9, long, np.inf)
    root = np.sqrt(np.minimum(np.maximum(long, 1e-9), 1.0))
    return root * v, y / (np.maximum(long, 1.0) * root)[:, 0]


def sensitivity(users: int, at_once: int, moved: float = SENSITIVITY) -> float:
    """Return how far replacing one record moves a sum of packed records over ``users`` users, as floats add it up.

    *Formal guarantees.* ``moved``, and the rounding of two sums of z z' over z = (x, y) that are added up by
    products of ``at_once`` rows, one after the other. Proof: docs/privacy/regression-moments.md.
    """
    return moved + 5 * users * (at_once + -(-users // at_once) + 8) * 2.0**-53


def mass(users: int) -> float:
    """Return a bound on the total l2 norm of sums of packed records, over disjoint groups of ``users`` users."""
    return 1.01 * NORM * users


def packed_sum(products: Floats, weight: float = WEIGHT) -> Floats:
    """Return the sum of (y x, weight svec(x x')), given that of z z' over z = (x, y), shape (..., d + 1, d + 1)."""
    return np.concatenate([products[..., :-1, -1], weight * svec(products[..., :-1, :-1])], axis=-1)


def unpack(packed: Floats, dim: int) -> tuple[Floats, Floats]:
    """Return (sum of x x', sum of y x) from a sum of packed records, shapes (d, d) and (d,)."""
    return smat(packed[dim:] / WEIGHT), packed[:dim]


def noise_of_gram(sigma: float) -> float:
    """Return the standard deviation of an off-diagonal entry of the Gram matrix, given that of a packed coordinate.

    A diagonal entry has sqrt(2) times that: the Gaussian orthogonal ensemble, whose spectral norm is close to 2 sqrt(d)
    times the value returned.
    """
    return sigma / (WEIGHT * math.sqrt(2))


def packed_size(dim: int) -> int:
    return dim + dim * (dim + 1) // 2


def perturbed_ridge(packed: Floats, dim: int, sigma: float, shift: float) -> tuple[Floats, Floats, float]:
    """Return (R, theta, lambda) with R' R = A^-1, A = Gram + lambda I and theta = A^-1 moment, from noisy sums.

    lambda = 1 + shift 2 sqrt(d) s, where s is the noise of an off-diagonal Gram entry. As 2 sqrt(d) s is close to
    the spectral norm of the noise, shift = 1 covers it in about nine of ten cases; an eigenvalue below 1 all the
    same is raised to it. Post-processing: reads the noisy sums and public constants only.

    Args:
        packed: the noisy sum, shape (d + d (d + 1) / 2,), or one for each model, (models, ...).
        dim: d.
        sigma: standard deviation of the noise in each packed coordinate.
        shift: >= 0.

    Returns:
        R, shape (d, d) or (models, d, d); theta, (d,) or (models, d); and lambda, of all models.
    """
    added = 1 + shift * 2 * math.sqrt(dim) * noise_of_gram(sigma)
    a = smat(packed[..., dim:] / WEIGHT) + added * np.eye(dim)
    if a.ndim == 2:
        return *raised_solution(a, packed[:dim], 1.0), added
    solved = [raised_solution(one, part[:dim], 1.0) for one, part in zip(a, packed, strict=True)]
    return np.array([root for root, _ in solved]), np.array([theta for _, theta in solved]), added


def inverse_root(a: Floats) -> Floats:
    """Return the lower triangular R with R' R = A^-1, shape (..., d, d), of positive definite matrices."""
    roots = np.linalg.cholesky(a)
    if a.ndim == 2:
        return np.asarray(dtrtri(roots, lower=1)[0])
    return np.array([dtrtri(root, lower=1)[0] for root in roots])


def raised_solution(a: Floats, moment: Floats, least: float) -> tuple[Floats, Floats]:
    """Return (R, A^-1 moment), R' R = A^-1, where eigenvalues of A, (d, d), below ``least`` > 0 were raised to it."""
    root, failed = dpotrf(a, lower=1)
    if not failed:
        inverse = dtrtri(root, lower=1)[0]
        # no eigenvalue is below 1 over the trace of the inverse; and a root of A - least I exists if all are above
        if least * np.vdot(inverse, inverse) < 1 or not dpotrf(a - least * np.eye(len(a)), lower=1)[1]:
            return inverse, dpotrs(root, moment, lower=1)[0]
    values, vectors = np.linalg.eigh(a)
    values = np.maximum(values, least)
    return (vectors / np.sqrt(values)).T, vectors @ (vectors.T @ moment / values)


@dataclass(frozen=True)
class Moments:
    """The statistics (1, y x, x x') of a regression as one vector of the unit ball, and back.

    z = (w0, w1 y x / Y, w2 svec(x x')) with w0^2 + w1^2 + w2^2 = 1.

    >>> packed = Moments(features=2).pack([[0.6, 0.8]], [1.0])
    >>> packed.shape, round(float(np.linalg.norm(packed)), 6)
    ((1, 6), 1.0)

    *Formal guarantees.* |z| <= 1 for every record: x is scaled down to the unit ball and y clipped to [-Y, Y]; a record
    with NaN or infinity counts as x = 0, y = 0. ``unpack`` is post-processing.

    Attributes:
        features: d.
        bound: Y > 0.
        weights: proportional to (w0, w1, w2), each > 0; a small first one leaves the count to drown in noise.
    """

    features: int
    bound: float = 1.0
    weights: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        positive(bound=self.bound)
        largest = max(positive(weight=weight) for weight in self.weights)
        norm = largest * math.hypot(*(weight / largest for weight in self.weights))
        object.__setattr__(self, "weights", tuple(weight / norm for weight in self.weights))

    @property
    def dim(self) -> int:
        return 1 + self.features + self.features * (self.features + 1) // 2

    def pack(self, x: Array, y: Array) -> Floats:
        """Return z, shape (n, D), of features x (n, d) and responses y (n,)."""
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        if x.ndim != 2 or x.shape[1] != self.features or y.shape != x.shape[:1]:
            raise ValueError(f"x and y must have shapes (n, {self.features}) and (n,); got {x.shape}, {y.shape}.")
        whole = np.isfinite(x).all(axis=1) & np.isfinite(y)
        x, y = np.clip(np.where(whole[:, None], x, 0.0), -1e100, 1e100), np.where(whole, y, 0.0)  # no norm overflows
        x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)
        y = np.clip(y, -self.bound, self.bound) / self.bound
        w0, w1, w2 = self.weights
        gram = svec(x[:, :, None] * x[:, None, :])
        return np.concatenate([np.full((len(x), 1), w0), w1 * y[:, None] * x, w2 * gram], axis=1)

    def unpack(self, estimates: Array) -> tuple[Floats, Floats, Floats]:
        """Return (count (...), sum of y x (..., d), sum of x x' (..., d, d)) of sums of z, shape (..., D)."""
        w0, w1, w2 = self.weights
        moment, gram = estimates[..., 1 : 1 + self.features], estimates[..., 1 + self.features :]
        return estimates[..., 0] / w0, moment * self.bound / w1, smat(gram / w2)
