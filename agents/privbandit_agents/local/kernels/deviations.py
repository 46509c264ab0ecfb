"""In which directions users may differ from what public rows tell, and what a user says about them."""

from dataclasses import dataclass

import numpy as np
import scipy

from privbandit_agents.base.agent import Array
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.local.kernels.public import PublicModel

WEIGHTS, DIRECTIONS, SURE = 600, 160, 0.9


@dataclass(frozen=True)
class Deviations:
    """Scores are those of the public model plus m directions times coefficients eta.

    The directions span what public rows leave open and predictions depend on most: with L the precision of the public
    weights and F the Fisher information of a context, they are the vectors a with F a = lambda L a of the largest
    lambda, scaled to a' L a = 1. So eta is standard normal after the public rows.

    Attributes:
        model: of the public rows.
        directions: shape (m, D', K); they weigh the first D' features.
    """

    model: PublicModel
    directions: Floats

    @classmethod
    def of(cls, model: PublicModel, most: int = DIRECTIONS) -> "Deviations":
        labels = model.theta.shape[1]
        dim = max(min(model.features.dim, WEIGHTS // (labels - 1)), 1)
        contrasts = scipy.linalg.helmert(labels).T
        precision = np.eye(dim * (labels - 1)) / model.variance
        precision += information(model.rows[:, :dim], chances(model.rows @ model.theta), contrasts)
        rows = model.features(model.places)
        likely = SURE * chances(rows @ model.theta) + (1 - SURE) / labels
        fisher = information(rows[:, :dim], likely, contrasts) / len(rows)
        size = len(precision)
        which = (max(size - most, 0), size - 1)
        _, vectors = scipy.linalg.eigh(fisher, precision, subset_by_index=which)
        return cls(model, vectors.T[::-1].reshape(-1, dim, labels - 1) @ contrasts.T)

    @property
    def dim(self) -> int:
        return len(self.directions)

    def scores(self, x: Array, eta: Floats) -> Floats:
        """Return the scores of the labels, contexts (n, d) to (n, K)."""
        rows, weights = self.model.features(x), np.tensordot(eta, self.directions, 1)
        return np.asarray(rows @ self.model.theta + rows[:, : len(weights)] @ weights)

    def both(self, x: Array) -> tuple[Floats, Floats]:
        """Return public scores (n, K), and how they move with eta (n, K, m)."""
        rows = self.model.features(x)
        flat = self.directions.transpose(1, 2, 0).reshape(self.directions.shape[1], -1)
        moves = rows[:, : len(flat)] @ flat
        return rows @ self.model.theta, moves.reshape(len(rows), -1, self.dim)


def information(rows: Floats, likely: Floats, contrasts: Floats) -> Floats:
    """Return the Fisher information of the weights on contrasts of the scores, summed over rows (n, D)."""
    n, dim = rows.shape
    spread = likely[:, :, None] * np.eye(likely.shape[1]) - likely[:, :, None] * likely[:, None, :]
    inner = contrasts.T @ spread @ contrasts
    q = inner.shape[1]
    total = np.zeros((dim, q, dim, q))
    for a in range(q):
        for b in range(q):
            total[:, a, :, b] = rows.T @ (inner[:, a, b, None] * rows)
    return total.reshape(dim * q, dim * q)


def chances(scores: Floats) -> Floats:
    return np.asarray(scipy.special.softmax(scores, axis=1))


def said(likely: Floats, moves: Floats, action: Labels) -> tuple[Floats, Floats]:
    """Return the unit vector that an answer is about (n, m), and the probability that it is right (n,).

    It is the slope of the log probability of the label that was given. Where there is none it is 0.
    """
    rows = np.arange(len(action))
    along = moves[rows, action] - np.einsum("nk,nkm->nm", likely, moves)
    norm = np.linalg.norm(along, axis=1, keepdims=True)
    unit = np.divide(along, norm, out=np.zeros_like(along), where=norm > 1e-12)
    return unit, likely[rows, action]
