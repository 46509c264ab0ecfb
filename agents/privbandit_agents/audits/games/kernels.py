"""The game with private kernel models: their servers may have coefficients of the adversary's choice."""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym

from privbandit_agents.audits.games.local import LocalGame
from privbandit_agents.base.agent import NEVER
from privbandit_agents.registry import make

UNSURE = 1e12
"""Variance of a model that takes all labels for equally likely."""
PLACES = 4


class KernelGame(LocalGame):
    """One of the servers has a model that is sure of nothing, so that right and wrong answers are equally long.

    Some ask for cells, one of them with balances against every label.
    """

    seen = "all that one user's device sends, of directions or cells, to new, learned or hostile servers"

    def servers(self) -> Iterator[tuple[str, gym.Env[Any, Any], Any]]:
        for words, env, agent in super().servers():
            yield words, env, still(agent)
        hostile = still(self.server(self.env))
        hostile.learner.server.spreads = UNSURE * hostile.learner.server.spreads
        yield "a server with a model that is sure of nothing", self.env, hostile
        for labels, env in self.worlds():
            told = still(make(self.name, env, seed=0, **{**self.config, "memory": True, "places": PLACES}))
            yield f"{labels}a server that asks for cells", env, told
            against = still(make(self.name, env, seed=0, **{**self.config, "memory": True, "places": PLACES}))
            against.learner.server.balance = against.learner.server.balance - UNSURE
            yield f"{labels}a server that holds every label for wrong in its cell", env, against


def still(agent: Any) -> Any:
    """Return an agent with its model, which from now on stays while users report."""
    agent.learner.server.batch = NEVER
    return agent
