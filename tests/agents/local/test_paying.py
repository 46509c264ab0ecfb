"""What the ledger refuses is not drawn, and what was drawn is entered whatever is raised afterwards."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, LocalAgent, make, play
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


@pytest.mark.parametrize("name", LOCAL)
def test_a_refused_report_is_not_drawn(name: str) -> None:
    agent, records = agent_and_users(name)
    agent.ledger = Ledger(agent.config.epsilon / 2, agent.ledger.delta)
    before = agent.rng.bit_generator.state
    for call in (agent.update, agent.learn_labels if hasattr(agent, "learn_labels") else agent.update):
        with pytest.raises(PrivacyBudgetExceeded):
            call(*records[: 3 if call == agent.update else 2])
    assert agent.rng.bit_generator.state == before and agent.ledger.releases == 0


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


@pytest.mark.parametrize("name", SECURE)
def test_secure_noise_never_comes_from_numpy(name: str) -> None:
    agent, records = agent_and_users(name, noise="secure")
    agent.rng = Trap()
    agent.update(*records)
    refusing = [(agent.update_counts, (*records, np.ones(6, int))), (agent.update_sum, records)]
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
