"""What many tests are given: generators, and worlds with labels."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents.privacy.contributions.choices import clipped_factors

import privbandit_envs  # noqa: F401  (registers the environments)


class Later:
    """A module that is imported when a test uses it first: each worker collects all tests, and runs a part of them.

    The tests of the module that names it are skipped if the package is not installed.
    """

    def __init__(self, name: str) -> None:
        if find_spec(name.partition(".")[0]) is None:
            pytest.skip(f"{name} is not installed", allow_module_level=True)
        self.name = name

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_"):  # pytest asks every name of a module whether it is a test
            raise AttributeError(key)
        return getattr(import_module(self.name), key)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def classification(horizon: int, **kwargs: Any) -> Any:
    return gym.make("privbandit/Classification-v0", horizon=horizon, **kwargs)


def clipped_derivatives(features: Any, bought: Any, theta: Any, offered: Any = None, **bounds: float) -> Any:
    """Return the gradients (n, d) and Hessians (n, d, d) of which ``clipped_sums`` gives the sums."""
    gradient, roots = clipped_factors(features, bought, theta, offered, **bounds)
    return gradient, np.einsum("ink,jnk->nij", roots, roots)
