"""LinUCB in the shuffle model: batches of users, with moments summed from mixed bits.

Evrard Garcelon, Kamalika Chaudhuri, Vianney Perchet and Matteo Pirotta, "Privacy Amplification via Shuffling for Linear
Contextual Bandits", ALT 2022; Sayak Ray Chowdhury and Xingyu Zhou, "Shuffle Private Linear Contextual Bandits", ICML
2022.
"""

import math
from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.agent import next_change
from privbandit_agents.base.arms import optimistic_scorer, ridge_width
from privbandit_agents.base.settings import Growth, NonNegative
from privbandit_agents.base.spaces import Array
from privbandit_agents.privacy.contributions.moments import SENSITIVITY, pack, perturbed_ridge
from privbandit_agents.shuffle.batches import BatchSettings, ShuffleBatches


@dataclass(frozen=True)
class Config(BatchSettings):
    """Settings of shuffle-LinUCB, beside those in ``BatchSettings``.

    Attributes:
        growth: a batch ends when the number of users has grown by this factor, > 1.
        bonus_scale: multiplier of the theoretical width of the confidence bonus, >= 0; 1 is the theory.
    """

    growth: Growth = 1.3
    bonus_scale: NonNegative = 0.1


class ShuffleLinUCB(ShuffleBatches[Config]):
    """Devices send (y x, w svec(x x')) in bits, fair coins among them; a shuffler mixes, the server counts ones.

    Algorithm:
        1. Serve a batch of users by the policy; each device sends the bits of its rounded moments and its coins.
        2. The shuffler mixes the bits of each coordinate over the batch.
        3. The server takes the number of ones less its mean under the coins: the sum of the batch's moments and
           binomial noise. It adds it to those of earlier batches, with weight n / (n + d sigma^2) for n users.
        4. The policy is LinUCB on the ridge regression of that; the next batch is larger; go to 1.

        If the arms share a context, each has a regression of its own, as in ``jdp-linucb``: a device sends the bits of
        one block of moments for each arm, those of the other arms being zeros.

    *Formal guarantees.* Those of ``ShuffleBatches``, at sensitivity 2 (``pack``; of the blocks of two arms, sqrt(3)).
    Devices clip records to |x| <= 1, |y| <= 1; records that are not finite count as (0, 0), and all devices send
    equally many bits. Proof: docs/privacy/shuffled-sums.md.

    Deviations:
        Both papers take batches of equal length; here they grow, so that there are log T of them. Garcelon et al. mix
        single reports; Chowdhury and Zhou sum bits as here, with amplification bounds that are not calibrated to finite
        batches; here the coins are counted by a bound proved for each number of coins. The bonus is scaled.
    """

    Config = Config
    proof, moved = "docs/privacy/shuffled-sums.md", SENSITIVITY

    def begin(self) -> None:
        super().begin()
        self.total, self.variance, self.counted = np.zeros(self.size), 0.0, 0.0  # users are weighted

    def following(self, users: int) -> int:
        return next_change(users, self.config.growth, self.config.first)

    def packed(self, features: Array, rewards: Array, models: Array | int) -> Array:
        return pack(features, rewards)

    def learned(self, noisy: Array, sigma: float, users: int) -> Array:
        # the weighted sum of all batches so far
        weight = users / (users + self.models * self.dim * sigma**2)
        self.total = self.total + weight * noisy
        self.variance += weight**2 * sigma**2
        self.counted += weight * users
        # the regressions of that
        spread = math.sqrt(self.variance)
        roots, thetas, added = perturbed_ridge(self.total.reshape(self.models, -1), self.dim, spread, 1.0)
        width = self.config.bonus_scale * ridge_width(spread, added, self.dim, self.counted)
        return optimistic_scorer(roots, thetas, width)

    def predict(self, contexts: Array) -> Array | None:
        """Return x . theta, clipped to [-1, 1] as rewards are, shape (m, K); None if arms share a context."""
        return None if self.shared_context else np.clip(contexts @ self.scorer[:, -1], -1.0, 1.0)
