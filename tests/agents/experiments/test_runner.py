"""Runs that are killed: nothing computes on, and running again completes them."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from privbandit_agents.experiments import Trial
from privbandit_agents.experiments.runner import run_trials
from privbandit_agents.registry import AGENTS

fcntl = pytest.importorskip("fcntl")

SLOW = """
import fcntl, os, pathlib, time
from privbandit_agents.baselines.linucb import LinUCB
from privbandit_agents.registry import register_agent

here = pathlib.Path(__file__).parent
lock = os.open(here / f"{os.getpid()}.lock", os.O_CREAT | os.O_WRONLY)  # held until the process is gone
fcntl.flock(lock, fcntl.LOCK_EX)

class Slow(LinUCB):
    def select_action(self, context):
        if (here / "slow").exists(): time.sleep(0.002)
        return super().select_action(context)

register_agent("slow", "slow_agents:Slow")
"""
RUN = """
from privbandit_agents.experiments import Trial
from privbandit_agents.experiments.runner import run_trials
run_trials([Trial(*spec) for spec in SPECS], "killed", jobs=2)
"""
SPECS = [("privbandit/Linear-v0", "slow_agents:slow", 600, seed) for seed in range(4)]


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Return whether the condition came true in time."""
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return met


def gone(path: Path) -> bool:
    """Return whether the process that held the lock has ended."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_workers_of_a_killed_run_end_and_a_rerun_completes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_agents.py").write_text(SLOW)
    (tmp_path / "slow").touch()
    killed = subprocess.Popen([sys.executable, "-c", RUN.replace("SPECS", str(SPECS))], cwd=tmp_path)
    try:
        assert wait_until(lambda: len(list(tmp_path.glob("killed/tensorboard/*/*/*/events.*"))) >= 2, 30)
        locks = list(tmp_path.glob("*.lock"))
        assert len(locks) >= 2 and not any(gone(lock) for lock in locks), "two workers play"
    finally:
        killed.kill()
        killed.wait()
    assert wait_until(lambda: all(gone(lock) for lock in locks), 1), "a worker plays on"
    assert len(list(tmp_path.glob("killed/trials/*.json"))) < 4

    (tmp_path / "slow").unlink()
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        runs = [run_trials([Trial(*spec) for spec in SPECS], tmp_path / out, jobs=1) for out in ("killed", "whole")]
    finally:
        AGENTS.pop("slow", None)
    assert [len(outcomes) for outcomes, _ in runs] == [4, 4]
    for resumed, whole in zip(runs[0][0], runs[1][0], strict=True):
        np.testing.assert_array_equal(resumed.result.regret, whole.result.regret)
