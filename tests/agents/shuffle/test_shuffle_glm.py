"""Shuffle-GLM: the bits of any two records, and where it learns more than a linear model."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.audits.pairs.records import Record
from privbandit_agents.audits.pairs.targets import targets
from privbandit_agents.privacy.contributions import logistic
from privbandit_agents.privacy.randomizers.coins import shift_of
from privbandit_agents.testing.runs import environment

LINEAR, CLICKS, NAME = "privbandit/Linear-v0", "privbandit/Clicks-v0", "shuffle-glm"


@pytest.mark.parametrize("env_id", [LINEAR, CLICKS])
@pytest.mark.parametrize("norm", [0.0, 4.0])
def test_the_bits_of_any_two_records_are_as_near_as_the_coins_need(env_id: str, norm: float) -> None:
    """Every pair of hostile and ordinary records, with the same uniforms: more than half of the distance is used."""
    env = environment(env_id, 60)
    agent: Any = make(NAME, env, seed=0, epsilon=math.inf)
    env.reset(seed=0)
    agent.belief.theta[:, 0] = norm
    action = env.action_space.sample()
    records = targets(agent, Record(env.upcoming(1)[0], action, float(env.serve(np.array([action])).feedback[0])))
    sums, sent = agent.sums, []
    for record in records.values():
        agent.rng = np.random.default_rng(3)
        sent.append(agent.randomize(record.context[None], np.array([record.action]), np.array([record.feedback]))[0])
    moves = [np.linalg.norm((one - other)[: sums.dim]) for one in sent for other in sent]
    shift = shift_of(sums.dim, sums.steps, logistic.sensitivity([norm] * agent.models))
    assert 0.5 * shift < max(moves) <= shift


def test_coins_follow_the_norm_of_theta() -> None:
    agent: Any = make(NAME, environment(LINEAR, 60), seed=0)
    few, many = (agent.coins(logistic.sensitivity([norm])).coins for norm in (0.0, 5.0))
    ratio = logistic.sensitivity([5.0]) / logistic.sensitivity([0.0])
    assert 0.8 * ratio**2 < many / few <= ratio**2 * 1.2


def test_without_coins_the_server_knows_the_sum_of_the_derivatives() -> None:
    env: Any = gym.make(LINEAR, n_arms=3, dim=3, horizon=1000, instance_seed=0)
    agent: Any = make(NAME, env, seed=0, epsilon=math.inf, first=100)
    env.reset(seed=0)
    contexts, seen = env.unwrapped.upcoming(100), []
    agent.belief.learn = lambda packed, sigma, radius: seen.append((packed, sigma))
    agent.update(contexts, np.zeros(100, int), np.full(100, 0.5))
    exact = logistic.pack(contexts[:, 0], np.full(100, 0.5), np.zeros(3)).sum(axis=0)
    ((packed, sigma),) = seen
    assert np.abs(packed - exact).max() < 5 * sigma


@pytest.mark.wide
def test_it_learns_a_logistic_world_that_a_linear_model_does_not() -> None:
    """Four fresh seeds: mean regrets of 1.6 % and 3.6 % of uniform play's elsewhere."""
    means = []
    for name in ("shuffle-linucb", NAME):
        found = []
        for seed in range(4):
            env = gym.make(LINEAR, n_arms=5, dim=5, link="logistic", theta_norm=5.0, horizon=20_000)
            found.append(play(env, make(name, env, seed=seed), seed=seed).regret[-1])
        means.append(np.mean(found))
    assert means[1] < 0.75 * means[0]
