"""Logistic regression from a public start, by locally private gradients.

The release is that of John Duchi, Michael Jordan and Martin Wainwright, "Minimax Optimal Procedures for Locally Private
Estimation", JASA 2018, or its caps; the combination is this project's own.
"""

from dataclasses import dataclass
from typing import Literal

from privbandit_agents.base.kernels.features import PublicFeatures
from privbandit_agents.base.labels import Floats
from privbandit_agents.base.settings import Count, HalfOpen01, Positive
from privbandit_agents.local.gradients.descent import GradientAgent, Kind, Schedule
from privbandit_agents.local.gradients.models import Linear, logistic_fit
from privbandit_agents.local.label_agent import LocalLabelSettings


@dataclass(frozen=True)
class Config(LocalLabelSettings):
    """Settings of warm LDP-SGD, beside those in ``LocalLabelSettings``.

    Attributes:
        report: ``"auto"`` (least variance), ``"bin-cap"`` or ``"hemisphere"``.
        step: of the mean gradient of 500 users at first, > 0; None: 0.8 v^(-3/4), at most 10, with v the variance of a
            coordinate of a report.
        batch: users per gradient step, all at the same theta; None: 500, or a 50th of the horizon if that is less.
        clip: largest norm of a gradient, in (0, 1]; longer ones are scaled down to it.
        horizon: expected number of users, for the batches.
        noise: ``"numpy"``, or ``"secure"``: hemispheres by the operating system's random numbers; unseeded.
    """

    report: Kind = "auto"
    step: Positive | None = None
    batch: Count | None = None
    clip: HalfOpen01 = 1.0
    horizon: Count | None = None
    noise: Literal["numpy", "secure"] = "numpy"


class WarmLDPSGD(GradientAgent[Config]):
    """Logistic regression on the public rows, then a step by the mean private gradient of every batch of users.

        u = (features standardized by the public rows and clipped to [-3, 3], 1)
        theta = argmin over the public rows of the logistic loss + 3/2 |theta|^2
        average = theta; n = 0
        for every batch of users:
            each computes g = (p - y) u at theta on its device, clips it to norm ``clip``,
                and reports it by one private direction, which the server turns into an unbiased estimate
            theta = theta - step / (500 sqrt(1 + n / 10000)) * (sum of the batch's estimates)
            n = n + size of the batch
            average = mean of the iterates, the one after n users weighing (size of the batch) n
        predict by average

    Without public rows of both labels it starts at theta = 0.

    *Formal guarantees.* Those of ``GradientAgent``. Steps and batches are fixed by public settings.
    """

    Config = Config

    def start(self) -> tuple[Linear, Floats]:
        x, y = self.public_data
        features = PublicFeatures.of(x, unit=False)
        self.kind, self.clip = self.config.report, self.config.clip
        return Linear(features), logistic_fit(features(x), y, ridge=3.0)

    def scheduled(self) -> Schedule:
        noise = max(self.clip**2 * self.device.variance(own=False), 1e-9)
        step = self.config.step or min(0.8 / noise**0.75, 10.0)  # chosen on the envelope's label worlds
        largest = 500
        share = largest if self.config.horizon is None else max(self.config.horizon // 50, 1)
        return Schedule(step / largest, self.config.batch or min(largest, share), decay=10_000, power=1.0)
