"""The public kernel model: what it finds, and public rows of every kind."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.base.kernels.features import KernelFeatures

WORLD = "privbandit/Classification-v0"


def share_of_errors(name: str, source: str, seed: int, **config: Any) -> float:
    """Regret over that of uniform play, 5000 users."""
    env = gym.make(WORLD, source=source, n_public=100, public_seed=seed, horizon=5000)
    ours, theirs = (
        play(env, make(one, env, seed=0, **kwargs), seed=seed) for one, kwargs in ((name, config), ("uniform", {}))
    )
    return float(ours.regret[-1] / theirs.regret[-1])


@pytest.mark.slow
def test_it_is_far_ahead_of_a_linear_model_on_digits() -> None:
    kernel, linear = (
        np.mean([share_of_errors(name, "digits-binary", s) for s in (1, 2)])
        for name in ("kernel-public", "logistic-public")
    )
    assert kernel < 0.17 < 0.3 < linear


@pytest.mark.wide
def test_a_linear_model_competes() -> None:
    """On rows that a line divides, with noise, the chosen width is 0 or wide."""
    rng = np.random.default_rng(0)
    x = rng.random((60, 2))
    y = (x @ [1.0, -1.0] > 0.05 * rng.standard_normal(60)).astype(int)
    env: Any = gym.make(WORLD, horizon=10)
    made: Any = make("kernel-public", env, seed=0)
    agent = type(made)(env.observation_space, env.action_space, made.config, public_data=(x, y))
    test = rng.random((500, 2))
    assert (agent.select_action(test) == (test @ [1.0, -1.0] > 0)).mean() > 0.93


def test_features_between_the_places_have_the_kernel_for_inner_products() -> None:
    x = np.random.default_rng(0).random((20, 3))
    features = KernelFeatures.of(x, 1.0, 20)
    exact = np.exp(-features.gamma * ((x[:, None] - x[None]) ** 2).sum(axis=2))
    assert features(x) @ features(x).T == pytest.approx(exact, abs=1e-6)
    assert KernelFeatures.of(x, 1.0, 7).dim == 7


@pytest.mark.wide_at("labels5", "labels0", "labels1", "labels2", "labels4")
@pytest.mark.parametrize("labels", [[], [1], [1, 1, 1], [0, 1], [0, 0, 0, 1], [0, 1] * 5])
def test_public_rows_of_every_number_and_hostile_contexts(labels: list[int]) -> None:
    env: Any = gym.make(WORLD, horizon=10)
    made: Any = make("kernel-public", env, seed=0)
    public = np.random.default_rng(1).random((len(labels), 2)), np.array(labels, dtype=np.int64)
    agent = type(made)(env.observation_space, env.action_space, made.config, public_data=public)
    contexts = np.array([[0.2, 0.3], [np.nan, 0.1], [np.inf, -np.inf], [1e300, -1e300]])
    chances = agent.chances(contexts)
    assert np.isfinite(chances).all() and chances.sum(axis=1) == pytest.approx(1)
    assert set(agent.select_action(contexts)) <= {0, 1}
    if len(set(labels)) == 1:
        assert (chances[:, labels[0]] == 1).all()
