"""The progress bar of many trials."""

from collections import defaultdict
from statistics import fmean

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from privbandit_agents.experiments.ends import Failure
from privbandit_agents.experiments.labels import short
from privbandit_agents.experiments.trial import Outcome


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
        self.skipped = 0
        self.regrets: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    def __enter__(self) -> "Bar":
        """Show the bar."""
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the bar as it is."""
        self.progress.update(self.task, description="")
        self.progress.stop()

    def skip(self, end: Outcome) -> None:
        """Count a trial that was finished before; it does not count for the time left."""
        self.skipped += 1
        self.progress.reset(self.task, completed=self.skipped, description=f"{self.skipped} were there")
        self.news(end)

    def advance(self, end: Outcome | Failure) -> None:
        """Count one trial."""
        self.progress.update(self.task, advance=1, description=self.news(end))

    def news(self, end: Outcome | Failure) -> str:
        """Return the line beside the bar."""
        who = end.trial.agent_label, short(end.trial.env_label)
        if not isinstance(end, Outcome):
            return f"{who[0]} on {who[1]} failed"
        regrets = self.regrets[who]
        regrets.append(float(end.result.regret[-1]))
        return f"{who[0]} on {who[1]}: mean regret {fmean(regrets):,.4g} over {len(regrets)} seeds"
