"""Experiments: jobs, their results, and what the results show."""

from privbandit_agents.experiments.analysis.load import load_results
from privbandit_agents.experiments.jobs.trial import Outcome, Trial
from privbandit_agents.experiments.running.attempt import run_trial

__all__ = ["Outcome", "Trial", "load_results", "run_trial"]
