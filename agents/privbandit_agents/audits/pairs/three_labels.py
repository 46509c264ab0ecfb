"""A small world with three labels, in which a wrong answer reveals none."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

from privbandit_agents.base.agent import Array


class ThreeLabels(gym.Env[Array, np.integer[Any]]):
    """Contexts are uniform on the unit square; the label is the third of the first feature; 60 rows are public.

    Args:
        horizon: expected number of users.
    """

    observation_space = Box(0, 1, (2,), np.float64)
    action_space = Discrete(3)

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        rows = np.random.default_rng(0).random((60, 2))
        self.public_data = rows, label_of(rows)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.context = self.np_random.random(2)
        return self.context, {}

    def step(self, action: int | np.integer[Any]) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        reward = float(label_of(self.context) == action)
        self.context = self.np_random.random(2)
        return self.context, reward, False, False, {}


def label_of(contexts: Array) -> Array:
    """Return the labels of contexts (..., 2), shape (...)."""
    return (contexts[..., 0] * 3).astype(np.int64)
