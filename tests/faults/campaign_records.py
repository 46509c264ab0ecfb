"""Hostile records, one by one and in groups of ten, in every part of every agent's records."""

import copy
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.random import Generator
from privbandit_agents import AGENTS, make
from privbandit_agents.audits.pairs.attacks import SECRET, Attack, attacks, finite, in_group, misfits
from privbandit_agents.audits.pairs.records import Record
from privbandit_agents.base.agent import LearningAgent
from privbandit_agents.base.guarantee import UnprovenCalibration
from privbandit_agents.base.records import IgnoredRecord
from privbandit_agents.testing.runs import same_parts, without_generators
from privbandit_agents.zoo.registry import can_play

import privbandit_envs  # noqa: F401  (registers the environments)

WORLDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("privbandit/Linear-v0", {}),
    ("privbandit/Linear-v0", {"dim": 1, "n_arms": 2}),
    ("privbandit/SparseLinear-v0", {"dim": 25}),
    ("privbandit/Assortment-v0", {"n_items": 20, "capacity": 3}),
    ("privbandit/Classification-v0", {}),
    ("privbandit/Classification-v0", {"source": "wine"}),
)
RUNS = [
    (name, env_id, options)
    for name, entry in AGENTS.items()
    if not entry.successor and not issubclass(entry.load(), LearningAgent)
    for env_id, options in WORLDS
    if can_play(name, gym.make(env_id, **options))
]


def records(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Attack every agent in every world it plays, in a random order, each after some honest users.

    The time is not looked at, so that no agent is left out: it takes about half a minute.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ignored in (IgnoredRecord, UnprovenCalibration):
            warnings.simplefilter("ignore", ignored)
        for run in rng.permutation(len(RUNS)):
            name, env_id, options = RUNS[run]
            yield from on_agent(name, env_id, options, int(rng.integers(2**31)), int(rng.integers(1, 80)))


def on_agent(name: str, env_id: str, options: dict[str, Any], seed: int, honest: int) -> Iterator[str]:
    """Attack one agent in one world; state, later play and errors are looked at after every attack."""
    env: Any = gym.make(env_id, horizon=20_000, **options).unwrapped
    agent = make(name, env, seed=seed)
    env.reset(seed=seed)
    play_on(env, agent, honest)
    group = served(env, agent, 10)
    user = Record(group[0][0], group[1][0], group[2][0])
    where = f"{name} on {env_id} {options}, seed {seed}"
    for attack in attacks(user):
        yield judged(f"{where}: {attack.name}", partial(survives, env, agent, attack, group))
    for attack in misfits(user):
        yield judged(f"{where}: {attack.name}", partial(misfitting, agent, attack, user))
    yield judged(f"{where}: later users", partial(play_on, env, agent, 300))


def judged(what: str, attempt: Callable[[], None]) -> str:
    """Return "" if an attempt went well, else what went wrong."""
    try:
        attempt()
    except Exception as error:
        return f"{what}: {type(error).__name__}: {error}"
    return ""


def survives(env: Any, agent: Any, attack: Attack, group: Record) -> None:
    """Send an attack alone and within a group; the twin gets NaN in its place."""
    twin = copy.deepcopy(agent)
    wild, tame = in_group(group, [attack]), in_group(group, [attack], harmless=True)
    for sent, harmless in ((attack.on(Record(group[0][0], group[1][0], group[2][0])), None), (wild, tame)):
        actions = agent.select_action(sent[0])
        if harmless is None:
            assert env.action_space.contains(actions), "no valid action"
        else:
            expected = twin.select_action(harmless[0])
            assert np.array_equal(np.asarray(actions)[1:], np.asarray(expected)[1:]), "another user's action changed"
            twin.update(*harmless)
        agent.update(*sent)
        if harmless is None:
            twin = copy.deepcopy(agent)
        assert finite(agent), "the state is not finite"
    assert agent.frozen_rounds() == twin.frozen_rounds(), "the schedule depends on it"


def misfitting(agent: Any, attack: Attack, user: Record) -> None:
    """Send a part of another shape: a context or an action counts as NaN; several answers are refused, untouched."""
    before, twin = copy.deepcopy(agent), copy.deepcopy(agent)
    try:
        agent.update(*attack.on(user))
    except ValueError as error:
        assert attack.part == 2, "it stops its user"
        assert SECRET not in str(error), "the error shows a value"
    if attack.part < 2:
        twin.update(*attack._replace(value=attack.harmless).on(user))
    expected = before if attack.part == 2 else twin
    assert same_parts(without_generators(agent), without_generators(expected)), "a trace"


def play_on(env: Any, agent: Any, users: int) -> None:
    agent.update(*served(env, agent, users))
    assert finite(agent), "the state is not finite"


def served(env: Any, agent: Any, users: int) -> Record:
    """Let the agent serve so many users at once; return their records."""
    contexts = env.upcoming(users)
    actions = np.asarray(agent.select_action(contexts))
    return Record(contexts, actions, env.serve(actions).feedback)


CAMPAIGNS = {"hostile records": records}
