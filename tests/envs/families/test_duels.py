"""Duels: a user sees two items and names the better one."""

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play

from privbandit_envs.families.linear import DuelsProblem


def world(**kwargs: object) -> DuelsProblem:
    return DuelsProblem(np.random.default_rng(0), **kwargs)  # type: ignore[arg-type]


def test_an_arm_is_a_pair_and_its_chance_that_of_bradley_and_terry() -> None:
    problem = world(n_items=3, dim=2, theta=[3.0, -1.0], dtype="float64")
    assert problem.pairs.T.tolist() == [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1]]
    z = problem.contexts(1000, np.random.default_rng(1))
    assert np.linalg.norm(z, axis=-1).max() <= 1 and np.allclose(z[:, 0], -z[:, 2])
    assert np.allclose(z[:, 0] + z[:, 3], z[:, 1]), "(0, 1) and (1, 2) make (0, 2)"
    chance = problem.means(z)
    assert np.allclose(chance, 1 / (1 + np.exp(-z @ [3.0, -1.0]))) and np.allclose(chance[:, 0] + chance[:, 2], 1)
    wins = problem.rewards(np.tile(chance[:1], (100_000, 1)), np.random.default_rng(2))
    assert set(np.unique(wins)) == {0.0, 1.0}
    assert (np.abs(wins.mean(axis=0) - chance[0]) <= 5 * (chance[0] * (1 - chance[0]) / 100_000) ** 0.5).all()


def test_regret_bounds_the_regret_of_the_first_item_and_the_weak_one() -> None:
    """The least chance that a pair loses, over 2000 users: never below the stated bound, for every pair."""
    rng, theta = np.random.default_rng(3), np.array([4.0, -2.0, 1.0])
    problem = world(n_items=4, dim=3, theta=theta, dtype="float64")
    items = rng.standard_normal((2000, 4, 3))
    items /= np.linalg.norm(items, axis=-1, keepdims=True)
    u = items @ theta / 2
    z = (items[:, problem.pairs[0]] - items[:, problem.pairs[1]]) / 2
    chance = problem.means(z)
    regret = chance.max(axis=1, keepdims=True) - chance
    best, worst = u.max(axis=1, keepdims=True), u.min(axis=1, keepdims=True)
    top = 1 / (1 + np.exp(worst - best))
    bound = top * (1 - top) * ((best - u[:, problem.pairs[0]]) + (u[:, problem.pairs[1]] - worst))
    assert (regret >= bound - 1e-9).all() and np.isclose(regret.min(), 0)
    weak = best - np.maximum(u[:, problem.pairs[0]], u[:, problem.pairs[1]])
    assert (regret / (top * (1 - top)) >= weak - 1e-9).all()


@pytest.mark.wide
def test_agents_of_linear_worlds_play_duels_under_every_notion() -> None:
    """Regret in shares of uniform play's at epsilon = 4 was below .1."""
    env = gym.make("privbandit/Duels-v0", horizon=10_000, instance_seed=1)
    lost = play(env, make("uniform", env, seed=0), seed=0).regret[-1]
    for name in ("reward-dp-linucb", "jdp-linucb", "jdp-glm", "shuffle-linucb", "ldp-glm"):
        agent = make(name, env, seed=0, epsilon=4)
        assert agent.guarantee.epsilon == 4 and play(env, agent, seed=0).regret[-1] < 0.3 * lost, name


@pytest.mark.parametrize("key, value", [("n_items", 1), ("theta_norm", -1.0), ("theta", [1.0])])
def test_duels_out_of_range_are_refused(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=key):
        world(**{key: value})
