"""Locally private LinUCB by perturbed sufficient statistics.

Kai Zheng, Tianle Cai, Weiran Huang, Zhenguo Li and Liwei Wang, "Locally Differentially Private (Contextual) Bandits
Learning", NeurIPS 2020, Algorithm 1 (LDP-OFUL, linear case).
"""

import math
from dataclasses import dataclass
from typing import Literal

from privbandit_agents.base.agent import Array, Guarantee
from privbandit_agents.local.linear.moments import MomentAgent
from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon
from privbandit_agents.privacy.accounting.ledger import Ledger, approximate
from privbandit_agents.privacy.contributions.moments import (
    SENSITIVITY,
)
from privbandit_agents.privacy.mechanisms.additive import Gaussian
from privbandit_envs.validate import above, at_least, one_of, positive


@dataclass(frozen=True)
class Config:
    """Settings of LDP-LinUCB.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
        delta: of the report, in (0, 1).
        noise: ``"numpy"``, or ``"secure"`` (OpenDP; slow and unseeded).
        calibration: ``"correct"`` (analytic Gaussian at sensitivity 2) or ``"published"``
            (sigma = 6 sqrt(2 ln(2.5 / delta)) / epsilon on every packed coordinate: the entries of y x and those of
            x x' off the diagonal have sigma, those on it sqrt(2) sigma). What it really spends is in the ledger.
        bonus_scale: multiplier of the theoretical width of the confidence bonus, >= 0; 1 is the theory.
        shift: ridge in units of the noise's spectral norm, >= 0.
        ridge: least ridge, > 0.
        growth: the policy changes when the number of users has grown by this factor, > 1.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    noise: str = "numpy"
    calibration: str = "correct"
    bonus_scale: float = 0.1
    shift: float = 1.0
    ridge: float = 1.0
    growth: float = 1.05

    def __post_init__(self) -> None:
        """Check the ranges; epsilon and delta are checked by the mechanism."""
        one_of(("correct", "published"), calibration=self.calibration)
        at_least(0, bonus_scale=self.bonus_scale)
        at_least(0, shift=self.shift)
        positive(ridge=self.ridge)
        above(1, growth=self.growth)


class LDPLinUCB(MomentAgent[Config]):
    """Every user reports (y x, x x') with Gaussian noise; the server plays LinUCB on the shifted ridge regression.

    *Formal guarantees.* (epsilon, delta)-local DP under replacement of a user's whole record: the report is the
    Gaussian mechanism on a vector of l2 sensitivity 2 (``pack``), calibrated exactly. One report a user, hence no
    composition. Records are clipped to |x| <= 1, |y| <= 1 on the device; those that are not finite count as (0, 0).

    Deviations:
        One joint report calibrated by the analytic Gaussian, w^2 = 1/2, in place of two classical ones of
        sigma = 6 sqrt(2 ln(2.5/delta))/epsilon; the policy changes at geometric times; the bonus is scaled by
        ``bonus_scale``, since the theoretical width never lets go of exploration at practical horizons.
    """

    Config = Config
    gaussian = True

    def begin(self) -> None:
        """Calibrate the devices."""
        super().begin()
        config = self.config
        correct = Gaussian.from_epsilon(config.epsilon, config.delta, SENSITIVITY, config.noise)
        proven = config.calibration == "correct"
        if not proven:
            self.warn_unproven()
        published = 6 * math.sqrt(2 * math.log(2.5 / config.delta)) / config.epsilon
        self.mechanism = correct if proven else Gaussian(published, math.inf, config.noise)
        self.sigma = self.mechanism.sigma
        real = config.epsilon if proven else gaussian_epsilon(config.delta, SENSITIVITY / published)
        self.cost = approximate(max(real, 1e-12), config.delta)
        self.ledger = Ledger(epsilon=config.epsilon if proven else math.inf, delta=config.delta)
        self.guarantee = Guarantee(
            notion="local",
            epsilon=config.epsilon,
            delta=config.delta,
            protects="context, action and reward of every user, from the server on",
            proven=proven,
            reference="docs/privacy/regression-moments.md",
        )

    def report(self, packed: Array) -> Array:
        """Add Gaussian noise."""
        return self.mechanism.release(packed, self.rng)

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        """A sum of Gaussians is one."""
        return "exact" if self.config.noise == "numpy" else ""

    def report_sum(self, packed: Array, counts: Array) -> Array:
        """Add the noise of all users at once."""
        return self.mechanism.release_sum(counts @ packed, int(counts.sum()), self.rng)

    def bonus(self, users: int, added: float) -> float:
        """Return c (|noise of the moment| / sqrt(lambda) + sqrt(lambda) + sqrt(d ln(1 + t)))."""
        noise = self.sigma * math.sqrt(self.dim * users)
        theory = noise / math.sqrt(added) + math.sqrt(added) + math.sqrt(self.dim * math.log(1 + users))
        return float(self.config.bonus_scale * theory)
