"""What locally private agents for linear models share: one report a user, sums on the server, greedy play."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

import numpy as np

from privbandit_agents.base.agent import (
    Action,
    Array,
    Feedback,
    Guarantee,
    LocalAgent,
    arms_with_features,
    next_change,
)
from privbandit_agents.base.arms import best_arm, played
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.settings import Budget, Growth, Settings
from privbandit_agents.local.linear.channels import Channel, RandomizerChannel
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.contributions.moments import pack
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer


@dataclass(frozen=True)
class MomentSettings(Settings):
    """Settings of every agent here.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
        growth: the policy changes when the number of users has grown by this factor, > 1.
    """

    epsilon: Budget = 1.0
    growth: Growth = 1.05


M = TypeVar("M", bound=MomentSettings)


class MomentAgent(LocalAgent[M, Array]):
    """Users report vectors about their records; the server adds them up and plays by an estimate of theta.

    A subclass says in ``open_channel`` how vectors leave the devices, and in ``learn`` what their sum tells. The vector
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
    least_batch: ClassVar[int] = 1
    """Fewest users between two changes of the policy."""

    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        super().begin()
        self.dim = self.context_shape[1]
        self.scorer = np.zeros((self.dim, self.dim + 1))
        self.users, self.refit_at = 0, 1
        self.channel = self.open_channel()
        self.total, self.sigma, self.cost = np.zeros(self.channel.size), self.channel.sigma, self.channel.cost
        self.ledger = Ledger(self.config.epsilon, self.cost.delta)
        self.guarantee = Guarantee.local(self.config.epsilon, self.cost.delta, self.proof)

    @abstractmethod
    def open_channel(self) -> Channel:
        """Return how vectors leave users' devices."""

    @property
    def randomizer(self) -> LocalRandomizer | None:
        """The randomizer on the devices; None if they add Gaussian noise."""
        return self.channel.randomizer if isinstance(self.channel, RandomizerChannel) else None

    def features(self, context: Array, action: Action) -> Array:
        """Return the features of the played arms, shape (n, d), also for one user."""
        return played(np.asarray(context).reshape(-1, *self.context_shape), action)

    def encode(self, context: Array, action: Action, feedback: Feedback) -> Array:
        """Return the vectors that users' devices randomize, shape (n, D)."""
        return pack(self.features(context, action), np.atleast_1d(feedback))

    def far_apart(self) -> tuple[Array, Array]:
        """Return the features (2, d) and rewards (2,) of two records that a report tells apart best; for audits."""
        return np.tile(np.eye(self.dim)[0], (2, 1)), np.array([1.0, -1.0])

    def randomize(self, context: Array, action: Action, feedback: Feedback) -> Array:
        """Return the reports of one user or of n users: one release each, whatever the record."""
        return self.channel.report(self.encode(context, action, feedback), self.rng)

    def absorb(self, report: Array) -> None:
        """Add up reports in order; change the policy when it is time."""
        for (part,) in blocks(self.frozen_rounds, self.channel.decode(report)):
            self.add(np.add.reduce(np.concatenate([self.total[None], part]), axis=0), len(part))

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        return self.channel.by_counts

    def randomize_sum(self, contexts: Array, actions: Action, feedback: Feedback, counts: Array) -> Array:
        """Return the sum of the users' decoded reports, shape (size,)."""
        return self.channel.report_sum(self.encode(contexts, actions, feedback), counts, self.rng)

    def absorb_sum(self, total: Array, users: int) -> None:
        """Add the sum of reports of users who come before the policy changes."""
        self.add(self.total + total, users)

    def add(self, total: Array, users: int) -> None:
        """Go on to a new sum after so many more users, and change the policy if it is time."""
        self.ledger.spend(self.cost, group=self.users, groups=users)
        self.total = total
        self.users += users
        if self.users == self.refit_at:
            self.learn()
            self.refit_at = next_change(self.users, self.config.growth, self.least_batch)

    @abstractmethod
    def learn(self) -> None:
        """Set ``scorer`` by the sum of all reports so far."""

    def frozen_rounds(self) -> int:
        return self.refit_at - self.users

    def select_action(self, context: Array) -> Action:
        """Return argmax of x . theta + width |x|_(A^-1)."""
        chosen: Action = best_arm(context, self.scorer)
        return chosen

    def predict(self, contexts: Array) -> Array:
        """Return x . theta, clipped to [-1, 1] as rewards are, shape (m, K)."""
        return np.clip(contexts @ self.scorer[:, -1], -1.0, 1.0)
