"""Checks of every agent: seeds, actions, blocks of users, saving and loading."""

import pickle
import tempfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from privbandit_agents.base.agent import LocalAgent
from privbandit_agents.play import play
from privbandit_agents.registry import make
from privbandit_agents.saving import load, save
from privbandit_agents.testing.runs import environment, go_on, run, same_state


def check_seeds(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """The same seeds give the same run; an agent that draws random numbers draws others for another seed."""
    (first, agent), (again, _) = (run(name, env_id, horizon, config) for _ in range(2))
    assert np.array_equal(first.regret, again.regret), "equal seeds gave different runs"
    env = environment(env_id, horizon)
    if agent.rng.bit_generator.state == make(name, env, seed=1, **config).rng.bit_generator.state:
        return  # it drew nothing
    other = make(name, env, seed=2, **config)
    play(env, other, horizon, seed=1, by_counts=False)
    assert agent.rng.bit_generator.state != other.rng.bit_generator.state, "the agent's seed is not used"


def check_actions(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """Actions lie in the action space, for one user and for many."""
    env = environment(env_id, horizon)
    _, agent = run(name, env_id, horizon, config)
    env.reset(seed=2)
    contexts = env.upcoming(9)
    assert env.action_space.contains(agent.select_action(contexts[0])), "an action outside the action space"
    actions = np.asarray(agent.select_action(contexts))
    assert len(actions) == 9, "not one action a user"
    assert all(env.action_space.contains(action) for action in actions), "an action outside the action space"


def check_frozen(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """Blocks of frozen rounds and single steps lead to the same run and the same agent, bit for bit."""
    blocks, agent = run(name, env_id, horizon, config)
    steps, stepped = run(name, env_id, horizon, config, wrapper=gym.Wrapper)
    assert np.array_equal(blocks.regret, steps.regret), "the block path and the step path differ"
    assert np.array_equal(blocks.reward, steps.reward), "the block path and the step path differ"
    assert same_state(agent, stepped), "the block path and the step path leave different agents"
    assert agent.frozen_rounds() >= 1, "frozen_rounds() below 1"


def check_resume(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """An agent that was saved and loaded with ``fork=False`` goes on bit for bit, and its file needs no pickle."""
    env = environment(env_id, horizon)
    agent = make(name, env, seed=3, **config)
    context, _ = env.reset(seed=3)
    context = go_on(env, agent, context, horizon // 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.npz"
        save(agent, path)
        again = load(path, env, fork=False)
    if isinstance(agent, LocalAgent) and isinstance(again, LocalAgent):
        again.restore_devices(agent.devices_state())
    assert same_state(agent, again), "load() returned another state"
    other = pickle.loads(pickle.dumps(env))
    go_on(env, agent, context, horizon // 4)
    go_on(other, again, context, horizon // 4)
    assert same_state(agent, again), "the loaded agent went another way"
