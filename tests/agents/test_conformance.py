from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest
from privbandit_agents import AGENTS
from privbandit_agents.registry import can_play
from privbandit_agents.testing import CHECKS, HORIZON

from privbandit_envs import ENV_IDS

PAIRS = [(name, env_id) for name in AGENTS for env_id in ENV_IDS if can_play(name, gym.make(env_id))]


def test_every_agent_plays_something_and_every_environment_is_played() -> None:
    assert {name for name, _ in PAIRS} == set(AGENTS)
    assert {env_id for _, env_id in PAIRS} == set(ENV_IDS)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_agent_conforms(check: Callable[[str, str, int, dict[str, Any]], None], pair: tuple[str, str]) -> None:
    name, env_id = pair
    learner = name in ("ppo", "a2c", "dqn")
    check(name, env_id, 64 if learner else HORIZON, {})
