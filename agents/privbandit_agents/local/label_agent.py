"""What locally private agents that predict labels share: clipping at the door, one report a user, exploration."""

import copy
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from privbandit_agents.base.agent import Action, Array, Feedback, Guarantee, LocalAgent, Space, n_arms
from privbandit_agents.base.labels import Floats, LabelAgent, Labels, in_unit_cube
from privbandit_agents.base.rows import blocks
from privbandit_agents.local.learner import Learner, S
from privbandit_agents.privacy.accounting.ledger import Ledger

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
    binary: ClassVar[bool] = False
    """Whether the agent is for two labels only."""

    def begin(self) -> None:
        super().begin()
        self.rng_exploration = self.rng.spawn(1)[0]
        parts = self.config, self.public_data, self.n_labels, self.exploration, self.rng_exploration
        self.learner: K = self.learns_by(*parts)
        self.cost = self.learner.cost
        self.ledger = Ledger(self.config.epsilon, self.cost.delta)
        self.guarantee = Guarantee.local(self.config.epsilon, self.cost.delta, self.proof)

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        needs = super().plays(observation_space, action_space) or in_unit_cube(observation_space)
        too_many = not needs and cls.binary and n_arms(action_space) != 2
        return "classification with two labels" if too_many else needs

    def select_action(self, context: Array) -> Action:
        """Return the likeliest label, or explore."""
        return self.explored(self.learner.answer(self.rows(context)), context, self.rng_exploration)

    def randomize(self, context: Array, action: Action, feedback: Feedback) -> Array:
        """Return the reports of one user or of n users: one release each, whatever the record."""
        rows = self.rows(context)
        return self.learner.randomize(rows, self.revealed(action, feedback, len(rows)), self.rng)

    def absorb(self, report: Array) -> None:
        """Enter the reports in the ledger, and learn from them in order."""
        self.pay(len(report))
        for (part,) in blocks(self.frozen_rounds, report):
            self.learner.absorb(part)

    def frozen_rounds(self) -> int:
        return self.learner.left

    def learn_labels(self, contexts: Array, labels: Labels, aggregate: bool = False) -> None:
        self.pay(len(labels))
        self.learner.learn(self.rows(contexts), self.existing(labels), self.rng, aggregate)

    def pay(self, users: int) -> None:
        """Enter the reports of so many new users in the ledger."""
        if users:
            self.ledger.spend(self.cost, group=self.ledger.releases, groups=users)

    def conclude(self) -> None:
        self.learner.conclude()

    def chances(self, contexts: Array) -> Floats:
        return self.learner.chances(contexts)

    def reprocess(self, config: S) -> None:
        self.config, self.learner = config, copy.copy(self.learner)
        self.learner.reprocess(config)

    def restored(self) -> None:
        self.learner.restored()

    def rows(self, context: Array) -> Floats:
        """Return contexts of shape (n, d) within the cube, also for one user."""
        x = numbers(context).reshape(-1, *self.context_shape)
        return np.clip(np.where(np.isfinite(x), x, 0.5), 0, 1)

    def revealed(self, action: Action, feedback: Feedback, users: int) -> Labels:
        """Return each user's label, -1 if it was not revealed, shape (n,)."""
        actions, answers = (np.broadcast_to(numbers(part), users) for part in (action, feedback))
        actions = np.clip(np.nan_to_num(actions, posinf=0, neginf=0), 0, self.n_labels - 1).astype(np.int64)
        right = np.isfinite(answers) & (np.nan_to_num(answers) > 0.5)
        return np.where(right, actions, 1 - actions if self.n_labels == 2 else -1)

    def existing(self, labels: ArrayLike) -> Labels:
        """Return known labels, shape (n,), 0 for one that does not exist."""
        label = numbers(labels)
        return np.where((label >= 0) & (label < self.n_labels), label, 0).astype(np.int64)


def numbers(record: ArrayLike) -> Floats:
    """Return a part of a record in float64, whose infinity stands for what is too large.

    Raises:
        TypeError: it does not consist of real numbers; the message shows none of it, for it may be raw data.
    """
    values = np.asarray(record)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"a record must consist of real numbers; got {values.dtype}.")
    with np.errstate(over="ignore"):
        return values.astype(np.float64, copy=False)
