"""Common parts of locally private agents for labels: clipping on arrival, one report a user, and a learner."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.agent import Action, Array, Feedback, Guarantee, LocalAgent, Space, n_arms, next_change
from privbandit_agents.base.labels import Floats, LabelAgent, Labels, in_unit_cube
from privbandit_agents.base.reports import InOrder, Inputs, arithmetic_of
from privbandit_agents.base.rows import added, blocks
from privbandit_agents.base.settings import Budget, Count, Growth, PrivateSettings
from privbandit_agents.base.ties import Ties, best
from privbandit_agents.base.turns import unchanged
from privbandit_agents.privacy.accounting.costs import Cost, pure
from privbandit_agents.privacy.accounting.ledger import Ledger


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


class Learner(ABC, Generic[S]):
    """The algorithm of an agent: the reports of the users' devices, and the server that learns from them.

    Everything that devices read of it is public. All of its attributes but the ones in ``fixed`` are its state.

    Args:
        config: settings of the agent.
        data: public features (n_Q, d) and labels (n_Q,).
        labels: K.
        exploration: probability of a random label.
        rng: for draws before the first user.
    """

    fixed: ClassVar[frozenset[str]] = frozenset({"public_data"})

    def __init__(self, config: S, data: tuple[Array, Labels], labels: int, exploration: float, rng: Generator) -> None:
        self.config, self.public_data, self.labels, self.exploration = config, data, labels, exploration
        self.begin(rng)

    @abstractmethod
    def begin(self, rng: Generator) -> None:
        """Prepare for the first user; ``rng`` is for draws before that."""

    @property
    def cost(self) -> Cost:
        return pure(self.config.epsilon)

    @property
    def randomizer(self) -> object:
        """What makes the reports."""
        return self.inputs(np.full((1, self.public_data[0].shape[1]), 0.5), np.zeros(1, np.int64)).randomizer

    @abstractmethod
    def inputs(self, contexts: Floats, labels: Labels) -> Inputs:
        """Return the inputs of n users' devices and their randomizer.

        Args:
            contexts: in the unit cube, shape (n, d).
            labels: shape (n,), -1 where a label is not known.
        """

    def randomize(self, contexts: Floats, labels: Labels, rng: Generator) -> Array:
        """Return the reports of n users, ``rng`` being the devices' noise; change nothing."""
        return self.inputs(contexts, labels).randomize(rng)

    @property
    @abstractmethod
    def left(self) -> int:
        """How many more users report before the server changes its mind (>= 1)."""

    @abstractmethod
    def absorb(self, reports: Array) -> None:
        """Take in the reports of at most ``left`` users, in order."""

    def in_turn(self, contexts: Floats, rng: Generator, ties: Ties) -> InOrder | None:
        """Return users in order, as ``LocalAgent.in_turn``, for a learner of two labels; None: the loop must be run.

        Args:
            contexts: in the unit cube, shape (n, d).
            rng: the devices' noise.
            ties: of the agent.
        """
        return None

    @abstractmethod
    def learn(self, contexts: Floats, labels: Labels, rng: Generator, aggregate: bool) -> None:
        """Let n users with known labels report; ``aggregate``: draw the sum at once if its law is exact."""

    @abstractmethod
    def conclude(self) -> None:
        """Let the predictions reflect all reports so far."""

    @abstractmethod
    def chances(self, contexts: Array) -> Floats:
        """Return the probabilities of the labels, contexts (n, d) to (n, K)."""

    def answer(self, contexts: Floats, ties: Ties) -> Labels:
        """Return the likeliest label of each context, any of several, shape (n,)."""
        return np.asarray(best(self.chances(contexts), ties))

    def reprocess(self, config: S) -> None:
        """Take over settings that do not change the reports."""
        self.config = config
        self.conclude()

    def restored(self) -> None:
        """Rebuild everything derived from the state, after a load."""


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
        """Return unbiased estimates of the summands, shape (n, ...)."""

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


K = TypeVar("K", bound=Learner[Any])


class LocalLabelAgent(LabelAgent[S], LocalAgent[S, Array], Generic[S, K]):
    """Every user sends one report of features and label; the server predicts, and changes at times fixed beforehand.

    A subclass names the ``Learner`` that it ``learns_by``. With more than two labels users who were answered wrongly
    have no label to report, and send noise.

    *Formal guarantees.* Those of the learner's report, under replacement of a user's whole record: one report a user.
    Features are clipped to [0, 1] on the device; a coordinate that is not finite counts as 1/2, feedback that is not
    finite as 0. Everything else that a device reads (public data, settings, the server's state) is public.

    Attributes:
        learner: the algorithm, and the server's state.
    """

    learns_by: ClassVar[type[Any]]
    proof: ClassVar[str] = "docs/privacy/classification-trees.md"
    binary: ClassVar[bool] = False  # whether the agent is for two labels only

    def begin(self) -> None:
        super().begin()
        self.rng_exploration = self.rng.spawn(1)[0]
        public = self.config, self.public_data, self.n_labels, self.exploration
        self.learner: K = self.learns_by(*public, self.rng_exploration)
        self.cost = self.learner.cost
        self.ledger = Ledger(self.config.epsilon, self.cost.delta)
        arithmetic = arithmetic_of(self.learner.randomizer)
        self.guarantee = Guarantee.local(self.config.epsilon, self.cost.delta, self.proof, arithmetic=arithmetic)

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        needs = super().plays(observation_space, action_space) or in_unit_cube(observation_space)
        return needs or "classification with two labels" * (cls.binary and n_arms(action_space) != 2)

    def select_action(self, context: Array) -> Action:
        return self.explored(self.learner.answer(self.rows(context), self.ties), context, self.rng_exploration)

    def settled(self, context: Array) -> Action:
        """Return the likeliest labels, none of them at random, for n users who do not report."""
        return self.learner.answer(self.rows(context), self.ties)

    def encode(self, context: Array, action: Action, feedback: Feedback) -> tuple[Floats, Labels]:
        """Return users' features within the cube (n, d), and their labels (n,), -1 where they are not known."""
        contexts, actions, answers = self.records_of(context, action, feedback)
        return self.rows(contexts), self.revealed(actions, answers)

    def inputs(self, context: Array, action: Action, feedback: Feedback) -> Inputs:
        return self.learner.inputs(*self.encode(context, action, feedback))

    def randomize(self, context: Array, action: Action, feedback: Feedback) -> Array:
        return self.learner.randomize(*self.encode(context, action, feedback), self.rng)

    def in_turn(self, contexts: Array) -> InOrder | None:
        own = unchanged(self, "in_turn", ("select_action", "inputs", "randomize", "absorb", "pay", "rows", "revealed"))
        if not own or self.n_labels > 2 or self.exploration or self.people_seen is not None:
            return None
        turns = self.learner.in_turn(self.rows(contexts), self.rng, self.ties)
        if turns is not None:
            self.pay(len(contexts))
        return turns

    def absorb(self, report: Array) -> None:
        self.pay(len(report))
        for (part,) in blocks(self.frozen_rounds, report):
            self.learner.absorb(part)

    def frozen_rounds(self) -> int:
        return self.learner.left

    def learn_labels(self, contexts: Array, labels: Labels, aggregate: bool = False) -> None:
        self.refuse_people()
        x, known = self.labelled(contexts, labels)
        self.pay(len(known))
        self.learner.learn(self.rows(x), known, self.rng, aggregate)

    def conclude(self) -> None:
        self.learner.conclude()

    def chances(self, contexts: Array) -> Floats:
        return self.learner.chances(contexts)

    def reprocess(self, config: S) -> None:
        self.config = config
        self.learner.reprocess(config)

    def restored(self) -> None:
        self.learner.restored()

    def rows(self, context: Array) -> Floats:
        """Return contexts of shape (n, d) within the cube, also for one user."""
        x = self.contexts_of(context).reshape(-1, *self.context_shape).astype(np.float64, copy=False)
        flat = x.reshape(-1)
        # false if one is NaN
        inside = np.minimum.reduce(flat, initial=0.0) >= 0 and np.maximum.reduce(flat, initial=1.0) <= 1
        return x if inside else np.clip(np.where(np.isfinite(x), x, 0.5), 0, 1)

    def revealed(self, actions: Labels, answers: Array) -> Labels:
        """Return each user's label, -1 if it was not revealed, shape (n,); an unknown answer counts as 0."""
        given = np.maximum(actions, 0).astype(np.int64, copy=False)
        if len(given) == 1:  # numbers are quicker than arrays of one
            known = given.item() if 0.5 < answers.item() < math.inf else 1 - given.item() if self.n_labels == 2 else -1
            return np.array([known])
        right = (answers > 0.5) & (answers < math.inf)
        return given ^ ~right if self.n_labels == 2 else np.where(right, given, -1)
