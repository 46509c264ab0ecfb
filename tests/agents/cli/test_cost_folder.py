"""Costs of two logs in one folder: neither plays in the world of the other."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from commanding import invoke
from privbandit_agents.experiments.store.locks import only_one
from privbandit_agents.logs.record import Log
from privbandit_agents.logs.simulator import LOG_ENV, simulator

SMALL = ["--env", "privbandit/Linear-v0", "--set", "env.dim=2", "--set", "env.n_arms=2"]
COST = ["--action", "action", "--reward", "reward", "--propensity", "propensity", "--seeds", "2", "--epsilon", "1"]
COST += ["--notions", "joint", "--always", "--users", "60", "--jobs", "1"]


def logs(folder: Path) -> None:
    """Write two logs of one name."""
    for seed, name in enumerate("ab"):
        (folder / name).mkdir()
        out = str(folder / name / "log.csv")
        made = invoke("log", *SMALL, "--agent", "uniform", "-n", "200", "--seed", str(seed), "--out", out)
        assert made.exit_code == 0, made.stderr


@pytest.mark.wide
def test_two_costs_of_one_name_at_once_are_both_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is refused while the first works, and right afterwards, whichever it is."""
    monkeypatch.chdir(tmp_path)
    logs(tmp_path)
    alone = {}
    for name in "ab":
        assert invoke("cost", f"{name}/log.csv", *COST, "--out", name).exit_code == 0
        alone[name] = json.loads((tmp_path / name / "cost.json").read_text())
    call = [sys.executable, "-m", "privbandit", "cost"]
    both = {
        name: subprocess.Popen([*call, f"{name}/log.csv", *COST], stderr=subprocess.PIPE, text=True) for name in "ab"
    }
    for process in both.values():
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0 or (process.returncode == 2 and "another process is at work in" in said), said
    for name in "ab":
        assert invoke("cost", f"{name}/log.csv", *COST).exit_code == 0
        assert json.loads((tmp_path / "runs" / "cost-log" / "cost.json").read_text()) == alone[name]


def test_a_folder_in_which_costs_are_estimated_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    logs(tmp_path)
    with only_one(tmp_path / "out", "cost"):
        told = invoke("cost", "a/log.csv", *COST, "--out", "out")
    assert told.exit_code == 2 and "another process is at work in out; wait for it" in told.stderr


def test_a_world_of_another_digest_is_refused(tmp_path: Path) -> None:
    logs(tmp_path)
    roles: dict[str, Any] = {"action": "action", "reward": "reward", "propensity": "propensity"}
    one, other = (simulator(Log.from_table(tmp_path / name / "log.csv", **roles), "logistic") for name in "ab")
    one.write(tmp_path / "world.npz")
    source = str(tmp_path / "world.npz")
    assert gym.make(LOG_ENV, source=source, digest=one.digest) is not None and one.digest != other.digest
    with pytest.raises(ValueError, match="source must be the world with digest"):
        gym.make(LOG_ENV, source=source, digest=other.digest)
