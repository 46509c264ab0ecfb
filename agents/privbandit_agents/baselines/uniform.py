"""Uniform play: the yardstick of every regret table."""

from typing import Any

from privbandit_agents.agent import (
    FOREVER,
    Agent,
    Array,
    Assortments,
    Space,
    many,
    n_arms,
    plays_arms,
    plays_assortments,
    top_k,
)


class Uniform(Agent):
    """Play an arm uniformly at random, or a uniformly random assortment of full capacity."""

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        """Arms or assortments."""
        neither = plays_arms(observation_space, action_space) and plays_assortments(observation_space, action_space)
        return "arms or assortments" if neither else ""

    def select_action(self, context: Array) -> Any:
        """Ignore the context."""
        shape = self.observation_space.shape
        assert shape is not None
        if isinstance(self.action_space, Assortments):
            return top_k(many(self.rng, context, shape, self.action_space.n_items), self.action_space.capacity)
        arms = many(self.rng, context, shape) * n_arms(self.action_space)
        return arms.astype(int) if context.ndim > len(shape) else int(arms)

    def update(self, context: Array, action: Any, feedback: Any) -> None:
        """Learn nothing."""

    def frozen_rounds(self) -> int:
        """The policy never changes."""
        return FOREVER
