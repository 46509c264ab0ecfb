"""Agents that versions 0.3 and 0.4 saved, after 300 users: they load, predict as they did, and go on.

``python tests/agents/playing/test_former.py FOLDER`` saves those of ``CURRENT`` as the version at hand does.
"""

import json
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import load, make, play, save
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
CURRENT = WORLDS | {
    **dict.fromkeys(("jdp-glm", "reward-dp-linucb", "ldp-glm", "kernel-ucb", "neural-linear"), LINEAR),
    "jdp-smooth": ("privbandit/Smooth-v0", {"n_arms": 3, "dim": 2}),
    "newton-mnl": ("privbandit/Assortment-v0", {"n_items": 6, "capacity": 2, "dim": 2}),
    "psgd-linear": ("privbandit/Classification-v0", {"n_public": 60}),
}
SAVED = [("0.3", name) for name in WORLDS] + [("0.4", name) for name in CURRENT]


def world(name: str, horizon: int = 1000) -> Any:
    env_id, settings = CURRENT[name]
    return gym.make(env_id, horizon=horizon, **settings)


def predicted(agent: Any, name: str) -> Any:
    """Return what an agent predicts for eight contexts, [] if it does not."""
    contexts = np.stack([world(name, 5).reset(seed=seed)[0] for seed in range(8)])
    told = agent.predict(agent.contexts_of(contexts))
    return [] if told is None else told.tolist()


@pytest.mark.wide_at("0.3-adap-klucb", "0.3-ldp-ucb")
@pytest.mark.parametrize(("version", "name"), SAVED)
def test_a_former_agent_predicts_as_it_did_and_goes_on(version: str, name: str) -> None:
    agent: Any = load(FILES / version / f"{name}.npz", world(name))
    told = json.loads((FILES / version / "predicted.json").read_text())[name]
    assert np.allclose(predicted(agent, name), told, rtol=1e-12, atol=1e-12)
    play(world(name), agent, 200, seed=7)
    if hasattr(agent, "users"):
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
    arrays, values = parts_of(FILES / "0.3" / "lplr.npz")
    changed = {key: value for key, value in values["state"].items() if key != gone} | ({added: 1} if added else {})
    write(tmp_path / "agent.npz", arrays, values | {"state": changed})
    with pytest.raises(ValueError, match=sentence):
        load(tmp_path / "agent.npz", world("lplr"))


if __name__ == "__main__":
    folder, told = Path(sys.argv[1]), {}
    for name in CURRENT:
        agent = make(name, world(name), seed=0)
        play(world(name), agent, 300, seed=1)
        save(agent, folder / f"{name}.npz")
        told[name] = predicted(agent, name)
    (folder / "predicted.json").write_text(json.dumps(told) + "\n")
