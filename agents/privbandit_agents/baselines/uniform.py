"""Uniform play: the yardstick of every regret table."""

from typing import Any, Literal

import numpy as np

from privbandit_agents.base.agent import (
    NEVER,
    Agent,
    Array,
    Space,
    arms_or_context,
    assortments,
    n_arms,
    uniforms_per_user,
)
from privbandit_agents.base.settings import Settings
from privbandit_envs.spaces import Assortments, top_k


class Uniform(Agent[Settings]):
    """Play an arm uniformly at random, or a uniformly random assortment of full capacity."""

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        """Arms or assortments."""
        neither = arms_or_context(observation_space, action_space) and assortments(observation_space, action_space)
        return "arms or assortments" if neither else ""

    def select_action(self, context: Array) -> Any:
        """Ignore the context."""
        shape = self.observation_space.shape
        assert shape is not None
        if isinstance(self.action_space, Assortments):
            return top_k(
                uniforms_per_user(self.rng, context, shape, self.action_space.n_items), self.action_space.capacity
            )
        arms = uniforms_per_user(self.rng, context, shape) * n_arms(self.action_space)
        return arms.astype(int) if context.ndim > len(shape) else int(arms)

    def update(self, context: Array, action: Any, feedback: Any) -> None:
        """Learn nothing."""

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        """Users of one context and one arm are alike."""
        return "" if isinstance(self.action_space, Assortments) else "exact"

    def select_counts(self, contexts: Array, counts: Array) -> tuple[Array, Array, Array]:
        """Share the users of every context out among the arms."""
        arms = n_arms(self.action_space)
        shared = self.rng.multinomial(counts, np.full(arms, 1 / arms))
        rows, actions = np.nonzero(shared)
        return rows, actions, shared[rows, actions]

    def update_counts(self, contexts: Array, actions: Any, feedback: Any, counts: Array) -> None:
        """Learn nothing."""

    def frozen_rounds(self) -> int:
        """The policy never changes."""
        return NEVER
