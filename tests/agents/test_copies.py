"""Copies of agents: without a seed they share no noise, with one they go on bit for bit."""

import copy
import gc
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, Explore, LocalAgent, load, save
from privbandit_agents import make as built
from privbandit_agents.base.labels import LabelAgent
from privbandit_agents.base.shuffling import ShuffleAgent
from privbandit_agents.testing.runs import same_state
from privbandit_agents.zoo.registry import can_play, public_data

PRIVATE = [
    name for name, entry in AGENTS.items() if hasattr(entry.load().Config, "epsilon") and not name.startswith("auto")
]


def make(name: str, env: Any, **given: Any) -> Any:
    return built(name, env, **given)


QUICK = ("ldp-greedy", "lpct", "ldp-ucb", "jdp-linucb", "jdp-glm", "adap-klucb", "private-lasso", "shuffle-linucb")
"""Agents of every kind, with every way to be made."""
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


def streams(agent: Any) -> list[int]:
    """Return what tells the streams of an agent's generators from all others, in order."""
    return [state["state"]["inc"] for state in keys(agent) if "state" in state]


def of_class(name: str, env: Any, seed: int | None = None) -> Any:
    cls, rng = AGENTS[name].load(), None if seed is None else np.random.default_rng(seed)
    settings = cls.Config(**AGENTS[name].defaults)
    public = [public_data(env)] if cls.uses_public_data else []
    return cls(env.observation_space, env.action_space, settings, rng, *public)


def loaded(agent: Any, env: Any, folder: Path) -> Any:
    save(agent, folder / "agent.npz")
    return load(folder / "agent.npz", env)


def fitted(name: str, env: Any, seed: int | None = None) -> Any:
    from privbandit_agents.classifiers import AgentClassifier

    x, y = env.public_data
    rows = x[:20], y[:20]
    return AgentClassifier(name, random_state=seed).fit(*rows, *rows).agent_


def ways_of(name: str, env: Any, folder: Path, seed: int | None = None) -> dict[str, Callable[[], Any]]:
    """Return all ways to get an agent: each drops what it was made of."""
    ways: dict[str, Callable[[], Any]] = {
        "make": lambda: make(name, env, seed=seed),
        "Explore": lambda: Explore(make(name, env, seed=seed), seed=seed),
        "explore-": lambda: make(f"explore-{name}", env, seed=seed),
        "class": lambda: of_class(name, env, seed),
    }
    if seed is None:
        ways["load"] = lambda: loaded(make(name, env), env, folder)
        ways["Explore of a loaded one"] = lambda: Explore(loaded(make(name, env), env, folder))
        ways["an old pickle"] = lambda: pickle.loads(pickle.dumps(make(name, env), 0))
        ways["copy of an Explore"] = lambda: copy.copy(Explore(make(name, env)))
    kind = AGENTS[name].load()
    if seed is None and AGENTS[name].secure and not issubclass(kind, ShuffleAgent):  # as the example of a service
        ways["service"] = lambda: loaded(make(name, env, epsilon=1.0, noise="secure"), env, folder)
    if issubclass(kind, LabelAgent):
        ways["classifier"] = lambda: fitted(name, env, seed)
    return ways


def in_children(agents: list[Any]) -> list[list[list[int]]]:
    """Return the streams of agents in two processes that are forked off."""
    told = []
    for _ in range(2):
        reading, writing = os.pipe()
        if not (child := os.fork()):  # pragma: no cover
            os.write(writing, pickle.dumps([streams(agent) for agent in agents]))
            os._exit(0)
        os.waitpid(child, 0)
        told.append(pickle.loads(os.read(reading, 2**16)))
        os.close(reading)
        os.close(writing)
    return told


def copies_of(agent: Any) -> Iterator[list[int]]:
    """Yield the streams of copies of an agent, two of every kind."""
    for way in COPIES.values():
        for _ in range(2):
            try:
                yield streams(way(agent))
            except pickle.PicklingError:
                assert type(agent).__name__.startswith("Explored"), "its class is made when it is asked for"


@pytest.mark.wide_at("lpct", "jdp-glm", "ldp-ucb", "private-lasso", "jdp-linucb", "adap-klucb")
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.wide) for name in PRIVATE]
)
def test_however_an_agent_was_made_its_copies_have_keys_of_their_own(name: str, tmp_path: Path) -> None:
    env = world(name)
    fresh, seeded = ({way: get() for way, get in ways_of(name, env, tmp_path, seed).items()} for seed in (None, 1))
    gc.collect()
    children = in_children([*fresh.values(), *seeded.values()])
    for place, (way, agent) in enumerate(fresh.items()):
        found = [streams(agent), *(child[place] for child in children), *copies_of(agent)]
        assert len(found) >= 7 and len({len(one) for one in found}) == 1 and found[0]
        together = [stream for one in found for stream in set(one)]
        assert len(set(together)) == len(together), f"copies of an agent by {way} share a key"
    for place, (way, agent) in enumerate(seeded.items(), len(fresh)):
        own = streams(agent)  # that of a classifier has got fresh keys after the fit
        for one in (*(child[place] for child in children), *copies_of(agent)):
            assert (one == own) if way != "classifier" else not set(one) & set(own), way


def test_workers_that_are_forked_off_an_explored_agent_tell_no_difference_of_rewards() -> None:
    env: Any = gym.make("privbandit/Bandit-v0", n_arms=2, horizon=200)
    agent: Any = Explore(make("adap-klucb", env, epsilon=0.1))
    gc.collect()
    means = []
    for reward in (0.0, 1.0):
        reading, writing = os.pipe()
        if not (child := os.fork()):  # pragma: no cover
            agent.update(np.zeros(1, int), np.zeros(1, int), np.array([reward]))
            os.write(writing, agent.release.tobytes())
            os._exit(0)
        os.waitpid(child, 0)
        means.append(np.frombuffer(os.read(reading, 2**16)))
        os.close(reading)
        os.close(writing)
    assert len(means[0]) and not np.isclose(np.abs(means[1] - means[0]), 1.0).any()


def parts(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of an object that change, by dotted names: arrays, generators and objects."""
    for name, value in vars(thing).items():
        if name not in getattr(thing, "fixed", ()) or name in ("rng", "people_seen", "shuffler"):
            if isinstance(value, np.ndarray | np.random.Generator | list | dict | set) or hasattr(value, "__dict__"):
                yield name, value
            if hasattr(value, "__dict__") and not isinstance(value, type):
                yield from ((f"{name}.{inner}", part) for inner, part in parts(value))


@pytest.mark.every_agent
@pytest.mark.wide_at("kernel-ldp")
@pytest.mark.parametrize("name", PRIVATE)
def test_no_copy_shares_a_part_with_its_agent(name: str) -> None:
    """Whoever both learn from would be twice in one sum, and in the ledger once."""
    env = world(name)
    for seed in (None, 1):
        agent = make(name, env, seed=seed)
        for way in COPIES.values():
            other = dict(parts(way(agent)))
            frozen = ("config", "schedule", "features", "known", "model", "public_data")  # nothing learns into these
            shared = [
                path for path, value in parts(agent) if other.get(path) is value and path.split(".")[-1] not in frozen
            ]
            assert not shared, shared


def test_a_copy_of_a_curator_counts_by_itself() -> None:
    env = world("jdp-linucb")
    agent: Any = make("jdp-linucb", env)
    twin = copy.copy(agent)
    contexts = env.upcoming(40)
    for one in (agent, twin):
        one.update(contexts, np.zeros(40, int), np.ones(40))
    assert agent.users == twin.users == 40 and agent.schedule.counter.t == twin.schedule.counter.t > 0
    assert twin.ledger is not agent.ledger and not np.array_equal(agent.release, twin.release)


@pytest.mark.every_agent
@pytest.mark.wide_at("adap-klucb", "smooth-ldp", "dpmnl", "lpct", "kernel-ldp")
@pytest.mark.parametrize("name", PRIVATE)
def test_a_pickle_of_an_agent_without_a_seed_holds_no_key(name: str) -> None:
    """Not when it is new and not when it has learned; that of one with a seed does."""
    env, window = world(name), {"window": 50} if name == "sw-jdp-linucb" else {}  # a second one has begun
    for seed in (None, 1):
        agent = make(name, env, seed=seed, **window)
        for _ in range(2):
            inside = pickle.dumps(agent)
            ahead = [len(part) for path, part in parts(pickle.loads(inside)) if path.endswith(".ahead")]
            assert seed or not any(ahead)
            for state in keys(agent):
                words = [int(state["state"][word]).to_bytes(16, "little") for word in ("state", "inc")]
                assert [word in inside for word in words] == [seed is not None] * 2
            contexts = env.upcoming(60)
            agent.update(contexts, np.asarray(agent.select_action(contexts)), np.ones(60))


@pytest.mark.wide_at("kernel-ldp")
@pytest.mark.every_agent
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


@pytest.mark.wide_at("ldp-greedy-pickle", "ldp-linucb-pickle", "*-deepcopy", "*-copy")
@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", ["ldp-linucb", "ldp-greedy"])
def test_no_two_of_400_copies_share_a_report(name: str, way: str) -> None:
    env = world(name)
    agent = make(name, env)
    assert len({drawn(COPIES[way](agent), env) for _ in range(400)}) == 400


@pytest.mark.wide_at("newton-mnl")
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
    assert not agent.__getstate__()["shuffler"].bag.any()  # what a pickle holds
