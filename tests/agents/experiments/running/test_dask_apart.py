"""Workers of Dask in networks and folders of their own, killed at random: the results are as if undisturbed."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dask_apart import TRIALS
from given import Later
from privbandit_agents.experiments import load_results, run_trial

Later("distributed")
DRIVER = Path(__file__).parents[3] / "dask_apart.py"
NAMESPACES = ("unshare", "--user", "--map-root-user", "--net", "--mount")


def separable() -> bool:
    """Return whether this machine lets a process have a network and a disk of its own."""
    if not all(map(shutil.which, ("unshare", "nsenter", "ip", "mount"))):
        return False
    tried = "ip link add v0 type veth peer name v1 && mount -t tmpfs none /mnt"
    return subprocess.run([*NAMESPACES, "sh", "-c", tried], capture_output=True).returncode == 0


@pytest.mark.slow
def test_workers_with_nothing_in_common_killed_at_random_give_the_results_of_an_undisturbed_run(tmp_path: Path) -> None:
    kind, inside = ("apart", NAMESPACES) if separable() else ("together", ())
    command = [*inside, sys.executable, str(DRIVER), str(tmp_path / "out"), "0", kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["results"] == len(TRIALS) and not told["failures"] and len(told["killed"]) >= 1, told
    for trial in TRIALS:
        run_trial(trial, tmp_path / "whole")
    tables = [load_results(tmp_path / out).drop("seconds") for out in ("out", "whole")]
    assert tables[0].equals(tables[1])
