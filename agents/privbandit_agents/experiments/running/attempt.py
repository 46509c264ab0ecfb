"""One job: locked, run, stored; and how it ended."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from privbandit_agents.experiments.jobs.job import SAVE_EVERY, Desk, Job
from privbandit_agents.experiments.jobs.trial import Outcome, Trial
from privbandit_agents.experiments.names import check_folder, unfinished
from privbandit_agents.experiments.store.locks import BusyError, lock
from privbandit_agents.experiments.store.provenance import provenance
from privbandit_agents.experiments.store.results import Finished, known_result, write_result
from privbandit_agents.experiments.usage import contained, on_one_line, sentence
from privbandit_envs.wrappers import RegretCurve


@dataclass(frozen=True)
class Failure:
    """A job that raised; ``error`` is what went wrong, on one line."""

    job: Job
    error: str

    def __str__(self) -> str:
        return f"{self.job.label}, {self.job.unit} {self.job.replication}, failed: {self.error}"


def told(failures: Iterable[Failure]) -> Iterator[str]:
    """Yield a sentence for each thing that went wrong: the first job that it stopped, and how many more."""
    groups: dict[str, list[Failure]] = {}
    for failure in failures:
        groups.setdefault(failure.error.replace(failure.job.name, ""), []).append(failure)
    for first, *others in groups.values():
        yield on_one_line(str(first)) + (f" ({len(others)} more failed likewise.)" if others else "")


@dataclass(frozen=True)
class Busy:
    """A job that another process is running."""

    job: Job


End = Finished | Failure | Busy


def run_trial(
    trial: Trial,
    folder: str | Path,
    on_checkpoint: Callable[[RegretCurve], None] | None = None,
    *,
    save_every: float = SAVE_EVERY,
    wait: bool = True,
) -> Outcome:
    """Run a trial, or read its result back if the folder has it, or go on where a killed process left it.

    Args:
        trial: what to run.
        folder: gets ``trials/<name>.json`` and ``tensorboard/<run name>/``; while the trial runs,
            ``unfinished/<name>.npz`` has its last snapshot.
        on_checkpoint: called with the curve so far at every checkpoint.
        save_every: seconds between two snapshots.
        wait: for another process that is running the same trial, and take its result.

    Raises:
        BusyError: another process is running the trial and ``wait`` is False.
    """
    check_folder(folder)
    return Outcome.of(run_job(trial, Desk(Path(folder), save_every, on_checkpoint), wait))


def run_job(job: Job, desk: Desk, wait: bool = True) -> Finished:
    """Run a job, or read its result back if the folder has it.

    Raises:
        BusyError: another process is running the job and ``wait`` is False.
    """
    folder, sources = desk.folder, job.sources
    if (known := known_result(folder, job.name, job.settings, sources)) is not None:
        return known
    with lock(folder, job.name, wait):
        if (
            known := known_result(folder, job.name, job.settings, sources)
        ) is not None:  # another process held the lock
            return known
        snapshot = unfinished(folder, job.name, "npz")
        ran = job.run(desk)
        done = Finished(job.kind, job.spec, job.settings, ran.arrays, ran.notes, {**provenance(), **sources})
        write_result(folder, done)
        snapshot.unlink(missing_ok=True)
        return done


def attempt_all(
    jobs: Sequence[Job], folder: Path, parent: int | None, save_every: float, wait: bool
) -> list[tuple[str, End]]:
    """Run jobs in a worker; leave at the next checkpoint if the parent process is gone."""
    return [(job.name, attempt(job, folder, parent, save_every, wait)) for job in jobs]


def attempt(job: Job, folder: Path, parent: int | None, save_every: float, wait: bool) -> End:
    leave_if_orphaned(parent)
    try:
        with contained():
            return run_job(job, Desk(folder, save_every, lambda _: leave_if_orphaned(parent)), wait)
    except BusyError:
        return Busy(job)
    except Exception as error:
        return Failure(job, sentence(error))


def end_with(parent: int) -> None:
    """Let this worker end within a second when its parent is gone, also while it computes or waits."""

    def watch() -> None:
        while True:
            time.sleep(0.5)
            leave_if_orphaned(parent)

    threading.Thread(target=watch, daemon=True).start()


def leave_if_orphaned(parent: int | None) -> None:
    """End this process at once if it is a worker whose parent was killed: nobody waits for its result."""
    if parent is not None and parent not in (os.getpid(), os.getppid()):
        os._exit(1)
