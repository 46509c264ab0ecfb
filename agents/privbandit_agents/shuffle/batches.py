"""What shuffle agents share: devices send a sum's bits, a shuffler mixes a batch, the server learns from the sum."""

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, TypeVar

import numpy as np

from privbandit_agents.base.arms import ArmModels
from privbandit_agents.base.guarantee import RECORD, SAME, Guarantee
from privbandit_agents.base.rows import keep_pages
from privbandit_agents.base.settings import Budget, Count, HalfOpen01, LateSettings, Open01, PrivateSettings
from privbandit_agents.base.shuffling import ShuffleAgent, Shuffler
from privbandit_agents.base.spaces import Action, Array, Feedback, arms_or_context
from privbandit_agents.privacy.accounting.costs import approximate
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.contributions.moments import packed_size
from privbandit_agents.privacy.randomizers.coins import CoinSums

PROTECTS = f"{RECORD}, from the server and a share 1 - honest of others, if the shuffler keeps senders secret"


@dataclass(frozen=True)
class BatchSettings(PrivateSettings, LateSettings):
    """Settings that shuffle agents share; if feedback is promised in batches, a shuffled batch ends with one.

    Attributes:
        epsilon: privacy budget of every user, > 0; infinity tosses no coins.
        delta: of (epsilon, delta), in (0, 1).
        honest: the least share of a batch's other devices that toss their coins as they should and keep them secret, in
            (0, 1]; the rest may be one coalition with the server. Fewer honest devices make all toss more.
        first: users of the first batch, and of every later one at least.
        noise: of the coins, ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.
    """

    epsilon: Budget = 1.0
    delta: Open01 = 1e-5
    honest: HalfOpen01 = 0.8
    first: Count = 100
    noise: Literal["numpy", "secure"] = "numpy"


B = TypeVar("B", bound=BatchSettings)


class ShuffleBatches(ArmModels, ShuffleAgent[B]):
    """Batches of users, whose devices send a packed record each, in bits and coins; the server gets the sum.

    A subclass says when batches end (``following``), what a record is ``packed`` to, and what is ``learned``.

    *Formal guarantees.* (epsilon, delta)-DP under replacement of a user's whole record, towards everybody who sees the
    messages of all batches in arbitrary order, and all that follows from them: the server, and other users, who know
    their own coins. A user is in one batch, by time alone; of a batch the numbers of ones are all that is seen, and
    they are private by ``CoinSums`` if replacing a record moves the packed one by at most ``moved``, which is public
    before the batch. The shuffler is trusted to forget who sent what, and a share ``honest`` of the other devices of a
    batch to toss their coins and to keep them secret; single others need not be trusted, whatever ``honest`` is.

    Attributes:
        users: those of the batches behind.
        scorer: [bonus A^(-1/2) | theta] of each model, shape (d, models (d + 1)).
        sized: the users behind an open batch, and how many it takes.
    """

    gaussian = True  # presumed beside the promise: the Gaussian mechanism of (epsilon, delta) has more loss
    fixed: ClassVar[frozenset[str]] = ShuffleAgent.fixed | {"sized"}
    proof: str
    sized: tuple[int, int] = -1, 0
    plays = staticmethod(arms_or_context)

    def begin(self) -> None:
        super().begin()
        config, self.dim, self.users = self.config, self.width, 0
        self.size = self.models * packed_size(self.dim)
        keep_pages(self.size)
        self.shuffler, self.cost = Shuffler(2 * self.size), approximate(config.epsilon, config.delta)
        self.ledger = Ledger(config.epsilon, config.delta)
        sums = self.coins(self.farthest)
        self.guarantee = Guarantee(
            "shuffle",
            config.epsilon,
            config.delta,
            neighbours=SAME,
            protects=PROTECTS,
            reference=self.proof,
            arithmetic="exact" if sums.exact else "real",
        )
        sums.messages(self.batch_size)  # refuses what cannot be counted, before anybody comes
        self.scorer = np.zeros((self.dim, self.models * (self.dim + 1)))

    @property
    @abstractmethod
    def moved(self) -> float:
        """How far replacing a record of the open batch moves what it is packed to, in the l2 norm."""

    @property
    def farthest(self) -> float:
        """The same at most, in any batch."""
        return self.moved

    def coins(self, moved: float) -> CoinSums:
        """Return the protocol of a batch if replacing a record moves what it is packed to so far."""
        config = self.config
        return protocol(config.epsilon, config.delta, self.size, moved, config.honest, config.noise)

    @property
    def sums(self) -> CoinSums:
        """The protocol of the open batch."""
        return self.coins(self.moved)

    @property
    def batch_size(self) -> int:
        if self.sized[0] != self.users:
            end, promised = self.following(self.users), self.config.batches
            self.sized = self.users, (end if promised is None else promised.release(end)) - self.users
        return self.sized[1]

    @abstractmethod
    def following(self, users: int) -> int:
        """Return after how many users the batch ends that begins after ``users``, or the promised one; public."""

    @abstractmethod
    def packed(self, features: Array, rewards: Array, models: Array | int) -> Array:
        """Return what n records add to the sum of their models, shape (n, size / models), within its bounds."""

    @abstractmethod
    def learned(self, noisy: Array, sigma: float, users: int) -> Array:
        """Return the scorer, given the noisy sum of a batch of n users and the deviation of its noise."""

    def select_action(self, context: Array) -> Action:
        """Return argmax of x . theta + bonus |x|_(A^-1)."""
        chosen: Action = self.optimistic(context, self.scorer)
        return chosen

    def settled(self, context: Array) -> Action:
        """Return argmax of x . theta, for n users who do not report."""
        best: Action = self.greedy(context, self.scorer)
        return best

    def randomize(self, context: Array, action: Action, feedback: Feedback) -> Array:
        features, learned, models = self.regressed(*self.records_of(context, action, feedback))
        return self.sums.randomize(self.packed(features, learned, models), self.batch_size, self.rng, models)

    def absorb(self, bag: Array, users: int) -> None:
        sums = self.sums
        self.users += users
        self.scorer = self.learned(sums.estimate(bag, users), sums.sigma(users), users)


@lru_cache(maxsize=64)
def protocol(epsilon: float, delta: float, size: int, moved: float, honest: float, noise: str) -> CoinSums:
    """Return the protocol that sums vectors of ``size`` numbers; by secure noise only if heads have their exact law."""
    sums = CoinSums.from_epsilon(epsilon, delta, size, moved, honest)
    return dataclasses.replace(sums, noise=noise) if sums.exact else sums
