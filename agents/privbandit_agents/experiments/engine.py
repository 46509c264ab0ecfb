"""Many trials: on the cores of one machine, or on a cluster, by one code path."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any

from joblib import Parallel, cpu_count, delayed, parallel_config
from rich.console import Console

from privbandit_agents.experiments import store
from privbandit_agents.experiments.bar import Bar
from privbandit_agents.experiments.claims import BusyError, started
from privbandit_agents.experiments.cluster import dask_cluster
from privbandit_agents.experiments.ends import Busy, End, Failure
from privbandit_agents.experiments.trial import SAVE_EVERY, Outcome, Trial, run_trial
from privbandit_envs.validate import one_of

ENGINES = ("loky", "dask")
BUNDLE = 0.5
"""Seconds of work that travel to a worker together."""
DIED = "a worker process died, perhaps for lack of memory; run again with fewer jobs."


@dataclass(frozen=True)
class Engine:
    """Where trials run.

    Attributes:
        kind: ``"loky"``, processes of this machine; ``"dask"``, workers of a Dask cluster.
        jobs: processes; default: one per core. Ignored for a cluster that has an address.
        address: of the scheduler of a running Dask cluster; default: a cluster on this machine.
        save_every: seconds between two snapshots of a running trial.

    Raises:
        ValueError: an unknown kind, or an address without Dask.
    """

    kind: str = "loky"
    jobs: int | None = None
    address: str | None = None
    save_every: float = field(default=SAVE_EVERY, kw_only=True)

    def __post_init__(self) -> None:
        """Check the kind."""
        one_of(ENGINES, engine=self.kind)
        if self.address is not None and self.kind != "dask":
            raise ValueError(f"--address is for --engine dask; got --engine {self.kind}.")

    @contextmanager
    def workers(self) -> Iterator[dict[str, Any]]:
        """Hold the workers; yield what joblib's Parallel must know of them.

        Trials never run in this very process, so that one that takes its process along does not take the sweep.
        """
        if self.kind == "loky":
            jobs = self.jobs or cpu_count()
            with parallel_config("loky", inner_max_num_threads=1):
                yield {"n_jobs": max(jobs, 2), "pre_dispatch": 1 if jobs == 1 else 2 * jobs}
        else:
            with dask_cluster(self.address, self.jobs) as ahead:
                yield {"n_jobs": -1, "pre_dispatch": ahead}


def run_trials(
    trials: Sequence[Trial],
    folder: str | Path,
    jobs: int | None = None,
    console: Console | None = None,
    engine: Engine | None = None,
) -> tuple[list[Outcome], list[Failure]]:
    """Run trials in parallel, skipping the finished ones; one that fails does not stop the others.

    The first seeds of all agents run before the second ones.

    Args:
        trials: what to run.
        folder: gets the results; on a cluster, one that all machines see.
        jobs: processes; default: one per core.
        console: shows a progress bar.
        engine: where they run; default: ``Engine(jobs=jobs)``.

    Returns:
        The outcomes and the failures, both in the order of ``trials``.

    Raises:
        KeyboardInterrupt: it was stopped; the message says how far it came.
    """
    folder, engine = Path(folder).absolute(), engine or Engine(jobs=jobs)
    ends: dict[str, Outcome | Failure] = {}
    with Bar(len(trials), console or Console(quiet=True)) as bar:
        for trial in trials:
            known = known_outcome(trial, folder)
            if known is not None:
                ends[trial.name] = known
                bar.skip(known)
        missing = sorted((trial for trial in trials if trial.name not in ends), key=lambda trial: trial.seed)
        try:
            for end in settled(missing, folder, engine):
                ends[end.trial.name] = end
                bar.advance(end)
        except KeyboardInterrupt:
            done = sum(store.path_of(folder, trial.name).exists() for trial in trials)
            text = f"stopped with {done} of {len(trials)} trials done; the same command goes on."
            raise KeyboardInterrupt(text) from None
    with suppress(OSError):  # another sweep has trials there
        (folder / "unfinished").rmdir()
    ordered = [ends[trial.name] for trial in trials]
    return [end for end in ordered if isinstance(end, Outcome)], [end for end in ordered if isinstance(end, Failure)]


def known_outcome(trial: Trial, folder: Path) -> Outcome | None:
    """Return the outcome of a trial that was run before, or None; what cannot be read is the trial's own trouble."""
    try:
        known = store.finished(folder, trial.name, trial.settings)
    except OSError:
        return None
    return None if known is None else Outcome.of(known)


def settled(trials: Sequence[Trial], folder: Path, engine: Engine) -> Iterator[Outcome | Failure]:
    """Yield how each trial ended, as it ends.

    Trials that another process is running come last, and so do those that were running when a worker died, one at a
    time: the one that kills its worker fails, the others do not.
    """
    busy: list[Trial] = []
    suspects: list[Trial] = []
    for end in attempts(trials, folder, engine, wait=False):
        if isinstance(end, Busy):
            busy.append(end.trial)
        elif isinstance(end, Failure) and end.error == DIED:
            suspects.append(end.trial)
        else:
            yield end
    for trial in suspects + busy:
        for end in attempts([trial], folder, engine, wait=True):
            assert not isinstance(end, Busy)
            yield end


def attempts(trials: Sequence[Trial], folder: Path, engine: Engine, wait: bool) -> Iterator[End]:
    """Yield how each trial ended, as it ends; if a worker dies, those that were running fail and the others go on."""
    left = {trial.name: trial for trial in trials}
    while left:
        try:
            for end in dispatched(list(left.values()), folder, engine, wait):
                del left[end.trial.name]
                yield end
        except deaths(engine):
            running = [trial for trial in left.values() if started(folder, trial.name)]
            for trial in running or list(left.values()):
                del left[trial.name]
                yield Failure(trial, DIED)


def dispatched(trials: Sequence[Trial], folder: Path, engine: Engine, wait: bool) -> Iterator[End]:
    """Yield how each trial ended; short ones travel in bundles."""
    parent = os.getpid() if engine.kind == "loky" else None
    bundles = Bundles(trials)
    with engine.workers() as workers:
        tasks = (delayed(attempt_all)(bundle, folder, parent, engine.save_every, wait) for bundle in bundles)
        ends = Parallel(**workers, return_as="generator_unordered", batch_size=1)(tasks)
        with closing(ends):
            for end in chain.from_iterable(ends):
                if isinstance(end, Outcome):
                    bundles.note(end.trial, end.result.seconds)
                    yield kept(end, folder)
                else:
                    yield end


def kept(outcome: Outcome, folder: Path) -> Outcome | Failure:
    """Write a result that came back from a machine with another disk."""
    try:
        if not store.path_of(folder, outcome.trial.name).exists():
            store.write_result(folder, outcome.payload)
    except OSError as error:
        return Failure(outcome.trial, f"its result could not be written: {error}")
    return outcome


class Bundles:
    """Groups trials so that a group takes about ``BUNDLE`` seconds, by what trials of their kind have taken so far.

    Trials of a kind that none has finished of are alone in their group.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        """Nothing has been measured yet."""
        self.trials = trials
        self.seconds: dict[tuple[str, str, int], float] = {}

    def note(self, trial: Trial, seconds: float) -> None:
        """Take over what a trial took."""
        self.seconds[kind_of(trial)] = seconds

    def __iter__(self) -> Iterator[list[Trial]]:
        """Yield the groups; each is made when it is asked for."""
        bundle: list[Trial] = []
        total = 0.0
        for trial in self.trials:
            expected = self.seconds.get(kind_of(trial), inf)
            if bundle and total + expected > BUNDLE:
                yield bundle
                bundle, total = [], 0.0
            bundle.append(trial)
            total += expected
        if bundle:
            yield bundle


def kind_of(trial: Trial) -> tuple[str, str, int]:
    """Return what makes trials take about the same time: all but the seed."""
    return trial.env_label, trial.agent_label, trial.horizon


def attempt_all(trials: Sequence[Trial], folder: Path, parent: int | None, save_every: float, wait: bool) -> list[End]:
    """Run trials one after another."""
    return [attempt(trial, folder, parent, save_every, wait) for trial in trials]


def attempt(trial: Trial, folder: Path, parent: int | None, save_every: float, wait: bool) -> End:
    """Run a trial; leave at the next checkpoint if the parent process is gone."""
    leave_if_orphaned(parent)
    try:
        return run_trial(trial, folder, lambda _: leave_if_orphaned(parent), save_every=save_every, wait=wait)
    except BusyError:
        return Busy(trial)
    except Exception as error:
        text = " ".join(str(error).split())
        return Failure(trial, text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}")


def leave_if_orphaned(parent: int | None) -> None:
    """End this process at once if it is a worker whose parent was killed: nobody waits for what it computes."""
    if parent is not None and parent not in (os.getpid(), os.getppid()):
        os._exit(1)


def deaths(engine: Engine) -> tuple[type[BaseException], ...]:
    """Return what is raised when a worker dies."""
    if engine.kind == "loky":
        return (BrokenProcessPool,)
    from distributed.scheduler import KilledWorker

    return (BrokenProcessPool, KilledWorker)
