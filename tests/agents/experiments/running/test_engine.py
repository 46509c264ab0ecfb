"""Sweeps that are killed, shared, sharded, run on a cluster, or run out of disk: the results are the same."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from joblib.externals.loky import get_reusable_executor
from privbandit_agents.experiments import Trial, load_results, run_trial
from privbandit_agents.experiments.jobs.job import Desk, Job
from privbandit_agents.experiments.names import result_path
from privbandit_agents.experiments.running.attempt import End, Failure, attempt, run_job
from privbandit_agents.experiments.running.cluster import KEEP_MEMORY
from privbandit_agents.experiments.running.engine import BUNDLE, LOST, Bundles, Engine, kept, run_jobs
from privbandit_agents.experiments.schema.sweep import read_sweep
from privbandit_agents.experiments.store.locks import BusyError, lock
from privbandit_agents.experiments.store.results import Finished, encode, read_result
from privbandit_agents.experiments.usage import UsageError
from privbandit_agents.zoo.entries import AGENTS

from privbandit_envs import ENV_IDS

fcntl = pytest.importorskip("fcntl")

SLOW = """
import fcntl, os, pathlib, resource, time
from privbandit_agents.baselines.linucb import LinUCB
from privbandit_agents.zoo.plugins import register_agent

here = pathlib.Path(__file__).parent
lock = os.open(here / f"{os.getpid()}.lock", os.O_CREAT | os.O_WRONLY)  # held until the process is gone
fcntl.flock(lock, fcntl.LOCK_EX)

class Slow(LinUCB):
    def __init__(self, *args):
        super().__init__(*args)
        if (here / "count").exists():
            with (here / "count").open("a") as file: file.write(f"{os.getpid()}\\n")
    def select_action(self, context):
        if (here / "slow").exists(): time.sleep(0.002)
        return super().select_action(context)

class Fat(LinUCB):
    def __init__(self, *args):
        super().__init__(*args)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    def select_action(self, context):
        return super().select_action(context)

register_agent("slow", "slow_agents:Slow")
register_agent("fat", "slow_agents:Fat")
"""
RUN = """
from privbandit_agents.experiments import Trial
from privbandit_agents.experiments.running import engine
engine.LIGHT = HERE
engine.run_jobs([Trial(*spec) for spec in SPECS], "FOLDER", engine.Engine(jobs=2, save_every=0.05))
"""
LINEAR = "privbandit/Linear-v0"
SPECS: list[Any] = [(LINEAR, "slow_agents:slow", 300, seed) for seed in range(6)]
SPECS += [(LINEAR, "jdp-linucb", 3000, 0, {"dim": 5})]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all jobs in this process: workers take a second to start."""
    monkeypatch.setattr("privbandit_agents.experiments.running.engine.LIGHT", math.inf)


@pytest.fixture
def slow_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module with slow agents; they are slow while the file ``slow`` is there."""
    (tmp_path / "slow_agents.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(tmp_path))
    get_reusable_executor().shutdown(wait=True)  # workers of an earlier test do not know this folder
    known = list(ENV_IDS)
    yield tmp_path
    ENV_IDS[:] = known  # worlds of the folder's modules are gone with it
    get_reusable_executor().shutdown(wait=True)
    for name in ("slow", "fat"):
        AGENTS.pop(name, None)
    sys.modules.pop("slow_agents", None)


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


def start(folder: Path, out: str, workers: bool) -> "subprocess.Popen[bytes]":
    """Start a sweep in a process of its own, which starts two workers or plays itself."""
    here = "0" if workers else "float('inf')"
    code = RUN.replace("SPECS", str(SPECS)).replace("FOLDER", out).replace("HERE", here)
    return subprocess.Popen([sys.executable, "-c", code], cwd=folder)


def undisturbed(folder: Path) -> pl.DataFrame:
    """Return the table of the trials that this process runs, one by one."""
    for spec in SPECS:
        run_trial(Trial(*spec), folder)
    return table(folder)


def table(folder: Path) -> pl.DataFrame:
    return load_results(folder).drop("seconds")


@pytest.mark.wide
def test_a_killed_sweep_gives_what_an_undisturbed_one_gives(slow_agents: Path, here: None) -> None:
    (slow_agents / "slow").touch()
    process = start(slow_agents, "killed", workers=True)
    try:
        assert wait_until(lambda: len(list(slow_agents.glob("*.lock"))) >= 2, 60), "two workers play"
        time.sleep(np.random.default_rng(0).uniform(0, 1.0))
        assert process.poll() is None, "the sweep was over before it was killed"
    finally:
        process.kill()
        process.wait()
    locks = list(slow_agents.glob("*.lock"))
    assert wait_until(lambda: all(map(gone, locks)), 60), "a worker plays on"
    assert len(list(slow_agents.glob("killed/trials/*.json"))) < len(SPECS)
    (slow_agents / "slow").unlink()
    results, failures = run_jobs([Trial(*spec) for spec in SPECS], slow_agents / "killed")
    assert len(results) == len(SPECS) and not failures
    assert table(slow_agents / "killed").equals(undisturbed(slow_agents / "whole"))
    assert not (slow_agents / "killed" / "unfinished").exists()


@pytest.mark.wide
def test_two_sweeps_in_one_folder_share_the_work(slow_agents: Path) -> None:
    (slow_agents / "slow").touch()
    (slow_agents / "count").touch()
    sweeps = [start(slow_agents, "both", workers=False) for _ in range(2)]
    assert [sweep.wait(120) for sweep in sweeps] == [0, 0]
    begun = (slow_agents / "count").read_text().split()
    slow = [spec for spec in SPECS if spec[1] == "slow_agents:slow"]
    assert len(begun) == len(slow), "a trial was run twice"
    (slow_agents / "slow").unlink()
    assert table(slow_agents / "both").equals(undisturbed(slow_agents / "whole"))


@pytest.mark.wide
def test_a_trial_that_another_process_runs_is_busy(tmp_path: Path) -> None:
    trial = Trial(LINEAR, "uniform", 20)
    code = "import sys, time; from privbandit_agents.experiments.store.locks import lock; "
    code += f"c = lock({str(tmp_path)!r}, {trial.name!r}); c.__enter__(); print('held', flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(BusyError, match=f"another process is running job {trial.name}"):
            run_trial(trial, tmp_path, wait=False)
    finally:
        holder.kill()
        holder.communicate()
    assert run_trial(trial, tmp_path, wait=False).result.checkpoints[-1] == 20
    with lock(tmp_path, trial.name):  # a lock whose trial has its result is free, and leaves no file
        pass
    assert not list((tmp_path / "unfinished").iterdir())


@pytest.mark.wide
def test_a_full_disk_fails_its_trials_and_no_other(slow_agents: Path) -> None:
    bad = [Trial(LINEAR, "slow_agents:fat", 300, seed) for seed in range(2)]
    good = [Trial(LINEAR, "linucb", 100, seed) for seed in range(2)]
    failures = run_jobs(bad, slow_agents / "out", Engine(jobs=1))[1]  # the limit is that of the workers
    assert [failure.error for failure in failures] == ["OSError: [Errno 27] File too large"] * 2
    assert not list((slow_agents / "out" / "trials").glob("*"))
    get_reusable_executor().shutdown(wait=True)
    assert len(run_jobs(good, slow_agents / "out", Engine(jobs=1))[0]) == 2


@pytest.mark.wide
def test_ctrl_c_stops_at_once_and_loses_only_running_trials(slow_agents: Path, here: None) -> None:
    (slow_agents / "slow").touch()
    text = f"envs: [{{id: {LINEAR}}}]\nagents: [{{name: 'slow_agents:slow'}}]\nhorizon: 500\nseeds: 12\n"
    (slow_agents / "sweep.yaml").write_text(text)
    command = [
        sys.executable,
        "-m",
        "privbandit_agents.cli",
        "sweep",
        "sweep.yaml",
        "--out",
        "stopped",
        "--jobs",
        "2",
    ]
    process = subprocess.Popen(command, cwd=slow_agents, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert wait_until(lambda: len(list(slow_agents.glob("stopped/trials/*.json"))) >= 2, 60)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    done = len(list(slow_agents.glob("stopped/trials/*.json")))
    assert process.returncode == 130 and 2 <= done < 12
    assert f"stopped with {done} of 12 trials done; the same command goes on." in stderr and "Traceback" not in stderr
    assert wait_until(lambda: all(map(gone, slow_agents.glob("*.lock"))), 60), "a worker plays on"
    (slow_agents / "slow").unlink()
    trials = read_sweep(slow_agents / "sweep.yaml").trials()
    results, failures = run_jobs(trials, slow_agents / "stopped")
    assert len(results) == 12 and not failures


MIXED = [Trial(LINEAR, name, 400, seed, {"dim": 4}) for name in ("linucb", "lints", "jdp-linucb") for seed in range(3)]


def test_workers_in_any_order_give_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privbandit_agents.experiments.running.engine.LIGHT", 0)
    for trial in MIXED:
        run_trial(trial, tmp_path / "one")
    wrong = Trial(LINEAR, "linucb", 400, 0, {"dim": -1})
    _, (failure,) = run_jobs([wrong, *MIXED[::-1]], tmp_path / "two", Engine(jobs=2))
    assert failure.job == wrong and "dim must be" in failure.error
    assert table(tmp_path / "two").equals(table(tmp_path / "one"))


@pytest.mark.wide
def test_a_cluster_gives_the_same_table_and_a_running_one_is_used_by_its_address(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    for trial in MIXED:
        run_trial(trial, tmp_path / "one")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        engine = Engine("dask", address=cluster.scheduler_address)
        assert len(run_jobs(MIXED, tmp_path / "dask", engine)[0]) == len(MIXED)
    assert table(tmp_path / "dask").equals(table(tmp_path / "one"))
    files = [sorted(path.name for path in (tmp_path / out / "trials").iterdir()) for out in ("one", "dask")]
    assert files[0] == files[1]


def test_a_running_cluster_whose_workers_have_several_threads_is_refused(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        engine = Engine("dask", address=cluster.scheduler_address)
        with pytest.raises(UsageError, match=r"has 2 threads; .* --nthreads 1"):
            run_jobs(MIXED[2:3], tmp_path, engine)


DEADLY = """
import os, signal
from privbandit_agents.baselines.uniform import Uniform
from privbandit_agents.zoo.plugins import register_agent

class Deadly(Uniform):
    def select_action(self, context): os.kill(os.getpid(), signal.SIGKILL)

register_agent("deadly", "deadly_agents:Deadly")
"""


@pytest.mark.parametrize(
    "engine", [Engine("loky", 2), pytest.param(Engine("dask", 1), marks=pytest.mark.slow)], ids=str
)
@pytest.mark.wide
def test_a_trial_that_kills_its_worker_fails_and_the_others_do_not(
    engine: Engine, slow_agents: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if engine.kind == "dask":
        pytest.importorskip("distributed")
        monkeypatch.setitem(
            KEEP_MEMORY, "distributed.scheduler.allowed-failures", 0
        )  # no second chances, which take long
    (slow_agents / "deadly_agents.py").write_text(DEADLY)
    trials = [Trial(LINEAR, "deadly_agents:deadly", 40, 1), *MIXED[:2]]
    results, failures = run_jobs(trials, slow_agents / "out", engine)
    assert list(results) == [trial.name for trial in MIXED[:2]]
    assert [failure.job for failure in failures] == trials[:1] and "a worker process died" in failures[0].error
    assert not any(capfd.readouterr()), "the death of a worker is told as a failure, and in no other words"
    AGENTS.pop("deadly", None)
    sys.modules.pop("deadly_agents", None)


def test_a_scheduler_that_is_gone_loses_nothing_that_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = [Trial(LINEAR, "uniform", 20, seed) for seed in range(4)]

    def lost(jobs: Sequence[Job], *_: Any) -> Iterator[tuple[str, End]]:
        yield jobs[0].name, run_job(jobs[0], Desk(tmp_path))
        raise CancelledError("scheduler-connection-lost")

    with monkeypatch.context() as patched:
        patched.setattr("privbandit_agents.experiments.running.engine.dispatched", lost)
        patched.setattr("privbandit_agents.experiments.running.engine.deaths", lambda engine: (BrokenProcessPool,))
        results, failures = run_jobs(trials, tmp_path, Engine("dask"))
    assert list(results) == [trials[0].name] and [failure.error for failure in failures] == [LOST] * 3
    assert result_path(tmp_path, trials[0].name).exists()


@pytest.mark.wide
def test_light_jobs_of_ours_run_in_this_process_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    light = [Trial(LINEAR, "linucb", 100, seed) for seed in range(2)]
    here, _ = run_jobs(light, tmp_path / "here", Engine(jobs=2))
    monkeypatch.setattr("privbandit_agents.experiments.running.engine.LIGHT", 0)
    there, _ = run_jobs(light, tmp_path / "there", Engine(jobs=2))
    assert [np.array_equal(here[k].arrays["regret"], there[k].arrays["regret"]) for k in here] == [True, True]
    for heavy in ("ppo", "mine:linucb"):
        assert Trial(LINEAR, heavy, 100).light == math.inf
    for kwargs in ({"dim": 10**5}, {"theta": [1.0]}, {"design": "ill"}):
        assert Trial(LINEAR, "linucb", 100, env_kwargs=kwargs).light == math.inf


def test_without_shared_memory_jobs_run_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privbandit_agents.experiments.running.engine.effective_n_jobs", lambda jobs: 1)
    monkeypatch.setattr("privbandit_agents.experiments.running.engine.LIGHT", 0)
    monkeypatch.setattr("joblib.externals.loky.get_reusable_executor", None)  # no other process can be started
    trials = [Trial(LINEAR, "uniform", 20, seed) for seed in range(3)]
    with pytest.warns(UserWarning, match=r"shares no memory between processes .* jobs run one by one, in this one\."):
        results, failures = run_jobs(trials, tmp_path, Engine(jobs=2))
    assert len(results) == 3 and not failures


ODD = """
import numpy as np
from gymnasium.spaces import Box, Discrete
from privbandit_envs import ArmProblem, register

class Odd(ArmProblem):
    def __init__(self, rng, *, value=1.0, dtype="float64"):
        self.observation_space, self.action_space, self.value = Box(0, 1, (1,), np.float64), Discrete(2), value
    def contexts(self, n, rng):
        return rng.random((n, 1))
    def means(self, contexts):
        return np.hstack([contexts, np.full((len(contexts), 1), self.value)])

register("odd/Odd-v0", "odd_worlds:Odd")
"""


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_world_whose_numbers_are_none_fails_its_trial_in_a_sentence(slow_agents: Path) -> None:
    (slow_agents / "odd_worlds.py").write_text(ODD)
    values = [float("nan"), float("inf"), 1e308, 1.0]
    trials = [Trial("odd_worlds:odd/Odd-v0", "uniform", 50, 0, {"value": value}) for value in values]
    ends = [attempt(trial, slow_agents / "out", None, 60.0, True) for trial in trials]
    told = [end.error for end in ends if isinstance(end, Failure)]
    assert len(told) == 3 and isinstance(ends[3], Finished)
    said = "is not finite; the environment must give numbers with a sum below 1e+150."
    assert all(error in (f"the regret {said}", f"the reward {said}") for error in told)
    assert [path.stem for path in (slow_agents / "out" / "trials").iterdir()] == [trials[3].name]


def test_a_bad_engine_is_named() -> None:
    with pytest.raises(ValueError, match=r"engine must be one of loky, dask; got 'daks' \(did you mean 'dask'"):
        Engine("daks")
    with pytest.raises(ValueError, match="--address is for --engine dask"):
        Engine(address="tcp://here:1")


def groups(bundles: Bundles, seconds: Mapping[str, float]) -> list[int]:
    """Return the sizes of the groups when trials take so long, and are noted as soon as they are handed out."""
    sizes = []
    for bundle in bundles:
        sizes.append(len(bundle))
        for trial in bundle:
            bundles.note(trial.name, seconds[trial.spec["agent"]])
    return sizes


def test_short_trials_travel_together_and_long_ones_alone() -> None:
    trials = [Trial(LINEAR, "uniform", 100, seed) for seed in range(40)]
    assert groups(Bundles(trials), {"uniform": BUNDLE / 10}) == [1, 1, 10, 10, 10, 8]
    assert groups(Bundles(trials), {"uniform": 2 * BUNDLE}) == [1] * 40
    mixed = [trial for seed in range(3) for trial in (Trial(LINEAR, "uniform", 9, seed), Trial(LINEAR, "ppo", 9, seed))]
    assert groups(Bundles(mixed), {"uniform": 0.0, "ppo": 9.0}) == [1, 1, 1, 1, 1, 1]
    grown = [Trial(LINEAR, "uniform", 9, 0, {"dim": dim}) for dim in (3, 300, 301)]
    assert groups(Bundles(grown), {"uniform": 0.0}) == [1, 1, 1]


def test_results_that_came_from_another_disk_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial(LINEAR, "uniform", 20)
    with monkeypatch.context() as patched:
        patched.setattr("privbandit_agents.experiments.running.attempt.write_result", lambda folder, finished: None)
        done = run_job(trial, Desk(tmp_path))
    path = result_path(tmp_path, trial.name)
    assert not path.exists() and kept(trial, done, tmp_path) is done
    assert encode(read_result(path)) == encode(done)
