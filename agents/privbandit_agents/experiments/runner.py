"""Many trials, in parallel."""

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from joblib import Parallel, cpu_count, delayed, parallel_config
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from privbandit_agents.experiments.labels import short
from privbandit_agents.experiments.trial import Outcome, Trial, run_trial


@dataclass(frozen=True)
class Failure:
    """A trial that raised.

    Attributes:
        trial: what was run.
        error: what went wrong, on one line.
    """

    trial: Trial
    error: str

    def __str__(self) -> str:
        """Return one sentence."""
        return f"{self.trial.agent_label} on {self.trial.env_label}, seed {self.trial.seed}, failed: {self.error}"


def run_trials(
    trials: Sequence[Trial], folder: str | Path, jobs: int | None = None, console: Console | None = None
) -> tuple[list[Outcome], list[Failure]]:
    """Run trials in parallel, skipping the finished ones; one that fails does not stop the others.

    Args:
        trials: what to run.
        folder: gets the results.
        jobs: processes; default: one per core.
        console: shows a progress bar.

    Returns:
        The outcomes and the failures, both in the order of ``trials``.
    """
    ends: dict[str, Outcome | Failure] = {}
    with Bar(len(trials), console or Console(quiet=True)) as bar:
        for end in attempts(trials, Path(folder), jobs or cpu_count()):
            ends[end.trial.name] = end
            bar.advance(end)
    ordered = [ends[trial.name] for trial in trials]
    return [end for end in ordered if isinstance(end, Outcome)], [end for end in ordered if isinstance(end, Failure)]


def attempts(trials: Sequence[Trial], folder: Path, jobs: int) -> Iterator[Outcome | Failure]:
    """Yield how each trial ended, as it ends; those that a dying worker takes along are failures too."""
    left = {trial.name: trial for trial in trials}
    with parallel_config("loky", inner_max_num_threads=1):
        ends = Parallel(n_jobs=min(jobs, len(trials)), return_as="generator_unordered")(
            delayed(attempt)(trial, folder, os.getpid()) for trial in trials
        )
    try:
        for end in ends:
            del left[end.trial.name]
            yield end
    except BrokenProcessPool:
        why = "a worker process died, perhaps for lack of memory; run again with fewer jobs."
        yield from (Failure(trial, why) for trial in left.values())


def attempt(trial: Trial, folder: Path, parent: int) -> Outcome | Failure:
    """Run one trial; return the failure if it raises. A worker gives up at a checkpoint if its parent is gone."""
    leave_if_orphaned(parent)
    try:
        return run_trial(trial, folder, lambda _: leave_if_orphaned(parent))
    except Exception as error:
        text = " ".join(str(error).split())
        return Failure(trial, text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}")


def leave_if_orphaned(parent: int) -> None:
    """End this process at once if it is a worker whose parent was killed: nobody waits for what it computes."""
    if parent not in (os.getpid(), os.getppid()):
        os._exit(1)


class Bar:
    """Trials done, time left, and the mean final regret of the agent that finished last.

    Args:
        total: number of trials.
        console: where it is shown.
    """

    def __init__(self, total: int, console: Console) -> None:
        """Show nothing yet."""
        columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
        self.progress = Progress(*columns, TextColumn("{task.description}"), console=console)
        self.task = self.progress.add_task("starting", total=total)
        self.regrets: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    def __enter__(self) -> "Bar":
        """Show the bar."""
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the bar as it is."""
        self.progress.update(self.task, description="")
        self.progress.stop()

    def advance(self, end: Outcome | Failure) -> None:
        """Count one trial."""
        self.progress.update(self.task, advance=1, description=self.news(end))

    def news(self, end: Outcome | Failure) -> str:
        """Return the line beside the bar."""
        who = end.trial.agent_label, short(end.trial.env_label)
        if isinstance(end, Failure):
            return f"{who[0]} on {who[1]} failed"
        regrets = self.regrets[who]
        regrets.append(float(end.result.regret[-1]))
        return f"{who[0]} on {who[1]}: mean regret {fmean(regrets):,.4g} over {len(regrets)} seeds"
