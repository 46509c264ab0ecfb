"""Locally private LinUCB by perturbed sufficient statistics.

Kai Zheng, Tianle Cai, Weiran Huang, Zhenguo Li and Liwei Wang, "Locally Differentially Private (Contextual) Bandits
Learning", NeurIPS 2020, Algorithm 1 (LDP-OFUL, linear case). The window is this project's own, after Wang Chi Cheung,
David Simchi-Levi and Ruihao Zhu, "Learning to Optimize under Non-Stationarity", AISTATS 2019.
"""

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.arms import best_arm, optimistic_scorer
from privbandit_agents.base.guarantee import warn_unproven
from privbandit_agents.base.settings import Calibration, Count, NonNegative, Open01
from privbandit_agents.base.spaces import Action, Array
from privbandit_agents.local.linear.moments import MomentAgent, MomentSettings
from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon
from privbandit_agents.privacy.contributions.moments import SENSITIVITY, packed_size, perturbed_ridge
from privbandit_agents.privacy.mechanisms.additive import Gaussian
from privbandit_agents.privacy.randomizers.gaussian import GaussianReport


@dataclass(frozen=True)
class Config(MomentSettings):
    """Settings of LDP-LinUCB, beside those in ``MomentSettings``.

    Attributes:
        delta: of the report, in (0, 1).
        noise: ``"numpy"``, or ``"secure"`` (OpenDP; slow and unseeded).
        calibration: ``"correct"`` (analytic Gaussian at sensitivity 2) or ``"published"``
            (sigma = 6 sqrt(2 ln(2.5 / delta)) / epsilon on every packed coordinate: the entries of y x and those of
            x x' off the diagonal have sigma, those on it sqrt(2) sigma). The ledger records the real cost.
        bonus_scale: multiplier of the theoretical width of the confidence bonus, >= 0; 1 is the theory.
        window: only the last ``window`` users' reports count, and up to a tenth more before them; None: all do.
    """

    delta: Open01 = 1e-5
    calibration: Calibration = "correct"
    bonus_scale: NonNegative = 0.1
    window: Count | None = None


class LDPLinUCB(MomentAgent[Config]):
    """Every user reports (y x, x x') with Gaussian noise; the server plays LinUCB on the shifted ridge regression.

    *Formal guarantees.* (epsilon, delta)-local DP under replacement of a user's whole record: the report is the
    Gaussian mechanism on a vector of l2 sensitivity 2 (``pack``), calibrated exactly. One report a user, hence no
    composition. Records are clipped to |x| <= 1, |y| <= 1 on the device; those that are not finite count as (0, 0).
    A window changes which reports the server adds up: post-processing (docs/privacy/windows.md).

    Deviations:
        One joint report calibrated by the analytic Gaussian, w^2 = 1/2, in place of two classical ones of
        sigma = 6 sqrt(2 ln(2.5/delta))/epsilon; the policy changes at geometric times; the bonus is scaled by
        ``bonus_scale``, since the theoretical width never lets go of exploration at practical horizons.
    """

    Config = Config
    proof = "docs/privacy/regression-moments.md"
    gaussian = True
    settled = MomentAgent.estimated_best

    def begin(self) -> None:
        super().begin()
        config = self.config
        if config.calibration == "published":
            warn_unproven(self.name)
        if config.window is not None:
            self.guarantee = dataclasses.replace(self.guarantee, reference="docs/privacy/windows.md")
            # sums of the parts that are full, the newest first: a window forgets a tenth of its reports at a time
            self.parts, self.full = np.zeros((10, self.device.entries)), 0
            self.part = max(1, config.window // len(self.parts))

    def opened(self) -> GaussianReport:
        """Return how packed records leave the devices."""
        config, size = self.config, packed_size(self.dim)
        if config.calibration == "correct":
            mechanism = Gaussian.from_epsilon(config.epsilon, config.delta, SENSITIVITY, config.noise)
            spent = config.epsilon
        else:
            sigma = 6 * math.sqrt(2 * math.log(2.5 / config.delta)) / config.epsilon
            mechanism = Gaussian(sigma, math.inf, config.noise)
            spent = gaussian_epsilon(mu=SENSITIVITY / sigma, delta=config.delta)
        return GaussianReport(mechanism, max(spent, 1e-12), config.delta, size)

    def learn(self) -> None:
        """Set the optimistic scorer of the sum of the reports."""
        if self.config.window is not None and self.users % self.part == 0:
            self._turn()
        users, sigma = self.counted, self.device.deviation
        root, theta, added = perturbed_ridge(self.total, self.dim, sigma * math.sqrt(users), 1.0)
        # c (|noise of the moment| / sqrt(lambda) + sqrt(lambda) + sqrt(d ln(1 + t)))
        noise = sigma * math.sqrt(self.dim * users)
        theory = noise / math.sqrt(added) + math.sqrt(added) + math.sqrt(self.dim * math.log(1 + users))
        self.scorer = optimistic_scorer(root, theta, float(self.config.bonus_scale * theory))

    def select_action(self, context: Array) -> Action:
        """Return argmax of x . theta + width |x|_(A^-1)."""
        chosen: Action = best_arm(context, self.scorer, self.ties)
        return chosen

    @property
    def counted(self) -> int:
        """How many users' reports ``total`` holds."""
        return self.users if self.config.window is None else self.full * self.part + self.users % self.part

    def next_refit(self) -> int:
        if self.config.window is None:
            return super().next_refit()
        growing = self.users + max(1, math.ceil(self.counted * (self.config.growth - 1)))
        return min(growing, (self.users // self.part + 1) * self.part)

    def _turn(self) -> None:
        """Close the part that is full, and forget the oldest if there are too many."""
        newest = self.total - self.parts.sum(axis=0)
        self.parts = np.concatenate([newest[None], self.parts[:-1]])
        self.full = min(self.full + 1, len(self.parts))
        self.total = self.parts.sum(axis=0)
