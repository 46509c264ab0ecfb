"""What is refused leaves nothing behind: the agent is the same byte for byte, and nobody has been counted."""

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, make
from privbandit_agents.base.agent import Agent
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.local import Devices
from privbandit_agents.privacy import Ledger, PrivacyBudgetExceeded
from privbandit_agents.zoo.registry import can_play, field_names

WORLDS = ("privbandit/Linear-v0", "privbandit/Assortment-v0", "privbandit/Classification-v0", "privbandit/Bandit-v0")
PRIVATE = [name for name, entry in AGENTS.items() if not name.startswith("auto") and entry.notion != "none"]
WITH_PEOPLE = [name for name in PRIVATE if "people" in field_names(AGENTS[name].load().Config)]
T = 10


def agent_of(name: str, **settings: Any) -> tuple[Any, Any]:
    env: Any = next(env for env in (gym.make(one, horizon=T).unwrapped for one in WORLDS) if can_play(name, env))
    env.reset(seed=0)
    return make(name, env, seed=2, **settings), gym.make(env.spec.id, horizon=60).unwrapped


def users(env: Any, n: int) -> tuple[Any, Any, Any]:
    env.reset(seed=3)
    contexts = env.upcoming(n)
    actions = np.asarray(make("uniform", env, seed=0).select_action(contexts))
    return contexts, actions, env.serve(actions).feedback


def everything(agent: Any) -> str:
    """Return all that an agent and its devices keep, their generators too, as text."""
    arrays, values = agent.state()
    kept: dict[str, Any] = {
        name: [array.tobytes().hex(), str(array.dtype), array.shape] for name, array in arrays.items()
    }
    kept |= {"values": values, "devices": agent.devices_state() if isinstance(agent, Devices) else None}
    return json.dumps(kept, sort_keys=True, default=str)


@pytest.mark.every_agent
@pytest.mark.wide_at("kernel-*", "lpct-?", "psgd-*", "dpmnl", "dpmnl-*")
@pytest.mark.parametrize("name", WITH_PEOPLE)
def test_a_refused_group_of_people_leaves_no_trace(name: str) -> None:
    agent, env = agent_of(name, people=100)
    records, ids = users(env, 40), np.arange(40) * 7
    part = [column[:3] for column in records]
    agent.update(*part, person=ids[:3])
    before = everything(agent)
    ragged = (records[0], records[1], records[2][:-1])
    for sent, people in ((records, ids[:-1]), (records, ids * 0.5), (ragged, ids)):
        with pytest.raises(ValueError, match="must be"):
            agent.update(*sent, person=people)
        assert everything(agent) == before
    try:
        agent.update(*records, person=ids)  # of those of a horizon
    except RuntimeError:
        assert everything(agent) == before


@pytest.mark.every_agent
@pytest.mark.wide_at("kernel-*", "lpct-?", "psgd-*")
@pytest.mark.parametrize("name", [name for name in WITH_PEOPLE if issubclass(AGENTS[name].load(), Devices)])
def test_nobody_has_reported_whom_the_ledger_refuses(name: str) -> None:
    agent, env = agent_of(name, people=100)
    agent.ledger = Ledger(agent.config.epsilon / 2, agent.ledger.delta)
    before = everything(agent)
    with pytest.raises(PrivacyBudgetExceeded):
        agent.update(*users(env, 5), person=np.arange(5))
    assert everything(agent) == before


HORIZONS = ["jdp-linucb", "jdp-smooth", "sw-jdp-linucb", "reward-dp-linucb", "dp-dqn", "dpmnl", "dpmnl-approx"]


@pytest.mark.parametrize("people", [None, 100])
@pytest.mark.parametrize("name", HORIZONS)
def test_a_group_beyond_the_horizon_is_refused_whole(name: str, people: int | None) -> None:
    """Sent again in groups that fit, all of its people count."""
    settings: dict[str, Any] = {} if people is None else {"people": people}
    settings |= {"visits": "first"} if people is not None and name == "jdp-linucb" else {}
    agent, env = agent_of(name, **settings)
    records, ids = users(env, T + 2), np.arange(T + 2) + 200
    named = [{} if people is None else {"person": ids[part]} for part in (slice(None), slice(4), slice(4, T))]
    before = everything(agent)
    with pytest.raises(RuntimeError, match=f"ends after its horizon of {T} users"):
        agent.update(*records, **named[0])
    assert everything(agent) == before
    agent.update(*(column[:4] for column in records), **named[1])
    agent.update(*(column[4:T] for column in records), **named[2])
    assert agent.users == T and (people is None or agent.people_seen.counted == T)


def test_all_agents_that_refuse_are_looked_at() -> None:
    kinds = {name: AGENTS[name].load() for name in PRIVATE}
    curators = {name: kind for name, kind in kinds.items() if issubclass(kind, CentralAgent)}
    refusing = {name for name, kind in curators.items() if kind.refuse is not Agent.refuse}
    assert refusing == {*HORIZONS, "jdp-glm", "jdp-kernel"}, "batches have no horizon"
    assert len(WITH_PEOPLE) > 25
