"""Jointly private sparse bandits by hard thresholding in episodes, and regression on the support.

After the abstract of Apurv Shukla, "Differentially Private High-dimensional Bandits", 2024: hard thresholding by a
private mechanism, and a support that is thresholded anew in every episode. The text was not at hand; steps and proof
are this project's own, and the releases are those of ``private-pursuit``.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from privbandit_agents.base.agent import Action, Array, CentralAgent, arms_with_features, next_change
from privbandit_agents.base.arms import played
from privbandit_agents.base.rows import Rows, blocks
from privbandit_agents.base.settings import Budget, Count, Open01, Positive
from privbandit_agents.joint.settings import DELTA, JointSettings
from privbandit_agents.joint.sparse.clipping import passed, power
from privbandit_agents.joint.sparse.estimate import best_by_support, clipped
from privbandit_agents.joint.sparse.pursuit.plan import users_at_first
from privbandit_agents.joint.sparse.pursuit.releases import LEVELS, Batch
from privbandit_agents.privacy.contributions.support import Support, in_own_units
from privbandit_agents.privacy.mechanisms.choice import ExponentialChoice
from privbandit_agents.privacy.mechanisms.counters import MOST_BYTES
from privbandit_agents.privacy.vectors import LIMIT

LEVEL = 0.5
"""Where features are clipped when new ones are sought, in units of the record's own root mean square."""
SPREAD = 0.69
"""Mean square of Gaussian residuals clipped at their median, in units of that."""


@dataclass(frozen=True)
class Config(JointSettings):
    """Settings of private-lasso, besides the budget.

    Attributes:
        horizon: number of users T; default: the environment's. The first episode ends at T/4 at the latest.
        first: length of the first episode; default: when two coefficients of five show.
        s: largest support.
        reward_scale: where the search for the scale of rewards starts, > 0.
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.
    """

    epsilon: Budget = 1.0
    delta: Open01 = DELTA
    horizon: Count | None = None
    first: Count | None = None
    s: Count = 10
    reward_scale: Positive = 1.0
    noise: Literal["numpy", "secure"] = "numpy"


class PrivateLasso(CentralAgent[Config, Array]):
    """Episodes of users, each used once: the largest sums join the support, and what is not clear leaves it.

    Algorithm:
        1. S <- {}, theta <- 0; n <- length of the first episode.
        2. Play argmax x . theta for n users, at random while theta = 0. Divide each record by the root mean square of
           its own features; r = y - x . theta.
        3. Release the median b of |r|. Hard thresholding: select the k largest |sum clip(x_j) clip(r)| off S by one
           Gumbel vector, and release these sums; features with a clear sum join S.
        4. Release b again, and gradient and Hessian of clipped squares on S; theta takes a Newton step, weighted by its
           noise (``improved``).
        5. Features with |theta_j| < 1.5 sd leave S; forget the users; n <- 1.5 n; go to 2.

        k is a hundredth of n times min(1, sqrt(2 rho)), at least 1, as long as S has at most s features.

    *Formal guarantees.* (epsilon, delta)-joint DP (or rho-zCDP) under replacement of a user's whole record, for any
    record whatever: sensitivities are those of ``Batch``, whose shares of an episode add up to at most 1, chosen by
    releases alone. Lengths of episodes are functions of settings, a user is in one episode, and actions read releases
    only. It holds for the numbers that leave: choices and noise are exact. Proof: docs/privacy/sparse-supports.md.

    The release is theta, shape (d,).
    """

    Config = Config
    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        config, self.dim = self.config, self.context_shape[1]
        self.rho = config.concentrated()
        self.ledger = config.ledger()
        self.guarantee = config.guarantee("docs/privacy/sparse-supports.md", arithmetic="exact")
        ExponentialChoice.from_rho(self.rho * 1e-6, 1.0)  # refuses a budget that no grid is fine enough for
        self.rng_noise = self.rng.spawn(1)[0]
        self.release = np.zeros(self.dim)
        self.support, self.b = Support(), config.reward_scale
        latest = max(1, config.counted(config.horizon or 20_000) // 4)
        self.length, self.episode = config.first or users_at_first(self.dim, self.rho, latest), 0
        self.features, self.rewards = Rows((self.dim,), np.float64), Rows((), np.float64)

    def select_action(self, context: Array) -> Action:
        return best_by_support(context, self.release, self.ties)

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        """Keep records; release a new theta when the episode ends, and forget them."""
        released = None
        for x, arms, rewards in blocks(self.frozen_rounds, contexts, actions, feedback, most=1024):
            features, answers = in_own_units(*clipped(played(x, arms), rewards, LIMIT, LIMIT))
            self.features.append(features)
            self.rewards.append(answers)
            if len(self.rewards) == self.length:
                released = self.release = self._learned()
        return released

    def frozen_rounds(self) -> int:
        return self.length - len(self.rewards)

    def _learned(self) -> Array:
        """Learn from the episode's records, and return the new theta, shape (d,)."""
        publish = partial(self.publish, group=self.ledger.group + 1)
        batch = Batch(self.features.take(), self.rewards.take(), self.rho, publish, self.rng_noise, self.config.noise)
        self._search(batch)
        if len(self.support):
            self._regress(batch)
        self.support.drop()
        # the next episode
        longest = max(self.length, MOST_BYTES // (24 * self.dim))  # features, and twice as much to learn from them
        self.episode, self.length = self.episode + 1, min(next_change(self.length, 1.5), longest)
        return self.support.all_of(self.dim)

    def _median(self, batch: Batch, share: float) -> float:
        """Release the median of absolute residuals."""
        near = -np.abs(np.log(LEVELS / self.b))
        return batch.quantile(self.support.chosen, self.support.theta, 0.5, near, share)

    def _search(self, batch: Batch) -> None:
        """Let features with the largest sums join the support."""
        n, known, config = len(batch), len(self.support), self.config
        self.b = self._median(batch, 0.05)
        room = min(config.s, self.dim) - known
        if room < 1:
            return
        batch.cap(LEVEL)
        k = min(room, max(1, round(0.01 * n * min(1.0, (2 * self.rho) ** 0.5))))
        share = 0.35 if known else 0.6
        where = self.support.chosen, self.support.theta
        found, sums, sigma = batch.newcomers(*where, self.b, k, 0.7, share)
        # the coefficients that the sums stand for
        unit = n * passed(LEVEL) * 0.5
        variance = (sigma**2 + n * power(LEVEL) * SPREAD * self.b**2) / unit**2
        clear = np.abs(sums / unit) > 1.5 * variance**0.5  # standard deviations, as in ``Support.drop``
        self.support.choose(found[clear], sums[clear] / unit, variance)

    def _regress(self, batch: Batch) -> None:
        """Take a step of the coefficients on the support."""
        self.b = self._median(batch, 0.05)
        where, radius = (self.support.chosen, self.support.theta), len(self.support) ** 0.5
        gradient, noise = batch.gradient(*where, self.b, radius, 0.75 * batch.left)
        hessian, blur = batch.hessian(self.support.chosen, radius, batch.left)
        self.support.learn(gradient, hessian, (noise, blur), 0.5, SPREAD * self.b**2)
