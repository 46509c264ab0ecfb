"""Users in order, computed ahead: local agents whose policy never rests play a block bit for bit as by their loop."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from privbandit_agents.base.agent import Array, LocalAgent
from privbandit_agents.base.reports import InOrder
from privbandit_agents.base.ties import best
from privbandit_agents.base.turns import unchanged

Made = Callable[[Any, Array], InOrder | None]
AHEAD: dict[str, tuple[Made, tuple[str, ...]]] = {}
"""By class, what serves users in order, and the methods that it stands for."""


def registered(kind: str, loop: str) -> Callable[[Made], Made]:
    """Let a function serve the users of a class, ``"module:Class"``, in place of the methods in ``loop``.

    It gets the agent and contexts (n, ...), and returns the users, who have paid and must all be served; or None, and
    nothing has been done.
    """

    def register(made: Made) -> Made:
        AHEAD[f"privbandit_agents.{kind}"] = made, tuple(loop.split())
        return made

    return register


def in_order(agent: LocalAgent[Any, Any], contexts: Array) -> InOrder | None:
    """Return the next n users in order, each with its device, or None: the loop must be run.

    What does not depend on the server may be computed for all of them at once; each chooses, reports and is absorbed
    as by ``select_action``, ``randomize`` and ``absorb``, bit for bit. A subclass or an object that has changed any of
    the methods has its loop.
    """
    for kind in type(agent).__mro__:
        made, loop = AHEAD.get(f"{kind.__module__}:{kind.__qualname__}", (None, ()))
        if made is not None:
            return made(agent, contexts) if agent.people_seen is None and unchanged(agent, kind, loop) else None
    return None


@registered(
    "local.gradients.descent:GradientAgent",
    "select_action inputs placed encode randomize absorb pay paying refuse estimate add learn step next_refit fits "
    "rows revealed chances answer likely",
)
def followers(agent: Any, contexts: Array) -> InOrder | None:
    """Return users of private gradient descent whose server steps after each, with two labels."""
    if agent.n_labels > 2 or agent.exploration or agent.batch > 1 or not hasattr(agent.device, "ahead"):
        return None
    features = agent.model.features(agent.rows(contexts))
    reports = agent.device.ahead(len(contexts), agent.rng)
    if reports is None:
        return None
    agent.pay(len(contexts))
    return Followers(agent, features, reports)


class Followers:
    """Users in sequence: each sees the server as the user before has left it.

    Args:
        agent: a ``GradientAgent`` with batches of one user.
        features: of the users, shape (n, D).
        reports: of the users, drawn but for their gradients.
    """

    def __init__(self, agent: Any, features: Array, reports: Any) -> None:
        self.agent, self.model, self.clip, self.ties = agent, agent.model, agent.clip, agent.ties
        self.features, self.reports, self.mean = list(features), reports, reports.mean

    def choose(self, user: int) -> int:
        one = float(scipy.special.expit(self.model.score(self.features[user], self.agent.average)))
        if one == 1 - one:
            return int(best(np.array([one, one]), self.ties))
        self.ties.users += 1
        return int(one > 1 - one)

    def randomize(self, user: int, arm: int, answer: float) -> Array:
        label = arm if 0.5 < answer < math.inf else 1 - arm
        gradient = self.model.gradient(self.features[user], label, self.agent.theta)
        report: Array = self.reports.report(user, gradient if self.clip == 1 else gradient / self.clip)
        return report

    def absorb(self, report: Array) -> None:
        agent, estimate = self.agent, report / self.mean
        agent.users += 1
        agent.learned, agent.refit_at = agent.users, agent.users + 1
        agent.step(0.0 + (estimate if self.clip == 1 else self.clip * estimate), 1)
