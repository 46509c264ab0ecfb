from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest
from kinds import FEW
from privbandit_agents import AGENTS
from privbandit_agents.testing import LEARNER_CHECKS, checks_for
from privbandit_agents.zoo.auto import Auto
from privbandit_agents.zoo.entries import preset_of
from privbandit_agents.zoo.registry import can_play

from privbandit_envs import ENV_IDS, register

SMALL = "conformance/SparseLinear-v0"  # second moments of 400 features are no test of anything but patience
register(SMALL, "privbandit_envs.families.sparse:SparseLinearProblem", dim=25)
IDS = [SMALL if env_id == "privbandit/SparseLinear-v0" else env_id for env_id in ENV_IDS if "privbandit/" in env_id]
THEMSELVES = [name for name, entry in AGENTS.items() if not issubclass(entry.load(), Auto)]
MADE = {env_id: gym.make(env_id) for env_id in IDS}
PAIRS = [(name, env_id) for name in THEMSELVES for env_id, env in MADE.items() if can_play(name, env)]
AGAIN = {"check_seeds", "check_actions", "check_frozen", "check_reports", "check_replay", "check_noise"}
"""Checks of who plays linear bandits, for sparse ones: their features are longer. The others would look at the same."""
LINEAR = {name for name, env_id in PAIRS if env_id == "privbandit/Linear-v0"}
CLICKS = {name for name, env_id in PAIRS if env_id == "privbandit/Clicks-v0"}
ELSEWHERE = {
    "privbandit/Smooth-v0": CLICKS,
    "privbandit/Pricing-v0": CLICKS,
    "privbandit/Duels-v0": LINEAR,
}
"""Who plays the first world of a family gets contexts and rewards of the same shapes here, and is not checked again."""
FIRST = {name: env_id for name, env_id in reversed(PAIRS)}
"""Where `make test` makes every check of an agent that is no preset of another; elsewhere it only plays."""
LONG = {"check_hostile_records", "check_people", "check_budgets", "check_keys", "check_local", "check_replay"}
"""Checks that take long, and look at what base classes and mechanisms do: `make test` makes them of few agents."""
CASES = [
    pytest.param(check, name, env_id, id=f"{check.__name__}-{name}-{env_id}", marks=() if here else pytest.mark.wide)
    for name, env_id in PAIRS
    for check in checks_for(name)
    if check.__name__ in AGAIN or env_id != SMALL or name not in LINEAR
    if name not in ELSEWHERE.get(env_id, ())
    for again in [check.__name__ == "check_seeds" and AGENTS[name].notion != "none"]  # see check_frozen and check_keys
    for long in [check.__name__ in LONG and name not in FEW]
    for here in [check.__name__ == "check_actions" or not (env_id != FIRST[name] or preset_of(name) or again or long)]
]


HORIZON, BRIEF, REPLAYED = 180, 120, 60
"""Users of a run, of one in which an agent's policy changes twice or more, and of a replay; outsiders' get more."""
LATE = {"jdp-glm", "private-pursuit", "newton-mnl", "shuffle-linucb", "lplr", "lpct-q"}
"""Agents whose policy changes less often in so few users."""
CHOSEN: dict[str, dict[str, Any]] = {"dp-se": {"width": 0.05}}
"""Settings that would take long to choose, or with which something is released in a short run."""


def test_every_agent_plays_something_and_every_environment_is_played() -> None:
    assert {name for name, _ in PAIRS} == set(THEMSELVES)
    assert {env_id for _, env_id in PAIRS} == set(IDS)


@pytest.mark.every_agent
@pytest.mark.wide_at(
    "check_replay-dp-se-*",
    "check_replay-newton-mnl-*",
    "check_replay-reward-*",
    "check_replay-fliphat-*",
    "check_reports-ldp-mnl-*",
    "check_*s-kernel-ldp-*",
    "check_frozen-kernel-ldp-*",
    "check_noise-adap-klucb-*",
    "check_noise-dp-se-*",
    "check_noise-dpmnl-*",
    "check_noise-private-*",
    "check_hostile_records-ucb-mnl-*",
    "check_people-reward-*",
    "check_hostile_records-reward-*",
    "check_*s-a2c-*",
    "check_*s-dqn-*",
    "check_*s-ppo-*",
)
@pytest.mark.parametrize(("check", "name", "env_id"), CASES)
def test_agent_conforms(check: Callable[[str, str, int, dict[str, Any]], None], name: str, env_id: str) -> None:
    few, many = (REPLAYED, BRIEF) if check.__name__ == "check_replay" else (BRIEF, HORIZON)
    long = name in LATE or check.__name__ in ("check_noise", "check_reports")
    horizon = 64 if checks_for(name) is LEARNER_CHECKS else many if long else few
    check(name, env_id, horizon, CHOSEN.get(name, {}))
