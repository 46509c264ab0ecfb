"""Directions in which users may differ from the public model, and the information of an answer about them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.spaces import Array
from privbandit_agents.local.kernels.public import PublicModel
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
    def movers(self) -> Floats:
        """The matrix (R, K + K m) from kernel values to public scores and their slopes."""
        dim = self.directions.shape[1]
        slopes = self.directions.transpose(1, 2, 0).reshape(dim, -1)
        mixing = self.model.features.mixing
        return np.concatenate([mixing @ self.model.theta, mixing[:, :dim] @ slopes], axis=1)

    def moving(self, x: Array) -> tuple[Floats, Floats]:
        """Return the public scores of contexts (n, d), shape (n, K), and their slopes in eta, shape (n, K, m)."""
        both, labels = self.model.features.kernels(x) @ self.movers, self.model.theta.shape[1]
        return both[:, :labels], both[:, labels:].reshape(len(both), labels, self.dim)


def information(rows: Floats, likely: Floats, contrasts: Floats) -> Floats:
    """Return the Fisher information of weights on contrasts of scores, summed over rows.

    Args:
        rows: features, shape (n, D).
        likely: probabilities of the labels, shape (n, K).
        contrasts: shape (K, q).

    Returns:
        Matrix of shape (D q, D q), the contrasts of one feature beside each other.
    """
    spread = np.einsum("nk,ka,kb->nab", likely, contrasts, contrasts)
    middle = likely @ contrasts
    spread -= middle[:, :, None] * middle[:, None, :]
    dim, q = rows.shape[1], contrasts.shape[1]
    total = np.empty((dim, q, dim, q))
    for a in range(q):
        for b in range(q):
            total[:, a, :, b] = rows.T @ (spread[:, a, b, None] * rows)
    return total.reshape(dim * q, dim * q)


def chances(scores: Floats) -> Floats:
    """Return the softmax of scores (n, K)."""
    likely = np.exp(scores - np.maximum.reduce(scores, axis=1, keepdims=True))
    likely /= np.add.reduce(likely, axis=1, keepdims=True)
    return np.asarray(likely)


def slopes_of(likely: Floats, moves: Floats, labels: Labels) -> Floats:
    """Return how the log probability of a label moves with eta, shape (n, m).

    Args:
        likely: probabilities of the labels, shape (n, K).
        moves: slopes of the scores, shape (n, K, m).
        labels: shape (n,).
    """
    middle = np.matmul(likely[:, None, :], moves)[:, 0]
    own = moves[:, labels.item()] if len(labels) == 1 else moves[np.arange(len(labels)), labels]
    return np.asarray(own - middle)


def units(vectors: Floats) -> Floats:
    """Return vectors (n, m) of length 1; those that are shorter than 1e-12 become 0."""
    if len(vectors) == 1 and (norm := length(vectors[0])) > 1e-12:
        return np.asarray(vectors / norm)
    norms = lengths(vectors)
    if np.minimum.reduce(norms, axis=None, initial=1.0) > 1e-12:
        return np.asarray(vectors / norms)
    return np.asarray(np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 1e-12))
