"""The releases of one batch of users: quantiles, new features, moments on the support, and a choice.

Every method pays for one or two releases, draws them, and returns the released values; nothing else leaves the batch.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.privacy.accounting.costs import zcdp
from privbandit_agents.privacy.mechanisms.choice import ExponentialChoice, rank_scores
from privbandit_agents.privacy.mechanisms.discrete import GridGaussian
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK
from privbandit_agents.privacy.vectors import lengths_beside, smat, svec

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Publish = Callable[..., Any]
LEVELS = 2.0 ** (np.arange(-80, 81) / 4)
"""Levels of residuals, from about 1e-6 to 1e6."""


class Batch:
    """The records of one batch, and the rest of its budget.

    *Formal guarantees.* Let n users be in the batch, public, and let all arguments of all calls be functions of public
    values and of earlier releases. Replacing one user's record moves the exact values as follows.

    | release | sensitivity |
    |---|---|
    | ``quantile`` | 1 in every score: one user more or less is below a level |
    | ``newcomers``, the sums over users | 2 a b in every coordinate: |clip(x_j, a)| <= a, |clip(residual, b)| <= b |
    | ``products`` | 2 a R in l2: |clip(x_j, a)| <= a, and the vector beside it is scaled into the ball of radius R |
    | ``gradient`` | 2 R b in l2: a vector within the ball of radius R, times a residual clipped to b |
    | ``hessian`` | sqrt(2) R^2 in the Frobenius norm: positive semidefinite matrices of norm at most R^2 |
    | ``choose`` | 1 in every score |

    Each is released at its share of rho; the ledger refuses shares with a sum above 1. So the batch is rho-zCDP,
    adaptively chosen shares included.

    Args:
        x: features of the n users, finite, shape (n, d).
        y: their rewards, finite, shape (n,).
        rho: budget of the batch.
        publish: takes (mechanism, exact value, draw, cost), pays and returns the release.
        rng: of the noise.
        noise: of the mechanisms, ``"numpy"`` or ``"secure"``.
    """

    def __init__(self, x: Floats, y: Floats, rho: float, publish: Publish, rng: Generator, noise: str) -> None:
        self.x, self.y, self.rho = x, y, rho
        self.publish, self.rng, self.noise = publish, rng, noise
        self.left = 1.0
        self.cap(1.0)

    def cap(self, limit: float) -> None:
        """Clip single features at a = ``limit`` from now on."""
        self.limit, self.capped = limit, np.clip(self.x, -limit, limit)

    def __len__(self) -> int:
        return len(self.y)

    def residuals(self, support: Ints, theta: Floats) -> Floats:
        """Return y - x . theta: exact, not to be released."""
        return np.asarray(self.y - np.vecdot(self.x.take(support, axis=1), theta))

    def quantile(self, support: Ints, theta: Floats, q: float, prior: Floats, share: float) -> float:
        """Release a level below which about q n of the absolute residuals are.

        Args:
            support: shape (m,).
            theta: coefficients on the support, shape (m,).
            q: in (0, 1).
            prior: logarithms of public weights of the levels, shape (161,).
            share: of the budget.
        """
        mechanism = ExponentialChoice.from_rho(self._pay(share), with_rounding(1.0, len(self)), self.noise)
        scores = rank_scores(np.abs(self.residuals(support, theta)), LEVELS, q)
        return float(LEVELS[self._publish(mechanism, scores + mechanism.beta * prior)])

    def newcomer(
        self, support: Ints, theta: Floats, bound: float, selection: float, share: float
    ) -> tuple[int, float, float]:
        """Select a feature off the support by |sum clip(x_j, a) clip(residual, b)|, and release that sum.

        Returns:
            The feature, the noisy sum, and the standard deviation of its noise.
        """
        found, noisy, sigma = self.newcomers(support, theta, bound, 1, selection, share)
        return int(found[0]), float(noisy[0]), sigma

    def newcomers(
        self, support: Ints, theta: Floats, bound: float, k: int, selection: float, share: float
    ) -> tuple[Ints, Floats, float]:
        """Select k features as ``newcomer`` does, at once; return them, their sums, and the deviation of the noise."""
        limit = with_rounding(2 * self.limit * bound, len(self))
        mechanism = GumbelTopK.from_rho(self._pay(share), k, limit, selection, noise=self.noise)
        sums = np.clip(self.residuals(support, theta), -bound, bound) @ self.capped
        candidates = np.delete(np.arange(sums.size), support)
        found, noisy = self._publish(mechanism, sums[candidates])
        return candidates[found], np.asarray(noisy), mechanism.sigma

    def products(self, support: Ints, feature: int, radius: float, share: float) -> tuple[Floats, float]:
        """Release sum clip(x_j, a) v over users, where v is x on the support, scaled into a ball.

        Returns:
            The noisy sum, shape (m,), and the standard deviation of its noise.
        """
        limit = with_room(with_rounding(2 * self.limit * radius, len(self)))
        mechanism = GridGaussian.from_rho(self._pay(share), limit, self.noise, len(support))
        exact = self.capped[:, feature] @ within(self.x.take(support, axis=1), radius)[0]
        return np.asarray(self._publish(mechanism, exact)), mechanism.sigma

    def gradient(self, support: Ints, theta: Floats, bound: float, radius: float, share: float) -> tuple[Floats, float]:
        """Release sum w x clip(residual, b) on the support, w = min(1, R^2 / |x|^2), and return its deviation too."""
        limit = with_room(with_rounding(2 * radius * bound, len(self)))
        mechanism = GridGaussian.from_rho(self._pay(share), limit, self.noise, len(support))
        scaled, factors = within(self.x.take(support, axis=1), radius)
        exact = (np.clip(self.residuals(support, theta), -bound, bound) * factors) @ scaled
        return np.asarray(self._publish(mechanism, exact)), mechanism.sigma

    def hessian(self, support: Ints, radius: float, share: float) -> tuple[Floats, float]:
        """Release sum w x x' on the support, and return the deviation of its diagonal too."""
        limit = with_room(math.sqrt(2) * with_rounding(radius**2, len(self)))
        size = len(support) * (len(support) + 1) // 2
        mechanism = GridGaussian.from_rho(self._pay(share), limit, self.noise, size)
        scaled = within(self.x.take(support, axis=1), radius)[0]
        exact = svec(scaled.T @ scaled)
        return smat(self._publish(mechanism, exact)), mechanism.sigma

    def choose(self, candidates: list[tuple[Ints, Floats]], bound: float, bonus: Floats, share: float) -> int:
        """Release which of several (support, theta) leaves the most residuals within +-b; bonuses in units of noise."""
        mechanism = ExponentialChoice.from_rho(self._pay(share), with_rounding(1.0, len(self)), self.noise)
        within_bound = [np.count_nonzero(np.abs(self.residuals(*one)) <= bound) for one in candidates]
        return int(self._publish(mechanism, np.array(within_bound, np.float64) + mechanism.beta * bonus))

    def _pay(self, share: float) -> float:
        """Return the rho of a share of the budget; it is entered in the ledger when the release is published."""
        self.left -= share
        return self.rho * share

    def _publish(self, mechanism: Any, exact: Floats) -> Any:
        return self.publish(mechanism, exact, partial(mechanism.release, exact, self.rng), zcdp(mechanism.rho))


def with_rounding(bound: float, users: int) -> float:
    """Return how far replacing a user moves the sum of n floats, if it moves the sum of n real numbers by ``bound``.

    Each is at most bound / 2 in size, or between 0 and bound. A sum is within n 2^-53 of the sum of their sizes.
    """
    return bound * (1 + 2 * (users + 1) ** 2 * 2.0**-53)


def with_room(bound: float) -> float:
    """Return a bound with room for the rounding of a vector that was scaled into a ball, and of products of two."""
    return bound * (1 + 1e-12)


def within(vectors: Floats, radius: float) -> tuple[Floats, Floats]:
    """Return vectors of shape (n, m) scaled into the ball of a radius, and the factors, shape (n,)."""
    norms, longest = lengths_beside(vectors, radius)
    factors = np.minimum(1.0, longest / np.maximum(norms, 1e-300))
    return vectors * factors, factors[:, 0]
