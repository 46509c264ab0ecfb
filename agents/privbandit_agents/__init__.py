"""Agents for contextual bandits, private and not, and the loop that plays them."""

import sys

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
    "load",
    "make",
    "play",
    "register_agent",
    "save",
]
