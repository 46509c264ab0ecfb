"""Locally private assortments by private gradients: the multinomial-logit bandit without a curator.

Young Hyun Cho and Will Wei Sun, "Privacy-Preserving Dynamic Assortment Selection", have a curator, and regret that does
not depend on the number of items; a local agent is the contrast. The gradient leaves by the l2-ball mechanism of
Duchi, Jordan and Wainwright, "Minimax Optimal Procedures for Locally Private Estimation", JASA 2018. Averages
with growing weights follow Shamir and Zhang, "Stochastic Gradient Descent for Non-smooth Optimization", ICML 2013.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from privbandit_agents.base.choices import best_sets, lay_out, sizes
from privbandit_agents.base.local import ENTRIES_AT_ONCE
from privbandit_agents.base.settings import Growth, Within
from privbandit_agents.base.spaces import Action, Array, Feedback, assortments
from privbandit_agents.local.linear.moments import MomentAgent, MomentSettings
from privbandit_agents.privacy.contributions.choices import clipped_gradients
from privbandit_agents.privacy.contributions.moments import Lifted
from privbandit_agents.privacy.randomizers.sphere import Hemisphere
from privbandit_agents.privacy.vectors import LIMIT

Bounded = Annotated[float, Within(1 / LIMIT, LIMIT)]


@dataclass(frozen=True)
class Config(MomentSettings):
    """Settings of LDP-MNL, beside the budget; wrong ones cost regret and no privacy.

    Attributes:
        growth: theta moves when the number of users has grown by this factor, > 1.
        step: length of the first step; the t-th user's has step / sqrt(t). About the norm of theta, > 0.
        radius: theta is projected on a ball of this radius, > 0.
        gradient_norm: G, to which a user's gradient is clipped, > 0; about the norm of a feature vector or below.
    """

    growth: Growth = 1.01
    step: Bounded = 4.0
    radius: Bounded = 5.0
    gradient_norm: Bounded = 0.7


class LDPMNL(MomentAgent[Config]):
    """Devices report the clipped gradient of their choice's likelihood by one private direction; the server steps.

    Algorithm:
        1. Offer the users of a batch the best sets for the average of the thetas so far. Each reports the gradient of
           its negative log-likelihood at the present theta, weighted and clipped to G.
        2. theta <- theta - step / (B sqrt(t)) times the sum of the reports, t users in all and B the norm of a report;
           project on the ball. The thetas of later users weigh more in the average.
        3. The next batch ends when the number of users has grown by the factor ``growth``; go to 1.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record, for any record whatever: one
    report a user by a randomizer with likelihood ratio at most e^epsilon for any two vectors of the ball of radius
    G. ``clipped_gradients`` are in this ball whatever theta is, and theta is a function of earlier reports. NaN or
    infinity in the offer makes a record of zeros, nothing bought: its gradient is 0.

    The noise of a report grows with the root of d and not with the number of items, which no report names.
    """

    Config = Config
    proof = "docs/privacy/public-coordinates.md"
    plays = staticmethod(assortments)

    def begin(self) -> None:
        super().begin()
        _, self.capacity, self.dim = sizes(self.observation_space, self.action_space)
        self.scorer = np.zeros((self.dim, 2))  # theta, at which gradients are taken, and the average, which plays
        self.stepped = 0

    def opened(self) -> Hemisphere:
        device = self.directions(sizes(self.observation_space, self.action_space)[2], self.config.gradient_norm)
        self.norm = device.scale  # B, of every estimate
        return device

    def select_action(self, context: Array) -> Action:
        """Return the best assortment for the average theta."""
        with np.errstate(over="ignore", invalid="ignore"):  # a non-finite record only hurts the user who sent it
            utilities = context[..., :-1] @ self.scorer[:, -1].astype(context.dtype)
            return best_sets(context, utilities, self.capacity, self.ties)

    def predict(self, contexts: Array) -> None:  # type: ignore[override]
        """Return None: actions are sets, and no arm has a mean of its own."""

    def lift(self, context: Array, action: Action, feedback: Feedback) -> Lifted:
        """Return the clipped gradients at theta, shape (n, d)."""
        x, offered, bought = lay_out(context, np.asarray(action), np.asarray(feedback), self.capacity)
        bounds = {"radius": 100.0, "gradient_norm": self.config.gradient_norm}
        gradients = clipped_gradients(x, bought, self.scorer[:, 0], offered, **bounds)
        return Lifted(gradients, np.zeros((len(gradients), 0)))

    @property
    def at_once(self) -> int:
        return max(1, ENTRIES_AT_ONCE // (self.capacity * self.dim))

    def learn(self) -> None:
        batch = self.users - self.stepped
        # many users at one theta are worth no longer step
        length = self.config.step * min(batch / self.users**0.5, 4.0)
        theta = self.scorer[:, 0] - length * self.total / (batch * self.norm)
        theta /= max(1.0, float(np.linalg.norm(theta)) / self.config.radius)
        # the t-th user's theta weighs t^3 in the average: early ones are soon forgotten
        kept = (self.stepped / self.users) ** 4
        self.scorer = np.column_stack([theta, kept * self.scorer[:, -1] + (1 - kept) * theta])
        self.total, self.stepped = np.zeros_like(self.total), self.users
