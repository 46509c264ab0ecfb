"""Agents for contextual bandits, private and not, and the loop that plays them.

Three nouns: an *agent* (chooses and learns), its *guarantee* (what it promises), its *settings*.

The base classes of agents, the types of their settings, the worlds that they play, and every building block of
``privbandit_agents.privacy`` can be imported from here.

>>> from privbandit_agents import Budget, Gaussian, Ledger, LocalAgent, Settings, arms_with_features
"""

import sys
from typing import TYPE_CHECKING

from privbandit_agents import privacy
from privbandit_agents.faces import lazily

if not getattr(sys.modules.get("privbandit"), "only_tells", False):  # the command, asked for a text: nothing is played
    import privbandit_envs as _worlds  # noqa: F401 (registers the environments)

if TYPE_CHECKING:
    from privbandit_agents.base.agent import Agent, LearningAgent, next_change
    from privbandit_agents.base.central import CentralAgent
    from privbandit_agents.base.guarantee import Guarantee
    from privbandit_agents.base.local import Inputs, LocalAgent
    from privbandit_agents.base.present import choose_present
    from privbandit_agents.base.settings import (
        Budget,
        Count,
        Fraction,
        Growth,
        NonNegative,
        Positive,
        PrivateSettings,
        Settings,
    )
    from privbandit_agents.base.shuffling import ShuffleAgent
    from privbandit_agents.base.spaces import (
        arms_or_context,
        arms_with_features,
        assortments,
        labels_of_contexts,
        n_arms,
        no_context,
        one_context,
    )
    from privbandit_agents.classifiers import AgentClassifier
    from privbandit_agents.cli.cost import cost
    from privbandit_agents.experiments.compare import compare
    from privbandit_agents.experiments.results.files import load_results
    from privbandit_agents.experiments.results.ranks import ranks
    from privbandit_agents.experiments.views.plots import plot_along, plot_frontier, plot_regret
    from privbandit_agents.logs.estimates import dm, dr, ips, snips
    from privbandit_agents.logs.obp import to_obp
    from privbandit_agents.logs.private_value import private_value
    from privbandit_agents.logs.record import Log, log
    from privbandit_agents.logs.simulator import check_simulator, from_log, replay
    from privbandit_agents.playing.board import LogRegret
    from privbandit_agents.playing.many import play_many
    from privbandit_agents.playing.play import Result, play
    from privbandit_agents.playing.saving import load, save
    from privbandit_agents.privacy import *  # noqa: F403
    from privbandit_agents.zoo.entries import AGENTS
    from privbandit_agents.zoo.explore import Explore
    from privbandit_agents.zoo.foreign import ForeignAgent
    from privbandit_agents.zoo.plugins import register_agent
    from privbandit_agents.zoo.registry import make
    from privbandit_envs import __version__

__all__ = [
    "AGENTS",
    "Agent",
    "AgentClassifier",
    "CentralAgent",
    "ForeignAgent",
    "Guarantee",
    "Inputs",
    "LearningAgent",
    "LocalAgent",
    "LogRegret",
    "Result",
    "ShuffleAgent",
    "__version__",
    "choose_present",
    "compare",
    "cost",
    "load",
    "load_results",
    "make",
    "play",
    "play_many",
    "plot_along",
    "plot_frontier",
    "plot_regret",
    "ranks",
    "register_agent",
    "save",
]
__all__ += ["Budget", "Count", "Fraction", "Growth", "NonNegative", "Positive", "PrivateSettings", "Settings"]
__all__ += ["arms_or_context", "arms_with_features", "assortments", "labels_of_contexts", "n_arms", "next_change"]
__all__ += ["no_context", "one_context"]
__all__ += [
    "Explore",
    "Log",
    "check_simulator",
    "dm",
    "dr",
    "from_log",
    "ips",
    "log",
    "private_value",
    "replay",
    "snips",
    "to_obp",
]

_homes = {
    "privbandit_envs": "__version__",
    ".zoo.explore": "Explore",
    ".logs.estimates": "dm dr ips snips",
    ".logs.obp": "to_obp",
    ".logs.private_value": "private_value",
    ".logs.record": "Log log",
    ".logs.simulator": "check_simulator from_log replay",
    ".playing.board": "LogRegret",
    ".playing.many": "play_many",
    ".base.agent": "Agent LearningAgent next_change",
    ".base.central": "CentralAgent",
    ".base.guarantee": "Guarantee",
    ".base.local": "Inputs LocalAgent",
    ".base.spaces": "arms_or_context arms_with_features assortments labels_of_contexts n_arms no_context one_context",
    ".base.shuffling": "ShuffleAgent",
    ".playing.play": "Result play",
    ".playing.saving": "load save",
    ".zoo.entries": "AGENTS",
    ".zoo.plugins": "register_agent",
    ".zoo.registry": "make",
    ".base.settings": "Budget Count Fraction Growth NonNegative Positive PrivateSettings Settings",
    ".base.present": "choose_present",
    ".classifiers": "AgentClassifier",
    ".zoo.foreign": "ForeignAgent",
    # what needs the extra ``bench``
    ".cli.cost": "cost",
    ".experiments.results.files": "load_results",
    ".experiments.results.ranks": "ranks",
    ".experiments.compare": "compare",
    ".experiments.views.plots": "plot_along plot_frontier plot_regret",
}

__all__ += privacy.__all__
_homes[".privacy"] = " ".join(privacy.__all__)

__getattr__, __dir__ = lazily(__name__, _homes)
