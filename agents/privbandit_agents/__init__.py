"""Agents for contextual bandits, private and not, and the loop that plays them."""

from privbandit_agents.base.agent import Agent, Guarantee
from privbandit_agents.base.learning import LearningAgent
from privbandit_agents.play import Result, play
from privbandit_agents.registry import AGENTS, load, make, register_agent, save

__all__ = ["AGENTS", "Agent", "Guarantee", "LearningAgent", "Result", "load", "make", "play", "register_agent", "save"]
