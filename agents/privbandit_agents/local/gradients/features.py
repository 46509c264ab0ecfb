"""Features for linear classifiers, standardised by public data, and logistic regression on public rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from privbandit_agents.base.agent import Array
from privbandit_agents.base.labels import Floats, Labels

Function = Callable[[Floats], Floats]
CLIP = 3.0
"""Standardised features are clipped to [-3, 3]."""
LEAST = 1e-3
"""Columns of the unit cube whose public standard deviation is smaller are only centred."""
UNIFORM = 12**-0.5
"""Standard deviation of a uniform feature, in place of one that no public row shows."""


@dataclass(frozen=True)
class PublicFeatures:
    """Standardise by public means and deviations, clip, append 1, and scale every row to norm 1, or all by a constant.

    *Formal guarantees.* A function of public data that is applied to one row at a time. With ``unit`` every row has
    norm 1; else its norm is at most 3 sqrt(d) + 1.

    Attributes:
        mean: shape (d,).
        deviation: shape (d,), > 0.
        unit: whether rows have norm 1.
    """

    mean: Floats
    deviation: Floats
    unit: bool = True

    @classmethod
    def of(cls, x: Array, unit: bool = True) -> Self:
        """Read the statistics off public rows (n, d); without any, those of uniform features."""
        rows = np.asarray(x, np.float64)
        if not len(rows):
            return cls(np.full(rows.shape[1], 0.5), np.full(rows.shape[1], UNIFORM), unit)
        deviation = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(deviation > LEAST, deviation, 1.0), unit)

    @property
    def dim(self) -> int:
        """The number of features, d + 1."""
        return len(self.mean) + 1

    def __call__(self, x: Array) -> Floats:
        """Return the features of rows (n, d), shape (n, d + 1)."""
        standard = np.clip((np.asarray(x, np.float64) - self.mean) / self.deviation, -CLIP, CLIP)
        rows = np.concatenate([standard, np.ones((len(standard), 1))], axis=1)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True) if self.unit else rows


def logistic_fit(features: Floats, labels: Labels, ridge: float) -> Floats:
    """Return the minimiser of the sum of logistic losses plus ridge/2 |theta|^2; 0 unless there are two labels.

    Args:
        features: shape (n, D).
        labels: 0 or 1, shape (n,).
        ridge: > 0.
    """
    start = np.zeros(features.shape[1])
    return fit(start, labels, ridge, features.__matmul__, lambda theta: features.T @ (expit(features @ theta) - labels))


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

    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": steps}).x)
