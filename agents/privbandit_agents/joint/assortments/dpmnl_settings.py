"""Settings of DPMNL and of its benchmark, and the defaults that follow from public constants."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from privbandit_agents.base.guarantee import Guarantee
from privbandit_agents.base.settings import Above, AtLeast, Calibration, Count, NonNegative, Open01, Within
from privbandit_agents.joint.settings import CounterName, JointSettings
from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.mechanisms.objective import ObjectivePerturbation, UserLoss

RECORD = "context, assortment and purchase of every user"


class Spending(NamedTuple):
    """How a budget is spent.

    Attributes:
        ledger: with the budget declared.
        guarantee: of the agent.
        counting: cost of all releases of PrivateCov.
        rho: that PrivateCov's noise is scaled to.
        mle: one call of PrivateMLE.
    """

    ledger: Ledger
    guarantee: Guarantee
    counting: Cost
    rho: float
    mle: ObjectivePerturbation


@dataclass(frozen=True)
class DPMNLSettings(JointSettings, ABC):
    """Settings of DPMNL and of its (epsilon, delta) benchmark, besides the budget.

    Attributes:
        horizon: number of users T, fixed in advance; default: the environment's.
        counter: of PrivateCov: ``"toeplitz"``, with noise in memory that grows with T; ``"buffered"``, within 1 %
            of it at memory that grows with log T; or the paper's ``"tree"``; default: the first where 200 MiB hold its
            noise, else the second.
        mle_share: share of the budget for PrivateMLE, in (0, 1).
        calls: most calls of PrivateMLE, the one after exploration included; each gets an equal share, used or not.
        exploration: users T0 who are offered random assortments first; default: ``exploration_length``.
        trigger: PrivateMLE is called when det V has grown by this factor, > 1; the paper's is 2, the default spreads
            the calls over the users (``spread_trigger``).
        compare: since when: the last ``"call"``; or since the last ``"user"`` at whom V was looked at, as printed.
        bonus_scale: c, multiplier of the width of Lemma S10 without its 1 / kappa, >= 0; the paper's study has 1e-4.
        radius: features are scaled into the ball of this radius before anything is learned from them.
        growth: V, the bonus and the trigger are looked at when users have grown by this factor, >= 1; 1: every user.
        calibration: ``"correct"``, or ``"published"``: the paper's constants, without clipping.
    """

    horizon: Count | None = None
    counter: CounterName | None = None
    mle_share: Open01 = 0.9
    calls: Count = 8
    exploration: Count | None = None
    trigger: Annotated[float, Above(1)] | None = None
    compare: Literal["call", "user"] = "call"
    bonus_scale: NonNegative = 1e-4
    radius: Annotated[float, Within(1e-6, 1e6)] = 1.0
    growth: Annotated[float, AtLeast(1)] = 1.05
    calibration: Calibration = "correct"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon is not None and self.rho is not None:
            raise ValueError(f"one of epsilon and rho can be given; got epsilon={self.epsilon}, rho={self.rho}.")

    @abstractmethod
    def spending(self, dim: int, capacity: int, horizon: int) -> Spending:
        """Return how the budget is split between PrivateCov and the calls of PrivateMLE (Alg. 1, lines 8 and 14)."""

    def share(self, calls: int) -> float:
        """Return the share of PrivateMLE's budget that a call claims, given how many there were before."""
        return 1 / self.calls

    def call(self, first: ObjectivePerturbation, calls: int, dim: int, capacity: int) -> ObjectivePerturbation:
        """Return the mechanism of a call of PrivateMLE, given the first one and how many calls there were before."""
        return first

    @property
    def published(self) -> bool:
        return self.calibration == "published"


def published_loss(dim: int, capacity: int) -> UserLoss:
    """Return the published bounds on a user's loss, L = 2 and rank min(d, K - 1), which leave out |x|.

    Raises:
        ValueError: the rank is 0.
    """
    if capacity == 1:
        raise ValueError("capacity must be >= 2 for the published calibration, which divides by K - 1; got 1.")
    return UserLoss(dim, 2.0, 1.0, rank=min(dim, capacity - 1))


def exploration_length(noise: float, dim: int, horizon: int) -> int:
    """Return T0 for noise of ``noise`` radii on every coordinate of the likelihood's gradient: d (4 + 0.8 noise).

    A random user adds about R^2 / d to the information on every direction. So after T0 users the noise moves utilities
    by about 1 at first. No more than a twentieth of the users explore.

    Args:
        noise: sigma of PrivateMLE over R.
        dim: number of features d.
        horizon: number of users T.
    """
    return max(1, min(horizon // 20, math.ceil(min(dim * (4 + 0.8 * noise), horizon))))


def spread_trigger(horizon: int, exploration: int, dim: int, calls: int) -> float:
    """Return log of the factor of det V, at least 2, that spreads the calls: (T / T0)^(0.4 d / calls).

    If V grew like t, 0.4 of the calls would last until T; but noise and shift hold V up at first. (0.4 and the 0.8 of
    ``exploration_length`` were chosen on seeds 100 to 119 of the paper's setting, where they matter little.)
    """
    return max(math.log(2), 0.4 * dim / calls * math.log(horizon / exploration))
