"""Many jobs: on the cores of one machine, or on a cluster, by one code path."""

import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import inf
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from joblib import Parallel, cpu_count, delayed, effective_n_jobs, parallel_config
from joblib.externals.loky.backend import resource_tracker as loky_tracker
from rich.console import Console

from privbandit_agents.experiments.jobs.job import SAVE_EVERY, Job
from privbandit_agents.experiments.names import check_folder, result_path
from privbandit_agents.experiments.running.attempt import Busy, End, Failure, attempt_all, end_with
from privbandit_agents.experiments.running.cluster import dask_cluster
from privbandit_agents.experiments.running.progress import Bar
from privbandit_agents.experiments.store.locks import started
from privbandit_agents.experiments.store.results import Finished, known_result, write_result
from privbandit_agents.experiments.usage import sentence
from privbandit_envs.files import remove_leftovers
from privbandit_envs.validate import one_of

BUNDLE = 0.5
"""Seconds of work that travel to a worker together."""
LIGHT = 2000
"""Users in all of jobs that are done before a worker process has started: those jobs run in this one."""
Results = dict[str, Finished]
"""What jobs gave, by their names."""
LOST = "the connection to the Dask scheduler was lost; results that are there are kept, and the same command goes on."
ALONE = "this system shares no memory between processes (is there a /dev/shm?), so jobs run one by one, in this one."
UNTOLD = "ignore:resource_tracker"
DIED = "a worker process died, perhaps for lack of memory; run again with fewer jobs."


@dataclass(frozen=True)
class Engine:
    """Where jobs run.

    Attributes:
        kind: ``"loky"``, processes of this machine; ``"dask"``, workers of a Dask cluster.
        jobs: processes; default: one per core. Ignored for a cluster that has an address.
        address: of the scheduler of a running Dask cluster; default: a cluster on this machine.
        save_every: seconds between two snapshots of a running job.
        alone: whether jobs run one by one in this very process, which one that dies takes with it.
        keep: whether results count whose agent or environment, one of others, has other code today.

    Raises:
        ValueError: an unknown kind, or an address without Dask.
    """

    kind: str = "loky"
    jobs: int | None = None
    address: str | None = None
    save_every: float = field(default=SAVE_EVERY, kw_only=True)
    alone: bool = field(default=False, kw_only=True)
    keep: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        one_of(("loky", "dask"), engine=self.kind)
        if self.address is not None and self.kind != "dask":
            raise ValueError(f"--address is for --engine dask; got --engine {self.kind}.")

    @contextmanager
    def workers(self) -> Iterator[dict[str, Any]]:
        """Hold the workers; yield what joblib's Parallel must know of them.

        Jobs do not run in this very process, so that one that kills its process does not kill the sweep; unless they
        are light ones of ours, or there can be no other process, as without ``/dev/shm``.
        """
        if self.kind == "loky" and effective_n_jobs(2) == 1:
            warnings.warn(ALONE, stacklevel=1)
            yield {"n_jobs": 1}
        elif self.kind == "loky":
            jobs = self.jobs or cpu_count()
            # seconds after which an idle worker leaves, as it must if this process was killed
            end = partial(end_with, os.getpid())
            with parallel_config("loky", inner_max_num_threads=1, idle_worker_timeout=20, initializer=end):
                yield {"n_jobs": max(jobs, 2), "pre_dispatch": 1 if jobs == 1 else 2 * jobs}
        else:
            with dask_cluster(self.address, self.jobs) as ahead:
                yield {"n_jobs": -1, "pre_dispatch": ahead}


def run_jobs(
    jobs: Sequence[Job], folder: str | Path, engine: Engine | None = None, console: Console | None = None
) -> tuple[Results, list[Failure]]:
    """Run jobs in parallel, skipping the finished ones; one that fails does not stop the others.

    The first replications of all cells run before the second ones.

    Args:
        jobs: what to run; two of one name are run once.
        folder: gets the results; on a cluster, one that all machines see.
        engine: where they run; default: the cores of this machine.
        console: shows a progress bar.

    Returns:
        The results and the failures, both in the order of ``jobs``.

    Raises:
        KeyboardInterrupt: it was stopped; the message gives the progress.
        ValueError: a folder inside the folder is a link.
    """
    folder, engine = Path(folder).absolute(), engine or Engine()
    check_folder(folder)
    for inner in (folder, folder / "trials", folder / "unfinished"):
        remove_leftovers(inner / "*")
    wanted = {job.name: job for job in jobs}
    ends: dict[str, Finished | Failure] = {}
    with Bar(wanted.values(), console or Console(quiet=True)) as bar:
        for name, job in wanted.items():
            if (known := found_before(job, folder, engine.keep)) is not None:
                ends[name] = known
                bar.skip_job(job, known)
        missing = sorted((job for name, job in wanted.items() if name not in ends), key=lambda job: job.replication)
        engine = replace(engine, jobs=min(engine.jobs or cpu_count(), max(len(missing), 1)))
        try:
            for job, end in settled(missing, folder, engine):
                ends[job.name] = end
                bar.advance(job, end)
        except KeyboardInterrupt:
            done = sum(result_path(folder, name).exists() for name in wanted)
            text = f"stopped with {done} of {len(wanted)} {jobs[0].kind}s done; the same command goes on."
            raise KeyboardInterrupt(text) from None
    with suppress(OSError):  # another sweep has jobs there
        (folder / "unfinished").rmdir()
    done_here = {name: end for name, end in ends.items() if isinstance(end, Finished)}
    gone = {name: end for name, end in done_here.items() if not result_path(folder, name).exists()}
    for name, end in gone.items():
        ends[name] = kept(wanted[name], end, folder)
    if gone:
        warnings.warn(f"{len(gone)} results in {folder} were removed meanwhile; they were written again.", stacklevel=2)
    ordered = {name: ends[name] for name in wanted}
    results = {name: end for name, end in ordered.items() if isinstance(end, Finished)}
    return results, [end for end in ordered.values() if isinstance(end, Failure)]


def found_before(job: Job, folder: Path, keep: bool = False) -> Finished | None:
    """Return the result of a job that was run before, or None; what cannot be read is the job's own trouble."""
    with suppress(OSError):
        return known_result(folder, job.name, job.settings, job.sources, keep)
    return None


def settled(jobs: Sequence[Job], folder: Path, engine: Engine) -> Iterator[tuple[Job, Finished | Failure]]:
    """Yield how each job ended, as it ends.

    Jobs that another process is running come last, and so do those that were running when a worker died, one at a
    time: the one that kills its worker fails, the others do not.
    """
    by_name = {job.name: job for job in jobs}
    busy: list[Job] = []
    suspects: list[Job] = []
    for name, end in attempts(jobs, folder, engine, wait=False):
        if isinstance(end, Busy):
            busy.append(end.job)
        elif isinstance(end, Failure) and end.error == DIED:
            suspects.append(end.job)
        else:
            yield by_name[name], end
    for job in suspects + busy:
        for _, end in attempts([job], folder, engine, wait=True):
            assert not isinstance(end, Busy)
            yield job, end


def attempts(jobs: Sequence[Job], folder: Path, engine: Engine, wait: bool) -> Iterator[tuple[str, End]]:
    """Yield how each job ended, by its name; if a worker dies, those that were running fail and the others go on."""
    left = {job.name: job for job in jobs}
    while left:
        try:
            for name, end in dispatched(list(left.values()), folder, engine, wait):
                job = left.pop(name)
                yield name, kept(job, end, folder) if isinstance(end, Finished) else end
        except deaths(engine):
            running = [job for job in left.values() if started(folder, job.name)]
            for job in running or list(left.values()):
                del left[job.name]
                yield job.name, Failure(job, DIED)
        except (
            CancelledError,
            OSError,
        ) as error:  # of the scheduler or of workers: jobs return theirs
            why = LOST if engine.kind == "dask" else f"workers could not be started: {sentence(error)}"
            yield from ((name, Failure(job, why)) for name, job in left.items())
            return


def dispatched(jobs: Sequence[Job], folder: Path, engine: Engine, wait: bool) -> Iterator[tuple[str, End]]:
    """Yield how each job ended, by its name; short ones travel in bundles."""
    if engine.alone or (engine.kind == "loky" and sum(job.light for job in jobs) <= LIGHT):
        for job in jobs:
            yield from attempt_all([job], folder, None, engine.save_every, wait)
        return
    parent = os.getpid() if engine.kind == "loky" else None
    bundles = Bundles(jobs)
    with engine.workers() as workers:
        calls = (delayed(attempt_all)(bundle, folder, parent, engine.save_every, wait) for bundle in bundles)
        with interrupts_held():  # the first jobs are handed out, so workers start
            ends = Parallel(**workers, return_as="generator_unordered", batch_size=1)(calls)
        with closing(ends):
            for name, end in chain.from_iterable(ends):
                if isinstance(end, Finished):
                    bundles.note(name, end.seconds)
                yield name, end


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back; processes that start meanwhile never get them: it is this one that stops them.

    Nor do they print what they leave behind: they may outlive this process by a moment.
    """
    if sys.platform == "win32":
        yield
        return
    if UNTOLD not in sys.warnoptions:
        sys.warnoptions.append(UNTOLD)  # which a tracker takes over
    for tracker in (resource_tracker, loky_tracker):  # their start would let Ctrl-C through again
        tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def kept(job: Job, end: Finished, folder: Path) -> Finished | Failure:
    """Write a result that came back from a machine with another disk."""
    try:
        if not result_path(folder, job.name).exists():
            write_result(folder, end)
    except OSError as error:
        return Failure(job, f"its result could not be written: {error}")
    return end


class Bundles:
    """Groups jobs so that a group takes about ``BUNDLE`` seconds, by what jobs of the same cell have taken so far.

    Until one job of a cell has finished, its jobs travel alone.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.cells = {job.name: job.cell for job in jobs}
        self.seconds: dict[str, float] = {}

    def note(self, name: str, seconds: float) -> None:
        self.seconds[self.cells[name]] = seconds

    def __iter__(self) -> Iterator[list[Job]]:
        """Yield the groups; each is made when it is asked for."""
        bundle: list[Job] = []
        total = 0.0
        for job in self.jobs:
            expected = self.seconds.get(job.cell, inf)
            if bundle and total + expected > BUNDLE:
                yield bundle
                bundle, total = [], 0.0
            bundle.append(job)
            total += expected
        if bundle:
            yield bundle


def deaths(engine: Engine) -> tuple[type[BaseException], ...]:
    if engine.kind == "loky":
        return (BrokenProcessPool,)
    from distributed.scheduler import KilledWorker

    return (BrokenProcessPool, KilledWorker)
