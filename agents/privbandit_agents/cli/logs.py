"""``privbandit log``: play, and write what happened with the probability of every action."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from privbandit_agents.experiments.usage import UNFINISHED, contained, usage_errors
from privbandit_agents.logs.record import SUFFIXES, log
from privbandit_agents.zoo.explore import Explore
from privbandit_envs.validate import one_of

COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())

if TYPE_CHECKING:
    from privbandit_agents.experiments.jobs.trial import Trial


def written(trial: "Trial", share: float | None, draws: int, path: Path) -> int:
    """Play a trial's users, write their log, summarize it, and return the exit code."""
    with usage_errors("log"), contained():
        one_of(SUFFIXES, ending=path.suffix)
        env = trial.make_env()
        agent = trial.make_agent(env)
        if share is not None:
            agent = Explore(agent, share, trial.seed)
        with Progress(*COLUMNS, console=Console(stderr=True), transient=True) as bar:
            row = bar.add_task("users", total=trial.horizon)
            shown = partial(bar.update, row)
            logged = log(
                env, agent, trial.horizon, trial.seed, draws=draws, on_users=lambda done: shown(completed=done)
            )
    try:
        logged.write(path)
    except OSError as error:
        print(f"the log could not be written to {path}: {error.strerror or error}.", file=sys.stderr)
        return UNFINISHED
    worst = f"propensities from {logged.propensities.min():.3g}"
    how = "exact" if not logged.errors.any() else f"drawn, with standard errors up to {logged.errors.max():.2g}"
    print(f"{path}: {len(logged)} users of {agent.name}, mean reward {logged.rewards.mean():.4g}; {worst}, {how}.")
    print(f"The file holds raw data of every user; the guarantee of the agent ({agent.guarantee.words}) is not for it.")
    return 0
