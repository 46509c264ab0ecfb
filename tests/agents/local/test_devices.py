"""Devices: what they randomize by is what the guarantee says, and no record decides whether one of them warns."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, make, play
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from privbandit_agents.zoo.entries import FAMILIES, preset_of
from privbandit_agents.zoo.registry import can_play

LOCAL = [name for name, entry in AGENTS.items() if entry.notion == "local" and not name.startswith("auto")]
CASES: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in LOCAL if not preset_of(name)]
CASES += [
    ("lplr", {"preset": "published", "calibration": "correct", "kappas": (0.0, 0.0, 0.0, 0.0), "first": 20}),
    ("ldp-greedy", {"release": "laplace"}),
    ("lpct", {"report": "laplace"}),
]


def world(name: str, users: int) -> Any:
    return next(env for env_id in FAMILIES.values() if can_play(name, env := gym.make(env_id, horizon=users)))


@pytest.mark.every_agent
@pytest.mark.wide_at("lplr-settings20", "kernel-ldp-*")
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_exact_is_what_every_randomizer_of_a_run_is(
    name: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: set[str] = set()
    draw = LocalRandomizer.randomize

    def watched(self: LocalRandomizer, *given: Any, **named: Any) -> Any:
        called.add(self.arithmetic)
        return draw(self, *given, **named)

    monkeypatch.setattr(LocalRandomizer, "randomize", watched)
    env = world(name, 120)
    agent = make(name, env, seed=0, **settings)
    play(env, agent, seed=0, by_counts=False)
    assert agent.guarantee.arithmetic == "real" or called <= {"exact"}


@pytest.mark.every_agent
@pytest.mark.parametrize("name", [name for name, settings in CASES if not settings])
def test_no_record_decides_whether_a_device_warns(name: str) -> None:
    env = world(name, 60)
    agent: Any = make(name, env, seed=0)
    context, _ = env.reset(seed=0)
    action = agent.select_action(context)
    for part in agent.state()[0].values():  # what a server that goes wrong may publish
        if part.dtype.kind == "f":
            part[...] = 1e308
    for scorer in (part for key, part in vars(agent).items() if key in ("scorer", "theta", "w", "choices")):
        if isinstance(scorer, np.ndarray):
            scorer[...] = 1e308
    with np.errstate(all="raise"):
        for answer in (0.0, 1.0, -1.0, 1e300):
            assert agent.randomize(context, action, answer) is not None
