"""Non-private agents for multinomial-logit assortments: explore, keep every choice, refit now and then."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from privbandit_agents.base.agent import Action, Agent, Array, Feedback, assortments, next_change
from privbandit_agents.base.choices import Choices, LaidOut, best_sets, lay_out, random_sets, sizes
from privbandit_agents.base.records import usable, warn_of_ignored
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.settings import Count, Growth, Positive, Settings


@dataclass(frozen=True)
class MNLSettings(Settings):
    """Settings that all of them have.

    Attributes:
        exploration_rounds: users T0 who are offered random assortments first, >= 1.
        ridge: penalty ridge |theta|^2 / 2 of the likelihood and start of V, > 0.
        growth: refit when the number of users has grown by this factor, > 1.
    """

    exploration_rounds: Count = 50
    ridge: Positive = 1.0
    growth: Growth = 1.1


M = TypeVar("M", bound=MNLSettings)


class MNLAgent(Agent[M]):
    """Offer random assortments to the first users, then the best ones for utilities that a subclass names.

    The likelihood needs every choice: memory grows by 8 K (d + 2) bytes a user. theta, its maximiser, and V = ridge I +
    sum over offered items of x x' are brought up to date when the number of users has grown by ``growth``.
    """

    plays = staticmethod(assortments)

    def begin(self) -> None:
        _, self.capacity, self.dim = sizes(self.observation_space, self.action_space)
        self.choices = Choices(self.capacity, self.dim)
        self.gram = self.config.ridge * np.eye(self.dim)
        self.in_gram = 0
        self.theta = np.zeros(self.dim)
        self.refit_at = self.config.exploration_rounds

    @abstractmethod
    def utilities(self, context: Array) -> Array:
        """Return the utilities to choose by, of one user or n, shape (..., N)."""

    def select_action(self, context: Array) -> Array:
        context = self.contexts_of(context)
        if len(self.choices) < self.config.exploration_rounds:
            return random_sets(self.rng, context, self.capacity)
        with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
            return best_sets(context, self.utilities(context), self.capacity)

    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        for x, sets, bought in blocks(self.frozen_rounds, *self.records_of(context, action, feedback)):
            self.choices.store(learnable(lay_out(x, sets, bought, self.capacity)))
            if len(self.choices) == self.refit_at:
                self.refit()

    def frozen_rounds(self) -> int:
        return self.refit_at - len(self.choices)

    def refit(self) -> None:
        t = len(self.choices)
        offered = self.choices.features.view()[self.in_gram :].reshape(-1, self.dim)
        self.gram = self.gram + offered.T @ offered
        self.in_gram = t
        self.theta = self.choices.fit(self.theta, self.config.ridge)
        self.refit_at = next_change(t, self.config.growth)


def learnable(laid_out: LaidOut) -> LaidOut:
    """Return users' choices; one that is not ``usable`` becomes items of zeros, none of them bought, with a warning."""
    features, offered, bought = laid_out
    if not (good := usable(features, bought)).all():
        warn_of_ignored()
        features, bought = np.where(good[:, None, None], features, 0.0), np.where(good, bought, -1)
    return LaidOut(features, offered, bought)
