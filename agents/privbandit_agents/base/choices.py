"""Users' choices from assortments: offering sets, laying out the offers, and the likelihood of theta."""

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.base.rows import Rows, uniforms_per_user
from privbandit_agents.base.spaces import Array, Space
from privbandit_agents.base.ties import Ties, redrawn
from privbandit_agents.privacy.vectors import modest
from privbandit_envs.families.mnl import attraction, best_assortment
from privbandit_envs.spaces import Assortments, top_k

Floats = NDArray[np.float64]
Past = tuple[Floats, Floats, int]
"""H, b and the number of all users, where the loss of earlier users is theta'H theta / 2 - b'theta."""


class LaidOut(NamedTuple):
    """What n users were offered and bought; items that were not on offer are left out.

    Attributes:
        features: of the offered items in order, zeros behind them, shape (n, K, d).
        offered: whether there is an item, shape (n, K).
        bought: position of the purchased item, or -1, shape (n,).
    """

    features: Floats
    offered: NDArray[np.bool_]
    bought: NDArray[np.intp]


def sizes(observation_space: Space, action_space: Space) -> tuple[int, int, int]:
    """Return the numbers of items N, of items in a set K, and of features d."""
    assert isinstance(action_space, Assortments) and observation_space.shape is not None
    return action_space.n_items, action_space.capacity, observation_space.shape[1] - 1


def lay_out(contexts: Array, sets: Array, purchases: Array, capacity: int) -> LaidOut:
    """Pick out the offered items; no user's result depends on the records of others.

    Any record will do: in a set of more than ``capacity`` items the first ones count, a purchase outside the set counts
    as none, and offered features with NaN or infinity count as items of zeros, none of them bought. An item of zeros
    is one that the user cannot have: it was not on offer.

    Args:
        contexts: shape (n, N, d + 1), the revenue in the last column.
        sets: 0/1, shape (n, N).
        purchases: the purchased item, or -1, shape (n,).
        capacity: largest size K of a set.
    """
    order, offered = offered_first(np.asarray(sets) != 0, capacity)
    n, n_items, columns = contexts.shape
    rows = (order + n_items * np.arange(n)[:, None]).ravel()
    features = contexts.reshape(-1, columns)[rows, :-1].astype(np.float64).reshape(*order.shape, columns - 1)
    if not offered.all():
        features[~offered] = 0.0
    offered = offered & features.any(axis=2)
    hit = offered & (order == np.asarray(purchases)[:, None])
    if not modest(features, 1e100) and not (whole := np.isfinite(features).all(axis=(1, 2))).all():
        features[~whole], hit[~whole] = 0.0, False
    place = hit.argmax(axis=1)
    return LaidOut(features, offered, np.where(hit[np.arange(n), place], place, -1))


def offered_first(there: NDArray[np.bool_], capacity: int) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the offered items in order, others behind them, and which of them are offered: shapes (n, capacity)."""
    if (np.count_nonzero(there, axis=1) == capacity).all():
        order = np.flatnonzero(there).reshape(-1, capacity) % there.shape[1]
        return order, np.ones(order.shape, np.bool_)
    order = np.argsort(~there, axis=1, kind="stable")[:, :capacity]
    return order, np.take_along_axis(there, order, axis=1)


def random_sets(rng: Generator, context: Array, capacity: int) -> NDArray[np.int8]:
    """Return a uniformly random set of full capacity for one user or for n, shape (..., N)."""
    single = context.shape[-2:]
    return top_k(uniforms_per_user(rng, context, single, single[0]), capacity)


def best_sets(context: Array, utilities: Array, capacity: int, ties: Ties) -> NDArray[np.int8]:
    """Return the sets of the largest expected revenue for one user or for n, shape (..., N).

    A user's set depends on that user's context alone. A user whose items all earn the same gets the items of largest
    utility; any other user gets the exact optimum. Of items that would do as well each is as likely.

    Args:
        context: shape (..., N, d + 1), the revenue in the last column.
        utilities: shape (..., N).
        capacity: largest size of a set.
        ties: of the agent.
    """
    n_items = context.shape[-2]
    revenues, values = context[..., -1].reshape(-1, n_items), np.fmax(utilities, -np.inf).reshape(-1, n_items)
    alike = (revenues == revenues[:, :1]).all(axis=1) & (revenues[:, 0] > 0)
    if alike.all():
        return redrawn(top_k(values, capacity), values, ties).reshape(utilities.shape)
    sets = np.empty(values.shape, np.int8)
    sets[alike] = top_k(values[alike], capacity)
    # a negative revenue, or NaN, counts as 0; no expected revenue overflows
    sound = np.clip(np.nan_to_num(revenues[~alike].astype(np.float64), nan=0.0), 0.0, 1e40)
    weights = attraction(values[~alike])
    sets[~alike] = chosen = best_assortment(weights, sound, capacity)
    earned = np.vecdot(weights * sound, chosen) / (1 + np.vecdot(weights, chosen))
    gains = values.astype(np.float64)
    gains[~alike] = weights * (sound - earned[:, None])  # the optimum has the largest ones above 0
    return redrawn(sets, gains, ties).reshape(utilities.shape)


class Choices:
    """Users' offers and purchases; smaller sets are padded with items that cannot be bought.

    Args:
        capacity: largest size K of a set.
        dim: number of features d.
        users: to make room for at first; the system gives the memory when it is used.
    """

    def __init__(self, capacity: int, dim: int, users: int = 64) -> None:
        self.features = Rows((capacity, dim), np.float64, users)
        self.offered = Rows((capacity,), np.bool_, users)
        self.bought = Rows((), np.int64, users)

    def __len__(self) -> int:
        return len(self.bought)

    def append(self, contexts: Array, sets: Array, purchases: Array) -> None:
        """Add n users: contexts (n, N, d + 1), 0/1 sets (n, N), purchased items or -1 (n,)."""
        self.store(lay_out(contexts, sets, purchases, self.features.array.shape[1]))

    def store(self, laid_out: LaidOut) -> None:
        """Add n users who are laid out already; what an interrupted call left of others goes."""
        self.features.size = self.offered.size = len(self.bought)
        self.features.append(laid_out.features)
        self.offered.append(laid_out.offered)
        self.bought.append(laid_out.bought)

    def clear(self) -> None:
        for rows in (self.features, self.offered, self.bought):
            rows.clear()

    def fit(
        self, theta: Floats, ridge: float, tolerance: float = 1e-8, steps: int = 50, past: Past | None = None
    ) -> Floats:
        """Return the maximum-likelihood theta with penalty ridge |theta|^2 / 2, by Newton's method with halving.

        Args:
            theta: where to start.
            ridge: of the penalty.
            tolerance: of the gradient, for each user.
            steps: the most steps.
            past: the summary of earlier users.
        """
        users = past[2] if past else len(self)
        loss, gradient, hessian = self.likelihood(theta, ridge, past)
        for _ in range(steps):
            if np.linalg.norm(gradient) <= tolerance * users:
                break
            step = np.linalg.solve(hessian, gradient)
            for halving in range(30):
                moved = theta - step * 0.5**halving
                following = self.likelihood(moved, ridge, past)
                if following[0] <= loss:
                    break
            theta, (loss, gradient, hessian) = moved, following
        return theta

    def likelihood(self, theta: Floats, ridge: float, past: Past | None = None) -> tuple[float, Floats, Floats]:
        """Return the penalised negative log-likelihood, its gradient (d,) and its Hessian (d, d), ``past`` included."""
        n, capacity, dim = self.features.view().shape
        step = max(1, 2**25 // (8 * capacity * dim))  # 32 MiB of features at once
        loss, gradient, hessian = self._sums(theta, slice(0, step))
        for start in range(step, n, step):
            more = self._sums(theta, slice(start, start + step))
            loss, gradient, hessian = loss + more[0], gradient + more[1], hessian + more[2]
        loss += float(ridge / 2 * theta @ theta)
        gradient, hessian = gradient + ridge * theta, hessian + ridge * np.eye(dim)
        if past is not None and past[2] > n:
            curved = past[0] @ theta
            loss += float(theta @ curved / 2 - past[1] @ theta)
            gradient, hessian = gradient + curved - past[1], hessian + past[0]
        return loss, gradient, hessian

    def _sums(self, theta: Floats, users: slice) -> tuple[float, Floats, Floats]:
        """Return the sums of some users' negative log-likelihoods, gradients (d,) and Hessians (d, d)."""
        x, bought = self.features.view()[users], self.bought.view()[users]
        n, capacity, dim = x.shape
        flat = x.reshape(-1, dim)
        utilities = np.where(self.offered.view()[users], (flat @ theta).reshape(n, capacity), -np.inf)
        highest = np.maximum(utilities.max(axis=1), 0.0)  # the utility of buying nothing is 0
        weights = np.exp(utilities - highest[:, None])
        total = weights.sum(axis=1) + np.exp(-highest)
        p = weights / total[:, None]
        buyers = np.flatnonzero(bought >= 0)
        chosen = bought[buyers]
        mean = np.einsum("nk,nkd->nd", p, x)
        loss = float((highest + np.log(total)).sum() - utilities[buyers, chosen].sum())
        hessian = (flat * p.reshape(-1, 1)).T @ flat - mean.T @ mean
        mean[buyers] -= x[buyers, chosen]  # each user's gradient: the sums over users would cancel
        gradient = np.ascontiguousarray(mean.T).sum(axis=1)  # contiguous, hence summed in pairs
        return loss, gradient, hessian
