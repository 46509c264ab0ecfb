"""AdaP-KLUCB: optimism on private means, in runs that grow with each arm.

Achraf Azize and Debabrota Basu, "When Privacy Meets Partial Information: A Refined Analysis of Differentially Private
Bandits", NeurIPS 2022.
"""

import math
from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.divergence import farthest_mean
from privbandit_agents.base.settings import Growth, Positive
from privbandit_agents.base.spaces import Array
from privbandit_agents.base.ties import largest, one_of
from privbandit_agents.joint.arms.runs import RunAgent, RunSettings

SLOPES = np.geomspace(1e-5, 100, 160)
"""Exponents at which moment generating functions are looked at; all are scaled down with budgets below 1e-4."""


@dataclass(frozen=True)
class Config(RunSettings):
    """Settings of AdaP-KLUCB, beside those in ``RunSettings``.

    Attributes:
        alpha: how much is explored, > 0: both bounds of an arm's mean hold up to a chance of t^-alpha.
        growth: an arm is played until its number of users has grown by this factor, > 1; None: 1 + 0.3 / epsilon, in
            [1.05, 1.3]. Longer runs have less noise, shorter ones waste fewer users.
        forget: whether an arm's mean is that of its last run alone, and not of all of them.
    """

    alpha: Positive = 1.0
    growth: Growth | None = None
    forget: bool = False

    @property
    def more(self) -> float:
        """By what share of its users an arm is played again."""
        return min(max(0.3 / self.epsilon, 0.05), 0.3) if self.growth is None else self.growth - 1


class AdaPKLUCB(RunAgent[Config]):
    """Play the arm with the largest optimistic mean until its number of users has grown by a factor.

        every arm is played once, in any order
        from then on, after t users
            m_k <- the noisy mean of arm k's n_k users, plus a bound on its noise, cut to [0, 1]
            u_k <- the largest q with n_k kl(m_k, q) <= alpha log t
            play the arm with the largest u_k for a run of users

    The noise of a mean is that of r releases, r - 1 of which are of earlier runs. It is above
    min_s (alpha log t - r log(1 - s^2)) / (s epsilon n_k) with a chance of t^-alpha at most: Chernoff's bound.

    *Formal guarantees.* Those of ``RunAgent``.

    Deviations:
        The paper doubles an arm's users and forgets earlier runs, so that a mean has the noise of one release:
        ``growth=2, forget=True``. It then needs about four times the users. Keeping all runs costs no privacy, since a
        user is still in one release. ``alpha`` is 1 by default; a proof of the regret needs more (the paper takes above
        3).
    """

    Config = Config

    def first(self) -> None:
        self.sums, self.sizes, self.pulls, self.released = np.zeros((4, self.n_arms))
        self.run(one_of(self.pulls == 0, self.rng_runs), 1)

    def learned(self, arm: int, mean: float) -> None:
        kept = not self.config.forget
        self.sums[arm] = kept * self.sums[arm] + self.length * mean
        self.sizes[arm] = kept * self.sizes[arm] + self.length
        self.released[arm] = kept * self.released[arm] + 1
        self.pulls[arm] += self.length
        self.means[arm] = self.sums[arm] / self.sizes[arm]
        if (self.pulls == 0).any():
            self.run(one_of(self.pulls == 0, self.rng_runs), 1)
            return
        best = one_of(largest(self.optimistic()), self.rng_runs)
        self.run(best, math.ceil(self.config.more * self.pulls[best]))

    def share(self, deviations: Array) -> Array:
        """Return how often each arm is the best of 1000 draws of the means: Thompson sampling, for each user."""
        draws = self.means + deviations * self.rng_runs.standard_normal((1000, self.n_arms))
        return np.bincount(draws.argmax(axis=1), minlength=self.n_arms) / 1000

    def optimistic(self) -> Array:
        """Return the optimistic means, shape (K,)."""
        odds, sizes, epsilon = self.config.alpha * math.log(self.users + 1), self.sizes, self.config.epsilon
        # log of the moment generating function of all noise in a sum, (K, s), at slopes below epsilon
        slopes = SLOPES * min(1.0, 1e4 * epsilon)
        slopes = slopes[slopes < 0.99 * epsilon]
        noise = -np.outer(self.released, np.log1p(-((slopes / epsilon) ** 2)))
        apart = ((odds + noise) / slopes).min(axis=1) if math.isfinite(epsilon) else np.zeros_like(sizes)
        apart = np.where(self.released == 1, odds / epsilon, apart)
        together = ((odds + noise + np.outer(sizes, slopes**2 / 8)) / slopes).min(axis=1)
        upper = farthest_mean(np.clip((self.sums + apart) / sizes, 0.0, 1.0), odds / sizes)
        return np.asarray(np.minimum(upper, (self.sums + together) / sizes), np.float64)
