"""Spaces that agents play: the types of records, and requirements that ``Agent.plays`` is made of."""

from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from privbandit_envs.spaces import Assortments

Array = NDArray[Any]
Space = gym.Space[Any]
Action: TypeAlias = "int | np.integer[Any] | Array"
"""What one user gets, or the n users of a group get."""
Feedback: TypeAlias = "float | np.number[Any] | Array"
"""What one user answers, or the n users of a group answer: a reward, or the purchased item."""
PublicData: TypeAlias = tuple[Array, NDArray[np.int64]]
"""Features (n, d) and labels (n,) that everybody may know."""


def arms_or_context(observation_space: Space, action_space: Space, dimensions: tuple[int, ...] = (1, 2)) -> str:
    """Return "" for arms with real features, each its own or one context for all."""
    real = isinstance(observation_space, Box) and len(observation_space.shape) in dimensions
    fits = real and isinstance(action_space, Discrete) and action_space.start == 0
    return "" if fits else "arms with features of shape (K, d)" + " or one context of shape (d,)" * (1 in dimensions)


def arms_with_features(observation_space: Space, action_space: Space) -> str:
    """Return "" for arms that each have real features of their own."""
    other = arms_or_context(observation_space, action_space, (2,))
    shared = other and not arms_or_context(observation_space, action_space, (1,))
    return f"{other}, which privbandit_envs.PerArm(env) makes of one context for all" if shared else other


def one_context(observation_space: Space, action_space: Space) -> str:
    """Return "" for arms that share one context of real features."""
    return "arms that share one context of shape (d,)" if arms_or_context(observation_space, action_space, (1,)) else ""


def no_context(observation_space: Space, action_space: Space) -> str:
    """Return "" for arms without a context, which is always 0."""
    alone = isinstance(observation_space, Discrete) and observation_space.n == 1
    fits = alone and isinstance(action_space, Discrete) and action_space.start == 0
    return "" if fits else "arms without a context, which is Discrete(1)"


def labels_of_contexts(observation_space: Space, action_space: Space) -> str:
    """Return "" for classification: one context for all arms, which are labels."""
    fits = arms_or_context(observation_space, action_space, (1,)) == ""
    return "" if fits else "classification: one context of shape (d,), the arms are labels"


def assortments(observation_space: Space, action_space: Space) -> str:
    """Return "" for assortments with features and revenues of shape (N, d + 1)."""
    items = action_space.n_items if isinstance(action_space, Assortments) else 0
    shape = (observation_space.shape or ()) if isinstance(observation_space, Box) else ()
    fits = len(shape) == 2 and shape[0] == items and shape[1] > 1
    return "" if fits else "assortments of items with features and a revenue"


def n_arms(action_space: Space) -> int:
    """Return how many arms there are to choose from."""
    assert isinstance(action_space, Discrete)
    return int(action_space.n)
