"""Agents that version 0.3 saved, after 300 users: they load, predict as they did, and go on."""

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import load, play
from privbandit_agents.base.state import write
from privbandit_agents.playing.saving import parts_of

FILES = Path(__file__).parent / "former"
LINEAR: tuple[str, dict[str, Any]] = ("privbandit/Linear-v0", {"n_arms": 4, "dim": 3})
BANDIT: tuple[str, dict[str, Any]] = ("privbandit/Bandit-v0", {"n_arms": 4})
WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    **dict.fromkeys(("jdp-linucb", "lplr", "linucb", "ldp-greedy", "shuffle-linucb"), LINEAR),
    **dict.fromkeys(("adap-klucb", "dp-se", "ldp-ucb"), BANDIT),
    "ldp-clicks": ("privbandit/Clicks-v0", {"n_arms": 3, "dim": 2}),
    "lpct": ("privbandit/Classification-v0", {"n_public": 60}),
}
PREDICTED = json.loads((FILES / "predicted.json").read_text())


def world(name: str) -> Any:
    env_id, settings = WORLDS[name]
    return gym.make(env_id, horizon=1000, **settings)


@pytest.mark.parametrize("name", WORLDS)
def test_a_former_agent_predicts_as_it_did_and_goes_on(name: str) -> None:
    env_id, settings = WORLDS[name]
    contexts = np.stack([gym.make(env_id, horizon=5, **settings).reset(seed=seed)[0] for seed in range(8)])
    agent: Any = load(FILES / f"{name}.npz", world(name))
    assert np.allclose(agent.predict(agent.contexts_of(contexts)), PREDICTED[name], rtol=1e-12, atol=1e-12)
    play(world(name), agent, 200, seed=7)
    shuffled = agent.shuffler.users if name == "shuffle-linucb" else 0  # in the open batch, whose bag was lost
    assert agent.users + shuffled == (0 if name == "linucb" else 500), "linucb counts nobody without a window"


@pytest.mark.parametrize(
    ("gone", "added", "sentence"),
    [
        ("", "moon", "version 0.3 kept moon, which the agent no longer has"),
        ("users", "", "version 0.3 kept no users, which the agent needs"),
    ],
)
def test_a_state_that_no_rule_explains_is_refused(gone: str, added: str, sentence: str, tmp_path: Path) -> None:
    arrays, values = parts_of(FILES / "lplr.npz")
    changed = {key: value for key, value in values["state"].items() if key != gone} | ({added: 1} if added else {})
    write(tmp_path / "agent.npz", arrays, values | {"state": changed})
    with pytest.raises(ValueError, match=sentence):
        load(tmp_path / "agent.npz", world("lplr"))
