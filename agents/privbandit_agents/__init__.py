"""Agents for contextual bandits, private and not, and the loop that plays them."""

import sys
from typing import TYPE_CHECKING

from privbandit_agents.faces import lazily

if TYPE_CHECKING:
    from privbandit_agents.experiments.analysis.load import load_results
    from privbandit_agents.experiments.analysis.ranks import ranks
    from privbandit_agents.experiments.compare import compare
    from privbandit_agents.experiments.drawing.plots import plot_frontier, plot_regret

if not getattr(sys.modules.get("privbandit"), "only_tells", False):  # the command, asked for a text: nothing is played
    from privbandit_agents.base.agent import Agent, CentralAgent, Guarantee, LocalAgent
    from privbandit_agents.base.learning import LearningAgent
    from privbandit_agents.play import Result, play
    from privbandit_agents.privacy.accounting.ledger import Ledger
    from privbandit_agents.registry import make, register_agent
    from privbandit_agents.saving import load, save
    from privbandit_agents.zoo import AGENTS
    from privbandit_envs import __version__ as __version__

__all__ = [
    "AGENTS",
    "Agent",
    "CentralAgent",
    "Guarantee",
    "LearningAgent",
    "Ledger",
    "LocalAgent",
    "Result",
    "__version__",
    "compare",
    "load",
    "load_results",
    "make",
    "play",
    "plot_frontier",
    "plot_regret",
    "ranks",
    "register_agent",
    "save",
]

__getattr__, __dir__ = lazily(  # what needs the extra ``bench``
    __name__,
    {
        ".experiments.analysis.load": "load_results",
        ".experiments.analysis.ranks": "ranks",
        ".experiments.compare": "compare",
        ".experiments.drawing.plots": "plot_frontier plot_regret",
    },
)
