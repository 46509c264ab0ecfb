"""Locally private logistic bandits by private gradients.

Yuxuan Han, Zhipeng Liang, Yang Wang and Jiheng Zhang, "Generalized Linear Bandits with Local Differential Privacy",
NeurIPS 2021; for a curator Xi Chen, David Simchi-Levi and Yining Wang, "Privacy-Preserving Dynamic Personalized Pricing
with Demand Learning", Management Science 2022. The release is the l2-ball mechanism of Duchi, Jordan and Wainwright.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from privbandit_agents.base.settings import Positive
from privbandit_agents.base.spaces import Action, Array, Feedback
from privbandit_agents.local.linear.moments import MomentAgent, MomentSettings
from privbandit_agents.local.sums import Device
from privbandit_agents.privacy.contributions.moments import Lifted, sanitise


@dataclass(frozen=True)
class Config(MomentSettings):
    """Settings of LDP-GLM, beside those in ``MomentSettings``; a batch ends when the policy changes.

    Attributes:
        step: of the t-th user's gradient, times 1/t, > 0; about one over the least curvature of the expected loss.
        radius: theta is projected on a ball of this radius, > 0.
    """

    step: Positive = 40.0
    radius: Positive = 5.0


class LDPGLM(MomentAgent[Config]):
    """Devices report the gradient (mean(x . theta) - y) x by one private direction; the server steps, and is greedy.

    Algorithm:
        1. Serve a batch of users by theta, greedily; each reports the gradient of the logistic loss at theta.
        2. theta <- theta - min(step n / t, 4) times the mean report of the n users of the batch, t users in all;
           project on the ball.
        3. The next batch ends when the number of users has grown by the factor ``growth``; go to 1.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by a
    randomizer with likelihood ratio at most e^epsilon for any two vectors of the unit ball. Records are clipped on
    the device to |x| <= 1, and y to [0, 1], as the mean is, so that |gradient| <= 1 whatever theta is; theta is public.
    Records that are not finite count as (0, 0).

    Deviations:
        The paper takes one user a step with Gaussian noise, or theta from a first phase of exploration; here the report
        is pure, steps go by batches, and play is greedy throughout, since contexts explore.
    """

    Config = Config
    proof = "docs/privacy/public-coordinates.md"

    def begin(self) -> None:
        super().begin()
        self.stepped = 0

    def opened(self) -> Device:
        return self.directions(self.dim)

    def lift(self, context: Array, action: Action, feedback: Feedback) -> Lifted:
        """Return the gradients of the loss at theta, shape (n, d)."""
        x, y = sanitise(self.features(context, action), np.atleast_1d(feedback))
        residuals = self.mean(np.vecdot(x, self.scorer[:, -1])) - np.maximum(y, 0.0)
        return Lifted(residuals[:, None] * x, np.zeros((len(x), 0)))

    def mean(self, score: Array) -> Array:
        """Return the mean reward 1 / (1 + exp(-score)), in [0, 1]."""
        return np.asarray(scipy.special.expit(score))

    def learn(self) -> None:
        batch = self.users - self.stepped
        # one over the largest curvature of the logistic loss
        length = min(self.config.step * batch / self.users, 4.0)
        theta = self.scorer[:, -1] - length * self.total / batch
        self.scorer[:, -1] = theta / max(1.0, float(np.linalg.norm(theta)) / self.config.radius)
        self.total, self.stepped = np.zeros_like(self.total), self.users

    def predict(self, contexts: Array) -> Array:
        return self.mean(contexts @ self.scorer[:, -1])
