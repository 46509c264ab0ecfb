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


def horizon_for(seconds: float) -> int:
    """Return the number of users whom the uniform agent serves in so many seconds here."""
    with tempfile.TemporaryDirectory() as folder:
        times = [run_trial(Trial(LINEAR, "uniform", 100_000, seed), folder).result.seconds for seed in range(3)]
    return int(100_000 * seconds / min(times))


def overhead(n: int, seconds: float, engine: Engine) -> tuple[float, str]:
    """Return the overhead of n trials of about so many seconds, and what it was computed from."""
    horizon = horizon_for(seconds)
    trials = [Trial(LINEAR, "uniform", horizon, seed) for seed in range(n)]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        results, failures = run_jobs(trials, folder, engine)
        wall = time.perf_counter() - started
    assert not failures, failures
    ideal = sum(finished.seconds for finished in results.values()) / (engine.jobs or 1)
    each = ideal * (engine.jobs or 1) / n
    return wall / ideal - 1, f"({n} trials of {each:.3f} s took {wall:.1f} s, at best {ideal:.1f} s)"


def seconds_to_load(n: int) -> float:
    """Return how long load_results takes for n results of 200 checkpoints."""
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
    return took


def differences_after_kills(kills: int) -> int:
    """Return how many rows differ between a sweep that was killed and an undisturbed one."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "sweep.yaml"
        file.write_text(SWEEP)
        command = [*(sys.executable, "-m", "privbandit_agents.cli", "sweep", str(file)), "--save-every", "0.3", "--out"]
        started = time.perf_counter()
        subprocess.run([*command, f"{place}/whole"], check=True, capture_output=True)
        whole = time.perf_counter() - started
        rng = np.random.default_rng(1)
        for kill in range(kills):
            process = subprocess.Popen([*command, f"{place}/killed"], stdout=-3, stderr=-3)
            time.sleep(rng.uniform(0.3, 1.7) * whole / kills + 4)
            if process.poll() is not None:
                print(f"finished before kill {kill + 1}", file=sys.stderr)
                break
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        subprocess.run([*command, f"{place}/killed"], check=True, capture_output=True)
        tables = [load_results(f"{place}/{name}").drop("seconds") for name in ("whole", "killed")]
        assert tables[0].shape == tables[1].shape, tables
        return sum(one != other for one, other in zip(*(table.rows() for table in tables), strict=True))


def loky(options: Options) -> Iterator[Row]:
    """Measure the overhead of 500 trials of a second in processes of this machine."""
    yield Row("500 trials of 1 s, loky: overhead", *overhead(500, 1.0, Engine("loky", options.jobs)), at_most=0.05)


def dask(options: Options) -> Iterator[Row]:
    """Measure the same on a cluster."""
    yield Row("500 trials of 1 s, dask: overhead", *overhead(500, 1.0, Engine("dask", options.jobs)), at_most=0.10)


def short(options: Options) -> Iterator[Row]:
    """Measure the overhead of 5000 trials of 20 ms."""
    yield Row("5000 trials of 20 ms: overhead", *overhead(5000, 0.02, Engine("loky", options.jobs)), at_most=0.40)


def load(options: Options) -> Iterator[Row]:
    """Measure how long 10^4 results take to load."""
    yield Row("load_results, 10^4 trials", seconds_to_load(10_000), "s", at_most=2)


def kill(options: Options) -> Iterator[Row]:
    """Count the rows that differ after a sweep was killed 20 times at random moments."""
    yield Row("rows that differ after 20 kills", differences_after_kills(20), at_most=0)


if __name__ == "__main__":
    sys.exit(main(__doc__, {"loky": loky, "dask": dask, "short": short, "load": load, "kill": kill}))
