"""Input perturbation: every user sends features and reward with noise.

Jiachun Li, David Simchi-Levi and Yining Wang, "On the Optimal Regret of Locally Private Linear Contextual Bandit",
2024, Section 2.2, where it is shown to be limited to an error of n^(-1/3).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from privbandit_agents.base.agent import Array
from privbandit_agents.base.arms import played
from privbandit_agents.local.linear.moments import PureMomentAgent
from privbandit_agents.privacy.contributions.moments import sanitise
from privbandit_agents.privacy.mechanisms.symmetric import smat
from privbandit_agents.privacy.randomizers.inputs import inputs
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot
from privbandit_envs.validate import above, at_least, one_of, positive


@dataclass(frozen=True)
class Config:
    """Settings of input perturbation.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
        regression: ``"corrected"``: the noise's known variance is subtracted from the Gram matrix, which is shifted
            by a ridge for what is left: consistent. ``"plain"``: least squares on the noisy features, which for ever
            shrinks the estimate towards a multiple of the first moment.
        shift: ridge of the corrected regression in standard deviations of its largest noise, >= 0.
        ridge: least eigenvalue, > 0.
        growth: the policy changes when the number of users has grown by this factor, > 1.
    """

    epsilon: float = 1.0
    regression: str = "corrected"
    shift: float = 1.0
    ridge: float = 1.0
    growth: float = 1.05

    def __post_init__(self) -> None:
        """Check the ranges; epsilon is checked by the randomizer."""
        one_of(("corrected", "plain"), regression=self.regression)
        at_least(0, shift=self.shift)
        positive(ridge=self.ridge)
        above(1, growth=self.growth)


class InputPerturbation(PureMomentAgent[Config]):
    """Every user sends (x, y) with Laplace noise; the server regresses and plays the arm with the best estimate.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: (x, y) has l1 norm at most
    sqrt(d) + 1, so replacing it moves it by at most twice that, and the noise has the scale 2 (sqrt(d) + 1) / epsilon
    in every coordinate. Records are clipped to |x| <= 1, |y| <= 1 on the device; those that are not finite count as 0.

    Deviations:
        The published scale 1/epsilon in every coordinate is private for a change of norm 1 in one of them only.
    """

    Config = Config
    proof: ClassVar[str] = "docs/privacy/input-perturbation.md"
    fixed: ClassVar[frozenset[str]] = PureMomentAgent.fixed | {"products"}

    def device(self) -> LaplaceOneHot:
        """Return the randomizer of (x, y), which the products of reports have."""
        self.products = inputs(self.config.epsilon, self.dim)
        return self.products.randomizer

    def begin(self) -> None:
        """Sum up products of reports."""
        super().begin()
        self.total = np.zeros((self.dim + 1) * (self.dim + 2) // 2)

    def encode(self, context: Array, action: Any, feedback: Any) -> Array:
        """Return (x, y), shape (n, d + 1)."""
        contexts = np.asarray(context).reshape(-1, *(self.observation_space.shape or ()))
        return np.column_stack(sanitise(played(contexts, action), np.atleast_1d(feedback)))

    def far_apart(self) -> tuple[Array, Array]:
        """Return x = 1/sqrt(d) with reward 1, and their negatives."""
        sign = np.array([1.0, -1.0])
        return sign[:, None] * np.full(self.dim, self.dim**-0.5), sign

    def decode(self, report: Array) -> Array:
        """Return unbiased estimates of the products of the records."""
        return np.asarray(self.products.estimate(report))

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        """Sums of products of Laplace noise have no closed form."""
        return "exact" if np.isinf(self.config.epsilon) else "normal"

    def report_sum(self, packed: Array, counts: Array) -> Array:
        """Draw the sum of all users' products at once."""
        return np.asarray(self.products.approximate_sum(packed, self.rng, counts))

    def learn(self) -> None:
        """Regress y on x."""
        products, variance = smat(self.total), self.products.variance
        gram, moment = products[:-1, :-1], products[:-1, -1]
        if self.config.regression == "plain":
            added = self.users * variance
        else:
            added = self.config.shift * math.sqrt(self.users * (5 * variance**2 + 4 * variance))
        values, vectors = np.linalg.eigh(gram + added * np.eye(self.dim))
        self.scorer[:, -1] = vectors @ (vectors.T @ moment / np.maximum(values, self.config.ridge))
