"""Locally private stochastic gradient descent for linear bandits.

Yuxuan Han, Zhipeng Liang, Yang Wang and Jiheng Zhang, "Generalized Linear Bandits with Local Differential Privacy",
NeurIPS 2021; the release is the l2-ball mechanism of Duchi, Jordan and Wainwright, JASA 2018.
"""

import math
from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.settings import Positive
from privbandit_agents.base.spaces import Action, Array, Feedback
from privbandit_agents.local.linear.moments import MomentAgent, MomentSettings
from privbandit_agents.local.sums import Device
from privbandit_agents.privacy.contributions.moments import Lifted, sanitise


@dataclass(frozen=True)
class Config(MomentSettings):
    """Settings of private gradient descent, beside those in ``MomentSettings``; a batch ends when the policy changes.

    Attributes:
        step: of the t-th user's gradient, times 1/t, > 0; about one over the least eigenvalue of E[x x'].
        radius: theta is projected on a ball of this radius, > 0.
    """

    step: Positive = 4.0
    radius: Positive = 1.0


class LDPSGD(MomentAgent[Config]):
    """Every user reports the gradient of its own loss by one private direction; the server steps, and plays greedily.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by a
    randomizer with likelihood ratio at most e^epsilon for any two inputs. Records are clipped to |x| <= 1,
    |y| <= 1 on the device, so that |gradient| <= 1 + |theta|, by which it is divided: theta is public. Records that are
    not finite count as (0, 0).

    Deviations:
        The users of a batch take their gradients at the same theta, and the server makes one step, with the sum of
        their steps but never longer than that of plain gradient descent. One user a step is the limit of
        ``growth`` near 1; with batches users can be served by counts.
    """

    Config = Config
    proof = "docs/privacy/public-coordinates.md"

    def begin(self) -> None:
        super().begin()
        self.stepped = 0

    def opened(self) -> Device:
        return self.directions(self.dim)

    def lift(self, context: Array, action: Action, feedback: Feedback) -> Lifted:
        """Return the gradients (x . theta - y) x over their largest length, shape (n, d)."""
        x, y = sanitise(self.features(context, action), np.atleast_1d(feedback))
        gradients = ((np.vecdot(x, self.scorer[:, -1]) - y) / self.longest)[:, None] * x
        return Lifted(gradients, np.zeros((len(x), 0)))

    @property
    def longest(self) -> float:
        """1 + |theta|, which no gradient exceeds."""
        theta = self.scorer[:, -1].copy()
        return 1.0 + math.sqrt(theta.dot(theta))

    def learn(self) -> None:
        batch = self.users - self.stepped
        length = min(self.config.step * batch / self.users, 1.0)
        theta = self.scorer[:, -1] - length * self.longest * self.total / batch
        self.scorer[:, -1] = theta / max(1.0, float(np.linalg.norm(theta)) / self.config.radius)
        self.total, self.stepped = np.zeros_like(self.total), self.users

    def predict(self, contexts: Array) -> Array:
        return np.asarray(contexts @ self.scorer[:, -1])
