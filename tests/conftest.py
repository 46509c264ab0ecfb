"""Fixtures that tests of many folders use."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import privbandit_envs  # noqa: F401  (registers the environments)


@pytest.fixture
def rng() -> Callable[..., np.random.Generator]:
    """A generator for a seed: ``rng()``, ``rng(3)``."""

    def made(seed: int = 0) -> np.random.Generator:
        return np.random.default_rng(seed)

    return made


@pytest.fixture
def classification() -> Callable[..., Any]:
    """A world with labels for so many users: ``classification(2000, gamma=0.5)``."""

    def made(horizon: int, **kwargs: Any) -> Any:
        return gym.make("privbandit/Classification-v0", horizon=horizon, **kwargs)

    return made
