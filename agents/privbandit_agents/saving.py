"""Saving an agent between two rounds, and loading it again."""

import dataclasses
from pathlib import Path

from privbandit_agents.base import state
from privbandit_agents.base.agent import AnyAgent
from privbandit_agents.base.learning import AnyEnv
from privbandit_agents.registry import make


def plays(agent: AnyAgent) -> str:
    """Return what an agent was built for, in words."""
    contexts = agent.observation_space
    return f"{contexts.dtype} contexts of shape {contexts.shape} and actions in {agent.action_space}"


def save(agent: AnyAgent, path: str | Path) -> None:
    """Write an agent between two rounds to one ``.npz`` file, without pickle, whole or not at all.

    The file of a private agent is as secret as its users' records: it holds the state of the noise generators, and of a
    jointly private agent the curator's exact sums. It is made readable by its owner alone.
    """
    arrays, values = agent.state()
    header = {"agent": agent.name, "config": dataclasses.asdict(agent.config), "plays": plays(agent)}
    state.write(path, arrays, {"header": header, "state": values}, secret=agent.guarantee.notion != "none")


def load(path: str | Path, env: AnyEnv) -> AnyAgent:
    """Return the agent that ``save`` wrote; it goes on as if it had never stopped, bit for bit.

    Args:
        path: the file.
        env: an environment with the same spaces (and public data).

    Raises:
        ValueError: other spaces, or a state of another version of the agent.
    """
    arrays, values = state.read(path)
    header = values["header"]
    agent = make(header["agent"], env, **header["config"])
    if plays(agent) != header["plays"]:
        raise ValueError(f"{path} was saved for {header['plays']}; the environment has {plays(agent)}.")
    agent.restore(arrays, values["state"])
    agent.restored()
    return agent
