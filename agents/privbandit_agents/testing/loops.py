"""Checks of every agent: seeds, actions, blocks of users, saving and loading."""

import pickle
from typing import Any

import gymnasium as gym
import numpy as np

from privbandit_agents.playing.play import play
from privbandit_agents.testing.runs import again, differing, environment, go_on, run, same_state
from privbandit_agents.zoo.registry import make


def check_seeds(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """The same seeds give the same run; an agent that draws random numbers draws others for another seed."""
    (first, agent), (again, _) = (run(name, env_id, horizon, config) for _ in range(2))
    assert np.array_equal(first.regret, again.regret), (
        f"equal seeds gave regret {first.regret[-1]:g} and {again.regret[-1]:g}; draw from self.rng alone"
    )
    env = environment(env_id, horizon)
    if agent.rng.bit_generator.state == make(name, env, seed=1, **config).rng.bit_generator.state:
        return  # it drew nothing
    other = make(name, env, seed=2, **config)
    play(env, other, horizon, seed=1, by_counts=False)
    assert agent.rng.bit_generator.state != other.rng.bit_generator.state, (
        "the agent draws the same for seed 1 and 2; draw from self.rng, or spawn from it in begin()"
    )


def check_actions(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """Actions lie in the action space, for one user and for many."""
    env = environment(env_id, horizon)
    _, agent = run(name, env_id, horizon, config)
    env.reset(seed=2)
    contexts = env.upcoming(9)
    one, actions = agent.select_action(contexts[0]), np.asarray(agent.select_action(contexts))
    assert env.action_space.contains(one), outside(one, env.action_space)
    shape = (9, *np.shape(env.action_space.sample()))
    assert actions.shape == shape, (
        f"select_action() must return one action a user: {shape} for contexts of shape {contexts.shape}; got shape "
        f"{actions.shape}; work along the last axes, as in scores.argmax(axis=-1)"
    )
    for action in actions:
        assert env.action_space.contains(action), outside(action, env.action_space)


def outside(action: Any, space: gym.Space[Any]) -> str:
    return f"select_action() must return an action of {space}; got {action!r:.60} of type {kind_of(action)}"


def kind_of(action: Any) -> str:
    return str(action.dtype) if isinstance(action, np.generic | np.ndarray) else type(action).__name__


def check_frozen(name: str, env_id: str, horizon: int, config: dict[str, Any], **world: Any) -> None:
    """Blocks of frozen rounds and single steps lead to the same run and the same agent, bit for bit."""
    blocks, agent = run(name, env_id, horizon, config, **world)
    steps, stepped = run(name, env_id, horizon, config, gym.Wrapper, **world)
    for what in ("regret", "reward"):
        block, step = getattr(blocks, what), getattr(steps, what)
        at = int(np.argmax(block != step))
        assert np.array_equal(block, step), (
            f"after {blocks.checkpoints[at]} users the {what} is {block[at]:g} in blocks of frozen_rounds() and "
            f"{step[at]:g} one by one; frozen_rounds() must end before the policy changes, and random numbers be each "
            "user's own, as uniforms_per_user draws them"
        )
    assert same_state(agent, stepped), f"blocks and single steps leave different agents: {differing(agent, stepped)}"
    assert agent.frozen_rounds() >= 1, f"frozen_rounds() must be >= 1; got {agent.frozen_rounds()}"


def check_resume(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """An agent that was saved and loaded with ``fork=False`` goes on bit for bit, and its file needs no pickle."""
    env = environment(env_id, horizon)
    agent = make(name, env, seed=3, **config)
    context, _ = env.reset(seed=3)
    context = go_on(env, agent, context, horizon // 2)
    loaded = again(agent, env)
    assert same_state(agent, loaded), f"load() returned another state: {differing(agent, loaded)}"
    other = pickle.loads(pickle.dumps(env))
    go_on(env, agent, context, horizon // 4)
    go_on(other, loaded, context, horizon // 4)
    assert same_state(agent, loaded), f"the loaded agent went another way: {differing(agent, loaded)}"
