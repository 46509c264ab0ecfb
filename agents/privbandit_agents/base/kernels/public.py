"""A kernel model of public rows: features, their weights by cross-validation, and a softmax fitted to the labels."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from privbandit_agents.base.kernels.features import KernelFeatures, PublicFeatures
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.rows import remembered
from privbandit_agents.base.spaces import Array

Block = KernelFeatures | PublicFeatures
Mixture = tuple[tuple[float, float], ...]
"""Kernels by their widths, and the weight of each."""

VARIANCES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Prior variances of a weight that compete; the least one wins that is within half a standard error of the best."""
PLACES = 200
"""Public rows at which a kernel is taken, at most, and features of all kernels."""


@dataclass(frozen=True)
class Features:
    """Features of several kernels and a constant, along the principal axes of public rows, the longest first.

    Attributes:
        blocks: features of each kernel.
        weights: of each kernel, >= 0.
        axes: shape (all of them, D).
    """

    blocks: tuple[Block, ...]
    weights: tuple[float, ...]
    axes: Floats

    @classmethod
    def of(cls, x: Floats, mixture: Mixture) -> "Features":
        """Return the features of public rows (n, d) for kernels of (width, weight)."""
        blocks = tuple(block(x, width) for width, _ in mixture)
        weights = tuple(weight for _, weight in mixture)
        whole = cls(blocks, weights, np.zeros((0, 0)))
        rows = whole.raw(x)
        _, _, axes = scipy.linalg.svd(rows, full_matrices=False)
        return cls(blocks, weights, axes[:PLACES].T)

    @property
    def dim(self) -> int:
        return int(self.axes.shape[1])

    def raw(self, x: Floats) -> Floats:
        parts = [weight**0.5 * features(x) for features, weight in zip(self.blocks, self.weights, strict=True)]
        return np.concatenate([*parts, np.full((len(x), 1), 0.3)], axis=1)

    @remembered
    def kernels(self, x: Array) -> Floats:
        """Return the kernel values that ``mixing`` combines into features, of rows (n, d): shape (n, R)."""
        rows, apart = np.asarray(x, np.float64), None
        parts = []
        for one in self.blocks:
            if isinstance(one, KernelFeatures):  # all at the same places
                apart = one.apart(rows) if apart is None else apart
                parts.append(np.exp(-one.gamma * apart))
            else:
                parts.append(one(rows))
        found = np.empty((len(rows), 1 + sum(part.shape[1] for part in parts)))
        np.concatenate(parts, axis=1, out=found[:, :-1])
        found[:, -1] = 0.3
        return found

    @cached_property
    def mixing(self) -> Floats:
        """The matrix (R, D) from ``kernels`` to features: roots and weights of kernels, and the axes."""
        parts, start = [], 0
        for one, weight in zip(self.blocks, self.weights, strict=True):
            own = self.axes[start : start + one.dim]
            parts.append(weight**0.5 * (one.root @ own if isinstance(one, KernelFeatures) else own))
            start += one.dim
        return np.concatenate([*parts, self.axes[start:]])

    def __call__(self, x: Array) -> Floats:
        """Return the features of rows (n, d), shape (n, D)."""
        return self.kernels(x) @ self.mixing


def block(x: Floats, width: float) -> Block:
    """Return the features of one kernel."""
    if width:
        return KernelFeatures.of(x, width, PLACES)
    return PublicFeatures.of(x)


@dataclass(frozen=True)
class PublicModel:
    """Scores of the labels by public rows alone.

    Attributes:
        features: of a context.
        theta: their weights, shape (D, K).
        variance: of a weight before the rows were seen.
        rows: features of the public rows that were fitted, shape (n, D).
        places: contexts that stand for those of users, shape (m, d).
    """

    features: Features
    theta: Floats
    variance: float
    rows: Floats
    places: Floats

    @classmethod
    def of(cls, x: Array, y: Labels, labels: int) -> "PublicModel":
        """Fit to public rows (n, d) and their labels (n,); of more than 2000, to some at even distances.

        Kernels and variances have the weights that five-fold cross-validation gives them: a kernel's is the likelihood
        of all held-out labels together, which picks one where it is clear, and averages where it is not. Below ten
        rows a linear and a Gaussian kernel have the same weight.
        """
        chosen = spaced(len(y), 2000)
        x, y = np.asarray(x, np.float64)[chosen], np.asarray(y, np.int64)[chosen]
        return fitted(x.tobytes(), y.tobytes(), x.shape, labels)


@lru_cache(maxsize=8)
def fitted(features: bytes, known: bytes, shape: tuple[int, int], labels: int) -> PublicModel:
    """Return the model of public rows; it is remembered, since agents of other seeds and budgets have the same."""
    x, y = np.frombuffer(features).reshape(shape), np.frombuffer(known, np.int64)
    seen = x if len(x) > 1 else default_rng(0).random((PLACES, x.shape[1]))
    mixture: Mixture = (0.0, 0.5), (1.0, 0.5)  # where rows are too few to choose by
    variance = 10.0
    if enough(y):
        few = spaced(len(y))
        mixture, best = mixed(x[few], y[few], labels)
        variance = VARIANCES[best]
    found = Features.of(seen, mixture)
    rows = found(x)
    return PublicModel(found, softmax_fit(rows, y, labels, variance), variance, rows, stand_ins(seen, labels))


def spaced(n: int, most: int = 400) -> NDArray[np.intp]:
    """Return places of at most ``most`` of n rows, at even distances; the default is that of cross-validation."""
    return np.linspace(0, n - 1, min(n, most)).astype(np.intp)


def enough(y: Labels) -> bool:
    """Return whether labels are enough for cross-validation: ten, and two different ones."""
    return len(y) >= 10 and len(np.unique(y)) > 1


def folds(n: int) -> Iterator[NDArray[np.bool_]]:
    """Yield which of n rows are in each of five folds."""
    return (np.arange(n) % 5 == part for part in range(5))


def stand_ins(x: Floats, labels: int) -> Floats:
    """Return public rows, and points between two of them, 500 with few labels and less with many."""
    n = int(np.clip(2000 // labels, 50, 500))
    rng = default_rng(0)
    own = x[spaced(len(x), n // 3)]
    return np.concatenate([own, between(x, n - len(own), rng)])


def between(x: Floats, n: int, rng: Generator) -> Floats:
    """Return n points between two of the public rows (m, d), shape (n, d)."""
    first, second = rng.integers(len(x), size=(2, n))
    share = rng.random((n, 1))
    return np.asarray(share * x[first] + (1 - share) * x[second])


def mixed(x: Floats, y: Labels, labels: int) -> tuple[Mixture, int]:
    """Return kernels (width, weight), and which prior variance, by the likelihood of rows that were left out."""
    widths = (0.0, 0.3, 1.0, 3.0, 8.0)  # gamma in units of 1 / (d variance of the features); 0 is the linear kernel
    found = [held_out(Features.of(x, ((width, 1.0),))(x), y, labels).sum(axis=1) for width in widths]
    best = np.array([likely.max() for likely in found])
    weights = np.exp(best - best.max())
    weights = np.where(weights > 0.01 * weights.sum(), weights, 0.0)
    mixture = tuple((width, float(w)) for width, w in zip(widths, weights / weights.sum(), strict=True) if w)
    likely = held_out(Features.of(x, mixture)(x), y, labels)
    total = likely.sum(axis=1)
    error = likely[total.argmax()].std() * len(y) ** 0.5
    return mixture, int(np.argmax(total >= total.max() - error / 2))


def held_out(rows: Floats, y: Labels, labels: int) -> Floats:
    """Return the log likelihood of every label by the other folds, for each prior variance, shape (variances, n)."""
    likely = np.zeros((len(VARIANCES), len(y)))
    for own in folds(len(y)):
        theta = np.zeros((rows.shape[1], labels))
        for i, variance in enumerate(VARIANCES):
            theta = softmax_fit(rows[~own], y[~own], labels, variance, theta, 30)
            scores = scipy.special.log_softmax(rows[own] @ theta, axis=1)
            likely[i, own] = np.take_along_axis(scores, y[own][:, None], axis=1)[:, 0]
    return likely


def softmax_fit(
    rows: Floats, y: Labels, labels: int, variance: float, start: Floats | None = None, steps: int = 200
) -> Floats:
    """Return the weights (D, K) of the largest posterior density, given features (n, D) and labels (n,).

    Labels that no row has are alike, and have one column of weights.
    """
    unseen = np.setdiff1d(np.arange(labels), y)
    kept = np.delete(np.arange(labels), unseen[1:])
    shape, own = (rows.shape[1], len(kept)), (np.arange(len(y)), np.searchsorted(kept, y))
    alike = np.where(np.isin(kept, unseen), max(len(unseen), 1), 1)
    width = alike**-0.5  # so that a step is the one that all columns would take

    def loss(flat: Floats) -> tuple[float, Floats]:
        scores = rows @ (flat.reshape(shape) * width)
        scores -= scores.max(axis=1, keepdims=True)
        likely = np.exp(scores) * alike
        total = likely.sum(axis=1, keepdims=True)
        value = np.log(total).sum() - scores[own].sum() + flat @ flat / (2 * variance)
        likely /= total
        likely[own] -= 1
        return float(value), ((rows.T @ likely) * width).ravel() + flat / variance

    first = np.zeros(shape) if start is None else start[:, kept] / width
    done = scipy.optimize.minimize(loss, first.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": steps})
    theta = np.empty((rows.shape[1], labels))
    theta[:, kept] = done.x.reshape(shape) * width
    theta[:, unseen] = theta[:, unseen[:1]]
    return theta
