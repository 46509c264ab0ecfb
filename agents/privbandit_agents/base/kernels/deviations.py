"""Directions in which users may differ from the public model, and the information of an answer about them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from privbandit_agents.base.kernels.public import PublicModel
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.spaces import Array
from privbandit_agents.privacy.vectors import length, lengths


@dataclass(frozen=True)
class Deviations:
    """Scores of the labels are those of the public model, plus m directions times coefficients eta.

    Public rows leave these directions open, and predictions depend on them most. With L the precision of the weights
    after the public rows and F the Fisher information in a context, they are the vectors a with F a = lambda L a of
    the largest lambda, of length a' L a = 1. So eta is standard normal before any private report.

    Attributes:
        model: of the public rows.
        directions: weights of the first D' features for each label, shape (m, D', K).
    """

    model: PublicModel
    directions: Floats

    @classmethod
    def of(cls, model: PublicModel, most: int) -> "Deviations":
        """Choose at most ``most`` directions."""
        labels = model.theta.shape[1]
        # 900 weights at most, over features and contrasts of labels
        dim = max(min(model.features.dim, 900 // (labels - 1)), 1)
        contrasts = scipy.linalg.helmert(labels).T
        # what the public rows leave open
        precision = information(model.rows[:, :dim], chances(model.rows @ model.theta), contrasts)
        precision[np.diag_indices_from(precision)] += 1 / model.variance
        # what predictions depend on
        rows = model.features(model.places)
        # no direction is left out because the public model is certain
        likely = 0.9 * chances(rows @ model.theta) + (1 - 0.9) / labels
        fisher = information(rows[:, :dim], likely, contrasts) / len(rows)
        size = len(precision)
        _, vectors = scipy.linalg.eigh(fisher, precision, subset_by_index=(max(size - most, 0), size - 1))
        return cls(model, vectors.T[::-1].reshape(-1, dim, labels - 1) @ contrasts.T)

    @property
    def dim(self) -> int:
        return len(self.directions)

    def scorer(self, eta: Floats) -> Floats:
        """Return the matrix (R, K) from kernel values to scores of the labels."""
        theta = self.model.theta.copy()
        added = np.tensordot(eta, self.directions, 1)
        theta[: len(added)] += added
        return np.asarray(self.model.features.mixing @ theta)

    @cached_property
    def public(self) -> Floats:
        """The matrix (R, K) from kernel values to the public scores."""
        return np.asarray(self.model.features.mixing @ self.model.theta)

    @cached_property
    def mixing(self) -> Floats:
        """The matrix (R, D') from kernel values to the features that directions weigh."""
        return np.ascontiguousarray(self.model.features.mixing[:, : self.directions.shape[1]])

    def parts(self, x: Array) -> tuple[Floats, Floats]:
        """Return the public scores of contexts (n, d), shape (n, K), and what directions weigh, shape (n, D')."""
        kernels = self.model.features.kernels(x)
        return kernels @ self.public, kernels @ self.mixing

    def moved(self, eta: Floats, spread: Floats) -> tuple[Floats, Floats]:
        """Return what eta of this mean and covariance adds to scores, by features.

        Returns:
            The matrix (D', K) of the mean, and the one (D', D') of the variance, summed over the labels.
        """
        apart = np.tensordot(spread, self.directions, 1)
        return np.tensordot(eta, self.directions, 1), np.tensordot(self.directions, apart, ((0, 2), (0, 2)))

    def slopes(self, likely: Floats, phi: Floats, labels: Labels) -> Floats:
        """Return how the log probability of a label moves with eta, shape (n, m).

        Args:
            likely: probabilities of the labels, shape (n, K).
            phi: what directions weigh, shape (n, D').
            labels: shape (n,).
        """
        apart = -likely
        apart[np.arange(len(labels)), labels] += 1
        if len(phi) == 1:
            return np.asarray((self.directions @ apart[0]) @ phi[0])[None]
        weighed = (phi[:, :, None] * apart[:, None]).reshape(len(phi), -1)
        return np.asarray(weighed @ self.directions.reshape(self.dim, -1).T)


def information(rows: Floats, likely: Floats, contrasts: Floats) -> Floats:
    """Return the Fisher information of weights on contrasts of scores, summed over rows.

    Args:
        rows: features, shape (n, D).
        likely: probabilities of the labels, shape (n, K).
        contrasts: shape (K, q).

    Returns:
        Matrix of shape (D q, D q), the contrasts of one feature beside each other.
    """
    middle, (dim, q) = likely @ contrasts, (rows.shape[1], contrasts.shape[1])
    total = np.empty((dim, q, dim, q))
    if dim < q:
        for i, j in np.ndindex(dim, dim):
            both = rows[:, i] * rows[:, j]
            spread = (contrasts.T * (both @ likely)) @ contrasts
            total[i, :, j] = spread - middle.T @ (both[:, None] * middle)
    else:
        for a, b in np.ndindex(q, q):
            spread = likely @ (contrasts[:, a] * contrasts[:, b]) - middle[:, a] * middle[:, b]
            total[:, a, :, b] = rows.T @ (spread[:, None] * rows)
    return total.reshape(dim * q, dim * q)


def chances(scores: Floats) -> Floats:
    """Return the softmax of scores (n, K)."""
    likely = np.exp(scores - np.maximum.reduce(scores, axis=1, keepdims=True))
    likely /= np.add.reduce(likely, axis=1, keepdims=True)
    return np.asarray(likely)


def units(vectors: Floats) -> Floats:
    """Return vectors (n, m) of length 1; those that are shorter than 1e-12 become 0."""
    if len(vectors) == 1 and (norm := length(vectors[0])) > 1e-12:
        return np.asarray(vectors / norm)
    norms = lengths(vectors)
    if np.minimum.reduce(norms, axis=None, initial=1.0) > 1e-12:
        return np.asarray(vectors / norms)
    return np.asarray(np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 1e-12))
