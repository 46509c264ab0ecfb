"""Users in order, computed ahead: agents whose policy never rests play a block bit for bit as by their loop."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy

from privbandit_agents.base.agent import AnyAgent
from privbandit_agents.base.records import warn_of_ignored
from privbandit_agents.base.spaces import Array
from privbandit_agents.base.ties import best

Answer = Callable[[int, int], float]
"""``answer(i, arm)`` is the feedback of user i, a Python float; asked once a user, for the arm that the user gets."""
Serve = Callable[[Any, Array, Answer], Array | None]
AHEAD: dict[str, tuple[Serve, tuple[str, ...]]] = {}
"""By class, what serves users in order, and the methods that it stands for."""


def registered(kind: str, loop: str) -> Callable[[Serve], Serve]:
    """Let a function serve the users of a class, ``"module:Class"``, in place of the methods in ``loop``.

    It gets the agent, contexts (n, ...) and what answers, and returns the n actions; or None, and nothing has been
    done. Of an agent with privacy it hands reports alone to the server, and these are paid for before they are drawn.
    """

    def register(serve: Serve) -> Serve:
        AHEAD[f"privbandit_agents.{kind}"] = serve, tuple(loop.split())
        return serve

    return register


def served_in_order(agent: AnyAgent) -> Serve | None:
    """Return what serves an agent's users in order, or None: the loop must be run.

    What does not depend on the server may be computed for all of them at once; each chooses and is learned from as by
    the methods in ``loop``, bit for bit. A subclass or an object that has changed any of these has its loop.
    """
    for kind in type(agent).__mro__:
        serve, loop = AHEAD.get(f"{kind.__module__}:{kind.__qualname__}", (None, ()))
        if serve is not None:
            return serve if agent.people_seen is None and unchanged(agent, kind, loop) else None
    return None


def unchanged(one: object, stands: type, names: Sequence[str]) -> bool:
    """Return whether a class still stands for methods: no subclass, nor the object, has changed them."""
    kinds = type(one).__mro__
    defines = {name: place for place, kind in reversed([*enumerate(kinds)]) for name in vars(kind)}
    since = kinds.index(stands)
    return not any(name in vars(one) or defines[name] < since for name in names)


@registered(
    "local.gradients.descent:GradientAgent",
    "select_action inputs placed encode randomize absorb pay paying refuse estimate add learn step next_refit fits "
    "rows revealed chances answer likely",
)
def descend(agent: Any, contexts: Array, answer: Answer) -> Array | None:
    """Serve users of private gradient descent whose server steps after each, with two labels."""
    if agent.n_labels > 2 or agent.exploration or agent.batch > 1 or not hasattr(agent.device, "ahead"):
        return None
    features = agent.model.features(agent.rows(contexts))
    reports = agent.device.ahead(len(contexts), agent.rng)
    if reports is None:
        return None
    agent.pay(len(contexts))
    users, arms = Followers(agent, features, reports), np.empty(len(contexts), np.intp)
    for user in range(len(contexts)):
        arms[user] = arm = users.choose(user)
        users.absorb(users.randomize(user, arm, answer(user, arm)))
    return arms


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


@registered("baselines.ridge:RidgeAgent", "select_action update frozen_rounds")
@registered("baselines.linucb:LinUCB", "select_action update frozen_rounds")
def learn_at_once(agent: Any, contexts: Array, answer: Answer) -> Array | None:
    """Serve users of a recursive ridge regression without privacy that steps after each."""
    if agent.guarantee.notion != "none" or not getattr(agent.config, "at_once", True) or agent.ahead is not None:
        return None
    agent.forget()
    arms, random = np.empty(len(contexts), np.intp), agent.draw(len(contexts))
    turn, choose = Turn(agent, contexts), agent.choose
    score, learn, (directions, estimates) = turn.score, turn.learn, turn.parts
    most = 64  # users whose features are laid out at once, to stay in cache
    with np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, len(contexts), most):
            features = agent.features(contexts[first : first + most])
            for user, x in enumerate(features, first):
                score(x)
                arms[user] = arm = int(choose(x, directions, estimates, None if random is None else random[user]))
                learn(x, arm, answer(user, arm))
    return arms


class Turn:
    """One user after the other, in reused arrays: the results of the loop, by the same products.

    Args:
        agent: its regressions learn.
        contexts: of all users; if not all can be learned from, each is looked at.
    """

    def __init__(self, agent: Any, contexts: Array) -> None:
        self.add, self.limit = agent.regression.add, agent.regression.limit
        farthest = max(float(contexts.max()), -float(contexts.min()), 1.0)
        self.near = bool(contexts[0].size * farthest <= self.limit)
        self.shared, self.matrices = agent.shared_context, agent.regression.matrices
        self.by_group = [matrix.T for matrix in self.matrices]
        self.products = np.empty((agent.n_arms, 1, agent.dim + 1))
        self.scored = self.products[:, 0]
        self.parts = self.scored[:, :-1], self.scored[:, -1]
        self.rows = [(row, row[:-1]) for row in self.scored]

    def score(self, x: Array) -> None:
        """Write directions (K, d) and estimates (K,) of one user's features into ``parts``."""
        if self.shared:
            np.matmul(x, self.matrices, out=self.products)
        else:
            x.dot(self.matrices[0], self.scored)

    def learn(self, x: Array, arm: int, reward: float) -> None:
        """Add the reward of the user who was scored last, if it is usable."""
        played = x[0 if self.shared else arm]
        if not (abs(reward) <= self.limit and (self.near or played.dot(played) <= self.limit**2)):
            warn_of_ignored()
        elif self.shared:
            self.add(self.by_group[arm], played, *self.rows[arm], reward)
        else:
            self.add(self.by_group[0], played, *self.rows[arm], reward)
