"""Arms without a context under local privacy: one randomized bit a user."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.base.ties import largest

BANDIT = "privbandit/Bandit-v0"


def agent_of(**config: Any) -> Any:
    return make("ldp-ucb", gym.make(BANDIT, n_arms=3, horizon=1000), seed=0, **config)


@pytest.mark.parametrize(("reward", "mean"), [(1.0, 1.0), (0.0, 0.0), (0.3, 0.3), (7.0, 1.0), (-2.0, 0.0)])
def test_a_report_is_a_bit_that_is_right_as_often_as_the_budget_allows(reward: float, mean: float) -> None:
    """50 000 reports: five standard errors."""
    agent, n = agent_of(epsilon=1.0), 50_000
    report = agent.randomize(np.zeros(n, int), np.full(n, agent.arm), np.full(n, reward))
    assert set(np.unique(report)) == {-1.0, 1.0}
    told = (1 + math.tanh(0.5) * (2 * mean - 1)) / 2
    assert abs((report > 0).mean() - told) < 5 * 0.5 / n**0.5


@pytest.mark.parametrize("record", [(1, 1.0), (0, math.nan), (-1, 0.0)])
def test_who_has_nothing_to_tell_sends_a_fair_coin(record: tuple[int, float]) -> None:
    agent, n = agent_of(epsilon=3.0), 20_000
    arm = (agent.arm + record[0]) % 3 if record[0] >= 0 else -1
    report = agent.randomize(np.zeros(n, int), np.full(n, arm), np.full(n, record[1]))
    assert abs(report.mean()) < 5 / n**0.5


def test_without_noise_it_is_ucb1() -> None:
    """The arm of each run is one of those that UCB1 has as the best, given the same records."""
    for seed in range(5):
        env: Any = gym.make(BANDIT, gap=0.2, n_arms=3, horizon=3000).unwrapped
        private: Any = make("ldp-ucb", env, seed=0, epsilon=math.inf, width=2)
        plain: Any = make("ucb1", env, seed=0)
        env.reset(seed=seed)
        while env.rounds_left:
            n = min(private.frozen_rounds(), env.rounds_left)
            contexts, actions = np.zeros(n, int), np.full(n, private.arm)
            answers = env.serve(actions).feedback
            private.update(contexts, actions, answers)
            plain.update(contexts, actions, answers)
            assert not env.rounds_left or largest(plain._optimistic())[private.arm]


@pytest.mark.wide
def test_regret_follows_the_lower_bound_in_epsilon() -> None:
    """tanh(epsilon / 2)^2 is 4.0 times larger at 1 than at 0.47; regret is larger by 2.5 to 6 times in the mean."""
    found = []
    for epsilon in (0.47, 1.0):
        env = gym.make(BANDIT, gap=0.3, n_arms=4, horizon=200_000)
        runs = [play(env, make("ldp-ucb", env, seed=s, epsilon=epsilon), seed=s).regret[-1] for s in range(8)]
        found.append(np.mean(runs))
    assert 2.5 < found[0] / found[1] < 6
