"""Runs that are cut off go on from their last snapshot, bit for bit."""

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from privbandit_agents.base import state
from privbandit_agents.experiments import Trial, run_trial
from privbandit_agents.experiments.names import unfinished
from privbandit_agents.experiments.running.engine import Engine, run_jobs
from privbandit_agents.playing import snapshots
from privbandit_agents.testing.runs import same_state

from privbandit_envs.wrappers import RegretCurve

LINEAR, ASSORTMENT, CLASSIFICATION = (f"privbandit/{name}-v0" for name in ("Linear", "Assortment", "Classification"))
SMALL = {"dim": 5}
RL: dict[str, Any] = {"n_envs": 4, "net_arch": [8]}
TRIALS = [
    Trial(LINEAR, "uniform", 200_000, 1, SMALL),
    Trial(LINEAR, "linucb", 3000, 1, SMALL),
    Trial(LINEAR, "jdp-linucb", 1000, 1, SMALL),
    Trial(LINEAR, "ldp-greedy", 1000, 1, SMALL),
    Trial("privbandit/SparseLinear-v0", "sa-lasso", 600, 1, {"dim": 40}),
    Trial(ASSORTMENT, "ucb-mnl", 300, 1, {"n_items": 20, "capacity": 3}),
    Trial(CLASSIFICATION, "tree-all", 600, 1),
    Trial(LINEAR, "ppo", 600, 1, SMALL, {**RL, "n_steps": 8, "batch_size": 16, "n_epochs": 2}),
    Trial(LINEAR, "a2c", 600, 1, SMALL, {**RL, "n_steps": 4}),
    Trial(LINEAR, "dqn", 600, 1, SMALL, {**RL, "learning_starts": 40, "batch_size": 16}),
]


class CutError(Exception):
    """The process is gone."""


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "SNAPSHOTS_SHARE", 0)


def cut_at(passed: int) -> Any:
    def watch(curve: RegretCurve) -> None:
        if curve.passed >= passed:
            raise CutError

    return watch


def interrupted(trial: Trial, folder: Path, passed: int) -> None:
    with pytest.raises(CutError):
        run_trial(trial, folder, cut_at(passed), save_every=1e-9)


@pytest.mark.wide_at("uniform", "sa-lasso", "ucb-mnl", "jdp-linucb", "ldp-greedy", "dqn", "a2c", "ppo")
@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.agent)
def test_a_run_that_is_cut_off_twice_gives_what_it_would_have_given(trial: Trial, tmp_path: Path) -> None:
    whole = run_trial(trial, tmp_path / "whole").result
    for passed in (90, 170):
        interrupted(trial, tmp_path / "cut", passed)
    seen: list[int] = []
    resumed = run_trial(trial, tmp_path / "cut", lambda curve: seen.append(curve.passed)).result
    assert np.array_equal(resumed.regret, whole.regret) and np.array_equal(resumed.reward, whole.reward)
    assert seen[0] > 100, "the run began anew"
    assert not unfinished(tmp_path / "cut", trial.name, "npz").exists()


def test_the_seconds_of_all_processes_count(tmp_path: Path) -> None:
    interrupted(TRIALS[1], tmp_path, 190)
    kept = snapshots.Snapshots(unfinished(tmp_path, TRIALS[1].name, "npz"), TRIALS[1].snapshot_label)
    env = TRIALS[1].make_env()
    kept.resume(env, TRIALS[1].make_agent(env), RegretCurve(np.arange(1, 201) * 15))
    assert 0 < kept.seconds_before < run_trial(TRIALS[1], tmp_path).result.seconds


def test_a_snapshot_is_as_secret_as_the_records(tmp_path: Path) -> None:
    interrupted(TRIALS[2], tmp_path, 50)
    mode = stat.S_IMODE(os.stat(unfinished(tmp_path, TRIALS[2].name, "npz")).st_mode)
    assert mode & 0o077 == 0


def test_what_a_kill_left_half_written_is_removed(tmp_path: Path) -> None:
    trial = TRIALS[2]
    interrupted(trial, tmp_path, 50)
    left = [unfinished(tmp_path, trial.name, "npz").with_name(f".{trial.name}.npz.0123abcd")]
    left.append(tmp_path / "trials" / f".{trial.name}.json.0123abcd")
    left[1].parent.mkdir()
    for path in left:
        path.write_bytes(b"half")
    run_jobs([trial], tmp_path, Engine(jobs=1, alone=True))
    assert not any(path.exists() for path in left) and not list(tmp_path.glob("unfinished/*"))


@pytest.mark.wide
def test_no_flipped_bit_stops_a_trial(tmp_path: Path) -> None:
    trial = TRIALS[3]  # its snapshot has a part for the server and one for the devices
    interrupted(trial, tmp_path, 50)
    path = unfinished(tmp_path, trial.name, "npz")
    raw = path.read_bytes()
    env = trial.make_env()
    whole = trial.make_agent(env)
    snapshots.Snapshots(path, trial.snapshot_label).resume(env, whole, RegretCurve(np.arange(1, 201) * 5))
    for position in range(0, len(raw), 37):
        damaged = bytearray(raw)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        kept, agent = snapshots.Snapshots(path, trial.snapshot_label), trial.make_agent(env)
        curve = RegretCurve(np.arange(1, 201) * 5)
        resumed = kept.resume(env, agent, curve)  # harmless where the bit is in a part that is not read
        assert (resumed is None) == (curve.users == 0)
        assert resumed is None or same_state(agent, whole), "damage went unnoticed"


def test_an_array_whose_name_is_damaged_does_not_stop_a_trial(tmp_path: Path) -> None:
    """The names in a zip file have no checksum; the run begins anew."""
    trial = TRIALS[3]
    interrupted(trial, tmp_path, 50)
    path = unfinished(tmp_path, trial.name, "npz")
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"total.npy", b"tptal.npy"))
    env, curve = trial.make_env(), RegretCurve(np.arange(1, 201) * 5)
    kept = snapshots.Snapshots(path, trial.snapshot_label)
    assert b"total.npy" in raw and kept.resume(env, trial.make_agent(env), curve) is None


def test_a_snapshot_keeps_the_simulated_devices_apart_from_the_server(tmp_path: Path) -> None:
    trial = TRIALS[3]
    interrupted(trial, tmp_path, 50)
    _, values = state.read(unfinished(tmp_path, trial.name, "npz"))
    assert values["devices"]["rng"]["bit_generator"] == "PCG64" and "rng" not in values["agent"]


@pytest.mark.wide_at("truncated", "empty")
@pytest.mark.parametrize("damage", ["truncated", "empty", "foreign", "other code"])
def test_a_snapshot_that_cannot_be_used_is_not(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = TRIALS[1]
    whole = run_trial(trial, tmp_path / "whole").result
    interrupted(trial, tmp_path / "cut", 100)
    path = unfinished(tmp_path / "cut", trial.name, "npz")
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "foreign":
        np.savez(path, json=np.array('{"label": 3}'))
    else:
        monkeypatch.setattr("privbandit_agents.experiments.jobs.trial.code", lambda: {"privbandit": "0.0.0"})
    seen: list[int] = []
    again = run_trial(trial, tmp_path / "cut", lambda curve: seen.append(curve.passed)).result
    assert seen[0] == 1 and np.array_equal(again.regret, whole.regret)


def test_a_state_that_does_not_fit_is_removed(tmp_path: Path) -> None:
    trial = TRIALS[1]
    interrupted(trial, tmp_path, 100)
    path = unfinished(tmp_path, trial.name, "npz")
    _, values = state.read(path)
    state.write(path, {"strange": np.zeros(3)}, values | {"arrays": ["strange"]}, secret=True)
    with pytest.raises(RuntimeError, match=r"does not fit .*, so it was removed; run again\.$"):
        run_trial(trial, tmp_path)
    assert run_trial(trial, tmp_path).result.regret[-1] > 0


def test_the_events_of_a_resumed_run_are_whole(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trial = TRIALS[2]
    interrupted(trial, tmp_path, 120)
    result = run_trial(trial, tmp_path).result
    events = EventAccumulator(str(tmp_path / "tensorboard-trials" / trial.run_name), size_guidance={"scalars": 0})
    events.Reload()
    assert [event.step for event in events.Scalars("regret/cumulative")] == result.checkpoints.tolist()
    np.testing.assert_allclose([e.value for e in events.Scalars("regret/cumulative")], result.regret, rtol=1e-6)
    spent = [event.value for event in events.Scalars("spent/epsilon")]
    assert spent[-1] > 0 and spent == sorted(spent)
    assert all(event.value > 0 for event in events.Scalars("speed/rounds_per_s"))


def test_snapshots_are_taken_no_more_often_than_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    monkeypatch.setattr(state, "write", lambda *arguments, **_: written.append(arguments))
    run_trial(TRIALS[1], tmp_path / "a", save_every=1e-9)
    assert len(written) == 6  # one for each block of 512 users
    written.clear()
    run_trial(TRIALS[1], tmp_path / "b", save_every=3600)
    assert not written
