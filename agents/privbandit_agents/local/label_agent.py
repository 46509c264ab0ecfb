"""What locally private agents that predict labels share: clipping, one report a user, a schedule of changes."""

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from privbandit_agents.base.agent import Array, C, Guarantee, LocalAgent, Report, Space
from privbandit_agents.base.labels import Floats, LabelAgent, Labels, in_unit_cube
from privbandit_agents.privacy.accounting.ledger import Cost, Ledger, pure


class LocalLabelAgent(LabelAgent[C], LocalAgent[C, Report]):
    """Every user sends one report of features and label; the server predicts, and changes at times fixed beforehand.

    With more than two labels users who were answered wrongly have no label to report, and send noise.

    *Formal guarantees.* A report is one draw of a subclass's randomizer, with the budget of ``config.epsilon``.
    Features are clipped to [0, 1] on the device; a coordinate that is not finite counts as 1/2, feedback that is not
    finite as 0. Everything else that a device reads (public data, settings, the server's state) is public.

    Args:
        observation_space: of one user.
        action_space: of one user.
        config: settings with ``epsilon``, ``exploration`` and ``growth``.
        rng: the agent's own randomness.
        public_data: features (n, d) and labels (n,).
    """

    fixed: ClassVar[frozenset[str]] = LocalAgent.fixed | LabelAgent.fixed | {"guarantee", "cost", "exploration"}
    proof: ClassVar[str] = "docs/privacy/classification-trees.md"

    def begin(self) -> None:
        """Open the ledger."""
        super().begin()
        self.luck = self.rng.spawn(1)[0]  # of exploration; reports have a generator of their own
        self.cost, self.ledger = self.budget()
        self.guarantee = Guarantee.local(self.config.epsilon, self.cost.delta, self.proof)
        self.users, self.refit_at = 0, 1

    def budget(self) -> tuple[Cost, Ledger]:
        """Return the cost of a report, and the ledger of so much."""
        return pure(self.config.epsilon), Ledger(epsilon=self.config.epsilon)

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        """Classification in the unit cube."""
        return super().plays(observation_space, action_space) or in_unit_cube(observation_space)

    @abstractmethod
    def privatise(self, contexts: Floats, labels: Labels) -> Any:
        """Return the reports of n users, contexts (n, d) in the cube, labels (n,), -1 where it is not known."""

    def select_action(self, context: Array) -> Any:
        """Return the likeliest label, or explore."""
        return self.explored(self.answer(self.rows(context)), context, self.luck)

    def answer(self, contexts: Floats) -> Labels:
        """Return the likeliest label of each context, shape (n,)."""
        return np.asarray(self.chances(contexts).argmax(axis=1))

    def rows(self, context: Array) -> Floats:
        """Return contexts of shape (n, d) within the cube, also for one user."""
        x = numbers(context).reshape(-1, *(self.observation_space.shape or ()))
        return np.clip(np.where(np.isfinite(x), x, 0.5), 0, 1)

    def revealed(self, action: Any, feedback: Any, users: int) -> Labels:
        """Return each user's label, -1 if it was not revealed, shape (n,)."""
        action, feedback = (np.broadcast_to(numbers(part), users) for part in (action, feedback))
        action = np.clip(np.nan_to_num(action, posinf=0, neginf=0), 0, self.n_labels - 1).astype(np.int64)
        right = np.isfinite(feedback) & (np.nan_to_num(feedback) > 0.5)
        return np.where(right, action, 1 - action if self.n_labels == 2 else -1)

    def existing(self, labels: Any) -> Labels:
        """Return known labels, shape (n,), 0 for one that does not exist."""
        label = numbers(labels)
        return np.where((label >= 0) & (label < self.n_labels), label, 0).astype(np.int64)

    def randomize(self, context: Array, action: Any, feedback: Any) -> Any:
        """Return the reports of one user or of n users: one release each, whatever the record."""
        rows = self.rows(context)
        return self.privatise(rows, self.revealed(action, feedback, len(rows)))

    def pay(self, users: int) -> None:
        """Enter the reports of so many new users in the ledger."""
        if users:
            self.ledger.spend(self.cost, group=self.users, groups=users)
        self.users += users

    def frozen_rounds(self) -> int:
        """Return the number of users before the policy changes."""
        return max(self.refit_at - self.users, 1)

    def schedule(self) -> None:
        """Say when the policy changes next."""
        self.refit_at = max(self.users + 1, math.ceil(self.users * self.config.growth))


def added(total: Floats, parts: Floats) -> Floats:
    """Return a sum and n more parts, shape (n, ...), added one after the other: bit for bit as in single steps."""
    stacked = np.concatenate([total[None], parts])
    return np.asarray(np.cumsum(stacked, axis=0)[-1] if total.size == 1 else np.add.reduce(stacked, axis=0))


def numbers(record: Any) -> Floats:
    """Return a part of a record in float64, whose infinity stands for what is too large.

    Raises:
        TypeError: it does not consist of real numbers; the message shows none of it, for it may be raw data.
    """
    values = np.asarray(record)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"a record must consist of real numbers; got {values.dtype}.")
    with np.errstate(over="ignore"):
        return values.astype(np.float64, copy=False)
