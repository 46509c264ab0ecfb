"""The progress of many jobs, and of the runs of one: a bar on a terminal, a line every tenth elsewhere."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import fmean
from typing import Self

import numpy as np
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from privbandit_agents.experiments.jobs.job import Job
from privbandit_agents.experiments.running.attempt import Failure
from privbandit_agents.experiments.store.results import Finished

LATE = 10.0
"""Seconds from which on a duration is worth an announcement."""
PAUSE = 1.0
"""Seconds between two lines of progress, at least."""


class Lines(Progress):
    """A bar with its counts and clocks, and the news below it on a line of their own, cut at the edge."""

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            yield self.make_tasks_table([task])
            if task.description:
                yield Text(task.description, no_wrap=True, overflow="ellipsis", style="dim")


class Steps:
    """Steps done of a total, and the time left; a bar, or lines if the console is no terminal.

    Args:
        total: number of steps.
        unit: their name, such as ``"trials"``.
        console: where they are shown.
        what: the first news.
        done: steps that need no time, since they were done before.
    """

    def __init__(self, total: int, unit: str, console: Console, what: str = "starting") -> None:
        columns = BarColumn(bar_width=None), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
        self.live = console.is_terminal and not console.quiet
        self.bar = Lines(*columns, console=console, disable=not self.live, expand=True)
        self.row = self.bar.add_task(what, total=total)
        self.total, self.unit, self.console = total, unit, console
        self.before = self.told = 0
        self.started = self.spoke = time.monotonic()

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.update(self.row, description="")
        self.bar.stop()

    def skip(self, done: int) -> None:
        """Count steps that were done before; they do not count for the time left."""
        self.before = done
        self.bar.reset(self.row, completed=done, description=f"{done} were there")
        self.told = 10 * done // max(self.total, 1)

    def show(self, done: int, news: str) -> None:
        """Show that ``done`` steps are done, with a line of news."""
        self.bar.update(self.row, completed=done, description=news)
        tenth = 10 * done // max(self.total, 1)
        now = time.monotonic()
        if not self.live and tenth > self.told and now - self.spoke >= PAUSE:
            self.told, self.spoke, spent = tenth, now, now - self.started
            left = spent * (self.total - done) / max(done - self.before, 1)
            more = f", about {duration(left)} left" if left >= LATE else ""
            self.say(f"{done:,} of {self.total:,} {self.unit} in {duration(spent)}{more}: {news}")

    def say(self, line: str) -> None:
        """Print a line above the bar, or alone; it is cut at the edge of the console."""
        self.console.print(Text(line), highlight=False, no_wrap=True, overflow="ellipsis", crop=True)


def duration(seconds: float) -> str:
    """Return a duration in words: 12 s, 3 min, 2.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def forecast(what: str, console: Console) -> Callable[[int, int], None]:
    """Return a function of steps done and their total that says how long ``what`` takes if it is long: once, early."""
    started = time.monotonic()
    told: list[int] = []

    def look(done: int, total: int) -> None:
        spent = time.monotonic() - started
        if not told and done and spent >= PAUSE:
            told.append(done)
            if (ahead := spent * (total - done) / done) >= LATE:
                line = f"{what} {total:,} trials takes about {duration(spent + ahead)}, by the first {done:,}."
                console.print(Text(line), highlight=False)

    return look


class Bar(Steps):
    """Jobs done of a total, time left, and the mean so far of the kind of job that finished last."""

    def __init__(self, jobs: Iterable[Job], console: Console) -> None:
        every = list(jobs)
        super().__init__(len(every), f"{every[0].kind if every else 'job'}s", console)
        self.skipped = self.done = 0
        self.values: defaultdict[str, list[float]] = defaultdict(list)
        self.announced = False

    def skip_job(self, job: Job, end: Finished) -> None:
        """Count a job that was finished before."""
        self.skipped += 1
        self.done += 1
        self.skip(self.skipped)
        self.news(job, end)

    def advance(self, job: Job, end: Finished | Failure) -> None:
        """Count a job; those of the first ten seconds let the time of all be estimated, which is said if it is long.

        The first job alone would not do: it waits for its process to start, which may take longer than a job.
        """
        self.done += 1
        self.show(self.done, self.news(job, end))
        spent, left = time.monotonic() - self.started, self.total - self.done
        if not self.announced and spent >= LATE:
            self.announced = True
            ran = self.done - self.skipped
            if (ahead := spent * left / ran) >= LATE:
                self.say(f"{self.total:,} {self.unit} take about {duration(spent + ahead)}, by the first {ran:,}.")

    def news(self, job: Job, end: Finished | Failure) -> str:
        """Return the line below the bar: a trial's final regret or a fit's best accuracy, mean over replications."""
        if isinstance(end, Failure):
            return f"{job.label} failed"
        what = job.quantities[0]
        array = end.arrays[what]
        if np.isnan(array).all():
            return f"{job.label} could not run"
        values = self.values[job.label]
        values.append(float(np.nanmax(array) if job.kind == "fit" else array[-1]))
        return f"{job.label}: mean {what} {fmean(values):,.4g} over {len(values)} {job.unit}s"
