"""Settings of DPMNL and of its benchmark, and the defaults that follow from public constants."""

import math
from dataclasses import dataclass

from privbandit_agents.joint.assortments.private_cov import COUNTERS
from privbandit_agents.privacy._validate import failure, within
from privbandit_envs.validate import above, at_least, count, one_of

RADII = (1e-6, 1e6)


@dataclass(frozen=True)
class Settings:
    """Settings of DPMNL and of its (epsilon, delta) benchmark.

    Attributes:
        epsilon: privacy budget, > 0; infinity adds no noise.
        delta: of (epsilon, delta), in (0, 1); default: 1e-5, of the benchmark 1/T^2.
        rho: zCDP budget instead of epsilon; 1 if neither is given. The benchmark takes the epsilon that it implies.
        horizon: number of users T, fixed in advance; default: the environment's.
        counter: of PrivateCov: ``"toeplitz"``, whose noise takes memory that grows with T; ``"buffered"``, within 1 %
            of it at memory that grows with log T; or the paper's ``"tree"``.
        mle_share: share of the budget for PrivateMLE, in (0, 1).
        calls: most calls of PrivateMLE, the one after exploration included; each gets an equal share, used or not.
        exploration: users T0 who are offered random assortments first; default: ``exploration_length``.
        trigger: PrivateMLE is called when det V has grown by this factor since the call before, > 1; the paper's is
            2, the default spreads the calls over the users (``spread_trigger``).
        bonus_scale: c, multiplier of the width of Lemma S10 without its 1 / kappa, >= 0; the paper's study has 1e-4.
        q: share of a call's budget for the noise, in (0, 1), of the published objective perturbation.
        radius: features are scaled into the ball of this radius before anything is learned from them.
        growth: V, the bonus and the trigger are looked at when users have grown by this factor, >= 1; 1: every user.
        calibration: ``"correct"``, or ``"published"``: the paper's constants, without clipping.
    """

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    horizon: int | None = None
    counter: str = "toeplitz"
    mle_share: float = 0.9
    calls: int = 8
    exploration: int | None = None
    trigger: float | None = None
    bonus_scale: float = 1e-4
    q: float = 0.5
    radius: float = 1.0
    growth: float = 1.05
    calibration: str = "correct"

    def __post_init__(self) -> None:
        """Check the ranges; budgets are checked by the ledger."""
        if self.epsilon is not None and self.rho is not None:
            raise ValueError(f"one of epsilon and rho can be given; got epsilon={self.epsilon}, rho={self.rho}.")
        for name in ("horizon", "exploration", "calls"):
            if getattr(self, name) is not None:
                count(**{name: getattr(self, name)})
        failure(mle_share=self.mle_share), failure(q=self.q)
        if self.delta is not None:
            failure(delta=self.delta)
        one_of(COUNTERS, counter=self.counter)
        one_of(("correct", "published"), calibration=self.calibration)
        at_least(0, bonus_scale=self.bonus_scale)
        at_least(1, growth=self.growth)
        if self.trigger is not None:
            above(1, trigger=self.trigger)
        within(*RADII, radius=self.radius)


def exploration_length(noise: float, dim: int, horizon: int) -> int:
    """Return T0 for noise of so many radii on every coordinate of the likelihood's gradient: d (4 + 0.8 noise).

    A random user tells about R^2 / d of every direction, so that after T0 users the noise moves utilities by about 1 at
    first. No more than a twentieth of the users explore.

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
