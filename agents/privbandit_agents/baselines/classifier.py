"""What the classifiers share: labels from 0/1 feedback, exploration, and a schedule of refits."""

import math
from abc import abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.base.agent import NEVER, Array, C
from privbandit_agents.base.labels import Floats, LabelAgent, Labels
from privbandit_envs.validate import above, fraction, one_of


class Settings(Protocol):
    """What a RefittingLabelAgent reads of its Config."""

    @property
    def learn_from(self) -> str:
        """``"all"``: public rows and users; ``"public"``: public rows only."""

    @property
    def exploration(self) -> float | None:
        """Probability of a random label; None: 0 with two labels, 0.05 with more."""

    @property
    def refit(self) -> float:
        """Growth of the data between two refits, > 1."""


def check_settings(config: Settings) -> None:
    """Raise ValueError for a value out of range."""
    one_of(("all", "public"), learn_from=config.learn_from)
    if config.exploration is not None:
        fraction(exploration=config.exploration)
    above(1, refit=config.refit)


class RefittingLabelAgent(LabelAgent[C]):
    """Predict labels, having public data and learning from each user whether the prediction was right.

    A right answer counts 1/p, where p is the probability with which it was given, so that the counted labels are
    unbiased. The predictions change when the data have grown by the factor ``refit``, so users in between can be served
    together. An agent that learns from the public data alone never changes them.

    Args:
        observation_space: of one user.
        action_space: of one user.
        config: settings with ``learn_from``, ``exploration`` and ``refit``.
        rng: the agent's own randomness.
        public_data: features (n, d) and labels (n,).
    """

    def begin(self) -> None:
        """Start with the public data."""
        super().begin()
        self.users = 0
        self.next_fit = self.schedule()

    @abstractmethod
    def predict(self, contexts: Array) -> Labels:
        """Return the best guess for contexts of shape (n, d)."""

    @abstractmethod
    def learn(self, contexts: Array, labels: Labels, weights: Floats) -> None:
        """Take in labelled contexts (n, d) without changing the predictions."""

    @abstractmethod
    def fit(self) -> None:
        """Let the predictions reflect all that was learnt."""

    def select_action(self, context: Array) -> Any:
        """Predict, or explore."""
        return self.explored(self.predict(self.rows(context)), context, self.rng)

    def update(self, context: Array, action: Any, feedback: Any) -> None:
        """Learn from the users, refitting when it is time, unless only public data count.

        Raises:
            ValueError: feedback that is not finite.
        """
        if self.config.learn_from == "public":
            return
        contexts, answers, rewards = self.rows(context), np.atleast_1d(action), np.atleast_1d(feedback)
        if not (finite := np.isfinite(rewards)).all():
            raise ValueError(f"feedback must be finite; got {rewards[~finite][0]}.")
        right, done = rewards > 0.5, 0
        while done < len(right):
            users = slice(done, done + self.frozen_rounds())
            self.learn_answers(contexts[users], answers[users], right[users])
            done += len(right[users])
            self.users += len(right[users])
            if self.users == self.next_fit:
                self.conclude()

    def learn_answers(self, contexts: Array, answers: Labels, right: NDArray[np.bool_]) -> None:
        """Learn from the users who revealed their label."""
        if self.n_labels == 2:
            self.learn(contexts, np.where(right, answers, 1 - answers), np.ones(len(answers)))
        elif right.any():
            contexts, answers = contexts[right], answers[right]
            self.learn(contexts, answers, 1 / self.propensities(answers == self.predict(contexts)))

    def learn_labels(self, contexts: Array, labels: Labels, aggregate: bool = False) -> None:
        """Take in rows whose labels are known, unless only public data count."""
        if self.config.learn_from == "all":
            self.learn(contexts, labels, np.ones(len(labels)))
            self.users += len(labels)

    def conclude(self) -> None:
        """Refit."""
        self.fit()
        self.next_fit = self.schedule()

    def chances(self, contexts: Array) -> Floats:
        """Return 1 for the best guess and 0 for the other labels."""
        return np.eye(self.n_labels)[self.predict(contexts)]

    def frozen_rounds(self) -> int:
        """Return the number of users up to the next refit."""
        return NEVER if self.config.learn_from == "public" else self.next_fit - self.users

    def schedule(self) -> int:
        """Return the number of users at which to refit next."""
        public, growth = len(self.public_data[1]), float(self.config.refit)
        return max(self.users + 1, math.ceil(growth * (public + self.users)) - public)

    def rows(self, context: Array) -> Array:
        """Return contexts of shape (n, d), also for one user."""
        return context if context.ndim == 2 else context[None]
