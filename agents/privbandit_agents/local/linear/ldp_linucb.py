"""Locally private LinUCB by perturbed sufficient statistics.

Kai Zheng, Tianle Cai, Weiran Huang, Zhenguo Li and Liwei Wang, "Locally Differentially Private (Contextual) Bandits
Learning", NeurIPS 2020, Algorithm 1 (LDP-OFUL, linear case).
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from privbandit_agents.base.agent import Array
from privbandit_agents.base.arms import optimistic_scorer
from privbandit_agents.base.settings import Calibration, NonNegative, Open01, Positive
from privbandit_agents.local.linear.moments import GaussianChannel, MomentAgent, MomentSettings
from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon
from privbandit_agents.privacy.accounting.costs import approximate
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.contributions.moments import SENSITIVITY, packed_size, perturbed_ridge
from privbandit_agents.privacy.mechanisms.additive import Gaussian


@dataclass(frozen=True)
class Config(MomentSettings):
    """Settings of LDP-LinUCB, beside those in ``MomentSettings``.

    Attributes:
        delta: of the report, in (0, 1).
        noise: ``"numpy"``, or ``"secure"`` (OpenDP; slow and unseeded).
        calibration: ``"correct"`` (analytic Gaussian at sensitivity 2) or ``"published"``
            (sigma = 6 sqrt(2 ln(2.5 / delta)) / epsilon on every packed coordinate: the entries of y x and those of
            x x' off the diagonal have sigma, those on it sqrt(2) sigma). The ledger says what it really spends.
        bonus_scale: multiplier of the theoretical width of the confidence bonus, >= 0; 1 is the theory.
        shift: ridge in units of the noise's spectral norm, >= 0.
        ridge: least ridge, > 0.
    """

    delta: Open01 = 1e-5
    calibration: Calibration = "correct"
    bonus_scale: NonNegative = 0.1
    shift: NonNegative = 1.0
    ridge: Positive = 1.0


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
    proof = "docs/privacy/regression-moments.md"
    gaussian = True

    def begin(self) -> None:
        super().begin()
        if self.config.calibration == "published":
            promise_nothing(self)

    def open_channel(self) -> GaussianChannel:
        return channel_of(self.config, self.dim)

    def learn(self) -> None:
        self.scorer = scorer_of(self, self.config)


def promise_nothing(agent: MomentAgent[Any]) -> None:
    """Warn that the published calibration is in use, unproven, and let the ledger take what it costs."""
    agent.warn_unproven()
    agent.ledger = Ledger(math.inf, agent.config.delta)
    agent.guarantee = dataclasses.replace(agent.guarantee, proven=False)


def channel_of(config: Config, dim: int) -> GaussianChannel:
    """Return how packed records of d features leave the devices."""
    size = packed_size(dim)
    if config.calibration == "correct":
        mechanism = Gaussian.from_epsilon(config.epsilon, config.delta, SENSITIVITY, config.noise)
        spent = config.epsilon
    else:
        sigma = 6 * math.sqrt(2 * math.log(2.5 / config.delta)) / config.epsilon
        mechanism = Gaussian(sigma, math.inf, config.noise)
        spent = gaussian_epsilon(config.delta, SENSITIVITY / sigma)
    return GaussianChannel(mechanism, approximate(max(spent, 1e-12), config.delta), size)


def scorer_of(agent: MomentAgent[Any], config: Config) -> Array:
    """Return the optimistic scorer of the sum of an agent's reports."""
    noise = agent.sigma * math.sqrt(agent.users)
    a, theta, added = perturbed_ridge(agent.total, agent.dim, noise, config.ridge, config.shift)
    # c (|noise of the moment| / sqrt(lambda) + sqrt(lambda) + sqrt(d ln(1 + t)))
    noise = agent.sigma * math.sqrt(agent.dim * agent.users)
    theory = noise / math.sqrt(added) + math.sqrt(added) + math.sqrt(agent.dim * math.log(1 + agent.users))
    return optimistic_scorer(a, theta, float(config.bonus_scale * theory))
