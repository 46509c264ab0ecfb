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
        if not self.live and tenth > self.told and now - self.spoke >= 1:  # second
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


def forecast(what: str, console: Console, unit: str = "trials", pause: float = 1) -> Callable[[int, int], None]:
    """Return a function of steps done and their total that says how long ``what`` takes if it is long: once, early.

    Args:
        what: the work, such as ``"reading"``.
        console: where it is said.
        unit: the name of steps.
        pause: seconds of steps before which nothing is said, those of the first one left out, which may import much;
            0: by the first one.
    """
    begun = [] if pause else [(0, time.monotonic())]
    told: list[int] = []

    def look(done: int, total: int) -> None:
        now = time.monotonic()
        if done and not begun:
            begun.append((done, now))
        elif done and not told and now - begun[0][1] >= pause:
            told.append(done)
            spent = now - begun[0][1]
            if (ahead := spent * (total - done) / (done - begun[0][0])) >= LATE:
                line = f"{what} {total:,} {unit} takes about {duration(spent + ahead)}, by the first {done:,}."
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
        self.first: float | None = None

    def skip_job(self, job: Job, end: Finished) -> None:
        """Count a job that was finished before."""
        self.skipped += 1
        self.done += 1
        self.skip(self.skipped)
        self.news(job, end)

    def advance(self, job: Job, end: Finished | Failure) -> None:
        """Count a job; early ones let the time of all be estimated, which is said if it is long.

        A short first job tells nothing: it waits for its process to start. So the clock starts when it has ended.
        """
        self.done += 1
        self.show(self.done, self.news(job, end))
        now, ran, left = time.monotonic(), self.done - self.skipped, self.total - self.done
        began, sure = (self.started, 6 * LATE) if self.first is None else (self.first, LATE)
        ran -= self.first is not None
        self.first = now if self.first is None else self.first
        if not self.announced and left and now - began >= sure:
            self.announced = True
            if (ahead := (now - began) * left / ran) >= LATE:
                total = duration(now - self.started + ahead)
                told = "one" if self.done - self.skipped == 1 else f"{self.done - self.skipped:,}"
                self.say(f"{self.total:,} {self.unit} take about {total}, by the first {told}.")

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
