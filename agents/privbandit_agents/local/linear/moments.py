"""What locally private agents for linear models share: how vectors are reported, sums on the server, greedy play."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.agent import (
    NEVER,
    Action,
    Array,
    Feedback,
    Guarantee,
    LocalAgent,
    arms_with_features,
    next_change,
)
from privbandit_agents.base.arms import best_arm, played
from privbandit_agents.base.reports import ENTRIES_AT_ONCE, Inputs, Randomizer, arithmetic_of, inputs_of
from privbandit_agents.base.rows import added, blocks
from privbandit_agents.base.settings import Budget, Growth, PrivateSettings
from privbandit_agents.privacy.accounting.costs import Cost, pure
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.contributions.moments import Lifted, sanitise
from privbandit_agents.privacy.mechanisms.additive import Gaussian
from privbandit_agents.privacy.randomizers.gaussian import GaussianReport
from privbandit_agents.privacy.randomizers.inputs import NoisyProducts
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from privbandit_agents.privacy.randomizers.sphere import Hemisphere


class Channel(ABC):
    """One report a user, and an unbiased estimate from it.

    Attributes:
        device: makes the reports of users with vectors (n, D).
        cost: privacy cost of one report.
        size: length of an estimate.
        sigma: standard deviation of a coordinate's noise in one report.
        by_counts: whether sums of reports are drawn at once: exactly, or from their normal limit.
    """

    device: Randomizer
    cost: Cost
    size: int
    sigma: float
    by_counts: Literal["", "exact", "normal"]
    fewest_summed: int = NEVER
    """From how many users on ``block_sum`` may be drawn."""

    def report(self, vectors: Array, rng: Generator) -> Array:
        """Draw the reports of users with vectors (n, D), by one call of ``device``."""
        return inputs_of(self.device, vectors).randomize(rng)

    def decode(self, report: Array) -> Array:
        """Return unbiased estimates of the server's summands, shape (n, size)."""
        return report

    @abstractmethod
    def report_sum(self, vectors: Array, counts: Array, rng: Generator) -> Array:
        """Draw the sum of the decoded reports over ``counts[i]`` users of each vector, shape (size,)."""

    def block_sum(self, vectors: Lifted, rng: Generator) -> Array:
        """Draw the sum of the decoded reports of n users, one a vector, shape (size,)."""
        raise TypeError(f"{type(self).__name__} has no law of the sum of a block.")


class GaussianChannel(Channel):
    """Gaussian noise, calibrated to the largest distance of two vectors of length ``size``."""

    def __init__(self, mechanism: Gaussian, cost: Cost, size: int) -> None:
        self.mechanism, self.cost, self.size = mechanism, cost, size
        self.device, self.sigma = GaussianReport(mechanism, cost.epsilon), mechanism.sigma
        self.by_counts = "exact" if mechanism.noise == "numpy" else ""
        self.fewest_summed = 1 if self.by_counts else NEVER

    def report_sum(self, vectors: Array, counts: Array, rng: Generator) -> Array:
        return self.mechanism.release_sum(counts @ vectors, int(counts.sum()), rng)

    def block_sum(self, vectors: Lifted, rng: Generator) -> Array:
        return self.mechanism.release_sum(vectors.sum(), len(vectors), rng)


class RandomizerChannel(Channel):
    """Reports of a LocalRandomizer with one cell.

    *Formal guarantees.* Pure epsilon-local DP of one report: the randomizer's likelihood ratio is at most e^epsilon for
    any two vectors.
    """

    def __init__(self, randomizer: LocalRandomizer) -> None:
        self.device = self.randomizer = randomizer
        self.size = randomizer.dim
        self.cost, self.sigma = pure(randomizer.epsilon), randomizer.variance(own=True) ** 0.5
        self.by_counts = "exact" if randomizer.exact_sum else "normal"
        if randomizer.noise == "secure":
            self.by_counts = ""
        elif isinstance(randomizer, Hemisphere) and self.size > 1:
            self.fewest_summed = randomizer.fewest_summed

    def decode(self, report: Array) -> Array:
        return self.randomizer.estimate(report)[:, 0]

    def report_sum(self, vectors: Array, counts: Array, rng: Generator) -> Array:
        return np.asarray(self.randomizer.approximate_sum(np.zeros(len(vectors), int), vectors, rng, counts)[0])

    def block_sum(self, vectors: Lifted, rng: Generator) -> Array:
        if not isinstance(self.randomizer, Hemisphere):
            return super().block_sum(vectors, rng)
        return np.asarray(self.randomizer.sum_of_each(np.zeros(len(vectors), np.intp), vectors, rng)[0])


class ProductsChannel(RandomizerChannel):
    """Reports of vectors v with Laplace noise; the server adds up their estimates of svec(v v').

    Sums of products of Laplace noise have no closed form: without noise they are exact, else normal.
    """

    def __init__(self, products: NoisyProducts) -> None:
        super().__init__(products.randomizer)
        self.products, self.size = products, self.size * (self.size + 1) // 2
        self.by_counts = "exact" if np.isinf(self.randomizer.epsilon) else "normal"

    def decode(self, report: Array) -> Array:
        return self.products.estimate(report)

    def report_sum(self, vectors: Array, counts: Array, rng: Generator) -> Array:
        return self.products.approximate_sum(vectors, rng, counts)


@dataclass(frozen=True)
class MomentSettings(PrivateSettings):
    """Settings of every agent here.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
        growth: the policy changes when the number of users has grown by this factor, > 1.
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.
    """

    epsilon: Budget = 1.0
    growth: Growth = 1.05
    noise: Literal["numpy", "secure"] = "numpy"


M = TypeVar("M", bound=MomentSettings)


class MomentAgent(LocalAgent[M, Array]):
    """Users report vectors about their records; the server adds them up and plays by an estimate of theta.

    A subclass sets in ``open_channel`` how vectors leave the devices, and in ``learn`` the use of their sum. The vector
    of a record is (y x, w svec(x x')), unless the subclass encodes it otherwise.

    *Formal guarantees.* Those of the channel, under replacement of a user's whole record: one report a user, whatever
    ``encode`` makes of the record, as long as no vector leaves the channel's ball and ``encode`` reads public state.

    Attributes:
        channel: how vectors leave the devices.
        total: sum of the decoded reports.
        scorer: [width A^(-1/2) | theta] of the policy, shape (d, d + 1).
    """

    fixed: ClassVar[frozenset[str]] = LocalAgent.fixed | {"channel"}
    proof: ClassVar[str] = "docs/privacy/local-randomizers.md"

    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        super().begin()
        self.dim = self.context_shape[-1] if self.context_shape else 0
        self.scorer = np.zeros((self.dim, self.dim + 1))
        self.users, self.refit_at = 0, 1
        self.channel = self.open_channel()
        self.total, self.sigma, self.cost = np.zeros(self.channel.size), self.channel.sigma, self.channel.cost
        self.ledger = Ledger(self.config.epsilon, self.cost.delta)
        arithmetic = arithmetic_of(self.channel.device)
        self.guarantee = Guarantee.local(self.config.epsilon, self.cost.delta, self.proof, arithmetic=arithmetic)

    @abstractmethod
    def open_channel(self) -> Channel:
        """Return how vectors leave users' devices."""

    def features(self, context: Array, action: Action) -> Array:
        """Return the features of the played arms, shape (n, d), also for one user."""
        return played(np.asarray(context).reshape(-1, *self.context_shape), action)

    def encode(self, context: Array, action: Action, feedback: Feedback) -> Array:
        """Return the vectors that users' devices randomize, shape (n, D)."""
        return self.lift(context, action, feedback).dense()

    def lift(self, context: Array, action: Action, feedback: Feedback) -> Lifted:
        """Return these vectors by their factors."""
        return Lifted.packed(*sanitise(self.features(context, action), np.atleast_1d(feedback)))

    def inputs(self, context: Array, action: Action, feedback: Feedback) -> Inputs:
        return inputs_of(self.channel.device, self.encode(*self.records_of(context, action, feedback)))

    def randomize(self, context: Array, action: Action, feedback: Feedback) -> Array:
        return self.channel.report(self.encode(*self.records_of(context, action, feedback)), self.rng)

    def absorb(self, report: Array) -> None:
        for (part,) in blocks(self.frozen_rounds, report):
            self.pay(len(part))
            self.add(added(self.total, self.channel.decode(part)), len(part))

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        return self.channel.by_counts

    def randomize_sum(self, contexts: Array, actions: Action, feedback: Feedback, counts: Array) -> Array:
        return self.channel.report_sum(self.encode(contexts, actions, feedback), counts, self.rng)

    @property
    def at_once(self) -> int:
        return max(1, ENTRIES_AT_ONCE // self.channel.size)

    @property
    def fewest_summed(self) -> int:
        return self.channel.fewest_summed

    def randomize_block(self, contexts: Array, actions: Action, feedback: Feedback) -> Array:
        return self.channel.block_sum(self.lift(contexts, actions, feedback), self.rng)

    def absorb_sum(self, total: Array, users: int) -> None:
        self.pay(users)
        self.add(self.total + total, users)

    def add(self, total: Array, users: int) -> None:
        """Go on to a new sum after n more users, who have paid, and change the policy if it is time."""
        self.total = total
        self.users += users
        if self.users == self.refit_at:
            self.refit_at = self.next_refit()  # a batch with users, whatever is raised
            self.learn()
            self.refit_at = self.next_refit()

    def next_refit(self) -> int:
        """Return after how many users the policy changes next."""
        return next_change(self.users, self.config.growth)

    @abstractmethod
    def learn(self) -> None:
        """Set ``scorer`` by the sum of all reports so far."""

    def frozen_rounds(self) -> int:
        return self.refit_at - self.users

    def select_action(self, context: Array) -> Action:
        """Return argmax of x . theta + width |x|_(A^-1)."""
        chosen: Action = best_arm(context, self.scorer, self.ties)
        return chosen

    def estimated_best(self, context: Array) -> Action:
        """Return argmax of x . theta, contexts (n, K, d)."""
        best: Action = best_arm(context, self.scorer[:, -1:], self.ties)
        return best

    def predict(self, contexts: Array) -> Array:
        """Return x . theta, clipped to [-1, 1] as rewards are, shape (m, K)."""
        return np.clip(contexts @ self.scorer[:, -1], -1.0, 1.0)
