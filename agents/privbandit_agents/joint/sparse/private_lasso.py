"""Jointly private sparse bandits by hard thresholding in episodes, and regression on the support.

After the abstract of Apurv Shukla, "Differentially Private High-dimensional Bandits", 2024: hard thresholding by a
private mechanism, and a support that is thresholded anew in every episode. The text was not at hand; steps and proof
are this project's own, and the releases are those of ``private-pursuit``.
"""

from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.settings import Count
from privbandit_agents.base.spaces import Array
from privbandit_agents.joint.sparse.batches import BatchSettings, SparseBatches
from privbandit_agents.joint.sparse.estimate import passed, power
from privbandit_agents.joint.sparse.pursuit.releases import LEVELS, Batch
from privbandit_agents.privacy.contributions.support import Support

LEVEL = 0.5
"""Where features are clipped when new ones are sought, in units of the record's own root mean square."""
SPREAD = 0.69
"""Mean square of Gaussian residuals clipped at their median, in units of that."""


@dataclass(frozen=True)
class Config(BatchSettings):
    """Settings of private-lasso, beside those in ``BatchSettings``.

    Attributes:
        s: largest support.
    """

    s: Count = 10


class PrivateLasso(SparseBatches[Config]):
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

    *Formal guarantees.* Those of ``SparseBatches``: the shares of an episode add up to at most 1, chosen by releases
    alone, and lengths of episodes are functions of settings. Proof: docs/privacy/sparse-supports.md.
    """

    Config = Config
    proof = "docs/privacy/sparse-supports.md"
    growth = 1.5

    def begin(self) -> None:
        super().begin()
        self.support, self.b = Support(), self.config.reward_scale

    def learned(self, batch: Batch) -> tuple[Array, Array]:
        self._search(batch)
        if len(self.support):
            self._regress(batch)
        self.support.drop()
        return self.support.chosen, self.support.theta

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
