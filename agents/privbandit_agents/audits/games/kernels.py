"""The game with private kernel models: their servers may have coefficients of the adversary's choice."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from privbandit_agents.audits.games.local import LocalGame
from privbandit_agents.base.agent import NEVER
from privbandit_agents.base.labels import Floats, Labels


class KernelGame(LocalGame):
    """One of the servers has a model that is sure of nothing, so that right and wrong answers are equally long."""

    seen = "all that one user's device sends, to new, learned or hostile servers"
    pilots = 128  # the likelihood ratio is known, so that few runs of each scene do
    heats: ClassVar = ((12, 1000), (6, 3000))

    def servers(self) -> Iterator[tuple[str, gym.Env[Any, Any], Any]]:
        for words, env, agent in super().servers():
            yield words, env, still(agent)
        hostile = self.server(self.env)
        hostile.learner.server.spreads = 1e12 * hostile.learner.server.spreads  # all labels are equally likely
        yield "a server with a model that is sure of nothing", self.env, still(hostile)


def still(agent: Any) -> Any:
    """Return an agent with its model, which from now on stays while users report."""
    server = agent.learner.server
    server.batch = NEVER
    server.surprises = alike(server.surprises)
    return agent


def alike(vectors: Callable[[Floats, Labels], Floats]) -> Callable[[Floats, Labels], Floats]:
    """Return a function that computes the vector of a record once: thousands of a game's users have the same one."""
    once: dict[bytes, Floats] = {}

    def computed(contexts: Floats, labels: Labels) -> Floats:
        if not len(labels) or (contexts != contexts[0]).any() or (labels != labels[0]).any():
            return vectors(contexts, labels)
        record = contexts[0].tobytes() + labels[0].tobytes()
        if record not in once:
            once[record] = vectors(contexts[:1], labels[:1])
        return np.repeat(once[record], len(labels), axis=0)

    return computed
