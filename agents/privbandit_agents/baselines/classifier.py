"""Common parts of the classifiers: labels from 0/1 feedback, exploration, and a schedule of refits."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.base.agent import NEVER, next_change
from privbandit_agents.base.labels import Floats, LabelAgent, Labels, propensities
from privbandit_agents.base.law import checked
from privbandit_agents.base.records import usable, warn_of_ignored
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.settings import Fraction, Growth, Settings
from privbandit_agents.base.spaces import Action, Array, Feedback
from privbandit_agents.base.ties import best, largest
from privbandit_envs.changing.masks import uniform_over


@dataclass(frozen=True)
class RefitSettings(Settings):
    """Settings that these classifiers share.

    Attributes:
        learn_from: ``"all"``: public rows and users; ``"public"``: public rows only.
        exploration: probability of a random label; None: 0 with two labels, 0.05 with more.
        refit: growth of the data between two refits, > 1.
    """

    learn_from: Literal["all", "public"] = "all"
    exploration: Fraction | None = None
    refit: Growth = 1.05


R = TypeVar("R", bound=RefitSettings)


class RefittingLabelAgent(LabelAgent[R]):
    """Predict labels, having public data and learning from each user whether the prediction was right.

    A right answer counts 1/p, where p is the probability with which it was given, so that the counted labels are
    unbiased. The predictions change when the data have grown by the factor ``refit``, so users in between can be served
    together. An agent that learns from the public data alone never changes them.
    """

    def begin(self) -> None:
        super().begin()
        self.users = 0
        self.next_fit = self.schedule()

    @abstractmethod
    def guess(self, contexts: Array) -> Labels:
        """Return the best guess for contexts of shape (n, d), -1 if there are several."""

    @abstractmethod
    def several(self, contexts: Array) -> NDArray[np.bool_]:
        """Return which labels are best guesses for contexts that have several, shape (n, K)."""

    @abstractmethod
    def learn(self, contexts: Array, labels: Labels, weights: Floats) -> None:
        """Take in labelled contexts (n, d) without changing the predictions."""

    @abstractmethod
    def fit(self) -> None:
        """Let the predictions reflect all that was learnt."""

    def select_action(self, context: Array) -> Action:
        rows, ties = self.rows(context), self.ties
        guesses = self.guess(rows)
        if guesses.min(initial=0) < 0:
            guesses = np.where(guesses < 0, best(self.chances(rows), ties), guesses)
        else:
            ties.users += len(rows)
        return self.explored(guesses, context, self.rng)

    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        """Learn from the users, refitting when it is time, unless only public data count."""
        if self.config.learn_from == "public":
            return
        contexts, answers, rewards = self.records_of(context, action, feedback)
        good = usable(contexts, answers) & (answers >= 0) & np.isfinite(rewards)
        if not good.all():
            warn_of_ignored()
        masks = checked(self, self.visit.mask, len(good))
        for x, labels, right, kept, here in blocks(self.frozen_rounds, contexts, answers, rewards > 0.5, good, masks):
            self.learn_answers(x[kept], labels[kept], right[kept], here[kept])
            self.users += len(right)
            if self.users == self.next_fit:
                self.conclude()

    def learn_answers(
        self, contexts: Array, answers: Labels, right: NDArray[np.bool_], masks: NDArray[np.bool_]
    ) -> None:
        """Learn from the users who revealed their label."""
        if self.n_labels == 2:
            self.learn(contexts, np.where(right, answers, 1 - answers), np.ones(len(answers)))
        elif right.any():
            contexts, answers = contexts[right], answers[right]
            chosen: Array = self.played(contexts, masks[right])[np.arange(len(answers)), answers]
            self.learn(contexts, answers, 1 / propensities(chosen, self.exploration, self.n_labels))

    def played(self, contexts: Array, masks: NDArray[np.bool_]) -> Floats:
        """Return the probability with which each label is played as the best guess that is present, shape (n, K)."""
        return uniform_over(largest(self.chances(contexts), masks))

    def learn_labels(self, contexts: Array, labels: Labels, aggregate: bool = False) -> None:
        """Take in rows with known labels, unless only public data count."""
        if self.config.learn_from == "all":
            x, known = self.labelled(contexts, labels)
            good = usable(x, known)
            self.learn(x[good], known[good], np.ones(np.count_nonzero(good)))
            self.users += len(known)

    def conclude(self) -> None:
        self.fit()
        self.next_fit = self.schedule()

    def chances(self, contexts: Array) -> Floats:
        """Return 1 for the best guess and 0 for the other labels; several best ones share it."""
        guesses = self.guess(contexts)
        chances, several = np.eye(self.n_labels)[guesses], guesses < 0
        if several.any():
            chances[several] = uniform_over(self.several(contexts[several]))
        return chances

    def frozen_rounds(self) -> int:
        return NEVER if self.config.learn_from == "public" else self.next_fit - self.users

    def schedule(self) -> int:
        public = len(self.public_data[1])
        return next_change(public + self.users, self.config.refit) - public

    def rows(self, context: Array) -> Array:
        return self.contexts_of(context).reshape(-1, *self.context_shape)
