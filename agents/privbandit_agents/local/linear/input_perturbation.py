"""Input perturbation: every user sends features and reward with noise.

Jiachun Li, David Simchi-Levi and Yining Wang, "On the Optimal Regret of Locally Private Linear Contextual Bandit",
2024, Section 2.2, where it is shown to be limited to an error of n^(-1/3).
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from privbandit_agents.base.rows import Products, blocks
from privbandit_agents.base.settings import NonNegative
from privbandit_agents.base.spaces import Action, Array, Feedback
from privbandit_agents.local.linear.moments import MomentAgent, MomentSettings
from privbandit_agents.privacy.contributions.moments import Lifted, raised_solution, sanitise
from privbandit_agents.privacy.randomizers.inputs import NoisyProducts, inputs
from privbandit_agents.privacy.vectors import smat, svec


@dataclass(frozen=True)
class Config(MomentSettings):
    """Settings of input perturbation, beside those in ``MomentSettings``.

    Attributes:
        regression: ``"corrected"`` subtracts the noise's known variance from the Gram matrix and shifts it by a ridge
            for the rest: consistent. ``"plain"`` is least squares on the noisy features; its estimate stays
            shrunk towards a multiple of the first moment however many users come.
        shift: ridge of the corrected regression in standard deviations of its largest noise, >= 0.
    """

    regression: Literal["corrected", "plain"] = "corrected"
    shift: NonNegative = 1.0


class InputPerturbation(MomentAgent[Config]):
    """Every user sends (x, y) with Laplace noise; the server regresses and plays the arm with the best estimate.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: (x, y) has l1 norm at most
    sqrt(d) + 1, so replacing it moves it by at most twice that, and the noise has the scale 2 (sqrt(d) + 1) / epsilon
    in every coordinate. Records are clipped to |x| <= 1, |y| <= 1 on the device; those that are not finite count as 0.

    Deviations:
        The published scale 1/epsilon in every coordinate is private for a change of norm 1 in one of them only.

    Attributes:
        latest: sum of z z' over the noisy records z = (x, y) since the policy changed last, and not yet in ``total``.
        pending: how many records these are.
    """

    Config = Config
    proof = "docs/privacy/local-randomizers.md"

    def opened(self) -> NoisyProducts:
        if self.config.noise == "secure":
            reason = "noise='secure' is for guarantees that are exact, and that of Laplace noise is not"
            raise ValueError(f"{reason}; take prec-ts.")
        self.products = inputs(self.config.epsilon, self.dim)
        return self.products

    def begin(self) -> None:
        super().begin()
        self.latest, self.pending = Products(self.dim + 1), 0

    def absorb(self, report: Array) -> None:
        """Add up products of noisy records; their known bias comes off when the policy changes."""
        self.pay(len(report))
        records = self.products.randomizer.estimate(report)[:, 0]
        for (part,) in blocks(self.frozen_rounds, records, most=Products.AT_ONCE):
            self.latest.add(part)
            self.pending += len(part)
            self.add(self.total, len(part))

    def lift(self, context: Array, action: Action, feedback: Feedback) -> Lifted:
        """Return (x, y), shape (n, d + 1)."""
        x, y = sanitise(self.features(context, action), np.atleast_1d(feedback))
        return Lifted(np.column_stack([x, y]), x[:, :0])

    def learn(self) -> None:
        variance = self.products.variance
        self.total = self.total + svec(self.latest.take()[0] - self.pending * variance * np.eye(self.dim + 1))
        self.pending, products = 0, smat(self.total)
        gram, moment = products[:-1, :-1], products[:-1, -1]
        if self.config.regression == "plain":
            added = self.users * variance
        else:
            added = self.config.shift * math.sqrt(self.users * (5 * variance**2 + 4 * variance))
        self.scorer[:, -1] = raised_solution(gram + added * np.eye(self.dim), moment, 1.0)[1]
