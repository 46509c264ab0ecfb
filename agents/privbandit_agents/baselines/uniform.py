"""Uniform play: the yardstick of every regret table."""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from gymnasium.spaces import Discrete

from privbandit_agents.agent import FOREVER, Agent, Array, many
from privbandit_envs.spaces import Assortments, top_k


@dataclass(frozen=True)
class Config:
    """Uniform play has no settings."""


class Uniform(Agent):
    """Play an arm uniformly at random, or a uniformly random assortment of full capacity."""

    Config = Config

    @classmethod
    def plays(cls, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> str:
        """Arms or assortments."""
        return "" if isinstance(action_space, Discrete | Assortments) else "arms or assortments"

    def select_action(self, context: Array) -> Any:
        """Ignore the context."""
        shape = self.observation_space.shape
        assert shape is not None
        if isinstance(self.action_space, Assortments):
            return top_k(many(self.rng, context, shape, self.action_space.n_items), self.action_space.capacity)
        assert isinstance(self.action_space, Discrete)
        arms = many(self.rng, context, shape) * int(self.action_space.n)
        return arms.astype(int) if context.ndim > len(shape) else int(arms)

    def update(self, context: Array, action: Any, feedback: Any) -> None:
        """Learn nothing."""

    def frozen_rounds(self) -> int:
        """The policy never changes."""
        return FOREVER
