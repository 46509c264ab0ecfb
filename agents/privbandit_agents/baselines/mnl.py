"""Non-private agents for multinomial-logit assortments: explore, keep every choice, refit now and then."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from privbandit_agents.base.agent import Agent, next_change
from privbandit_agents.base.choices import Choices, Floats, LaidOut, best_sets, lay_out, random_sets, sizes
from privbandit_agents.base.records import usable, warn_of_ignored
from privbandit_agents.base.rows import KEPT_BYTES, blocks
from privbandit_agents.base.settings import Growth, Positive, Settings
from privbandit_agents.base.spaces import Action, Array, Feedback, assortments


@dataclass(frozen=True)
class MNLSettings(Settings):
    """Settings that all of them have.

    Attributes:
        ridge: penalty ridge |theta|^2 / 2 of the likelihood and start of V, > 0.
        growth: refit when the number of users has grown by this factor, > 1.
    """

    ridge: Positive = 1.0
    growth: Growth = 1.1


M = TypeVar("M", bound=MNLSettings)


class MNLAgent(Agent[M]):
    """Offer random assortments to the first 50 users, then the best ones for utilities that a subclass names.

    theta, the maximiser of the likelihood, and V = ridge I + sum over offered items of x x' are brought up to date when
    the number of users has grown by ``growth``.

    Deviations:
        At most 16 MiB of choices are kept, which are 30 000 users with sets of 10 items and 5 features. When they are
        full, the likelihood of their users becomes its second-order expansion at its maximiser, a few d x d numbers.
    """

    plays = staticmethod(assortments)

    def begin(self) -> None:
        _, self.capacity, self.dim = sizes(self.observation_space, self.action_space)
        self.choices = Choices(self.capacity, self.dim)
        self.most = max(1, KEPT_BYTES // (8 * self.capacity * (self.dim + 2)))
        self.users = 0
        self.gram = self.config.ridge * np.eye(self.dim)
        self.in_gram = 0
        self.theta = np.zeros(self.dim)
        # what is left of users whose choices are not kept: the loss t'H t / 2 - b't
        self.past_hessian, self.past_slope = np.zeros((self.dim, self.dim)), np.zeros(self.dim)
        self.refit_at = 50

    @abstractmethod
    def utilities(self, context: Array) -> Array:
        """Return the utilities to choose by, of one user or n, shape (..., N)."""

    def select_action(self, context: Array) -> Array:
        if self.users < 50:
            return random_sets(self.rng, context, self.capacity)
        with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
            return best_sets(context, self.utilities(context), self.capacity, self.ties)

    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        records = self.records_of(context, action, feedback)
        for x, sets, bought in blocks(lambda: min(self.frozen_rounds(), self.most - len(self.choices)), *records):
            self.choices.store(learnable(lay_out(x, sets, bought, self.capacity)))
            self.users += len(bought)
            if self.users == self.refit_at:
                self.refit()
            if len(self.choices) == self.most:
                self.expand()

    def frozen_rounds(self) -> int:
        return self.refit_at - self.users

    def refit(self) -> None:
        self._bring_gram_up()
        self.theta = self._fitted()
        self.refit_at = next_change(self.users, self.config.growth)

    def expand(self) -> None:
        """Put the second-order expansion of the kept users' loss at the maximiser in place of their choices."""
        self._bring_gram_up()
        theta = self._fitted()
        _, gradient, hessian = self.choices.likelihood(theta, 0.0)
        self.past_hessian = self.past_hessian + hessian
        self.past_slope = self.past_slope + hessian @ theta - gradient
        self.choices.clear()
        self.in_gram = 0

    def _fitted(self) -> Floats:
        return self.choices.fit(self.theta, self.config.ridge, past=(self.past_hessian, self.past_slope, self.users))

    def _bring_gram_up(self) -> None:
        offered = self.choices.features.view()[self.in_gram :].reshape(-1, self.dim)
        self.gram = self.gram + offered.T @ offered
        self.in_gram = len(self.choices)


def learnable(laid_out: LaidOut) -> LaidOut:
    """Return users' choices; one that is not ``usable`` becomes items of zeros, none of them bought, with a warning."""
    features, offered, bought = laid_out
    if not (good := usable(features, bought)).all():
        warn_of_ignored()
        features, bought = np.where(good[:, None, None], features, 0.0), np.where(good, bought, -1)
    return LaidOut(features, offered, bought)
