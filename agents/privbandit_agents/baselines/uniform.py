"""Uniform play: the yardstick of every regret table."""

from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.agent import NEVER, Agent
from privbandit_agents.base.choices import random_sets
from privbandit_agents.base.law import DRAWS, Probabilities, uniform_propensity
from privbandit_agents.base.rows import uniforms_per_user
from privbandit_agents.base.settings import Settings
from privbandit_agents.base.spaces import (
    Action,
    Array,
    Feedback,
    Space,
    arms_or_context,
    assortments,
    n_arms,
    no_context,
)
from privbandit_envs.changing.masks import uniform_over
from privbandit_envs.spaces import Assortments


class Uniform(Agent[Settings]):
    """Play an arm uniformly at random, or a uniformly random assortment of full capacity."""

    @staticmethod
    def plays(observation_space: Space, action_space: Space) -> str:
        known = (arms_or_context, assortments, no_context)
        return "arms or assortments" if all(other(observation_space, action_space) for other in known) else ""

    def select_action(self, context: Array) -> Action:
        if isinstance(self.action_space, Assortments):
            return random_sets(self.rng, context, self.action_space.capacity)
        if self.visit.mask is not None:
            keys = uniforms_per_user(self.rng, context, self.context_shape, n_arms(self.action_space))
            return np.asarray(np.where(self.visit.mask, keys, -1).argmax(axis=-1))
        arms = uniforms_per_user(self.rng, context, self.context_shape) * n_arms(self.action_space)
        return arms.astype(int) if arms.ndim else int(arms)

    def law(self, contexts: Array, draws: int, rng: Generator) -> Probabilities:
        shape = len(contexts), n_arms(self.action_space)
        return Probabilities.of(uniform_over(np.ones(shape, bool) if self.visit.mask is None else self.visit.mask))

    def propensities(
        self,
        contexts: Array,
        actions: Any,
        draws: int = DRAWS,
        rng: Generator | None = None,
        mask: Array | None = None,
    ) -> Probabilities:
        if not isinstance(self.action_space, Assortments) or mask is not None:
            return super().propensities(contexts, actions, draws, rng, mask)
        full = np.asarray(actions).sum(axis=-1) == self.action_space.capacity
        return Probabilities.of(np.atleast_1d(full) * uniform_propensity(self.action_space))

    @property
    def least_propensity(self) -> float:
        """Return the probability of every action."""
        return uniform_propensity(self.action_space)

    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        """Learn nothing."""

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        """Exact: users of one context and one arm are alike."""
        return "" if isinstance(self.action_space, Assortments) else "exact"

    def select_counts(self, contexts: Array, counts: Array) -> tuple[Array, Action, Array]:
        """Share the users of every context out among the arms."""
        arms = n_arms(self.action_space)
        shared = self.rng.multinomial(counts, np.full(arms, 1 / arms))
        rows, actions = np.nonzero(shared)
        return rows, actions, shared[rows, actions]

    def update_counts(self, contexts: Array, actions: Action, feedback: Feedback, counts: Array) -> None:
        """Learn nothing."""

    def frozen_rounds(self) -> int:
        return NEVER
