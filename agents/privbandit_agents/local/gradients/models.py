"""Models of two labels on features standardized by public data, and their fits to public rows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import scipy
from numpy.random import Generator

from privbandit_agents.base.kernels.features import PublicFeatures
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.spaces import Array

Function = Callable[[Floats], Floats]


def logistic_fit(features: Floats, labels: Labels, ridge: float) -> Floats:
    """Return the minimiser of the sum of logistic losses plus ridge/2 |theta|^2; 0 unless there are two labels.

    Args:
        features: shape (n, D).
        labels: 0 or 1, shape (n,).
        ridge: > 0.
    """
    start = np.zeros(features.shape[1])
    return fit(
        start,
        labels,
        ridge,
        features.__matmul__,
        lambda theta: features.T @ (scipy.special.expit(features @ theta) - labels),
    )


def fit(start: Floats, labels: Labels, ridge: float, score: Function, gradient: Function, steps: int = 500) -> Floats:
    """Return a stationary point of the logistic loss plus ridge/2 |theta|^2; ``start`` unless there are two labels.

    Args:
        start: theta, shape (D,).
        labels: 0 or 1, shape (n,).
        ridge: > 0.
        score: from theta to the rows' log odds of label 1, shape (n,).
        gradient: from theta to the gradient of the sum of losses, shape (D,).
        steps: most steps of L-BFGS.
    """
    if len(np.unique(labels)) < 2:
        return start

    def loss(theta: Floats) -> tuple[float, Floats]:
        value = np.logaddexp(0, np.where(labels == 1, -1, 1) * score(theta)).sum() + ridge / 2 * theta @ theta
        return float(value), gradient(theta) + ridge * theta

    return np.asarray(scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": steps}).x)


@dataclass(frozen=True)
class Linear:
    """The score u . theta of the features u of a context; the loss has the gradient (p - y) u."""

    features: PublicFeatures

    def scores(self, contexts: Array, theta: Floats) -> Floats:
        """Return log odds of label 1, contexts (n, d) to (n,)."""
        return np.asarray(np.vecdot(self.features(contexts), theta))

    def gradients(self, contexts: Array, labels: Labels, theta: Floats) -> Floats:
        """Return the gradient of every user's logistic loss, shape (n, D)."""
        u = self.features(contexts)
        return np.asarray((scipy.special.expit(np.vecdot(u, theta)) - labels)[:, None] * u)

    def score(self, u: Floats, theta: Floats) -> float:
        """Return the log odds of one user with the features u, shape (D,)."""
        return float(np.vecdot(u, theta))

    def gradient(self, u: Floats, label: int, theta: Floats) -> Floats:
        """Return the gradient of one user, shape (D,)."""
        return np.asarray((scipy.special.expit(np.vecdot(u, theta)) - label) * u)


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
        """Return a stationary point of the regularized loss on public rows, found from random normal weights.

        They have variance 2 / D in the hidden layer and 1 / h in the output; the output's offset is 0.
        Without public rows of both labels these weights themselves are returned.

        Args:
            features: shape (n, D).
            labels: 0 or 1, shape (n,).
            ridge: > 0.
            rng: of the weights.
        """
        h, dim = self.hidden, features.shape[1]
        inner = rng.standard_normal(h * dim) * (2 / dim) ** 0.5
        start = np.concatenate([inner, rng.standard_normal(h) / h**0.5, np.zeros(1)])
        gradient = partial(self.summed_gradient, features, labels)
        return fit(start, labels, ridge, lambda theta: self.forward(features, theta)[1], gradient, steps=200)

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
        layer, score = self.forward(features, theta)
        residual = scipy.special.expit(score) - labels
        inner = (residual[:, None] * (layer > 0) * self.split(theta)[1])[:, :, None] * features[:, None, :]
        outer = residual[:, None] * layer
        return np.concatenate([inner.reshape(len(features), -1), outer, residual[:, None]], axis=1)

    def score(self, u: Floats, theta: Floats) -> float:
        return float(self.forward(u[None], theta)[1][0])

    def gradient(self, u: Floats, label: int, theta: Floats) -> Floats:
        layer, score = self.forward(u[None], theta)
        residual, layer = scipy.special.expit(score[0]) - label, layer[0]
        found = np.empty(len(theta))
        inner, outer, _ = self.split(found)
        np.multiply((residual * (layer > 0) * self.split(theta)[1])[:, None], u, out=inner)
        np.multiply(residual, layer, out=outer)
        found[-1] = residual
        return found

    def summed_gradient(self, features: Floats, labels: Labels, theta: Floats) -> Floats:
        """Return the sum of the rows' gradients, shape (D,), without a copy of theta for each row."""
        layer, score = self.forward(features, theta)
        residual = scipy.special.expit(score) - labels
        inner = (residual[:, None] * (layer > 0) * self.split(theta)[1]).T @ features
        return np.concatenate([inner.ravel(), residual @ layer, [residual.sum()]])


Model: TypeAlias = Linear | Network
