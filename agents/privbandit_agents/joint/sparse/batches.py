"""What curators of sparse bandits share that learn from whole batches: records are kept, and read through releases."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

import numpy as np

from privbandit_agents.base.agent import next_change
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.records import played
from privbandit_agents.base.rows import Rows, blocks
from privbandit_agents.base.settings import Budget, Count, Open01, Positive
from privbandit_agents.base.spaces import Action, Array, arms_with_features
from privbandit_agents.joint.settings import DELTA, JointSettings
from privbandit_agents.joint.sparse.estimate import best_by_support, clipped
from privbandit_agents.joint.sparse.pursuit.plan import users_at_first
from privbandit_agents.joint.sparse.pursuit.releases import Batch
from privbandit_agents.privacy.contributions.support import in_own_units
from privbandit_agents.privacy.mechanisms.choice import ExponentialChoice
from privbandit_agents.privacy.mechanisms.counters import MOST_BYTES
from privbandit_agents.privacy.vectors import LIMIT


@dataclass(frozen=True)
class BatchSettings(JointSettings):
    """Settings that these agents share, besides the budget; none needs to be known well.

    Attributes:
        horizon: number of users T; default: the environment's. The first batch ends at T/4 at the latest.
        first: length of the first batch; default: when two coefficients of five show.
        reward_scale: where the search for the scale of rewards starts, > 0; one a thousand times off costs little.
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.
    """

    epsilon: Budget = 1.0
    delta: Open01 = DELTA
    horizon: Count | None = None
    first: Count | None = None
    reward_scale: Positive = 1.0
    noise: Literal["numpy", "secure"] = "numpy"


S = TypeVar("S", bound=BatchSettings)


class SparseBatches(CentralAgent[S, Array]):
    """Batches of users, each used once: their records are kept, in units of their own, until the batch is full.

    *Formal guarantees.* (epsilon, delta)-joint DP (or rho-zCDP) under replacement of a user's whole record, for any
    record whatever. Entries that are not finite make the record (0, 0), entries are clipped to 10^6, and scaling reads
    the record alone; sensitivities are those of ``Batch``, whose releases cost rho at most. Lengths of batches are
    functions of settings and releases, each user is in one batch, and actions read releases only. It holds for the
    numbers that leave: choices and noise are exact, and sensitivities cover the rounding of sums.

    Attributes:
        release: theta, shape (d,).
        batch: how many batches are behind.
        length: users of the open batch.
        growth: length of a batch over that of the one before, > 1; set by ``learned`` at the latest.
    """

    proof: str
    growth: float
    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        config, self.dim = self.config, self.context_shape[1]
        self.rho = config.concentrated()
        self.ledger = config.ledger()
        self.guarantee = config.guarantee(self.proof, arithmetic="exact")
        ExponentialChoice.from_rho(self.rho * 1e-6, 1.0)  # refuses a budget that no grid is fine enough for
        self.rng_noise = self.rng.spawn(1)[0]
        self.release = np.zeros(self.dim)
        latest = max(1, config.counted(config.horizon or 20_000) // 4)
        self.length, self.batch = config.first or users_at_first(self.dim, self.rho, latest), 0
        self.features, self.rewards = Rows((self.dim,), np.float64), Rows((), np.float64)

    @abstractmethod
    def learned(self, batch: Batch) -> tuple[Array, Array]:
        """Learn from a batch through its releases; return the support, shape (m,), and theta there, shape (m,)."""

    def select_action(self, context: Array) -> Action:
        return best_by_support(context, self.release, self.ties)

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        """Keep records; release a new theta when the batch is full, and forget them."""
        released, columns = None, (contexts, actions, feedback)
        for x, arms, rewards in blocks(self.frozen_rounds, *columns, most=1024):  # users that stay in cache
            features, answers = in_own_units(*clipped(played(x, arms), rewards, LIMIT, LIMIT))
            self.features.size = len(self.rewards)  # what an interrupted call left of others goes
            self.features.append(features)
            self.rewards.append(answers)
            if len(self.rewards) >= self.length:
                released = self.release = self._learned()
        return released

    def frozen_rounds(self) -> int:
        return max(self.length - len(self.rewards), 1)

    def _learned(self) -> Array:
        """Learn from the full batch, and return the new theta, shape (d,)."""
        publish = partial(self.publish, group=self.ledger.group + 1)
        records = self.features.take(), self.rewards.take()
        chosen, coefficients = self.learned(Batch(*records, self.rho, publish, self.rng_noise, self.config.noise))
        longest = max(self.length, MOST_BYTES // (24 * self.dim))  # features, and twice as much to learn from them
        self.batch, self.length = self.batch + 1, min(next_change(self.length, self.growth), longest)
        theta = np.zeros(self.dim)
        theta[chosen] = coefficients
        return theta
