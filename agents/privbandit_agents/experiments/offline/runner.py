"""Many tasks, on the workers of an engine."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from privbandit_agents.experiments.claims import started
from privbandit_agents.experiments.engine import DIED, Engine, deaths, leave_if_orphaned
from privbandit_agents.experiments.offline import scores
from privbandit_agents.experiments.offline.task import Task, refusal, run, sentence
from privbandit_agents.experiments.store import path_of

Results = dict[str, scores.Scores]
"""The result of every task that has one, by its name."""


def run_tasks(
    tasks: Sequence[Task], folder: str | Path, engine: Engine | None = None, console: Console | None = None
) -> tuple[Results, list[str]]:
    """Run tasks in parallel, skipping the finished ones; one that fails does not stop the others.

    The first replications of all methods run before the second ones.

    Args:
        tasks: what to run.
        folder: gets the results; on a cluster, one that all machines see.
        engine: where they run; default: the cores of this machine.
        console: shows a progress bar.

    Returns:
        The results, and a sentence for every task that failed.

    Raises:
        KeyboardInterrupt: it was stopped; the message says how far it came.
    """
    folder, engine = Path(folder).absolute(), engine or Engine()
    results = {task.name: known for task in tasks if (known := scores.finished(folder, task.name, task.settings))}
    missing = sorted((task for task in tasks if task.name not in results), key=lambda task: task.replication)
    failures = []
    with progress(console or Console(quiet=True)) as bar:
        row = bar.add_task(f"{len(results)} were there", total=len({task.name for task in tasks}))
        bar.reset(row, completed=len(results))
        try:
            for task, end in settled(missing, folder, engine):
                if isinstance(end, scores.Scores):
                    results[task.name] = end
                else:
                    failures.append(f"{task} failed: {end}")
                bar.update(row, advance=1, description=news(task, end))
        except KeyboardInterrupt:
            done = sum(path_of(folder, task.name).exists() for task in tasks)
            text = f"stopped with {done} of {len(tasks)} tasks done; the same command goes on."
            raise KeyboardInterrupt(text) from None
        bar.update(row, description="")
    with suppress(OSError):  # another command has tasks there
        (folder / "unfinished").rmdir()
    return results, failures


def progress(console: Console) -> Progress:
    """Return a bar: tasks done, time left, and what ended last."""
    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    return Progress(*columns, TextColumn("{task.description}"), console=console)


def news(task: Task, end: scores.Scores | str) -> str:
    """Return the line beside the bar."""
    found = [value for value in end.accuracy if value is not None] if isinstance(end, scores.Scores) else []
    return f"{task}: {f'accuracy {max(found):.3f}' if found else 'could not run'}"


def settled(tasks: Sequence[Task], folder: Path, engine: Engine) -> Iterator[tuple[Task, scores.Scores | str]]:
    """Yield how each task ended, as it ends.

    Tasks that were running when a worker died are run again one at a time; the one that takes its worker along again
    gets that as its result.
    """
    left = {task.name: task for task in tasks}
    suspects: list[Task] = []
    while left:
        try:
            for name, end in dispatched(list(left.values()), folder, engine):
                yield left.pop(name), end
        except deaths(engine):
            running = [task for task in left.values() if started(folder, task.name)] or list(left.values())
            suspects += [left.pop(task.name) for task in running]
    for task in suspects:
        try:
            for _, end in dispatched([task], folder, engine):
                yield task, end
        except deaths(engine):
            dead = refusal(task, DIED)
            scores.write(folder, dead)
            yield task, dead


def dispatched(tasks: Sequence[Task], folder: Path, engine: Engine) -> Iterator[tuple[str, scores.Scores | str]]:
    """Yield how each task ended; write results that come back from a machine with another disk."""
    parent = os.getpid() if engine.kind == "loky" else None
    with engine.workers() as workers:
        calls = (delayed(attempt)(task, folder, parent) for task in tasks)
        ends = Parallel(**workers, return_as="generator_unordered", batch_size=1)(calls)
        with closing(ends):
            for name, end in ends:
                if isinstance(end, scores.Scores) and engine.kind != "loky" and not path_of(folder, name).exists():
                    scores.write(folder, end)
                yield name, end


def attempt(task: Task, folder: Path, parent: int | None) -> tuple[str, scores.Scores | str]:
    """Run a task, unless the parent process is gone; return its result, or what went wrong."""
    leave_if_orphaned(parent)
    try:
        return task.name, run(task, folder)
    except Exception as error:
        return task.name, sentence(error)
