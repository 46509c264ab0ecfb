"""What many tests are given: generators, and worlds with labels."""

from typing import Any

import gymnasium as gym
import numpy as np

import privbandit_envs  # noqa: F401  (registers the environments)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def classification(horizon: int, **kwargs: Any) -> Any:
    return gym.make("privbandit/Classification-v0", horizon=horizon, **kwargs)
