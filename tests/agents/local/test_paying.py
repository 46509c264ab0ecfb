"""What the ledger refuses is not drawn, and what was drawn is entered whatever is raised; a person pays once."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, LocalAgent, make, play
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.privacy import Ledger, PrivacyBudgetExceeded
from privbandit_agents.zoo.registry import can_play

WORLDS = ("privbandit/Linear-v0", "privbandit/Assortment-v0", "privbandit/Classification-v0", "privbandit/Bandit-v0")
LOCAL = [name for name, entry in AGENTS.items() if issubclass(entry.load(), LocalAgent)]


def agent_and_users(name: str, n: int = 6, **config: Any) -> tuple[Any, tuple[Any, Any, Any]]:
    env: Any = next(env for env in (gym.make(one, horizon=200).unwrapped for one in WORLDS) if can_play(name, env))
    env.reset(seed=0)
    agent = make(name, env, seed=2, **config)
    contexts = env.upcoming(n)
    return agent, (contexts, np.asarray(agent.select_action(contexts)), np.ones(n))


@pytest.mark.every_agent
@pytest.mark.parametrize("name", LOCAL)
def test_a_refused_report_is_not_drawn(name: str) -> None:
    agent, records = agent_and_users(name)
    agent.ledger = Ledger(agent.config.epsilon / 2, agent.ledger.delta)
    before = agent.rng.bit_generator.state
    for call in (agent.update, agent.learn_labels if hasattr(agent, "learn_labels") else agent.update):
        with pytest.raises(PrivacyBudgetExceeded):
            call(*records[: 3 if call == agent.update else 2])
    assert agent.rng.bit_generator.state == before and agent.ledger.releases == 0


@pytest.mark.every_agent
@pytest.mark.parametrize("name", LOCAL)
def test_a_drawn_report_is_entered_whatever_is_raised(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, records = agent_and_users(name)

    def broken(*given: Any) -> None:
        raise RuntimeError("the server stumbles")

    monkeypatch.setattr(agent, "absorb", broken)
    with pytest.raises(RuntimeError, match="stumbles"):
        agent.update(*records)
    drawn = min(6, agent.at_once)
    assert agent.ledger.releases == drawn
    monkeypatch.undo()
    agent.update(*records)
    assert agent.ledger.releases == drawn + 6


class Trap(np.random.Generator):
    """A generator that must not be used."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def __getattribute__(self, name: str) -> Any:
        if name in ("bit_generator", "__class__", "__dict__"):
            return super().__getattribute__(name)
        raise AssertionError(f"numpy's generator was asked for {name}")


SECURE = [name for name in LOCAL if AGENTS[name].secure and "auto" not in name]


@pytest.mark.every_agent
@pytest.mark.parametrize("name", SECURE)
def test_secure_noise_never_comes_from_numpy(name: str) -> None:
    agent, records = agent_and_users(name, noise="secure")
    agent.rng = Trap()
    agent.update(*records)
    refusing = [(agent.update_counts, (*records, np.ones(6, int))), (agent.update_counts, records)]
    for call, given in refusing:
        with pytest.raises(TypeError):
            call(*given)
    if hasattr(agent, "learn_labels"):
        agent.learn_labels(*records[:2])
        agent.learn_labels(*records[:2], aggregate=True)
    assert agent.ledger.releases in (6, 18)


@pytest.mark.parametrize("name", SECURE)
@pytest.mark.wide
def test_play_draws_no_secure_noise_from_numpy(name: str) -> None:
    agent, _ = agent_and_users(name, noise="secure")
    agent.rng = Trap()
    env: Any = next(env for env in (gym.make(one, horizon=60).unwrapped for one in WORLDS) if can_play(name, env))
    assert play(env, agent, 60, seed=0).checkpoints[-1] == 60 and agent.ledger.releases == 60


def test_lists_of_secure_agents_are_not_empty() -> None:
    assert len(SECURE) >= 15


PEOPLE = [
    name
    for name, entry in AGENTS.items()
    if hasattr(entry.load().Config, "people") and not name.startswith("auto") and "decay" not in name
]
HANDED_ON = {"curate", "learned", "randomize", "absorb"}
"""What ``update`` hands first visits on to."""


def roads(agent: Any, given: dict[str, Any]) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Yield every method that takes users' contexts, and what else it takes of what users have."""
    for name, method in inspect.getmembers(agent, inspect.ismethod):
        takes = inspect.signature(method).parameters
        known = {key: given[key] for key in takes if key in given}
        needed = {
            key for key, part in takes.items() if part.default is part.empty and part.kind is not part.VAR_KEYWORD
        }
        if needed <= known.keys() and {"context", "contexts"} & known.keys() and name not in HANDED_ON:
            yield name, method, known


@pytest.mark.every_agent
@pytest.mark.wide_at("kernel-*", "psgd-*", "dpmnl*")
@pytest.mark.parametrize("name", PEOPLE)
def test_a_person_reports_once_on_every_road(name: str) -> None:
    """Whatever takes users' data asks who has reported, or refuses, or neither pays nor learns."""
    agent, (contexts, actions, feedback) = agent_and_users(name, people=3)
    labels, rng = np.zeros(6, np.int64), np.random.default_rng(0)
    given = dict(context=contexts, contexts=contexts, actions=actions, action=actions, arms=actions)
    given |= dict(feedback=feedback, rewards=feedback, labels=labels, counts=np.ones(6, int), draws=3, rng=rng)
    refused = 0
    for road, method, known in roads(agent, given):
        if road == "update":
            continue
        paid = agent.ledger.releases, agent.ledger.spent(), agent.people_seen.counted
        try:
            method(known.pop(next(iter(known))), **known)  # by place, as every caller gives it
        except Exception as error:  # what a part of an agent makes of these values
            refused += "promises to people" in str(error)
        assert (agent.ledger.releases, agent.ledger.spent(), agent.people_seen.counted) == paid, road
    assert refused >= isinstance(agent, LocalAgent)
    for _ in range(5):  # of some agents a device waits for ten visits
        agent.update(contexts, actions, feedback, np.array([7, 7, 1, 7, 1, 1]))
        assert agent.people_seen.counted == 2 and (isinstance(agent, CentralAgent) or agent.ledger.releases <= 2)
    assert not isinstance(agent, LocalAgent) or agent.ledger.releases == 2


def test_auxiliary_records_that_are_private_have_no_names() -> None:
    world = gym.make("privbandit/Smooth-v0", n_auxiliary=100, horizon=200)
    with pytest.raises(TypeError, match="smooth-ldp promises to people, who have no names here; call update"):
        make("smooth-ldp", world, people=20)
    assert make("smooth-ldp", world, people=20, auxiliary="public").ledger.releases == 0  # type: ignore[attr-defined]
    assert make("smooth-ldp", world).ledger.releases == 100  # type: ignore[attr-defined]


@pytest.mark.every_agent
@pytest.mark.wide_at("lplr")
@pytest.mark.parametrize("name", LOCAL)
def test_late_reports_of_devices_are_paid_and_stop_nobody(name: str) -> None:
    """A device may have made its report for a state that the server has left."""
    agent, records = agent_and_users(name, epsilon=8.0)
    late = [agent.randomize(*agent.records_of(*(part[:1] for part in records)))]
    for start in range(1, 25):
        n = min(agent.frozen_rounds(), 2000)
        agent.update(*(np.repeat(part[:1], n, axis=0) for part in records))
        paid = agent.ledger.releases
        for report in late:
            with agent.paying(1):
                agent.absorb(report)
        assert agent.ledger.releases == paid + len(late)
        if start % 8 == 0:
            late.append(agent.randomize(*agent.records_of(*(part[:1] for part in records))))
