"""Agents for rewards that bend: the kernel's index by the whole kernel matrix, and a network's gradients."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play

OWN: Any = ("privbandit/Linear-v0", {"n_arms": 3, "dim": 4})
SHARED: Any = ("privbandit/Smooth-v0", {})


def kernel(agent: Any, x: Any, z: Any) -> Any:
    """Return kernels between rows."""
    gaps = ((agent.placed(x)[:, None] - agent.placed(z)) ** 2).sum(axis=2)
    straight = x.astype(float) @ z.astype(float).T + agent.shared_context
    return straight + np.exp(-gaps / (2 * x.shape[1] * agent.config.length**2))


@pytest.mark.parametrize("world", [OWN, SHARED])
def test_the_index_is_that_of_the_whole_kernel_matrix(world: Any) -> None:
    """With a dictionary of all users: k'(K + ridge I)^-1 y, and its width."""
    env = gym.make(world[0], horizon=80, instance_seed=1, **world[1])
    agent: Any = make("kernel-ucb", env, seed=0, novelty=1e-9, ridge=0.5)
    rows, (context, _) = [], env.reset(seed=2)
    for _ in range(80):
        arm = agent.select_action(context)
        later, reward, *_ = env.step(arm)
        agent.update(context, arm, float(reward))
        rows.append((context if agent.shared_context else context[arm], int(arm), float(reward)))
        context = later
    assert len(agent.places) > 60
    scored = agent.scored(agent.features(context))
    for arm in range(3):
        own = [row for row in rows if not agent.shared_context or row[1] == arm]
        x, y = np.array([row[0] for row in own]), np.array([row[2] for row in own])
        one = context[None] if agent.shared_context else context[[arm]]
        k, whole = kernel(agent, one, x), kernel(agent, x, x) + 0.5 * np.eye(len(x))
        assert agent.predict(context)[arm] == pytest.approx((k @ np.linalg.solve(whole, y)).item(), abs=1e-4)
        features = agent.features(context)[0 if agent.shared_context else arm]
        # the context's own part outside the dictionary has no width
        left = kernel(agent, one, one).item() - features @ features
        width = (kernel(agent, one, one) - k @ np.linalg.solve(whole, k.T)).item() / 0.5 - left / 0.5
        assert features @ scored[arm, :-1] == pytest.approx(width, abs=1e-4)


@pytest.mark.parametrize("world", [OWN, SHARED])
def test_a_dictionary_explains_who_was_served_and_is_bounded(world: Any) -> None:
    env = gym.make(world[0], horizon=400, instance_seed=1, **world[1])
    agent: Any = make("kernel-ucb", env, seed=0, novelty=0.05)
    play(env, agent, 400, seed=0)
    places = len(agent.places)
    assert 5 < places < 200
    x = env.reset(seed=1)[0][None]
    rows = x.reshape(-1, x.shape[-1])
    agent.update(x, np.zeros(1, int), np.ones(1))
    found = agent.features(x)[:, 0]
    assert kernel(agent, rows[:1], rows[:1]).item() - (found**2).sum() <= 0.05 + 1e-9
    small: Any = make("kernel-ucb", env, seed=0, places=7, novelty=1e-9)
    play(env, small, 60, seed=0)
    assert len(small.places) == 7


def test_a_network_has_the_gradients_of_its_loss() -> None:
    env = gym.make("privbandit/Smooth-v0", horizon=100)
    agent: Any = make("neural-linear", env, seed=0, hidden=6)
    rng = np.random.default_rng(1)
    agent.first, agent.second = (layer.astype(float) for layer in (agent.first, agent.second))
    agent.head = rng.standard_normal(agent.head.shape)
    x = np.column_stack([rng.random((9, 2)), np.ones(9)])
    y, groups = rng.random(9), rng.integers(3, size=9)

    def loss() -> float:
        z = np.concatenate([x, agent.layers(x)[-1]], axis=1)
        return float(((z @ agent.head)[np.arange(9), groups] - y) ** 2 @ np.ones(9) / 18)

    for weight, gradient in zip((agent.first, agent.second, agent.head), agent.gradients(x, y, groups), strict=True):
        for place in np.ndindex(weight.shape):
            before, step = weight[place], 1e-5
            weight[place] = before + step
            above = loss()
            weight[place] = before - step
            slope = (above - loss()) / (2 * step)
            weight[place] = before
            assert gradient[place] == pytest.approx(slope, abs=1e-5)


@pytest.mark.wide
def test_hidden_layers_count_where_rewards_bend_alone() -> None:
    bent, straight = gym.make("privbandit/Smooth-v0"), gym.make("privbandit/Linear-v0", dim=5)
    agents: list[Any] = [make("neural-linear", env, seed=0) for env in (bent, straight)]
    for env, agent in zip((bent, straight), agents, strict=True):
        play(env, agent, 2000, seed=0)
    assert [agent.counts for agent in agents] == [1.0, 0.0]


def test_a_network_without_room_learns_on_in_its_last_layer() -> None:
    env = gym.make("privbandit/Smooth-v0")
    agent: Any = make("neural-linear", env, seed=0)
    agent.most = 100
    play(env, agent, 120, seed=0)
    layers, theta = agent.first.copy(), agent.regression.matrices.copy()
    play(env, agent, 300, seed=1)
    assert len(agent.y) <= 105 and np.array_equal(agent.first, layers)
    assert not np.array_equal(agent.regression.matrices, theta)


@pytest.mark.wide_at("neural-*")
@pytest.mark.parametrize(("name", "share"), [("kernel-ucb", 0.25), ("neural-linear", 0.5)])
def test_they_learn_what_linucb_cannot(name: str, share: float) -> None:
    """Of 3000 users of Smooth-v0 linucb loses about 240."""
    env = gym.make("privbandit/Smooth-v0", horizon=3000)
    lost = {one: play(env, make(one, env, seed=0), 3000, seed=0).regret[-1] for one in (name, "linucb")}
    assert lost[name] < share * lost["linucb"]
