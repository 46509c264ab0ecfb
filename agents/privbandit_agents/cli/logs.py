"""``privbandit log``: play, and write what happened with the probability of every action."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from privbandit_agents.experiments.running.progress import Steps
from privbandit_agents.experiments.text import paragraph
from privbandit_agents.experiments.usage import UNFINISHED, contained, usage_errors
from privbandit_agents.logs.record import SUFFIXES, log
from privbandit_agents.zoo.explore import Explore
from privbandit_envs.validate import one_of

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
        with Steps(trial.horizon, "users", Console(stderr=True), agent.name) as steps:
            logged = log(
                env, agent, trial.horizon, trial.seed, draws=draws, on_users=lambda done: steps.show(done, agent.name)
            )
    try:
        logged.write(path)
    except OSError as error:
        print(f"the log could not be written to {path}: {error.strerror or error}.", file=sys.stderr)
        return UNFINISHED
    worst = f"propensities from {logged.propensities.min():.3g}"
    how = "exact" if not logged.errors.any() else f"drawn, with standard errors up to {logged.errors.max():.2g}"
    about = f"{path}: {len(logged):,} users of {agent.name}, mean reward {logged.rewards.mean():.4g}; {worst}, {how}."
    raw = f"The file holds raw data of every user; the guarantee of the agent ({agent.guarantee.words}) is not for it."
    print(*paragraph(about), *paragraph(raw), sep="\n")
    return 0
