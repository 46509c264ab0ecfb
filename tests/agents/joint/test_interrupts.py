"""A curator that is interrupted: what was drawn is paid for, no record is used again, and the agent goes on.

An interrupt is a KeyboardInterrupt in a notebook, a MemoryError, a signal. Whatever was drawn before it counts as seen.
"""

import os
import sys
from collections.abc import Iterator
from itertools import count
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, CentralAgent, make
from privbandit_agents.testing import replay as replays
from privbandit_agents.testing.replay import replay
from privbandit_agents.testing.watchers import Forcer, Writer
from privbandit_agents.zoo.registry import can_play

WORLDS = tuple(f"privbandit/{kind}-v0" for kind in ("Linear", "Assortment", "Bandit", "Clicks", "Classification"))
CURATORS = [name for name, entry in AGENTS.items() if issubclass(entry.load(), CentralAgent)]
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "jdp-linucb": [{"people": 30, "visits": "mean"}, {"window": 7, "counter": "toeplitz"}, {"counter": "tree"}],
    "dp-dqn": [{"batch": 1}, {"batch": 3, "scorer": "features"}],
    "newton-mnl": [{"steps": 3}],
    "fliphat": [{"composition": "basic"}, {"M": 3}],
    "dp-se": [{"width": 0.02}],
    "adap-klucb": [{"growth": 2.0, "forget": True}],
}
CASES = [(name, settings) for name in CURATORS for settings in ({}, *SETTINGS.get(name, []))]
IDS = [f"{name}-{'-'.join(map(str, settings.values()))}" for name, settings in CASES]


class Interrupted(KeyboardInterrupt):
    """An interrupt of this test's own."""


class Interrupting:
    """A watcher that raises after some of the draws, when they are made: after those whose number is in ``at``."""

    at: Any = ()

    def __call__(self, made: Any) -> Any:
        released = super().__call__(made)  # type: ignore[misc]
        numbers = vars(self).setdefault("numbers", count())
        if next(numbers) in self.at:
            raise Interrupted
        return released


class InterruptingWriter(Interrupting, Writer):
    pass


class InterruptingForcer(Interrupting, Forcer):
    pass


class Every:
    """Every n-th number."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __contains__(self, number: int) -> bool:
        return number % self.n == 0


def going_on(agent: Any) -> Any:
    """Return an agent whose user goes on after an interrupt."""
    update = agent.update

    def updated(*records: Any, **named: Any) -> None:
        try:
            update(*records, **named)
        except Interrupted:
            pass

    agent.update = updated
    return agent


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Interrupting]]:
    """Let the replay's agents be interrupted, and go on."""
    watched = replays.watched
    monkeypatch.setattr(replays, "watched", lambda *given: going_on(watched(*given)))
    monkeypatch.setattr(replays, "Writer", InterruptingWriter)
    monkeypatch.setattr(replays, "Forcer", InterruptingForcer)
    yield Interrupting
    Interrupting.at = ()


def world(name: str, horizon: int) -> str:
    return next(env_id for env_id in WORLDS if can_play(name, gym.make(env_id, horizon=horizon)))


@pytest.mark.wide_at(
    "dpmnl--1",
    "adap-klucb--1",
    "jdp-linucb-7-*",
    "jdp-linucb-tree-*",
    "dp-dqn-3-*",
    "dpmnl-approx--1",
    "fliphat-basic-1",
    "adap-klucb-2.0-True-1",
    "newton-mnl-3-1",
    "dp-dqn-1-1",
)
@pytest.mark.parametrize("every", [1, pytest.param(2, marks=pytest.mark.wide)])
@pytest.mark.parametrize(("name", "settings"), CASES, ids=IDS)
def test_no_more_is_lost_than_the_ledger_says(
    name: str, settings: dict[str, Any], every: int, interrupted: type[Interrupting]
) -> None:
    """The replay fails if a pair of records costs more than is promised, over all that was drawn."""
    interrupted.at = Every(every)
    users = 40
    env_id = world(name, users)
    for target in (0, users // 4):
        replay(name, env_id, users, settings, target, ("the other answer", "features at a right angle"))


@pytest.mark.parametrize(("name", "settings"), CASES, ids=IDS)
def test_an_agent_plays_on_after_interrupts(name: str, settings: dict[str, Any]) -> None:
    """It takes as many users as ever, and releases again as soon as nobody interrupts."""
    env: Any = gym.make(world(name, 2000), horizon=2000).unwrapped
    env.reset(seed=0)
    agent: Any = going_on(make(name, env, seed=0, epsilon=50.0, **settings))
    writer = agent.watcher = InterruptingWriter()
    writer.at = range(2)

    def served(users: int) -> None:
        while users:
            n = min(agent.frozen_rounds(), users, 50)
            assert n >= 1, "a change that was interrupted is never made"
            contexts = env.upcoming(n)
            actions = np.asarray(agent.select_action(contexts))
            agent.update(contexts, actions, env.serve(actions).feedback)
            users -= n

    for _ in range(20):
        served(25)
        if len(writer.notes) >= 2:
            break
    drawn, before = len(writer.notes), agent.release
    assert drawn >= 2, "nothing was interrupted"
    for _ in range(55):
        served(25)
        if len(writer.notes) > drawn + 1 and not np.array_equal(before, agent.release):
            return
    raise AssertionError(f"{name} has released nothing since it was interrupted")


@pytest.mark.parametrize("interrupts", [1, 3])
def test_a_batch_of_dp_dqn_is_in_one_term_of_its_counter(interrupts: int) -> None:
    env: Any = gym.make("privbandit/Linear-v0", n_arms=3, dim=3, horizon=20)
    agent: Any = make("dp-dqn", env, seed=0, batch=1)
    writer = agent.watcher = InterruptingWriter()
    writer.at = range(interrupts)
    agent = going_on(agent)
    for user in range(8):
        agent.update(np.ones((1, 3, 3)), np.zeros(1, int), np.array([1.0 if user == 0 else 0.0]))
    terms = np.concatenate([note.exact for note in writer.notes])
    assert np.abs(terms[0]).max() > 0.1 and len(terms) == 8
    assert not terms[1].any(), "the first user's record is in the second term"


@pytest.mark.parametrize("name", ["dp-se", "adap-klucb"])
def test_a_run_is_drawn_once(name: str) -> None:
    env: Any = gym.make("privbandit/Bandit-v0", n_arms=2, horizon=4000)
    agent: Any = make(name, env, seed=0, **({"width": 0.02} if name == "dp-se" else {}))
    writer = agent.watcher = InterruptingWriter()
    writer.at = range(6)
    agent = going_on(agent)
    for _ in range(400):
        n = min(agent.frozen_rounds(), 20)
        agent.update(np.zeros(n, int), np.full(n, agent.select_action(np.zeros((), int))), np.ones(n))
    groups = [note.group for note in writer.notes]
    assert len(groups) > 6 and len(set(groups)) == len(groups), "a run was released again, without a cost"


def test_an_interrupted_lesson_publishes_no_run_again() -> None:
    """What a curator makes of a release may be interrupted, too."""
    agent: Any = make("adap-klucb", gym.make("privbandit/Bandit-v0", n_arms=2, horizon=400), seed=0)
    writer = agent.watcher = Writer()
    learned, stops = agent.learned, iter(range(6))

    def stopped(arm: int, mean: float) -> None:
        if next(stops, None) is not None:
            raise Interrupted
        learned(arm, mean)

    agent.learned = stopped
    agent = going_on(agent)
    for reward in (1.0, *np.zeros(11)):
        agent.update(np.zeros(1, int), np.array([agent.select_action(np.zeros((), int))]), np.array([reward]))
    told = [float(note.exact[0]) for note in writer.notes]
    assert len(told) > 6 and sum(one > 0 for one in told) == 1, "the first user's reward was released again"


class AtLine:
    """A tracer that raises when the n-th line begins in a module of a curator."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self, frame: Any, event: str, _: Any) -> Any:
        if event == "line" and any(room in frame.f_code.co_filename for room in (f"agents{os.sep}joint", "choices.py")):
            self.left -= 1
            if not self.left:
                sys.settrace(None)
                raise Interrupted
        return self


@pytest.mark.every_agent
@pytest.mark.parametrize("name", CURATORS)
def test_a_curator_goes_on_whatever_line_is_interrupted(name: str) -> None:
    """It asks for users, as the loop of the documentation does, and columns of records stay as long as each other."""
    env: Any = next(env for env in (gym.make(one, horizon=9000).unwrapped for one in WORLDS) if can_play(name, env))
    env.reset(seed=0)
    agent: Any = make(name, env, seed=0)
    for line in range(1, 140, 6):
        contexts = env.upcoming(min(agent.frozen_rounds(), 40))
        actions = np.asarray(agent.select_action(contexts))
        answers, before = env.serve(actions).feedback, sys.gettrace()
        sys.settrace(AtLine(line))
        try:
            agent.update(contexts, actions, answers)
        except Interrupted:
            pass
        finally:
            sys.settrace(before)
        assert agent.frozen_rounds() >= 1
    for _ in range(3):
        contexts = env.upcoming(min(agent.frozen_rounds(), 40))
        actions = np.asarray(agent.select_action(contexts))
        agent.update(contexts, actions, env.serve(actions).feedback)
    if (choices := getattr(agent, "choices", None)) is not None:
        assert len(choices.features) == len(choices.offered) == len(choices.bought)
