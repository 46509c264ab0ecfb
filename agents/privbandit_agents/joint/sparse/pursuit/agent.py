"""Private pursuit: a sparse bandit that finds features one by one, whatever their number, correlation and scale.

The project's own algorithm, to our knowledge new, for the setting of Sunrit Chakraborty, Saptarshi Roy and Debabrota
Basu, "FLIPHAT: Joint Differential Privacy for High Dimensional Sparse Linear Bandits", 2024. It grew from matching
pursuit (Stephane Mallat and Zhifeng Zhang, "Matching Pursuits With Time-Frequency Dictionaries", 1993). The proof is
in docs/privacy/private-pursuit.md.
"""

from dataclasses import dataclass

from privbandit_agents.base.settings import Count, Growth
from privbandit_agents.base.spaces import Array
from privbandit_agents.joint.sparse.batches import BatchSettings, SparseBatches
from privbandit_agents.joint.sparse.pursuit.learning import MEDIAN, Pursuit
from privbandit_agents.joint.sparse.pursuit.plan import planned, to_try
from privbandit_agents.joint.sparse.pursuit.releases import Batch


@dataclass(frozen=True)
class Config(BatchSettings):
    """Settings of private pursuit, beside those in ``BatchSettings``.

    Attributes:
        growth: length of a batch over that of the one before, > 1, while features are found.
        fast: the same where some tries fail, > 1.
        most: largest support.
    """

    growth: Growth = 1.25
    fast: Growth = 1.5
    most: Count = 80


class PrivatePursuit(SparseBatches[Config]):
    """Batches of users, each used once: features are selected one by one, and their coefficients corrected.

    Algorithm:
        1. theta <- 0 on the empty support S; n <- length of the first batch.
        2. Play argmax x . theta for n users, at random while theta = 0. Divide each record by the root mean square of
           its own features.
        3. Release the median b of |y - x . theta|. Repeat, until too many tries fail (``Pursuit``):
           a. select j outside S by noisy |sum clip(x_j) clip(y - x . theta)|, and release that sum (``GumbelTopK``);
           b. release the products of x_j with x_S, if they would not drown in noise (``GridGaussian``);
           c. add j to S; learn theta from the sum (``Belief``); drop j if its coefficient may as well be 0;
           d. release b again; if it has grown by half, undo and stop.
        4. Release gradient and Hessian of clipped squares on S, learn theta, drop what may as well be 0.
        5. Release which theta leaves the most residuals within +-b: that of step 4, of step 3 or of step 1
           (``ExponentialChoice``).
        6. n <- growth n, or fast n, as long as the records of n users fit into memory (21 845 users of 400 features);
           try about twice the number of features found; go to 2.

    Rewards need no scale, but what all of them have in common is taken for noise: where that is more than they scatter
    by, give the contexts a feature that is always 1.

    A found feature is explained away before the next is selected, so that its neighbors are not found again; clips
    shrink with the residuals, within a batch too. Step 5, and the end of step 3, undo mistakes.

    *Formal guarantees.* Those of ``SparseBatches``. Number and cost of a batch's releases depend on earlier releases of
    the same users; their sum never exceeds rho, which the ledger enforces, so that a batch is rho-zCDP by the
    supermartingale of a privacy filter. Proof: docs/privacy/private-pursuit.md.
    """

    Config = Config
    proof = "docs/privacy/private-pursuit.md"

    def begin(self) -> None:
        super().begin()
        self.pursuit = Pursuit(MEDIAN * self.config.reward_scale)

    @property
    def growth(self) -> float:  # type: ignore[override]
        slow = self.pursuit.failed == 0 or not len(self.pursuit.belief)
        return self.config.growth if slow else self.config.fast

    def learned(self, batch: Batch) -> tuple[Array, Array]:
        pursuit, known = self.pursuit, len(self.pursuit.belief)
        tries = to_try(pursuit.found, self.batch, min(self.config.most, self.dim) - known)
        pursuit.learn(batch, planned(len(batch), self.dim, known, tries, self.rho))
        return pursuit.belief.support, pursuit.belief.theta
