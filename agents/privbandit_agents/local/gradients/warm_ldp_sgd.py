"""Logistic regression from a public start, by locally private gradients.

The release is that of John Duchi, Michael Jordan and Martin Wainwright, "Minimax Optimal Procedures for Locally Private
Estimation", JASA 2018, or its caps; the combination is this project's own.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.local.gradients.descent import REPORTS, GradientAgent, Plan
from privbandit_agents.local.gradients.features import PublicFeatures, logistic_fit
from privbandit_envs.validate import at_least, count, fraction, one_of, positive

LONGEST = 3.0
"""Most that the mean gradient of a batch moves theta by default, if all gradients agree."""
NOISE = 8.0
"""Variance of a report's coordinate (about that of epsilon = 1) above which default steps shrink in proportion."""
BATCH = 500
DECAY = 10_000
"""After so many users steps are shorter by sqrt(2)."""
BATCHES = 50
"""Into so many batches a short horizon is cut."""


@dataclass(frozen=True)
class Config:
    """Settings of warm LDP-SGD.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
        report: ``"auto"`` (least variance), ``"bin-cap"`` or ``"hemisphere"``.
        step: of the mean gradient of 500 users at first, > 0; None: 3 over ``clip``, or less in proportion where the
            variance of a report's coordinate is above 8, as for epsilon below 1.
        batch: users whose gradients are taken at the same theta; None: 500, or a 50th of the horizon if that is less.
        clip: largest norm of a gradient, in (0, 1]; 1 is no clipping. Less raises the signal over the noise.
        ridge: of the public start, on standardised features, > 0.
        power: the iterate after t users weighs t^power in predictions, >= 0.
        exploration: probability of a random label; None: 0.
        horizon: expected number of users, for the batches.
    """

    epsilon: float = 1.0
    report: str = "auto"
    step: float | None = None
    batch: int | None = None
    clip: float = 0.25
    ridge: float = 3.0
    power: float = 1.0
    exploration: float | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        """Check the ranges; epsilon is checked by the randomizer."""
        one_of(REPORTS, report=self.report)
        if self.step is not None:
            positive(step=self.step)
        if self.batch is not None:
            count(batch=self.batch)
        if not 0 < self.clip <= 1:
            raise ValueError(f"clip must lie in (0, 1]; got {self.clip!r}.")
        positive(ridge=self.ridge)
        at_least(0, power=self.power)
        if self.exploration is not None:
            fraction(exploration=self.exploration)
        if self.horizon is not None:
            count(horizon=self.horizon)


class WarmLDPSGD(GradientAgent[Config]):
    """Logistic regression on the public rows, then a step by the mean private gradient of every batch of users.

    Features are standardised by public statistics, clipped and scaled to norm 1, so that the gradient of a user's loss
    is at most 1 long before it is clipped. Steps shrink with the square root of the users; predictions average the
    iterates, late ones more. Without public rows of both labels it starts at theta = 0.

    *Formal guarantees.* Those of ``GradientAgent``. Steps and batches are fixed by public settings.
    """

    Config: ClassVar[type[Any]] = Config

    def kind_of_report(self) -> str:
        """Return the setting."""
        return str(self.config.report)

    def start(self) -> Floats:
        """Fit the public rows."""
        x, y = self.public_data
        self.features, self.clip = PublicFeatures.of(x), self.config.clip
        return logistic_fit(self.features(x), y, self.config.ridge / self.features.dim)

    def plan(self) -> Plan:
        """Return steps as short as the noise asks for."""
        shrunk = min(NOISE / max(self.device.variance(own=False), 1e-9), 1.0)
        step = self.config.step or LONGEST * shrunk / self.clip
        share = BATCH if self.config.horizon is None else max(self.config.horizon // BATCHES, 1)
        return Plan(step / BATCH, self.config.batch or min(BATCH, share), DECAY, self.config.power)

    def scores(self, contexts: Floats, theta: Floats) -> Floats:
        """Return u . theta for the features u."""
        return np.asarray(np.vecdot(self.features(contexts), theta))

    def gradients(self, contexts: Floats, labels: Labels, theta: Floats) -> Floats:
        """Return (p - y) u."""
        u = self.features(contexts)
        return np.asarray((expit(np.vecdot(u, theta)) - labels)[:, None] * u)
