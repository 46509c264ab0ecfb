"""LinUCB in the shuffle model: batches of users, with moments summed from mixed bits.

Evrard Garcelon, Kamalika Chaudhuri, Vianney Perchet and Matteo Pirotta, "Privacy Amplification via Shuffling for Linear
Contextual Bandits", ALT 2022; Sayak Ray Chowdhury and Xingyu Zhou, "Shuffle Private Linear Contextual Bandits", ICML
2022.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from privbandit_agents.base.agent import (
    RECORD,
    SAME,
    Action,
    Array,
    Feedback,
    Guarantee,
    arms_or_context,
    next_change,
)
from privbandit_agents.base.arms import ArmModels, in_blocks, optimistic_scorer
from privbandit_agents.base.settings import (
    Budget,
    Count,
    Growth,
    HalfOpen01,
    NonNegative,
    Open01,
    PrivateSettings,
)
from privbandit_agents.base.shuffling import ShuffleAgent, Shuffler
from privbandit_agents.privacy.accounting.costs import approximate
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.contributions.moments import SENSITIVITY, pack, packed_size, perturbed_ridge
from privbandit_agents.privacy.randomizers.coins import CoinSums

PROTECTS = f"{RECORD}, from the server and a share 1 - honest of others, if the shuffler keeps senders secret"


@dataclass(frozen=True)
class Config(PrivateSettings):
    """Settings of shuffle-LinUCB.

    Attributes:
        epsilon: privacy budget of every user, > 0; infinity tosses no coins.
        delta: of (epsilon, delta), in (0, 1).
        honest: the least share of a batch's other devices that toss their coins as they should and keep them secret, in
            (0, 1]; the rest may be one coalition with the server. Fewer honest devices make all toss more.
        first: users of the first batch, and of every later one at least.
        growth: a batch ends when the number of users has grown by this factor, > 1.
        bonus_scale: multiplier of the theoretical width of the confidence bonus, >= 0; 1 is the theory.
        noise: of the coins, ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.
    """

    epsilon: Budget = 1.0
    delta: Open01 = 1e-5
    honest: HalfOpen01 = 0.8
    first: Count = 100
    growth: Growth = 1.3
    bonus_scale: NonNegative = 0.1
    noise: Literal["numpy", "secure"] = "numpy"


class ShuffleLinUCB(ArmModels, ShuffleAgent[Config]):
    """Devices send (y x, w svec(x x')) in bits, fair coins among them; a shuffler mixes, the server counts ones.

    Algorithm:
        1. Serve a batch of users by the policy; each device sends the bits of its rounded moments and its coins.
        2. The shuffler mixes the bits of each coordinate over the batch.
        3. The server takes the number of ones less its mean under the coins: the sum of the batch's moments and
           binomial noise. It adds it to those of earlier batches, with weight n / (n + d sigma^2) for n users.
        4. The policy is LinUCB on the ridge regression of that; the next batch is larger; go to 1.

        If the arms share a context, each has a regression of its own, as in ``jdp-linucb``: a device sends the bits of
        one block of moments for each arm, those of the other arms being zeros.

    *Formal guarantees.* (epsilon, delta)-DP under replacement of a user's whole record, towards everybody who sees the
    messages of all batches in arbitrary order, and all that follows from them: the server, and other users, who know
    their own coins. A user is in one batch, by time alone; of a batch the numbers of ones are all that is seen, and
    they are private by ``CoinSums`` at sensitivity 2 (``pack``; of the blocks of two arms, sqrt(3)). The shuffler is
    trusted to forget who sent what, and a share ``honest`` of the other devices of a batch to toss their coins and to
    keep them secret; single others need not be trusted, whatever ``honest`` is. Devices clip records to |x| <= 1,
    |y| <= 1; records that are not finite count as (0, 0), and all devices send equally many bits.

    Deviations:
        Both papers take batches of equal length; here they grow, so that there are log T of them. Garcelon et al. mix
        single reports; Chowdhury and Zhou sum bits as here, with amplification bounds that are not calibrated to finite
        batches; here the coins are counted by a bound proved for each number of coins. The bonus is scaled.
    """

    Config = Config
    gaussian = True  # presumed beside the promise: the Gaussian mechanism of (epsilon, delta) has more loss
    fixed: ClassVar[frozenset[str]] = ShuffleAgent.fixed | {"sums", "sized"}
    sized: tuple[int, int] = -1, 0
    """The users behind an open batch, and how many it takes."""
    plays = staticmethod(arms_or_context)

    def begin(self) -> None:
        super().begin()
        config, self.dim = self.config, self.width
        size = self.models * packed_size(self.dim)
        self.users, self.counted = 0, 0.0  # the second is weighted
        self.sums = CoinSums.from_epsilon(config.epsilon, config.delta, size, SENSITIVITY, config.honest)
        if self.sums.one_by_one:
            self.sums = dataclasses.replace(self.sums, noise=config.noise)
        self.shuffler, self.cost = Shuffler(2 * size), approximate(config.epsilon, config.delta)
        self.ledger = Ledger(config.epsilon, config.delta)
        self.guarantee = Guarantee(
            "shuffle",
            config.epsilon,
            config.delta,
            neighbours=SAME,
            protects=PROTECTS,
            reference="docs/privacy/shuffled-sums.md",
            arithmetic="exact" if self.sums.one_by_one else "real",
        )
        self.sums.messages(self.batch_size)  # refuses what cannot be counted, before anybody comes
        self.total, self.variance = np.zeros(size), 0.0
        self.scorer = np.zeros((self.dim, self.models * (self.dim + 1)))

    @property
    def batch_size(self) -> int:
        if self.sized[0] != self.users:
            self.sized = self.users, next_change(self.users, self.config.growth, self.config.first) - self.users
        return self.sized[1]

    def select_action(self, context: Array) -> Action:
        """Return argmax of x . theta + bonus |x|_(A^-1)."""
        chosen: Action = self.optimistic(context, self.scorer)
        return chosen

    def settled(self, context: Array) -> Action:
        """Return argmax of x . theta, for n users who do not report."""
        best: Action = self.greedy(context, self.scorer)
        return best

    def randomize(self, context: Array, action: Action, feedback: Feedback) -> Array:
        features, rewards, models = self.regressed(*self.records_of(context, action, feedback))
        moments = in_blocks(pack(features, rewards), models, self.models)
        return self.sums.randomize(moments, self.batch_size, self.rng)

    def absorb(self, bag: Array, users: int) -> None:
        variance = self.sums.sigma(users) ** 2
        weight = users / (users + self.models * self.dim * variance)
        self.total = self.total + weight * self.sums.estimate(bag, users)
        self.variance += weight**2 * variance
        self.users, self.counted = self.users + users, self.counted + weight * users
        self.learn()

    def learn(self) -> None:
        """Set ``scorer`` by the weighted sum of all batches so far."""
        config, sigma = self.config, math.sqrt(self.variance)
        parts = np.split(self.total, self.models)
        solved = [perturbed_ridge(part, self.dim, sigma, 1.0) for part in parts]
        added = solved[0][2]
        theory = (
            sigma * math.sqrt(self.dim / added) + math.sqrt(added) + math.sqrt(self.dim * math.log(1 + self.counted))
        )
        self.scorer = np.hstack([optimistic_scorer(a, theta, config.bonus_scale * theory) for a, theta, _ in solved])

    def predict(self, contexts: Array) -> Array | None:
        """Return x . theta, clipped to [-1, 1] as rewards are, shape (m, K); None if arms share a context."""
        return None if self.shared_context else np.clip(contexts @ self.scorer[:, -1], -1.0, 1.0)
