"""Experiments: trials, their results, and what is made of them."""

from privbandit_agents.experiments.results import load_results
from privbandit_agents.experiments.trial import Outcome, Trial, run_trial

__all__ = ["Outcome", "Trial", "load_results", "run_trial"]
