"""LPLR's intervals over many runs: how often they hold, and how wide they are."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play

import privbandit_envs  # noqa: F401


def regression(design: str, n: int, seed: int) -> list[float]:
    """Mean absolute error, the share of users within their intervals, and the mean half-width after n users."""
    env: Any = gym.make("privbandit/Linear-v0", horizon=n, n_arms=1, dim=2, design=design, support="all")
    agent: Any = make("lplr", env, seed=seed, first=n, z=2.2)
    play(env, agent, n, seed=seed, checkpoints=[n])
    support = env.unwrapped.support
    means = env.unwrapped.problem.expected_reward(support.contexts, np.zeros(len(support.contexts), int))
    width, error = agent.interval(support.contexts)[:, 0], np.abs(agent.predict(support.contexts)[:, 0] - means)
    return [float(support.probabilities @ column) for column in (error, error <= width, width)]


@pytest.mark.slow
@pytest.mark.parametrize("n", [10**5, 10**6, 10**7])
@pytest.mark.parametrize("design", ["case1", "case2"])
def test_intervals_hold_for_95_percent_and_are_at_most_three_and_a_half_errors_wide(design: str, n: int) -> None:
    error, inside, width = np.mean([regression(design, n, seed) for seed in range(100)], axis=0)
    assert inside >= 0.95 and width <= 3.5 * error
