"""Choices under the multinomial-logit model: storing them, and the likelihood of theta."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.agent import Stateful
from privbandit_agents.rows import Rows

Array = NDArray[Any]
Floats = NDArray[np.float64]


class Choices(Stateful):
    """What users were offered and what they bought; smaller sets are padded with items that cannot be bought.

    Args:
        capacity: largest size K of a set.
        dim: number of features d.
    """

    def __init__(self, capacity: int, dim: int) -> None:
        """Start empty."""
        self.features = Rows((capacity, dim), np.float64)
        self.offered = Rows((capacity,), np.bool_)
        self.bought = Rows((), np.int64)

    def __len__(self) -> int:
        """Return the number of users."""
        return len(self.bought)

    def append(self, contexts: Array, sets: Array, purchases: Array) -> None:
        """Add n users: contexts (n, N, d + 1), 0/1 sets (n, N), purchased items or -1 (n,)."""
        capacity, dim = self.features.array.shape[1:]
        order = np.argsort(-np.asarray(sets, dtype=np.int8), axis=1, kind="stable")[
            :, :capacity
        ]  # the offered items come first, in order
        offered = np.take_along_axis(sets, order, axis=1) > 0
        features = np.take_along_axis(contexts[..., :dim], order[..., None], axis=1)
        self.features.append(np.where(offered[..., None], features, 0.0))
        self.offered.append(offered)
        position = (order == np.asarray(purchases)[:, None]).argmax(axis=1)
        self.bought.append(np.where(np.asarray(purchases) < 0, -1, position))

    def fit(self, theta: Floats, ridge: float, tolerance: float = 1e-8, steps: int = 50) -> Floats:
        """Return the maximum-likelihood theta with penalty ridge |theta|^2 / 2, by Newton's method with halving."""
        loss, gradient, hessian = self.likelihood(theta, ridge)
        for _ in range(steps):
            if np.linalg.norm(gradient) <= tolerance * len(self):
                break
            step = np.linalg.solve(hessian, gradient)
            for halving in range(30):
                moved = theta - step * 0.5**halving
                following = self.likelihood(moved, ridge)
                if following[0] <= loss:
                    break
            theta, (loss, gradient, hessian) = moved, following
        return theta

    def likelihood(self, theta: Floats, ridge: float) -> tuple[float, Floats, Floats]:
        """Return the penalised negative log-likelihood, its gradient (d,) and its Hessian (d, d)."""
        x, bought = self.features.view(), self.bought.view()
        n, capacity, dim = x.shape
        flat = x.reshape(-1, dim)
        utilities = np.where(self.offered.view(), (flat @ theta).reshape(n, capacity), -np.inf)
        highest = np.maximum(utilities.max(axis=1), 0.0)  # the utility of buying nothing is 0
        weights = np.exp(utilities - highest[:, None])
        total = weights.sum(axis=1) + np.exp(-highest)
        p = weights / total[:, None]
        buyers = np.flatnonzero(bought >= 0)
        chosen = bought[buyers]
        mean = np.einsum("nk,nkd->nd", p, x)
        loss = (highest + np.log(total)).sum() - utilities[buyers, chosen].sum() + ridge / 2 * theta @ theta
        gradient = mean.sum(axis=0) - x[buyers, chosen].sum(axis=0) + ridge * theta
        hessian = (flat * p.reshape(-1, 1)).T @ flat - mean.T @ mean + ridge * np.eye(dim)
        return float(loss), gradient, hessian
