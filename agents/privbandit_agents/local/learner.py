"""The algorithms of locally private agents that predict labels: what a device sends, what the server makes of it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.agent import Array, PublicData, next_change
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.settings import Budget, Count, Fraction, Growth, Settings
from privbandit_agents.privacy.accounting.ledger import Cost, pure

USERS = 10_000
"""How many users are expected where no horizon is given."""


@dataclass(frozen=True)
class LocalLabelSettings(Settings):
    """Settings of every locally private agent that predicts labels.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
        exploration: probability of a random label; None: 0 with two labels, 0.05 with more.
    """

    epsilon: Budget = 1.0
    exploration: Fraction | None = None


@dataclass(frozen=True)
class SummingSettings(LocalLabelSettings):
    """Settings of agents that look at sums of reports now and then, beside those in ``LocalLabelSettings``.

    Attributes:
        growth: the policy changes when the number of users has grown by this factor, > 1.
        horizon: expected number of users; None: 10 000.
    """

    growth: Growth = 1.05
    horizon: Count | None = None

    @property
    def expected_users(self) -> int:
        """The horizon, or its default."""
        return self.horizon or USERS


S = TypeVar("S", bound=LocalLabelSettings)
G = TypeVar("G", bound=SummingSettings)


class Learner(ABC, Generic[S]):
    """The algorithm of an agent: what a user's device sends, and what the server makes of the reports.

    Everything that devices read of it is public. All of its attributes but the ones in ``fixed`` are its state.

    Args:
        config: settings of the agent.
        public_data: features (n_Q, d) and labels (n_Q,).
        labels: K.
        exploration: probability of a random label.
        rng: of what is drawn before the first user.
    """

    fixed: ClassVar[frozenset[str]] = frozenset({"public_data"})

    def __init__(self, config: S, public_data: PublicData, labels: int, exploration: float, rng: Generator) -> None:
        self.config, self.public_data = config, public_data
        self.labels, self.exploration = labels, exploration
        self.begin(rng)

    @abstractmethod
    def begin(self, rng: Generator) -> None:
        """Prepare for the first user; ``rng`` is for what is drawn before."""

    @property
    def cost(self) -> Cost:
        """Privacy cost of one report."""
        return pure(self.config.epsilon)

    @abstractmethod
    def randomize(self, contexts: Floats, labels: Labels, rng: Generator) -> Array:
        """Return the reports of n users; change nothing.

        Args:
            contexts: in the unit cube, shape (n, d).
            labels: shape (n,), -1 where a label is not known.
            rng: the devices' noise.
        """

    @property
    @abstractmethod
    def left(self) -> int:
        """How many more users report before the server changes its mind (>= 1)."""

    @abstractmethod
    def absorb(self, reports: Array) -> None:
        """Take in the reports of at most ``left`` users, in order."""

    @abstractmethod
    def learn(self, contexts: Floats, labels: Labels, rng: Generator, aggregate: bool) -> None:
        """Let n users report whose labels are known; ``aggregate``: draw the sum at once where its law is exact."""

    @abstractmethod
    def conclude(self) -> None:
        """Let the predictions reflect all reports so far."""

    @abstractmethod
    def chances(self, contexts: Array) -> Floats:
        """Return the probabilities of the labels, contexts (n, d) to (n, K)."""

    def answer(self, contexts: Floats) -> Labels:
        """Return the likeliest label of each context, shape (n,)."""
        return np.asarray(self.chances(contexts).argmax(axis=1))

    def reprocess(self, config: S) -> None:
        """Take over settings that do not change the reports."""
        self.config = config
        self.conclude()

    def restored(self) -> None:
        """Rebuild what is derived from the state, after a load."""


class Summing(Learner[G]):
    """A learner that adds up estimates, and looks at their sum when the number of users has grown by a factor.

    A subclass sets ``total`` to zeros in ``begin``.
    """

    total: Floats

    def begin(self, rng: Generator) -> None:
        self.users, self.refit_at = 0, 1

    @property
    def left(self) -> int:
        return max(self.refit_at - self.users, 1)

    @abstractmethod
    def estimate(self, reports: Array) -> Floats:
        """Return unbiased estimates of what is added up, shape (n, ...)."""

    @abstractmethod
    def look(self) -> None:
        """Change the predictions by the sum of all estimates."""

    def absorb(self, reports: Array) -> None:
        self.total = added(self.total, self.estimate(reports))
        self.users += len(reports)
        if self.users >= self.refit_at:
            self.conclude()

    def conclude(self) -> None:
        self.look()
        self.refit_at = next_change(self.users, self.config.growth)


def added(total: Floats, parts: Floats) -> Floats:
    """Return a sum and n more parts, shape (n, ...), added one after the other: bit for bit as in single steps."""
    stacked = np.concatenate([total[None], parts])
    return np.asarray(np.cumsum(stacked, axis=0)[-1] if total.size == 1 else np.add.reduce(stacked, axis=0))
