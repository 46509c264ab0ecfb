"""Runs that are killed: nothing computes on, and running again completes them."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from privbandit_agents.experiments import load_results

fcntl = pytest.importorskip("fcntl")

SLOW = """
import fcntl, os, pathlib, time
from privbandit_agents.baselines.linucb import LinUCB
from privbandit_agents.registry import register_agent

here = pathlib.Path(__file__).parent
lock = open(here / f"{os.getpid()}.lock", "w")  # held until the process is gone
fcntl.flock(lock, fcntl.LOCK_EX)

class Slow(LinUCB):
    def select_action(self, context):
        if (here / "slow").exists(): time.sleep(0.002)
        return super().select_action(context)

register_agent("slow", "slow_agents:Slow")
"""
RUN = ["run", "--env", "privbandit/Linear-v0", "--agent", "slow_agents:slow", "--horizon", "600", "--seeds", "4"]


def start(folder: Path, out: str) -> subprocess.Popen[bytes]:
    arguments = [*RUN, "--jobs", "2", "--out", out]
    code = f"import sys; from privbandit_agents.cli import main; sys.argv[1:] = {arguments}; main()"
    return subprocess.Popen([sys.executable, "-c", code], cwd=folder, stdout=subprocess.DEVNULL)


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


def test_workers_of_a_killed_run_end_and_a_rerun_completes_it(tmp_path: Path) -> None:
    (tmp_path / "slow_agents.py").write_text(SLOW)
    (tmp_path / "slow").touch()
    killed = start(tmp_path, "killed")
    started = wait_until(lambda: len(list(tmp_path.glob("killed/tensorboard/*/*/*/events.*"))) >= 2, 30)
    locks = list(tmp_path.glob("*.lock"))
    assert started and len(locks) == 3 and not any(gone(lock) for lock in locks), "two workers beside the parent"
    killed.kill()
    killed.wait()
    assert wait_until(lambda: all(gone(lock) for lock in locks), 1), "a worker computes on"
    assert len(list(tmp_path.glob("killed/trials/*.json"))) < 4
    (tmp_path / "slow").unlink()
    assert [start(tmp_path, out).wait() for out in ("killed", "whole")] == [0, 0]
    frames = [load_results(tmp_path / out).sort("seed", "checkpoint") for out in ("killed", "whole")]
    assert frames[0].height == 4 * 200 and np.array_equal(*(frame["regret"].to_numpy() for frame in frames))
