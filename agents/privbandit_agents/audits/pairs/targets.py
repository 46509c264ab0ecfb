"""Replacements of a user's record: in every direction in turn, and as far as records go."""

from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from privbandit_agents.audits.pairs.records import Record
from privbandit_agents.base.agent import AnyAgent
from privbandit_envs.spaces import Assortments

FAR = 1e9  # beyond every bound that an agent may clip to


def targets(agent: AnyAgent, ordinary: Record) -> dict[str, Record]:
    """Return records by name, between any two of which something else moves.

    Arms, or items, point one way and the other in turn, so that an action alone turns the features round, and a
    purchase alone the gradient. All are far out of range but the near ones, and the ``ordinary`` one, which the
    environment has drawn. Of an agent that protects rewards alone they differ in the answer alone.
    """
    shape = agent.context_shape
    one, across = np.ones(shape[-1:]), np.zeros(shape[-1:])
    if half := across.size // 2:
        across[:half], across[half : 2 * half] = 1.0, -1.0  # orthogonal to the first
    turns = np.where(np.arange(shape[0]) % 2, -1.0, 1.0)[:, None] if len(shape) == 2 else 1.0
    near, far, aside = (size * turns * way for size, way in ((one.size**-0.5, one), (FAR, one), (FAR, across)))
    action, another, answer, other = actions_of(agent, ordinary)
    found = {
        "a far record": Record(far, action, answer),
        "the other answer": Record(far, action, other),
        "opposite features": Record(-far, action, answer),
        "features at a right angle": Record(aside, action, answer),
        "features at a right angle and the other answer": Record(aside, action, other),
        "the other action": Record(far, another, answer),
        "features of NaN": Record(np.full(shape, np.nan), action, answer),
        "an answer of NaN": Record(far, action, np.nan),
        "a near record": Record(near, action, answer),
        "a near record with the other answer": Record(near, action, other),
        "a near record with an answer of NaN": Record(near, action, np.nan),
        "an ordinary record": ordinary,
    }
    if isinstance(agent.action_space, Assortments):
        found["no purchase"] = Record(far, action, -1.0)
        found["a near record with no purchase"] = Record(near, action, -1.0)
    if not agent.guarantee.of_rewards:
        return found
    found["no answer to speak of"] = Record(far, action, 0.0)
    return {name: record for name, record in found.items() if record.context is far and record.action is action}


def actions_of(agent: AnyAgent, ordinary: Record) -> tuple[Any, Any, float, float]:
    """Return two actions, and two answers to the first of them at the greatest distance that answers can have."""
    space = agent.action_space
    if isinstance(space, Assortments):
        first = (np.arange(space.n_items) < space.capacity).astype(np.int8)
        return first, first[::-1].copy(), 0.0, 1.0 if space.capacity > 1 else -1.0
    if isinstance(space, Discrete):
        return int(space.start), int(space.start + min(1, space.n - 1)), FAR, -FAR
    return ordinary.action, ordinary.action, FAR, -FAR
