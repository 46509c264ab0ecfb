"""The progress bar of many jobs."""

from collections import defaultdict
from statistics import fmean
from typing import Self

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from privbandit_agents.experiments.jobs.job import Job
from privbandit_agents.experiments.running.attempt import Failure
from privbandit_agents.experiments.store.results import Finished


class Bar:
    """Jobs done of a total, time left, and the mean so far of the kind of job that finished last."""

    def __init__(self, total: int, console: Console) -> None:
        columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
        self.progress = Progress(*columns, TextColumn("{task.description}"), console=console)
        self.row = self.progress.add_task("starting", total=total)
        self.skipped = 0
        self.values: defaultdict[str, list[float]] = defaultdict(list)

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.update(self.row, description="")
        self.progress.stop()

    def skip(self, job: Job, end: Finished) -> None:
        """Count a job that was finished before; it does not count for the time left."""
        self.skipped += 1
        self.progress.reset(self.row, completed=self.skipped, description=f"{self.skipped} were there")
        self.news(job, end)

    def advance(self, job: Job, end: Finished | Failure) -> None:
        self.progress.update(self.row, advance=1, description=self.news(job, end))

    def news(self, job: Job, end: Finished | Failure) -> str:
        """Return the line beside the bar: a trial's final regret or a fit's best accuracy, mean over replications."""
        if isinstance(end, Failure):
            return f"{job.label} failed"
        what = job.quantities[0]
        array = end.arrays[what]
        if np.isnan(array).all():
            return f"{job.label} could not run"
        values = self.values[job.label]
        values.append(float(np.nanmax(array) if job.kind == "fit" else array[-1]))
        return f"{job.label}: mean {what} {fmean(values):,.4g} over {len(values)} {job.unit}s"
