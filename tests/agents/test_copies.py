"""Copies of agents: without a seed they share no noise, with one they go on bit for bit."""

import copy
import os
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, LocalAgent
from privbandit_agents import make as built
from privbandit_agents.base.shuffling import ShuffleAgent
from privbandit_agents.testing.runs import same_state
from privbandit_agents.zoo.registry import can_play

PRIVATE = [
    name for name, entry in AGENTS.items() if hasattr(entry.load().Config, "epsilon") and not name.startswith("auto")
]


def make(name: str, env: Any, **given: Any) -> Any:
    return built(name, env, **given)


WORLDS = ("privbandit/Linear-v0", "privbandit/Assortment-v0", "privbandit/Classification-v0", "privbandit/Bandit-v0")
COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda agent: pickle.loads(pickle.dumps(agent)),
}


def world(name: str) -> Any:
    env: Any = next(env for env in (gym.make(one, horizon=200).unwrapped for one in WORLDS) if can_play(name, env))
    env.reset(seed=0)
    return env


def drawn(agent: Any, env: Any) -> bytes:
    """Return the noise that an agent draws next: a report, or its generators, which nothing else may share."""
    if isinstance(agent, LocalAgent | ShuffleAgent):
        contexts = env.upcoming(60)  # a report may be one bit
        actions = np.asarray(make("uniform", env, seed=0).select_action(contexts))
        return np.asarray(agent.randomize(*agent.records_of(contexts, actions, np.ones(60)))).tobytes()
    return repr(keys(agent)).encode()


def keys(thing: Any) -> list[Any]:
    found = []
    for value in vars(thing).values():
        if isinstance(value, np.random.Generator):
            found.append(value.bit_generator.state)
        elif hasattr(value, "__dict__") and not isinstance(value, type):
            found += keys(value)
    return found


@pytest.mark.parametrize("name", PRIVATE)
def test_copies_share_no_noise_unless_they_were_made_with_a_seed(name: str) -> None:
    env = world(name)
    agent = make(name, env)
    copies = [way(agent) for way in COPIES.values() for _ in range(3)]
    assert len({drawn(one, env) for one in [agent, *copies]}) == 1 + len(copies)
    seeded = make(name, env, seed=1)
    for way in (copy.deepcopy, COPIES["pickle"]):
        assert same_state(seeded, way(seeded))
    assert len({drawn(way(seeded), env) for way in (copy.deepcopy, COPIES["pickle"])}) == 1


@pytest.mark.wide_at("*-deepcopy", "*-copy")
@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", ["ldp-linucb", "ldp-greedy"])
def test_no_two_of_400_copies_share_a_report(name: str, way: str) -> None:
    env = world(name)
    agent = make(name, env)
    assert len({drawn(COPIES[way](agent), env) for _ in range(400)}) == 400


@pytest.mark.parametrize("name", ["ldp-linucb", "jdp-linucb", "newton-mnl", "shuffle-linucb"])
def test_a_forked_process_shares_no_noise(name: str) -> None:
    env = world(name)
    agent, seeded = make(name, env), make(name, env, seed=1)
    sent = []
    for _ in range(2):
        reading, writing = os.pipe()
        if not (child := os.fork()):  # pragma: no cover
            os.write(writing, (drawn(agent, env)[-2000:].hex() + "|" + drawn(seeded, env)[-2000:].hex()).encode())
            os._exit(0)
        os.waitpid(child, 0)
        sent.append(os.read(reading, 2**16).decode().split("|"))
        os.close(reading)
        os.close(writing)
    own = drawn(agent, env)[-2000:].hex()
    assert len({sent[0][0], sent[1][0], own}) == 3
    assert sent[0][1] == sent[1][1]  # simulations go on bit for bit


def test_a_copy_of_a_shuffle_agent_opens_its_batch_anew() -> None:
    env = world("shuffle-linucb")
    agent = make("shuffle-linucb", env)
    contexts = env.upcoming(5)
    agent.update(contexts, np.zeros(5, int), np.ones(5))
    assert agent.shuffler.users == 5
    for way in COPIES.values():
        assert way(agent).shuffler.users == 0 and agent.shuffler.users == 5
