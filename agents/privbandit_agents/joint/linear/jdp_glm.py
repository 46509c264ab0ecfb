"""Jointly private logistic bandits by noisy Newton steps.

After the abstract of Sahasrajit Sarmasarkar, "Shuffle and Joint Differential Privacy for Generalized Linear Contextual
Bandits", 2026: generalized linear models under joint privacy. The text was not at hand; steps and proof are this
project's own. Steps by noisy Hessians are those of Arun Ganesh, Mahdi Haghifam, Thomas Steinke and Abhradeep Thakurta,
"Faster Differentially Private Convex Optimization via Second-Order Methods", NeurIPS 2023.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import scipy

from privbandit_agents.base.arms import optimistic_scorer
from privbandit_agents.base.settings import Budget, Count, LateSettings, NonNegative, Open01, Within
from privbandit_agents.base.spaces import Array
from privbandit_agents.joint.linear.schedules import Batches
from privbandit_agents.joint.linear.sums import SummedRecords
from privbandit_agents.joint.settings import GaussianSettings
from privbandit_agents.privacy.contributions import logistic
from privbandit_agents.privacy.contributions.moments import inverse_root, packed_sum

Radius = Annotated[float, Within(1e-6, logistic.FARTHEST)]


@dataclass(frozen=True)
class Config(GaussianSettings, LateSettings):
    """Settings of JDP-GLM, besides the budget.

    Attributes:
        horizon: number of users T; default: the environment's. The first batch is at most T/4; more users may come.
        first: length of the first batch, which gets arms at random; default: sqrt(K d) (9 + 3/sqrt(rho)), K models.
        radius: theta is projected on a ball of this radius, > 0 and at most 20; noise grows with |theta|, to double.
        bonus_scale: multiplier of |x| in the norm of the inverse precision, added to x . theta, >= 0.
    """

    epsilon: Budget = 1.0
    delta: Open01 = 1e-5
    horizon: Count | None = None
    first: Count | None = None
    radius: Radius = 5.0
    bonus_scale: NonNegative = 0.5


class JDPGLM(SummedRecords[Config]):
    """Batches of users, each used once: noisy gradients and Hessians of their likelihood correct theta.

    Algorithm:
        1. P <- I, theta <- 0; n <- length of the first batch, which gets arms at random.
        2. Serve n users by argmax x . theta + bonus |x|_(P^-1). Each, with reward y in [0, 1] and
           mu = 1 / (1 + exp(-x . theta)), adds to g <- sum of (y - mu) x and H <- sum of mu (1 - mu) x x'.
        3. Release (g, sqrt(2) svec(H)) with Gaussian noise.
        4. Weigh the model (g, H) by its noise, M = H (H + v I)^-1 H; P <- P + M, and theta moves to the maximum of the
           sum of the old model and the new one (``improved``), within the ball of ``radius``.
        5. Forget the users; n <- half of all users so far, or since the last arm came; go to 2.

        If the arms share a context x, each has a model of its own, on the features ``with_intercept``; the release has
        one block of derivatives for each arm. If rewards are +-1, those of -1 count as 0.

    *Formal guarantees.* sqrt(2 rho)-Gaussian DP (hence (epsilon, delta)-joint DP and rho-zCDP) under replacement of a
    user's whole record, for any record whatever. A record moves the sum of a batch by at most ``sensitivity`` of
    |theta|, between 1.12 and 2.07 in the l2 norm, which the noise of the batch covers; theta is released before the
    batch. Ends of batches are functions of time, of settings, and of when arms come, which is public. A user is in one
    batch, so batches compose in parallel (adaptively), and actions read releases only. It holds for the numbers that
    leave: noise is discrete, on a grid, and covers the rounding of sums. Proof: docs/privacy/logistic-steps.md.

    Deviations:
        The paper is said to treat adversarial contexts, with design matrices that are tracked continually. Here batches
        end by time, so that each user is used once, at the whole budget.

    Attributes:
        release: [bonus P^(-1/2) | theta] of each model, shape (d, models (d + 1)).
    """

    Config = Config
    schedule: Batches
    proof = "docs/privacy/logistic-steps.md"

    def begin(self) -> None:
        self.belief = logistic.Belief(self.models, self.width)
        super().begin()

    def add_arms(self, names: Sequence[str]) -> None:
        """Let arms come, as all agents do; from now on batches are short again, so that they are learned soon."""
        super().add_arms(names)
        self.schedule.arms_came(self.users)

    def scheduled(self) -> Batches:
        wanted = math.sqrt(self.models * self.dim) * (9 + 3 / math.sqrt(self.rho))
        latest = self.config.counted(self.config.horizon or 10_000) / 4
        return Batches(self, self.config.first or max(1, math.ceil(min(wanted, latest))))

    @property
    def moved(self) -> float:
        return logistic.sensitivity(self.belief.norms)

    def rows(self, features: Array, rewards: Array, models: Array | int) -> Array:
        """Return (sqrt(h) x, r / sqrt(h)), whose products are the Hessian and the gradient, of clipped records."""
        answers = (rewards + 1) / 2 if self.shared_context else rewards
        rows, scores = logistic.factors(features, answers, self.belief.theta[models])
        return np.concatenate([rows, scores[:, None]], axis=1)

    def clipped(self, features: Array, rewards: Array) -> tuple[Array, Array]:
        return features, rewards  # ``factors`` has clipped the records that they are of

    def term(self, products: Array) -> Array:
        return packed_sum(products, logistic.WEIGHT).reshape(-1)

    def learned(self, noisy: Array, sigma: float, users: int) -> Array:
        self.belief.learn(noisy, sigma, self.config.radius)
        return optimistic_scorer(inverse_root(self.belief.precision), self.belief.theta, self.config.bonus_scale)

    def predict(self, contexts: Array) -> Array | None:
        """Return the mean rewards of the arms, shape (m, K); None if arms share a context."""
        return None if self.shared_context else np.asarray(scipy.special.expit(contexts @ self.release[:, -1]))
