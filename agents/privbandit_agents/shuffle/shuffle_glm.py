"""Logistic bandits in the shuffle model: Newton steps by derivatives that are summed from mixed bits.

After the abstract of Sahasrajit Sarmasarkar, "Shuffle and Joint Differential Privacy for Generalized Linear Contextual
Bandits", 2026: generalized linear models under shuffle privacy, for stochastic contexts. The text was not at hand;
steps and proof are this project's own. The sums are those of Albert Cheu, Matthew Joseph, Jieming Mao and Binghui Peng,
"Shuffle Private Stochastic Convex Optimization", ICLR 2022.
"""

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np
import scipy

from privbandit_agents.base.agent import (
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
    HalfOpen01,
    NonNegative,
    Open01,
    PrivateSettings,
    Within,
)
from privbandit_agents.base.shuffling import ShuffleAgent, Shuffler
from privbandit_agents.privacy.accounting.costs import approximate
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.contributions import logistic
from privbandit_agents.privacy.contributions.moments import packed_size
from privbandit_agents.privacy.randomizers.coins import CoinSums
from privbandit_agents.shuffle.shuffle_linucb import PROTECTS

Radius = Annotated[float, Within(1e-6, logistic.FARTHEST)]


@dataclass(frozen=True)
class Config(PrivateSettings):
    """Settings of shuffle-GLM.

    Attributes:
        epsilon: privacy budget of every user, > 0; infinity tosses no coins.
        delta: of (epsilon, delta), in (0, 1).
        honest: the least share of a batch's other devices that toss their coins as they should and keep them secret, in
            (0, 1]; the rest may be one coalition with the server. Fewer honest devices make all toss more.
        first: users of the first batch, and of every later one at least.
        radius: theta is projected on a ball of this radius, > 0 and at most 20; noise grows with |theta|, to double.
        bonus_scale: multiplier of |x| in the norm of the inverse precision, added to x . theta, >= 0.
        noise: of the coins, ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.
    """

    epsilon: Budget = 1.0
    delta: Open01 = 1e-5
    honest: HalfOpen01 = 0.8
    first: Count = 100
    radius: Radius = 5.0
    bonus_scale: NonNegative = 0.5
    noise: Literal["numpy", "secure"] = "numpy"


class ShuffleGLM(ArmModels, ShuffleAgent[Config]):
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

    *Formal guarantees.* (epsilon, delta)-DP under replacement of a user's whole record, towards everybody who sees the
    messages of all batches in arbitrary order, and all that follows from them: the server, and other users, who know
    their own coins. A user is in one batch, by time alone; of a batch the numbers of ones are all that is seen, and
    they are private by ``CoinSums`` at the ``sensitivity`` of |theta|, which was published before the batch. The
    shuffler is trusted to forget who sent what, and a share ``honest`` of the other devices of a batch to toss their
    coins and to keep them secret. Devices clip records to |x| <= 1 and y to [0, 1]; records that are not finite count
    as x = 0, and all devices send equally many bits. Proof: docs/privacy/logistic-steps.md.

    Deviations:
        The paper is said to need a regret analysis of batches with designs for stochastic contexts; here play is
        optimistic, and each batch takes one Newton step.
    """

    Config = Config
    gaussian = True  # presumed beside the promise: the Gaussian mechanism of (epsilon, delta) has more loss
    fixed: ClassVar[frozenset[str]] = ShuffleAgent.fixed | {"sized"}
    sized: tuple[int, int] = -1, 0
    """The users behind an open batch, and how many it takes."""
    plays = staticmethod(arms_or_context)

    def begin(self) -> None:
        super().begin()
        config, self.dim, self.users = self.config, self.width, 0
        self.belief = logistic.Belief(self.models, self.dim)
        self.shuffler = Shuffler(2 * self.models * packed_size(self.dim))
        self.cost, self.ledger = approximate(config.epsilon, config.delta), Ledger(config.epsilon, config.delta)
        farthest = self.coins((config.radius,) * self.models)
        self.guarantee = Guarantee(
            "shuffle",
            config.epsilon,
            config.delta,
            neighbours=SAME,
            protects=PROTECTS,
            reference="docs/privacy/logistic-steps.md and docs/privacy/shuffled-sums.md",
            arithmetic="exact" if farthest.one_by_one else "real",
        )
        farthest.messages(self.batch_size)  # refuses what cannot be counted, before anybody comes
        self.scorer = np.zeros((self.dim, self.models * (self.dim + 1)))

    def coins(self, norms: tuple[float, ...]) -> CoinSums:
        """Return the protocol of a batch at models with theta of these norms."""
        config, size = self.config, self.models * packed_size(self.dim)
        return protocol(config.epsilon, config.delta, size, norms, config.honest, config.noise)

    @property
    def batch_size(self) -> int:
        if self.sized[0] != self.users:
            following = next_change(self.users, 1.5, self.config.first)  # half as many again
            self.sized = self.users, following - self.users
        return self.sized[1]

    def select_action(self, context: Array) -> Action:
        """Return argmax of x . theta + bonus |x|_(P^-1)."""
        chosen: Action = self.optimistic(context, self.scorer)
        return chosen

    def settled(self, context: Array) -> Action:
        """Return argmax of x . theta, for n users who do not report."""
        best: Action = self.greedy(context, self.scorer)
        return best

    def randomize(self, context: Array, action: Action, feedback: Feedback) -> Array:
        features, learned, models = self.regressed(*self.records_of(context, action, feedback))
        answers = (learned + 1) / 2 if self.shared_context else learned
        packed = logistic.pack(features, answers, self.belief.theta[models])
        sums = self.coins(self.belief.norms)
        return sums.randomize(in_blocks(packed, models, self.models), self.batch_size, self.rng)

    def absorb(self, bag: Array, users: int) -> None:
        sums = self.coins(self.belief.norms)
        self.belief.learn(sums.estimate(bag, users), sums.sigma(users), self.config.radius)
        self.users += users
        pairs = zip(self.belief.precision, self.belief.theta, strict=True)
        self.scorer = np.hstack([optimistic_scorer(p, theta, self.config.bonus_scale) for p, theta in pairs])

    def predict(self, contexts: Array) -> Array | None:
        """Return the mean rewards of the arms, shape (m, K); None if arms share a context."""
        return None if self.shared_context else np.asarray(scipy.special.expit(contexts @ self.scorer[:, -1]))


@lru_cache(maxsize=64)
def protocol(epsilon: float, delta: float, size: int, norms: tuple[float, ...], honest: float, noise: str) -> CoinSums:
    """Return the protocol that sums derivatives of ``size`` numbers at theta of these norms."""
    sums = CoinSums.from_epsilon(epsilon, delta, size, logistic.sensitivity(norms), honest)
    return dataclasses.replace(sums, noise=noise) if sums.one_by_one else sums
