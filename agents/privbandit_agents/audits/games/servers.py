"""Servers that one user's device may report to: new ones, some that have learned, some with a hostile state.

The report of layered regression is looked at on the second layer too. The reports on layer 1 are the adversary's: they
leave two active bins there, a large and a small one, whose released theta is so large that y_h is clipped. The target's
features lie in one of them or in the other.
"""

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Floats
from privbandit_agents.audits.pairs.records import WORLD_HORIZON, WORLDS, Pair, drawn
from privbandit_agents.audits.pairs.scenes import arms, local_pairs
from privbandit_agents.base.agent import NEVER
from privbandit_agents.base.labels import Labels
from privbandit_agents.base.spaces import labels_of_contexts
from privbandit_agents.zoo.registry import can_play, make, spaces_of
from privbandit_envs import from_table

Servers = Iterator[tuple[str, gym.Env[Any, Any], Any]]  # descriptions, worlds, and agents that stay as they are
NEW = "a new server"
ANGLE = np.arcsin(0.4999)
"""Angle between the target's features and the strong direction, chosen so that the residual just fits a bin."""
AWAKE = 100 * np.array([-1.0, -1, 0, 1, 1, 0, 1, 1])
"""A network of two neurons, each of which one record wakes, but for its offset."""


def server(game: AgentGame, env: gym.Env[Any, Any]) -> Any:
    return make(game.name, env, seed=0, **game.config)


def new(game: AgentGame) -> Servers:
    """Yield a new server in the game's world, and in others that the agent plays, too.

    One is a small world of the same family, as a leak that is spread over many coordinates is seldom seen in any. One
    has three labels.
    """
    yield NEW, game.env, server(game, game.env)
    for world in WORLDS:
        if game.env.spec and world["id"] == game.env.spec.id:
            small = gym.make(**world, horizon=WORLD_HORIZON)
            few, many = (math.prod(env.observation_space.shape or ()) for env in (small, game.env))
            if few < many:
                yield f"few coordinates, {NEW}", small, server(game, small)
    more = three_labels(WORLD_HORIZON)
    if not labels_of_contexts(*spaces_of(game.env)) and can_play(game.name, more):
        yield f"three labels, {NEW}", more, server(game, more)


def three_labels(horizon: int) -> gym.Env[Any, Any]:
    """Return a small world in which a wrong answer reveals no label, which is the third of the first feature."""
    x = np.random.default_rng(0).random((600, 2))
    table = {"first": x[:, 0], "second": x[:, 1], "label": np.floor(3 * x[:, 0]).astype(int)}
    return from_table(table, label="label", n_public=60, horizon=horizon)


def usual(game: AgentGame) -> Servers:
    """Yield each new server, and one of its kind that has learned."""
    for words, env, agent in new(game):
        yield words, env, agent
        learned, others = server(game, env), drawn(env)
        learned.update(others.contexts, others.actions, others.feedback)
        yield f"{words.removesuffix(NEW)}a server that has learned from {len(others.feedback)} users", env, learned


def late(game: AgentGame) -> Servers:
    """Yield servers of the game's world that have learned from ever more users, four horizons at least."""
    others, agent, served = drawn(game.env), server(game, game.env), 0
    horizon = max(4 * WORLD_HORIZON, getattr(agent.config, "horizon", None) or 0)
    for users in (WORLD_HORIZON * 4**k for k in range(4)):
        if users <= horizon:
            more = others[np.arange(served, users) % len(others.feedback)]
            agent.update(more.contexts, more.actions, more.feedback)
            served = users
            yield f"a server that has learned from {users} users", game.env, copy.deepcopy(agent)


def sure(game: AgentGame) -> Servers:
    """Yield the usual servers and one whose model is sure of label 1, so that the gradients of label 0 are long."""
    for words, env, agent in usual(game):
        yield words, env, with_model(agent)
    hostile = with_model(server(game, game.env))
    hostile.theta = np.append(AWAKE if "hidden" in game.config else hostile.theta[:-1], 1e3)
    yield "a server with a model that is sure of label 1", game.env, hostile


def with_model(agent: Any) -> Any:
    """Return an agent whose model of gradients stays while users report."""
    agent.refit_at = NEVER
    return agent


def unsure(game: AgentGame) -> Servers:
    """Yield the usual servers and one whose model is sure of nothing: right and wrong answers are equally long."""
    for words, env, agent in usual(game):
        yield words, env, with_kernels(agent)
    hostile = server(game, game.env)
    hostile.server.spreads = 1e12 * hostile.server.spreads  # all labels are equally likely
    yield "a server with a model that is sure of nothing", game.env, with_kernels(hostile)


def with_kernels(agent: Any) -> Any:
    """Return an agent whose model of kernels stays while users report."""
    agent.server.surprises = alike(agent.server.surprises)
    return with_model(agent)


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


def layered(game: AgentGame) -> Servers:
    """Yield a new server of layered regression, and one on its second layer."""
    yield NEW, game.env, server(game, game.env)
    agent = server(game, game.env)
    while agent.oracle.layer == 1:
        agent.absorb_sum(history(agent), agent.frozen_rounds())
    yield "layer 2, after reports on layer 1 that the adversary chose: theta = 5 in two bins", game.env, agent


def history(agent: Any) -> Floats:
    """Return a sum of estimates that puts half of the users each into the bins k = 0 and 2, with v = e1 and y = 5."""
    randomizer = agent.oracle.randomizer
    total = np.zeros((randomizer.cells, randomizer.dim))
    if randomizer.dim > 1:  # else these users tell the widths of the published preset: there is nothing to tell yet
        packed = agent.oracle.report.layout.pack(np.eye(2)[:1], np.full(1, 5.0), np.zeros((1, 0)))
        total[[0, 2]] = agent.frozen_rounds() / 2 * packed[0]
    return total.ravel()


def layered_pairs(env: gym.Env[Any, Any]) -> list[Pair]:
    """Return pairs whose features are long or short and whose reward is 1 or -1: other bins, the extremes of y_h."""
    target = np.array([np.cos(ANGLE), np.sin(ANGLE)])
    return [*local_pairs(env, drawn(env)), *arms(2, target, target / 4)]
