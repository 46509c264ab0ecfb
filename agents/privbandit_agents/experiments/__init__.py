"""Experiments: jobs, results and their analysis; a module is loaded when a name of it is asked for.

Three nouns: a *job* (a trial or a fit that can fail and resume), a *cell* (jobs that differ in the seed alone), a
*statement* (a sentence of a paper with its test).
"""

from typing import TYPE_CHECKING

from privbandit_agents.faces import lazily

if TYPE_CHECKING:
    from privbandit_agents.experiments.jobs.trial import Outcome, Trial
    from privbandit_agents.experiments.results.files import load_results
    from privbandit_agents.experiments.running.attempt import run_trial

__all__ = ["Outcome", "Trial", "load_results", "run_trial"]

__getattr__, __dir__ = lazily(
    __name__, {".jobs.trial": "Outcome Trial", ".results.files": "load_results", ".running.attempt": "run_trial"}
)
