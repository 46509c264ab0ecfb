"""Logistic bandits in the shuffle model: Newton steps by derivatives that are summed from mixed bits.

After the abstract of Sahasrajit Sarmasarkar, "Shuffle and Joint Differential Privacy for Generalized Linear Contextual
Bandits", 2026: generalized linear models under shuffle privacy, for stochastic contexts. The text was not at hand;
steps and proof are this project's own. The sums are those of Albert Cheu, Matthew Joseph, Jieming Mao and Binghui Peng,
"Shuffle Private Stochastic Convex Optimization", ICLR 2022.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
import scipy

from privbandit_agents.base.agent import next_change
from privbandit_agents.base.arms import optimistic_scorer
from privbandit_agents.base.settings import NonNegative, Within
from privbandit_agents.base.spaces import Array
from privbandit_agents.privacy.contributions import logistic
from privbandit_agents.privacy.contributions.moments import inverse_root
from privbandit_agents.shuffle.batches import BatchSettings, ShuffleBatches

sensitivity = lru_cache(maxsize=64)(logistic.sensitivity)
Radius = Annotated[float, Within(1e-6, logistic.FARTHEST)]


@dataclass(frozen=True)
class Config(BatchSettings):
    """Settings of shuffle-GLM, beside those in ``BatchSettings``.

    Attributes:
        radius: theta is projected on a ball of this radius, > 0 and at most 20; noise grows with |theta|, to double.
        bonus_scale: multiplier of |x| in the norm of the inverse precision, added to x . theta, >= 0.
    """

    radius: Radius = 5.0
    bonus_scale: NonNegative = 0.5


class ShuffleGLM(ShuffleBatches[Config]):
    """Devices send their likelihood's derivatives at theta in bits, fair coins among them; a shuffler mixes them.

    Algorithm:
        1. P <- I, theta <- 0. Publish theta; serve a batch of users by argmax x . theta + bonus |x|_(P^-1). With
           reward y in [0, 1] and mu = 1 / (1 + exp(-x . theta)) each device sends the bits of its rounded
           ((y - mu) x, sqrt(2) mu (1 - mu) svec(x x')), and coins.
        2. The shuffler mixes the bits of each coordinate over the batch.
        3. The server takes the number of ones less its mean under the coins: the sum (g, H) and binomial noise.
        4. Weigh the model (g, H) by its noise, M = H (H + v I)^-1 H; P <- P + M, and theta moves to the maximum of the
           sum of the old model and the new one (``improved``), within the ball of ``radius``; the next batch is larger;
           go to 1.

        If the arms share a context x, each has a model of its own, on the features ``with_intercept``, and the first
        batch gets arms by public random directions of x. If rewards are +-1, those of -1 count as 0.

    *Formal guarantees.* Those of ``ShuffleBatches``, at the ``sensitivity`` of |theta|, which was published before the
    batch. Devices clip records to |x| <= 1 and y to [0, 1]; records that are not finite count as x = 0, and all devices
    send equally many bits. Proof: docs/privacy/logistic-steps.md.

    Deviations:
        The paper is said to need a regret analysis of batches with designs for stochastic contexts; here play is
        optimistic, and each batch takes one Newton step.
    """

    Config = Config
    proof = "docs/privacy/logistic-steps.md and docs/privacy/shuffled-sums.md"

    def begin(self) -> None:
        self.belief = logistic.Belief(self.models, self.width)
        super().begin()

    @property
    def moved(self) -> float:
        return sensitivity(self.belief.norms)  # asked for by every device of a batch

    @property
    def farthest(self) -> float:
        return logistic.sensitivity((self.config.radius,) * self.models)

    def following(self, users: int) -> int:
        return next_change(users, 1.5, self.config.first)  # half as many again

    def packed(self, features: Array, rewards: Array, models: Array | int) -> Array:
        answers = (rewards + 1) / 2 if self.shared_context else rewards
        return logistic.pack(features, answers, self.belief.theta[models])

    def learned(self, noisy: Array, sigma: float, users: int) -> Array:
        self.belief.learn(noisy, sigma, self.config.radius)
        return optimistic_scorer(inverse_root(self.belief.precision), self.belief.theta, self.config.bonus_scale)

    def predict(self, contexts: Array) -> Array | None:
        """Return the mean rewards of the arms, shape (m, K); None if arms share a context."""
        return None if self.shared_context else np.asarray(scipy.special.expit(contexts @ self.scorer[:, -1]))
