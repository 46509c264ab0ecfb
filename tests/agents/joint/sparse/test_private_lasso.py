"""Private-lasso: episodes, budgets, and what is learned."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from given import rng
from privbandit_agents import make, play
from privbandit_agents.base.central import Publication
from privbandit_agents.joint.sparse.estimate import passed, power
from privbandit_agents.privacy.mechanisms.choice import ExponentialChoice
from privbandit_agents.privacy.mechanisms.discrete import GridGaussian
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK

SPARSE = "privbandit/SparseLinear-v0"
BETA = np.array([0.8, -0.6, 0.4, *np.zeros(17)])


def served(users: int, **config: Any) -> tuple[Any, list[Publication]]:
    """Return an agent that has been served users with random arms, and what it published."""
    agent: Any = make("private-lasso", gym.make(SPARSE, dim=20, horizon=users), seed=0, **config)
    told: list[Publication] = []

    def watcher(publication: Publication) -> Any:
        told.append(publication)
        return publication.draw()

    agent.watcher = watcher
    draw = rng(1)
    contexts = draw.standard_normal((users, 3, 20))
    agent.update(contexts, np.zeros(users, int), contexts[:, 0] @ BETA + 0.1 * draw.standard_normal(users))
    return agent, told


def test_releases_of_an_episode_cost_the_budget_and_no_more() -> None:
    agent, told = served(4000, first=300)
    spent: dict[Any, float] = {}
    for one in told:
        assert one.cost is not None
        spent[one.group] = spent.get(one.group, 0.0) + one.cost.as_rho()
    assert set(spent) == set(range(agent.batch)) and max(spent.values()) == pytest.approx(agent.rho)
    kinds = [type(one.mechanism) for one in told if one.group == agent.batch - 1]
    assert kinds == [ExponentialChoice, GumbelTopK, ExponentialChoice, GridGaussian, GridGaussian]


def test_without_noise_it_finds_the_features_and_their_coefficients() -> None:
    agent, _ = served(8000, first=300, epsilon=math.inf)
    assert np.abs(agent.release - BETA)[:3].max() < 0.05
    assert np.count_nonzero(agent.release) <= 10 and np.abs(agent.release[3:]).max() < 0.02


def test_no_more_than_s_features_are_kept_and_none_are_sought_then() -> None:
    agent, told = served(4000, first=300, s=2)
    assert len(agent.support) <= 2
    full = [one.group for one in told if isinstance(one.mechanism, GumbelTopK)]
    assert len(full) < agent.batch, "an episode with two features seeks no third"


@pytest.mark.wide
def test_regret_falls_with_the_budget() -> None:
    """Four fresh seeds; elsewhere .04 of uniform play's regret at 1."""
    found = []
    for name, config in (("uniform", {}), ("private-lasso", {"epsilon": 1.0}), ("private-lasso", {"epsilon": 4.0})):
        regrets = []
        for seed in range(4):
            env = gym.make(SPARSE, dim=50, horizon=20_000)
            regrets.append(play(env, make(name, env, seed=seed, **config), seed=seed).regret[-1])
        found.append(np.mean(regrets))
    assert found[2] < found[1] < 0.12 * found[0]


def test_the_constants_of_clipping_are_those_of_gaussians() -> None:
    z = rng(0).standard_normal(400_000)
    for level in (0.5, 1.5):
        clipped = np.clip(z, -level, level)
        assert float((clipped * z).mean()) == pytest.approx(passed(level), abs=0.01)
        assert float((clipped**2).mean()) == pytest.approx(power(level), abs=0.01)
