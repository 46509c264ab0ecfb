"""Private pursuit: a sparse bandit that finds features one by one, whatever their number, correlation and scale.

The project's own algorithm, to our knowledge new, for the setting of Sunrit Chakraborty, Saptarshi Roy and Debabrota
Basu, "FLIPHAT: Joint Differential Privacy for High Dimensional Sparse Linear Bandits", 2024. It grew from matching
pursuit (Stephane Mallat and Zhifeng Zhang, "Matching Pursuits With Time-Frequency Dictionaries", 1993) and from
``clipped-iht``; the proof is in docs/privacy/private-pursuit.md.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from privbandit_agents.base.agent import Action, Array, CentralAgent, arms_with_features, next_change
from privbandit_agents.base.arms import played
from privbandit_agents.base.rows import Rows, blocks
from privbandit_agents.base.settings import Budget, Count, Growth, Open01, Positive
from privbandit_agents.joint.settings import DELTA, JointSettings
from privbandit_agents.joint.sparse.estimate import best_by_support, clipped
from privbandit_agents.joint.sparse.pursuit.learning import MEDIAN, Pursuit
from privbandit_agents.joint.sparse.pursuit.plan import planned, to_try, users_at_first
from privbandit_agents.joint.sparse.pursuit.releases import Batch
from privbandit_agents.privacy.contributions.support import in_own_units
from privbandit_agents.privacy.mechanisms.choice import ExponentialChoice
from privbandit_agents.privacy.mechanisms.counters import MOST_BYTES
from privbandit_agents.privacy.vectors import LIMIT


@dataclass(frozen=True)
class Config(JointSettings):
    """Settings of private pursuit, besides the budget; none needs to be known well.

    Attributes:
        horizon: number of users T; default: the environment's. The first batch ends at T/4 at the latest.
        first: length of the first batch; default: when two coefficients of five show.
        growth: length of a batch over that of the one before, > 1, while features are found.
        fast: the same where some tries fail, > 1.
        most: largest support.
        reward_scale: where the search for the scale of rewards starts, > 0; one a thousand times off costs little.
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.
    """

    epsilon: Budget = 1.0
    delta: Open01 = DELTA
    horizon: Count | None = None
    first: Count | None = None
    growth: Growth = 1.25
    fast: Growth = 1.5
    most: Count = 80
    reward_scale: Positive = 1.0
    noise: Literal["numpy", "secure"] = "numpy"


class PrivatePursuit(CentralAgent[Config, Array]):
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

    *Formal guarantees.* (epsilon, delta)-joint DP (or rho-zCDP) under replacement of a user's whole record, for any
    record whatever. Entries that are not finite make the record (0, 0), entries are clipped to 10^6, and scaling reads
    the record alone; sensitivities are those of ``Batch``. Number and cost of a batch's releases depend on earlier
    releases of the same users; their sum never exceeds rho, which the ledger enforces, so that a batch is rho-zCDP by
    the supermartingale of a privacy filter. Lengths of batches are functions of settings and releases, each user is in
    one batch, and actions read releases only. It holds for the numbers that leave: choices and noise are exact
    (``ExponentialChoice``, ``GumbelTopK``, ``GridGaussian``), and sensitivities cover the rounding of sums.

    The release is theta, shape (d,).
    """

    Config = Config
    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        config = self.config
        self.dim = self.context_shape[1]
        self.rho = config.concentrated()
        self.ledger = config.ledger()
        self.guarantee = config.guarantee("docs/privacy/private-pursuit.md", arithmetic="exact")
        ExponentialChoice.from_rho(self.rho * 1e-6, 1.0)  # refuses a budget that no grid is fine enough for
        self.rng_noise = self.rng.spawn(1)[0]
        self.release = np.zeros(self.dim)
        self.pursuit = Pursuit(MEDIAN * config.reward_scale)
        latest = max(1, config.counted(config.horizon or 20_000) // 4)
        self.length, self.batch = config.first or users_at_first(self.dim, self.rho, latest), 0
        self.features, self.rewards = Rows((self.dim,), np.float64), Rows((), np.float64)

    def select_action(self, context: Array) -> Action:
        return best_by_support(context, self.release, self.ties)

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        """Keep records; release a new theta when the batch is full, and forget them."""
        released = None
        for x, arms, rewards in blocks(
            self.frozen_rounds, contexts, actions, feedback, most=1024
        ):  # which stay in cache
            features, answers = in_own_units(*clipped(played(x, arms), rewards, LIMIT, LIMIT))
            self.features.append(features)
            self.rewards.append(answers)
            if len(self.rewards) == self.length:
                released = self.release = self._learned()
        return released

    def frozen_rounds(self) -> int:
        return self.length - len(self.rewards)

    def _learned(self) -> Array:
        """Learn from the full batch, and return the new theta, shape (d,)."""
        pursuit, config = self.pursuit, self.config
        known = len(pursuit.belief)
        tries = to_try(pursuit.found, self.batch, min(config.most, self.dim) - known)
        plan = planned(self.length, self.dim, known, tries, self.rho)
        publish = partial(self.publish, group=self.ledger.group + 1)
        records = self.features.take(), self.rewards.take()
        pursuit.learn(Batch(*records, self.rho, publish, self.rng_noise, config.noise), plan)
        slow = pursuit.failed == 0 or not len(pursuit.belief)
        longest = max(self.length, MOST_BYTES // (24 * self.dim))  # features, and twice as much to learn from them
        grown = next_change(self.length, config.growth if slow else config.fast)
        self.batch, self.length = self.batch + 1, min(grown, longest)
        theta = np.zeros(self.dim)
        theta[pursuit.belief.support] = pursuit.belief.theta
        return theta
