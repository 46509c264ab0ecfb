import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play

from privbandit_envs.families.arms import BanditProblem


def world(seed: int = 0, **kwargs: Any) -> BanditProblem:
    return BanditProblem(np.random.default_rng(seed), **kwargs)


def test_a_gap_puts_one_arm_ahead_of_all_others() -> None:
    means = world(n_arms=5, gap=0.2).arm_means
    assert sorted(means.round(12)) == [0.4] * 4 + [0.6]
    assert {int(world(seed, n_arms=5, gap=0.2).arm_means.argmax()) for seed in range(60)} == set(range(5))


@pytest.mark.parametrize(("horizon", "gap"), [(10**6, math.sqrt(8e-6)), (10, 0.5)])
def test_a_hard_gap_shrinks_with_the_horizon(horizon: int, gap: float) -> None:
    assert np.ptp(world(n_arms=8, gap="hard", horizon=horizon).arm_means) == pytest.approx(gap)


def test_given_means_say_how_many_arms_there_are() -> None:
    assert world(means=[0.1, 0.9]).action_space.n == 2
    drawn = world(n_arms=4000).arm_means
    assert abs(drawn.mean() - 0.5) < 5 / math.sqrt(12 * 4000) and drawn.min() < 0.01 and drawn.max() > 0.99


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"means": [0.5, 1.5]}, "2 numbers in"),
        ({"means": [0.5, 0.5], "n_arms": 3}, "3 numbers in"),
        ({"means": [0.5], "gap": 0.1}, "means and gap"),
        ({"gap": 1.5}, "gap"),
        ({"gap": "soft"}, "hard"),
    ],
)
def test_means_out_of_range_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        world(**settings)


def test_rewards_are_coins_and_users_are_served_by_counts() -> None:
    problem = world(means=[0.2, 0.7])
    rewards = problem.rewards(problem.means(np.zeros(100_000, int)), np.random.default_rng(1))
    assert (np.abs(rewards.mean(axis=0) - [0.2, 0.7]) < 5 * 0.5 / 100_000**0.5).all()
    env = gym.make("privbandit/Bandit-v0", means=[0.2, 0.7], horizon=10**9)
    result = play(env, make("uniform", env, seed=0), seed=0)
    assert result.simulation == "counts" and result.regret[-1] == pytest.approx(0.25e9, rel=1e-3)


def test_agents_that_regress_see_the_arms_alone() -> None:
    env = gym.make("privbandit/Bandit-v0", gap=0.3, n_arms=4, horizon=5000)
    for name in ("lints", "linucb"):
        assert play(env, make(name, env, seed=1), seed=1).regret[-1] < 0.3 * 0.75 * 5000 / 4, name
