"""The game with private kernel models: their servers may have coefficients of the adversary's choice."""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym

from privbandit_agents.audits.games.local import LocalGame
from privbandit_agents.base.agent import NEVER


class KernelGame(LocalGame):
    """One of the servers has a model that is sure of nothing, so that right and wrong answers are equally long."""

    seen = "all that one user's device sends, to new, learned or hostile servers"

    def servers(self) -> Iterator[tuple[str, gym.Env[Any, Any], Any]]:
        for words, env, agent in super().servers():
            yield words, env, still(agent)
        hostile = still(self.server(self.env))
        hostile.learner.server.spreads = 1e12 * hostile.learner.server.spreads  # all labels are equally likely
        yield "a server with a model that is sure of nothing", self.env, hostile


def still(agent: Any) -> Any:
    """Return an agent with its model, which from now on stays while users report."""
    agent.learner.server.batch = NEVER
    return agent
