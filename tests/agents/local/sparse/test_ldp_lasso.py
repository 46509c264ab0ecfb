"""Ldp-lasso: what leaves a device in each kind of run, and what is learned from it."""

import math
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from given import rng
from privbandit_agents import make, play
from privbandit_agents.local.sparse.ldp_lasso import AGAIN, GRAM, SCALE, SCORE, SEARCH

SPARSE = "privbandit/SparseLinear-v0"
DIM = 12
KINDS = [SCALE, SEARCH, AGAIN, GRAM, SCORE]


def agent_of(kind: int | None = None, seed: int = 0, **config: Any) -> Any:
    """Return an agent, in a run of a kind with three features on the support."""
    agent: Any = make("ldp-lasso", gym.make(SPARSE, dim=DIM, sparsity=3, horizon=4000), seed=seed, **config)
    if kind is not None:
        agent.support.choose(np.array([2, 7, 5]), np.array([0.5, -0.4, 0.1]), 0.01)
        agent.kind = kind
        agent.device = agent.opened()
        agent.total = np.zeros(agent.device.entries)
    return agent


@pytest.mark.parametrize("kind", KINDS)
def test_no_record_leaves_the_ball_of_its_randomizer(kind: int) -> None:
    agent, draw = agent_of(kind), rng(kind)
    wild = [math.nan, math.inf, -math.inf, 1e308, -1e308, 1e-308, 0.0, 1.0]
    contexts = draw.standard_normal((300, 3, DIM)) * draw.exponential(10.0, (300, 1, 1))
    contexts[:100] = draw.choice(wild, (100, 3, DIM))
    rewards = np.where(draw.random(300) < 0.3, draw.choice(wild, 300), 10 * draw.standard_normal(300))
    vectors = agent.encode(contexts, draw.integers(3, size=300), rewards)
    norms = np.linalg.norm(vectors, axis=1)
    assert np.isfinite(vectors).all() and norms.max() <= 1 + 1e-12 and vectors.shape[1] == agent.device.entries
    assert norms.max() > 0.8, "the ball is used"


def test_without_noise_the_search_estimates_all_coefficients() -> None:
    agent, draw = agent_of(SEARCH, epsilon=math.inf), rng(1)
    beta = agent.support.all_of(DIM)
    beta[0], beta[5] = 0.8, 0.4
    x = draw.standard_normal((20_000, DIM))
    y = x @ beta + 0.1 * draw.standard_normal(20_000)
    agent.b, agent.share = 0.6, 0.5
    mean = agent.encode(np.repeat(x[:, None], 3, axis=1), np.zeros(20_000, int), y).mean(axis=0)
    agent.searched(mean, 0.02)
    assert np.abs(agent.search[:-1] - beta).max() < 0.15
    assert agent.support.chosen.tolist() == [2, 7, 5, 0] and agent.support.theta[-1] == agent.search[0]


def test_runs_follow_in_order_and_the_empty_support_is_not_asked_about() -> None:
    agent = agent_of(first=100)
    seen, draw = [], rng(2)
    while agent.users < 3000:
        seen.append((agent.kind, len(agent.support)))
        n = agent.frozen_rounds()
        agent.update(draw.standard_normal((n, 3, DIM)), np.zeros(n, int), draw.standard_normal(n))
    assert seen[0][0] == SCALE and seen[1][0] == SEARCH
    for (kind, few), (after, _) in pairwise(seen):
        assert after == kind + 1 or (after == SCALE and kind in (SEARCH, SCORE))
        assert kind <= SEARCH or few
    assert agent.ledger.spent_epsilon() == 1.0


def share(name: str, epsilon: float, seeds: int, **world: Any) -> float:
    """Return mean regret over that of uniform play."""
    found = np.zeros((2, seeds))
    for seed in range(seeds):
        for row, player in enumerate((name, "uniform")):
            env = gym.make(SPARSE, **world)
            config = {} if player == "uniform" else {"epsilon": epsilon}
            found[row, seed] = play(env, make(player, env, seed=seed, **config), seed=seed).regret[-1]
    return float(found[0].sum() / found[1].sum())


@pytest.mark.wide
def test_it_learns_where_regression_on_all_features_does_not() -> None:
    """Four fresh seeds; elsewhere .06 of uniform play's regret at 4, .13 at 1, and .33 by all features."""
    world = {"dim": 20, "sparsity": 3, "horizon": 50_000}
    loose, tight = (share("ldp-lasso", epsilon, 4, **world) for epsilon in (4.0, 1.0))
    assert loose < tight < 0.7 * share("ldp-greedy", 1.0, 4, **world)
