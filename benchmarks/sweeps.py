"""What running many trials costs beyond the trials themselves, and what being killed costs (about fifteen minutes).

Overhead is wall-clock time over the sum of the trials' own times divided by the number of workers, minus one; trial
times are measured in the same run.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from harness import Options, Row, main
from privbandit_agents.experiments import Trial, load_results, run_trial
from privbandit_agents.experiments.jobs.job import Desk
from privbandit_agents.experiments.running.attempt import run_job
from privbandit_agents.experiments.running.engine import Engine, run_jobs
from privbandit_agents.experiments.store.results import write_result

LINEAR = "privbandit/Linear-v0"
SWEEP = """
parts:
  - envs: [{id: privbandit/Linear-v0, dim: 10}]
    agents: [{name: linucb}, {name: jdp-linucb}, {name: uniform}]
    horizon: 20000
    seeds: 10
  - envs: [{id: privbandit/Linear-v0, dim: 10}]
    agents: [{name: ppo}, {name: dqn}]
    horizon: 3000
    seeds: 2
"""


def overhead(engine: str, n: int, seconds: float, at_most: float, options: Options) -> Iterator[Row]:
    """Measure the overhead of n trials of about so many seconds."""
    with tempfile.TemporaryDirectory() as folder:
        times = [run_trial(Trial(LINEAR, "uniform", 100_000, seed), folder).result.seconds for seed in range(3)]
    horizon = int(100_000 * seconds / min(times))
    trials = [Trial(LINEAR, "uniform", horizon, seed) for seed in range(n)]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        results, failures = run_jobs(trials, folder, Engine(engine, options.jobs))
        wall = time.perf_counter() - started
    assert not failures, failures
    total = sum(finished.seconds for finished in results.values())
    ideal = total / (options.jobs or 1)
    unit = f"({n} trials of {total / n:.3f} s took {wall:.1f} s, at best {ideal:.1f} s)"
    yield Row(f"{n} trials of {seconds:g} s, {engine}: overhead", wall / ideal - 1, unit, at_most=at_most)


def load(options: Options, n: int = 10_000) -> Iterator[Row]:
    """Measure how long n results of 200 checkpoints take to load."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        first = run_job(Trial(LINEAR, "uniform", 20_000, 0), Desk(Path(folder)))
        for seed in range(1, n):
            series = {name: np.cumsum(rng.random(200)) for name in ("regret", "reward")}
            write_result(folder, replace(first, job={**first.job, "seed": seed}, arrays={**first.arrays, **series}))
        started = time.perf_counter()
        rows = load_results(folder).height
        took = time.perf_counter() - started
    assert rows == 200 * n
    yield Row(f"load_results, {n} trials", took, "s", at_most=2)


def kill(options: Options, kills: int = 20) -> Iterator[Row]:
    """Count the rows that differ after a sweep was killed at random moments."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "sweep.yaml"
        file.write_text(SWEEP)
        command = [*(sys.executable, "-m", "privbandit_agents.cli", "sweep", str(file)), "--save-every", "0.3", "--out"]
        started = time.perf_counter()
        subprocess.run([*command, f"{place}/whole"], check=True, capture_output=True)
        whole = time.perf_counter() - started
        rng = np.random.default_rng(1)
        for number in range(1, kills + 1):
            process = subprocess.Popen([*command, f"{place}/killed"], stdout=-3, stderr=-3)
            time.sleep(rng.uniform(0.3, 1.7) * whole / kills + 4)
            if process.poll() is not None:
                print(f"finished before kill {number}", file=sys.stderr)
                break
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        subprocess.run([*command, f"{place}/killed"], check=True, capture_output=True)
        tables = [load_results(f"{place}/{name}").drop("seconds") for name in ("whole", "killed")]
        assert tables[0].shape == tables[1].shape, tables
        differ = sum(one != other for one, other in zip(*(table.rows() for table in tables), strict=True))
    yield Row(f"rows that differ after {kills} kills", differ, at_most=0)


if __name__ == "__main__":
    sections = {
        "loky": partial(overhead, "loky", 500, 1.0, 0.05),
        "dask": partial(overhead, "dask", 500, 1.0, 0.10),
        "short": partial(overhead, "loky", 5000, 0.02, 0.40),
    }
    sys.exit(main(__doc__, {**sections, "load": load, "kill": kill}))
