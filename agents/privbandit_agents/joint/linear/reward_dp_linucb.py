"""LinUCB that keeps rewards private, and rewards alone.

Osama Hanna, Antonious Girgis, Christina Fragouli and Suhas Diggavi, "Differentially Private Stochastic Linear Bandits:
(Almost) for Free", IEEE JSAIT 2024; Achraf Azize and Debabrota Basu, "Concentrated Differential Privacy for Bandits",
SaTML 2024. In both neighbors differ in rewards, and the Gram matrix of played arms is exact.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from privbandit_agents.base.guarantee import ONE_REWARD, REWARD
from privbandit_agents.base.settings import NonNegative
from privbandit_agents.base.spaces import Array
from privbandit_agents.joint.linear import jdp_linucb
from privbandit_agents.joint.linear.schedules import Epochs
from privbandit_agents.joint.linear.sums import Schedule, SummedRecords
from privbandit_agents.privacy.contributions.moments import inverse_root, sanitise_apart

PROTECTS = f"{REWARD}, from all who see every context and every action, which are not protected"


@dataclass(frozen=True)
class Config(jdp_linucb.Config):
    """Settings of reward-DP-LinUCB: those of JDP-LinUCB but its window and means of people's records.

    Attributes:
        shift: ridge in units of 2 sqrt(d) times the deviation of the noise in a coordinate of sum y x, >= 0. The Gram
            matrix has no noise that it would have to cover.
    """

    shift: NonNegative = 0.1
    window: ClassVar[None] = None  # type: ignore[misc]  # no setting here: the Gram matrix keeps all users
    visits: ClassVar[Literal["first"]] = "first"  # type: ignore[misc]

    def __post_init__(self) -> None:
        super(jdp_linucb.Config, self).__post_init__()


class RewardDPLinUCB(SummedRecords[Config]):
    """A curator keeps sum x x' as it is, and a private running sum of y x; users act on the regression they give.

    Algorithm: as JDPLinUCB, but that the counter adds up y x alone, and the Gram matrix is exact.

    *Formal guarantees.* sqrt(2 rho)-Gaussian DP (hence (epsilon, delta)-DP and rho-zCDP) under replacement of one
    user's *reward*, for everybody who sees all contexts, all actions and all releases: one continual counter runs over
    the epochs, and the reward is in one term; it moves that by |y - y'| |x| <= 2 in the l2 norm. Contexts and
    actions are public: they enter the Gram matrix as they are, and **nothing is promised** to a user with features or
    a choice that must stay secret. Features are clipped without a look at the reward, and rewards without a look at the
    features: a reward that is not finite counts as 0, and its features count all the same.

    Deviations:
        Hanna et al. eliminate arms of a fixed finite set in phases, and Azize and Basu release the sum anew in each
        episode; here contexts change with users, the policy is LinUCB, and a counter runs over all epochs.
    """

    Config = Config
    proof = "docs/privacy/reward-privacy.md and docs/privacy/continual-counting.md"

    def begin(self) -> None:
        super().begin()
        self.gram = np.zeros((self.models, self.dim, self.dim))
        self.guarantee = dataclasses.replace(self.guarantee, notion="reward", neighbours=ONE_REWARD, protects=PROTECTS)

    def scheduled(self) -> Schedule:
        return Epochs(self, self.config.horizon or 100_000)

    @property
    def counted(self) -> int:
        return self.models * self.dim

    def clipped(self, features: Array, rewards: Array) -> tuple[Array, Array]:
        return sanitise_apart(features, rewards)

    def term(self, products: Array) -> Array:
        self.gram += products[:, :-1, :-1]
        return products[:, :-1, -1].ravel()

    def solved(self, noisy: Array, sigma: float) -> tuple[Array, Array, float]:
        added = 1 + self.config.shift * 2 * math.sqrt(self.dim) * sigma
        a = self.gram + added * np.eye(self.dim)
        return inverse_root(a), np.linalg.solve(a, noisy[..., None])[..., 0], added
