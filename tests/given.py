"""What many tests are given: generators, and worlds with labels."""

from typing import Any

import gymnasium as gym
import numpy as np
from privbandit_agents.privacy.contributions.choices import clipped_factors

import privbandit_envs  # noqa: F401  (registers the environments)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def classification(horizon: int, **kwargs: Any) -> Any:
    return gym.make("privbandit/Classification-v0", horizon=horizon, **kwargs)


def clipped_derivatives(features: Any, bought: Any, theta: Any, offered: Any = None, **bounds: float) -> Any:
    """Return the gradients (n, d) and Hessians (n, d, d) of which ``clipped_sums`` gives the sums."""
    gradient, roots = clipped_factors(features, bought, theta, offered, **bounds)
    return gradient, np.einsum("ink,jnk->nij", roots, roots)
