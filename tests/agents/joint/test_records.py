"""One record is one user: a group whose parts have other lengths is refused whole by every joint agent."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, CentralAgent, make
from privbandit_agents.testing.runs import same_parts, without_generators
from privbandit_agents.zoo.registry import can_play

WORLDS = tuple(f"privbandit/{kind}-v0" for kind in ("Linear", "Assortment", "Bandit", "Smooth", "Classification"))
JOINT = [name for name, entry in AGENTS.items() if issubclass(entry.load(), CentralAgent)]


def world(name: str) -> Any:
    envs = [gym.make(env_id, horizon=200) for env_id in WORLDS]
    return next(env for env in envs if can_play(name, env))


@pytest.mark.parametrize("length", [0, 2, 50])
@pytest.mark.parametrize("part", ["action", "feedback"])
@pytest.mark.parametrize("name", JOINT)
def test_one_context_is_not_counted_as_many_users(name: str, part: str, length: int) -> None:
    env = world(name)
    agent = make(name, env, seed=0)
    context, _ = env.reset(seed=0)
    action = np.asarray(agent.select_action(context))
    before = without_generators(agent)
    many = {"action": np.repeat(action[None], length, axis=0), "feedback": np.ones(length)}[part]
    record = {"context": context, "action": action, "feedback": 1.0} | {part: many}
    with pytest.raises(ValueError, match="records must be"):
        agent.update(**record)
    assert same_parts(before, without_generators(agent)), "a refused record left a trace"


def test_all_joint_agents_are_looked_at() -> None:
    assert len(JOINT) >= 6
