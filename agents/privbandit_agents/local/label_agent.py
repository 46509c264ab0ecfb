"""Common parts of locally private agents for labels: clipping on arrival, one report a user, and sums of reports."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

import numpy as np

from privbandit_agents.base.agent import next_change, refuse_people
from privbandit_agents.base.labels import Floats, LabelAgent, Labels, in_cube, in_unit_cube
from privbandit_agents.base.local import Inputs
from privbandit_agents.base.rows import added, blocks
from privbandit_agents.base.settings import Budget, Count, Growth, PrivateSettings
from privbandit_agents.base.spaces import Action, Array, Feedback, Space, n_arms
from privbandit_agents.base.ties import Ties, best
from privbandit_agents.local.sums import SummedReports


@dataclass(frozen=True)
class LocalLabelSettings(PrivateSettings):
    """Settings of every locally private agent that predicts labels.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
    """

    epsilon: Budget = 1.0


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
        return self.counted(self.horizon or 10_000)


S = TypeVar("S", bound=LocalLabelSettings)
G = TypeVar("G", bound=SummingSettings)


class LocalLabelAgent(LabelAgent[S], SummedReports[S]):
    """Every user sends one report of features and label; the server predicts, and changes at times fixed beforehand.

    With more than two labels users who were answered wrongly have no label to report, and send noise.

    *Formal guarantees.* Those of the device, under replacement of a user's whole record: one report a user.
    Features are clipped to [0, 1] on the device; a coordinate that is not finite counts as 1/2, feedback that is not
    finite as 0. Everything else that a device reads (public data, settings, the server's state) is public.

    Attributes:
        rng_exploration: of random labels, and of draws before the first user.
    """

    proof = "docs/privacy/classification-trees.md"
    binary: ClassVar[bool] = False  # whether the agent is for two labels only

    def begin(self) -> None:
        super().begin()
        self.rng_exploration = self.rng.spawn(1)[0]

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        needs = super().plays(observation_space, action_space) or in_unit_cube(observation_space)
        return needs or "classification with two labels" * (cls.binary and n_arms(action_space) != 2)

    def answer(self, contexts: Floats, ties: Ties) -> Labels:
        """Return the likeliest label of each context, any of several, shape (n,)."""
        return np.asarray(best(self.chances(contexts), ties))

    def select_action(self, context: Array) -> Action:
        return self.explored(self.answer(self.rows(context), self.ties), context, self.rng_exploration)

    def settled(self, context: Array) -> Action:
        """Return the likeliest labels, none of them at random, for n users who do not report."""
        return self.answer(self.rows(context), self.ties)

    # on the devices

    @abstractmethod
    def encode(self, contexts: Floats, labels: Labels) -> tuple[Array, Array | None]:
        """Return the cells (n,) and values (n, D) that devices randomize.

        Args:
            contexts: in the unit cube, shape (n, d).
            labels: shape (n,), -1 where a label is not known.
        """

    def placed(self, context: Array, action: Action, feedback: Feedback) -> tuple[Array, Array | None]:
        return self.encode(self.rows(context), self.revealed(np.asarray(action), np.asarray(feedback)))

    def randomize(self, context: Array, action: Action, feedback: Feedback) -> Array:
        return self.device.randomize(*self.placed(*self.records_of(context, action, feedback)), self.rng)

    def rows(self, context: Array) -> Floats:
        """Return contexts of shape (n, d) within the cube, also for one user."""
        return in_cube(self.contexts_of(context).reshape(-1, *self.context_shape))

    def revealed(self, actions: Labels, answers: Array) -> Labels:
        """Return each user's label, -1 if it was not revealed, shape (n,); an unknown answer counts as 0."""
        given = np.maximum(actions, 0).astype(np.int64, copy=False)
        if len(given) == 1:  # numbers are quicker than arrays of one
            known = given.item() if 0.5 < answers.item() < math.inf else 1 - given.item() if self.n_labels == 2 else -1
            return np.array([known])
        right = (answers > 0.5) & (answers < math.inf)
        return given ^ ~right if self.n_labels == 2 else np.where(right, given, -1)

    @property
    def by_counts(self) -> Literal[""]:
        return ""

    @property
    def fewest_summed(self) -> float:
        return math.inf

    # on the server

    def learn_labels(self, contexts: Array, labels: Labels, aggregate: bool = False) -> None:
        refuse_people(self)
        x, known = self.labelled(contexts, labels)
        self.pay(len(known))
        self.take(self.rows(x), known, aggregate)

    @abstractmethod
    def take(self, contexts: Floats, labels: Labels, aggregate: bool) -> None:
        """Let n users with known labels report, who have paid; ``aggregate``: draw an exact sum at once."""

    def conclude(self) -> None:
        self.learn()
        self.refit_at = self.next_refit()

    def next_refit(self) -> int:
        return next_change(self.users, self.config.growth)  # type: ignore[attr-defined]


class Batched(LocalLabelAgent[S]):
    """Every user reports one vector, computed from the server's state; the server learns when a batch is full.

    A group of users that is larger than a batch sees the steps in between, as it would if they came one by one.

    Attributes:
        batch: users who report while nothing moves.
        learned: users of the batches that are over.
    """

    asks_anew = True
    batch: int
    learned: int

    def next_refit(self) -> int:
        return self.users + self.batch

    def take(self, contexts: Floats, labels: Labels, aggregate: bool) -> None:
        for x, y in blocks(self.frozen_rounds, contexts, labels):
            report = Inputs(self.device, *self.encode(x, y)).randomize(self.rng)
            self.add(added(self.total, self.estimate(report)), len(y))

    def learn(self) -> None:
        total, users = self.total, self.users - self.learned
        self.total, self.learned = np.zeros(total.shape), self.users
        self.step(total, users)

    @abstractmethod
    def step(self, total: Floats, users: int) -> None:
        """Learn from the sum of the estimates of a batch of users."""

    def conclude(self) -> None:
        if self.users > self.learned:
            super().conclude()
