"""Experiments: jobs, their results, and what the results show; a module is loaded when a name of it is asked for."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privbandit_agents.experiments.analysis.load import load_results
    from privbandit_agents.experiments.jobs.trial import Outcome, Trial
    from privbandit_agents.experiments.running.attempt import run_trial

__all__ = ["Outcome", "Trial", "load_results", "run_trial"]

_HOME = {
    "Outcome": "jobs.trial",
    "Trial": "jobs.trial",
    "load_results": "analysis.load",
    "run_trial": "running.attempt",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}.")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
