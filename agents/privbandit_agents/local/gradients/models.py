"""Models of two labels: log odds of label 1, gradients of the logistic loss, and fits to public rows."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import Generator
from scipy.special import expit

from privbandit_agents.base.agent import Array
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.local.gradients.features import PublicFeatures, fit

PRETRAINING = 200
"""Most steps of L-BFGS on the public rows."""


class Model(Protocol):
    """Scores of contexts with parameters theta of shape (D,)."""

    def scores(self, contexts: Array, theta: Floats) -> Floats:
        """Return log odds of label 1, contexts (n, d) to (n,)."""

    def gradients(self, contexts: Array, labels: Labels, theta: Floats) -> Floats:
        """Return the gradient of every user's logistic loss, shape (n, D)."""


@dataclass(frozen=True)
class Linear:
    """The score u . theta of features u.

    Attributes:
        features: of a context, from public rows.
    """

    features: PublicFeatures

    def scores(self, contexts: Array, theta: Floats) -> Floats:
        return np.asarray(np.vecdot(self.features(contexts), theta))

    def gradients(self, contexts: Array, labels: Labels, theta: Floats) -> Floats:
        """Return (p - y) u."""
        u = self.features(contexts)
        return np.asarray((expit(np.vecdot(u, theta)) - labels)[:, None] * u)


@dataclass(frozen=True)
class Network:
    """A network with one hidden layer of rectifiers.

    Theta holds the weights (h, D) of the hidden layer, the output's weights (h,), and its offset.

    Attributes:
        features: of a context, from public rows.
        hidden: number of neurons h.
    """

    features: PublicFeatures
    hidden: int

    def scores(self, contexts: Array, theta: Floats) -> Floats:
        return self.forward(self.features(contexts), theta)[1]

    def gradients(self, contexts: Array, labels: Labels, theta: Floats) -> Floats:
        return self.backward(self.features(contexts), labels, theta)

    def pretrained(self, features: Floats, labels: Labels, ridge: float, rng: Generator) -> Floats:
        """Return a stationary point of the regularised loss on public rows, found from random normal weights.

        Without public rows of both labels these weights themselves are returned.

        Args:
            features: shape (n, D).
            labels: 0 or 1, shape (n,).
            ridge: > 0.
            rng: of the weights.
        """
        start = normal_start(self.hidden, features.shape[1], rng)
        return fit(
            start,
            labels,
            ridge,
            score=lambda theta: self.forward(features, theta)[1],
            gradient=lambda theta: self.summed_gradient(features, labels, theta),
            steps=PRETRAINING,
        )

    def split(self, theta: Floats) -> tuple[Floats, Floats, np.float64]:
        """Return the hidden weights (h, D), the output's weights (h,) and its offset."""
        inner = len(theta) - self.hidden - 1
        return theta[:inner].reshape(self.hidden, -1), theta[inner:-1], theta[-1]

    def forward(self, features: Floats, theta: Floats) -> tuple[Floats, Floats]:
        """Return the hidden layer (n, h) and the scores (n,)."""
        inner, outer, offset = self.split(theta)
        layer = np.maximum(features @ inner.T, 0.0)
        return layer, np.asarray(layer @ outer + offset)

    def backward(self, features: Floats, labels: Labels, theta: Floats) -> Floats:
        """Return every row's gradient, shape (n, D)."""
        layer, score = self.forward(features, theta)
        residual = expit(score) - labels
        inner = (residual[:, None] * (layer > 0) * self.split(theta)[1])[:, :, None] * features[:, None, :]
        outer = residual[:, None] * layer
        return np.concatenate([inner.reshape(len(features), -1), outer, residual[:, None]], axis=1)

    def summed_gradient(self, features: Floats, labels: Labels, theta: Floats) -> Floats:
        """Return the sum of the rows' gradients, shape (D,), without a copy of theta for each row."""
        layer, score = self.forward(features, theta)
        residual = expit(score) - labels
        inner = (residual[:, None] * (layer > 0) * self.split(theta)[1]).T @ features
        return np.concatenate([inner.ravel(), residual @ layer, [residual.sum()]])


def normal_start(hidden: int, dim: int, rng: Generator) -> Floats:
    """Return normal weights, of variance 2 / D in the hidden layer and 1 / h in the output, whose offset is 0."""
    inner = rng.standard_normal(hidden * dim) * (2 / dim) ** 0.5
    return np.concatenate([inner, rng.standard_normal(hidden) / hidden**0.5, np.zeros(1)])
