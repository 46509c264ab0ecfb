"""The game with classifiers that report gradients: their servers may have models of the adversary's choice."""

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from privbandit_agents.audits.games.local import LocalGame
from privbandit_agents.base.agent import NEVER

AWAKE = 100 * np.array([-1.0, -1, 0, 1, 1, 0, 1, 1])
"""A network but for its offset."""


class GradientGame(LocalGame):
    """One of the servers has a model that is sure of label 1, so that the gradients of label 0 are long.

    A network has two neurons, each of which one record wakes.
    """

    seen = "all that one user's device sends, to a new server, one that has learned, or one with a hostile model"
    settings: ClassVar = {"hidden": 2}
    heats: ClassVar = ((12, 1000), (6, 4000))  # the likelihood ratio is known, so that few runs of each scene do

    def servers(self) -> Iterator[tuple[str, gym.Env[Any, Any], Any]]:
        for words, env, agent in super().servers():
            yield words, env, still(agent)
        hostile = still(self.server(self.env))
        server = hostile.learner.server
        # the model is sure of label 1
        server.theta = np.append(AWAKE if "hidden" in self.config else server.theta[:-1], 1e3)
        yield "a server with a model that is sure of label 1", self.env, hostile


def still(agent: Any) -> Any:
    """Return an agent with its model, which from now on stays while users report."""
    server = agent.learner.server
    server.schedule = dataclasses.replace(server.schedule, batch=NEVER)
    return agent
