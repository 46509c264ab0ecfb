"""How a trial that was asked for ended."""

from dataclasses import dataclass

from privbandit_agents.experiments.trial import Outcome, Trial


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


@dataclass(frozen=True)
class Busy:
    """A trial that another process is running."""

    trial: Trial


End = Outcome | Failure | Busy
