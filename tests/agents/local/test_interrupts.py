"""A server that is interrupted while it learns goes on with the next users, and every report that was drawn is paid."""

import os
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, LocalAgent, make
from privbandit_agents.base.shuffling import ShuffleAgent
from privbandit_agents.zoo.registry import can_play

WORLDS = (
    "privbandit/Linear-v0",
    "privbandit/Clicks-v0",
    "privbandit/Assortment-v0",
    "privbandit/Classification-v0",
    "privbandit/Bandit-v0",
    "privbandit/Smooth-v0",
)
NAMES = [
    name
    for name, entry in AGENTS.items()
    if issubclass(entry.load(), LocalAgent | ShuffleAgent) and not name.startswith("auto")
]

ROOMS = f"agents{os.sep}local", f"agents{os.sep}shuffle", f"base{os.sep}shuffling"


class Interrupted(KeyboardInterrupt):
    """An interrupt of this test's own."""


class AtLine:
    """A tracer that raises when the n-th line begins in a module of an agent."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self, frame: Any, event: str, _: Any) -> Any:
        if event == "line" and any(room in frame.f_code.co_filename for room in ROOMS):
            self.left -= 1
            if not self.left:
                sys.settrace(None)
                raise Interrupted
        return self


def served(agent: Any, env: Any, users: int) -> None:
    contexts = env.upcoming(users)
    actions = np.asarray(agent.select_action(contexts))
    agent.update(contexts, actions, env.serve(actions).feedback)


@pytest.mark.every_agent
@pytest.mark.wide_at("lplr", "kernel-ldp", "ldp-mnl", "prec-ts", "psgd-*", "smooth-*", "lpct-?")
@pytest.mark.parametrize("name", NAMES)
def test_a_server_goes_on_whatever_line_is_interrupted(name: str) -> None:
    env: Any = next(env for env in (gym.make(one, horizon=9000).unwrapped for one in WORLDS) if can_play(name, env))
    env.reset(seed=0)
    agent: Any = make(name, env, seed=0, **({"first": 20} if issubclass(AGENTS[name].load(), ShuffleAgent) else {}))
    absorb, randomize, drawn = agent.absorb, agent.randomize, []
    lines = [*range(1, 40), *range(40, 120, 7)]

    def counting(*record: Any) -> Any:
        drawn.append(np.size(record[2]))
        return randomize(*record)

    def interrupted(*report: Any) -> None:
        before = sys.gettrace()
        sys.settrace(AtLine(lines[0]))
        try:
            absorb(*report)
        finally:
            sys.settrace(before)

    agent.randomize, agent.absorb = counting, interrupted
    while lines:
        try:
            served(agent, env, min(max(agent.frozen_rounds(), 1), 50))
        except Interrupted:
            pass
        lines.pop(0)
    agent.absorb = absorb
    for users in (1, 30, 2, 50, 400):
        served(agent, env, users)
        assert agent.frozen_rounds() >= 1
    if isinstance(agent, LocalAgent) and hasattr(agent, "cost"):
        assert agent.ledger.releases == sum(drawn), "a report was drawn that is not in the ledger, or the other way"


@pytest.mark.wide_at("prec-ts")
@pytest.mark.parametrize("name", ["ldp-ucb", "ldp-clicks", "prec-ts", "ldp-lasso", "ldp-greedy"])
def test_an_interrupted_lesson_is_followed_by_a_run_with_users(name: str) -> None:
    env: Any = next(env for env in (gym.make(one, horizon=9000).unwrapped for one in WORLDS) if can_play(name, env))
    env.reset(seed=0)
    agent: Any = make(name, env, seed=0)
    learn, lessons = agent.learn, iter(range(3))

    def stopped() -> None:
        if next(lessons, None) is not None:
            raise Interrupted
        learn()

    agent.learn = stopped
    raised = 0
    for _ in range(100):
        assert agent.frozen_rounds() >= 1, "no users would be served before the lesson is given again"
        try:
            served(agent, env, min(agent.frozen_rounds(), 60))
        except Interrupted:
            raised += 1
    served(agent, env, 300)
    assert raised == 3
