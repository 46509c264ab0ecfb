"""Agents by an oracle of regression: the law by which they choose."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play

RNG = np.random.default_rng


def world(**kwargs: Any) -> Any:
    return gym.make("privbandit/Linear-v0", n_arms=4, dim=3, horizon=1500, instance_seed=0, **kwargs)


@pytest.mark.parametrize("gamma", [0.5, 20.0])
def test_squarecb_plays_each_arm_with_its_inverse_gap(gamma: float) -> None:
    """Within 5 standard errors of 40 000 users with the same context."""
    agent: Any = make("squarecb", world(), seed=0, gamma=gamma)
    agent.regression.matrices[0, :, -1] = [0.5, 0.2, -0.4]
    context = np.vstack([np.eye(3), np.zeros(3)]).astype(np.float32)
    gaps = 0.5 - np.array([0.5, 0.2, -0.4, 0.0])
    expected = 1 / (4 + gamma * gaps)
    expected[0] = 1 - expected[1:].sum()
    arms = agent.select_action(np.tile(context, (40_000, 1, 1)))
    assert np.abs(np.bincount(arms, minlength=4) / 40_000 - expected).max() < 5 * 0.5 / 200


def test_the_rate_of_squarecb_follows_from_public_numbers() -> None:
    users, theory = 1500, np.sqrt(4 * 1500 / (3 * np.log(1501)))
    settings: list[dict[str, Any]] = [{}, {"scale": 1.0}, {"gamma": 3.0}]
    agents: list[Any] = [make("squarecb", world(), **config) for config in settings]
    assert agents[0].config.horizon == users
    assert [agent.gamma for agent in agents] == pytest.approx([10 * theory, theory, 3.0])


def test_regcb_bounds_what_good_regressions_say() -> None:
    """Its upper bound is the largest prediction of all theta whose squared loss is within the radius."""
    env = world()
    agent: Any = make("regcb", env, seed=0, scale=0.02)
    play(env, agent, 60, seed=0)
    matrix = agent.regression.matrices[0]
    a, theta = np.linalg.inv(matrix[:, :-1]), matrix[:, -1]
    context = env.unwrapped.upcoming(1)[0].astype(float)
    around = RNG(1).standard_normal((200_000, 3)) @ np.linalg.cholesky(np.linalg.inv(a)).T
    around /= np.sqrt(np.einsum("ni,ij,nj->n", around, a, around))[:, None]
    good = theta + agent.width * around  # on the surface: a larger squared loss by scale log(1 + T)
    assert agent.width**2 == pytest.approx(0.02 * np.log(1501))
    best = np.minimum((good @ context.T).max(axis=0), 1.0)
    assert agent.select_action(context) == best.argmax()


def test_elimination_plays_every_arm_that_may_be_best_alike() -> None:
    agent: Any = make("regcb", world(), seed=0, variant="elimination")
    agent.regression.matrices[0] = np.column_stack([np.eye(3) * (0.1 / agent.width) ** 2, [0.5, 0.35, 0.2]])
    context = np.vstack([np.eye(3), np.zeros(3)]).astype(np.float32)  # bounds .4 to .6, .25 to .45, .1 to .3, 0
    arms = agent.select_action(np.tile(context, (10_000, 1, 1)))
    shares = np.bincount(arms, minlength=4) / 10_000
    assert shares[2] == shares[3] == 0 and abs(shares[0] - 0.5) < 5 * 0.005


@pytest.mark.parametrize(("name", "most"), [("squarecb", 150), ("regcb", 60)])
def test_they_learn(name: str, most: float) -> None:
    """Uniform play has about 700, LinUCB 15 to 35."""
    env = world()
    assert np.mean([play(env, make(name, env, seed=seed), seed=seed).regret[-1] for seed in range(2)]) < most
