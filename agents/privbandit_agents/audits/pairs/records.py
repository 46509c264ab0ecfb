"""Worlds that any agent may be audited in, and pairs of records that lie far apart there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

from privbandit_agents.base.spaces import Array
from privbandit_agents.zoo.registry import can_play
from privbandit_envs.spaces import Assortments

WORLDS: tuple[dict[str, Any], ...] = (
    {"id": "privbandit/Linear-v0", "n_arms": 2, "dim": 2},
    {"id": "privbandit/SparseLinear-v0", "n_arms": 2, "dim": 10},
    {"id": "privbandit/Assortment-v0", "n_items": 6, "capacity": 3, "dim": 2},
    {"id": "privbandit/Classification-v0"},
    {"id": "privbandit/Bandit-v0", "n_arms": 2, "gap": 0.2},
)
"""A small world of each family; an agent is audited in the first one that it plays."""
WORLD_HORIZON = 1024
USERS_A_RUN = 256  # users of a run at most, and users drawn to see records of every kind
BEYOND = 1e6  # beyond any clip
INSIDE = np.array([0.62, 0.31])
"""Answers between the least and the most, as shares of the way: none lies on a grid that answers have."""


class Record(NamedTuple):
    """One user's context, action and feedback, or those of a group."""

    context: Any
    action: Any
    feedback: Any


@dataclass(frozen=True)
class Records:
    """The records of n users: contexts (n, ...), actions (n, ...) and feedback (n,); ``ids`` say who came, if given."""

    contexts: Array
    actions: Array
    feedback: Array
    ids: Array | None = None

    def __getitem__(self, users: slice | Array) -> "Records":
        ids = None if self.ids is None else self.ids[users]
        return Records(self.contexts[users], self.actions[users], self.feedback[users], ids)

    def then(self, others: "Records") -> "Records":
        """Return these users, and others after them, of whom nobody says who came."""
        return Records(
            np.concatenate([self.contexts, others.contexts]),
            np.concatenate([self.actions, others.actions]),
            np.concatenate([self.feedback, others.feedback]),
        )


@dataclass(frozen=True)
class Pair:
    """Two records that an adversary tries to distinguish; ``words`` describes how they differ."""

    words: str
    records: Records

    def users(self, world: int, n: int) -> Records:
        """Return the records of n users who all have the first record, or the second one."""
        return self.records[np.full(n, world)]


def world_for(name: str, env: str | Mapping[str, Any] | None = None) -> gym.Env[Any, Any]:
    """Return an environment for an agent: that of an id, one with settings, or by default one that it plays.

    Raises:
        ValueError: it plays none of these worlds.
    """
    given = {"id": env} if isinstance(env, str) else dict(env or {})
    if "id" in given:
        return gym.make(**given)
    for world in WORLDS:
        if can_play(name, gym.make(**world, horizon=WORLD_HORIZON)):
            return gym.make(**{**world, "horizon": WORLD_HORIZON, **given})
    raise ValueError(f"{name} plays none of {', '.join(world['id'] for world in WORLDS)}; name an environment.")


def drawn(env: gym.Env[Any, Any], users: int = USERS_A_RUN, seed: int = 0) -> Records:
    """Return the records of users who are served at random; the same ones at every call with a seed."""
    env.action_space.seed(seed)
    context, _ = env.reset(seed=seed)
    rows = []
    for _ in range(users):
        action = env.action_space.sample()
        following, reward, terminated, truncated, info = env.step(action)
        rows.append((context, action, info.get("feedback", reward)))
        context = env.reset()[0] if terminated or truncated else following
    contexts, actions, feedback = (np.array(column) for column in zip(*rows, strict=True))
    return Records(contexts, actions, feedback)


def pairs(env: gym.Env[Any, Any], seen: Records) -> list[Pair]:
    """Return pairs of records far apart in one of context, action and feedback, or in all of them, and some between."""
    (low, high), (one, other), drawn_context = corners(env, seen), actions(env, seen), seen.contexts[0]
    least, most = answers(env, seen, one)
    least_of_other, most_of_other = answers(env, seen, other)
    found = {
        "the least feedback or the most": ((high, one, least), (high, one, most)),
        "contexts at opposite corners": ((low, one, most), (high, one, most)),
        "the first action or the last": ((drawn_context, one, most), (drawn_context, other, most_of_other)),
        "opposite corners, the first action or the last, the least feedback or the most": (
            (low, one, least),
            (high, other, most_of_other),
        ),
        "opposite corners, the first action or the last, the most feedback or the least": (
            (low, one, most),
            (high, other, least_of_other),
        ),
        "a context that was drawn or the middle of all": (
            (drawn_context, one, most),
            (((low + high) / 2).astype(low.dtype), one, most),
        ),
    }
    made = [Pair(words, Records(*(np.array(part) for part in zip(*two, strict=True)))) for words, two in found.items()]
    inside = np.flatnonzero(one)[-1:] if isinstance(env.action_space, Assortments) else least + INSIDE * (most - least)
    return [*made, *answered(made[0], np.append(most, inside))]


def answered(pair: Pair, answers: Iterable[Any]) -> list[Pair]:
    """Return a pair's first record with each two successive answers."""
    alike = pair.users(0, 2)
    return [
        Pair(f"answers {one:.4g} or {other:.4g}", replace(alike, feedback=np.array([one, other])))
        for one, other in pairwise(answers)
    ]


def corners(env: gym.Env[Any, Any], seen: Records) -> tuple[Array, Array]:
    """Return the least and the largest context; if a space has no bound, the bounds of the draws."""
    space = env.observation_space
    if not isinstance(space, Box):
        return seen.contexts[0], seen.contexts[-1]
    low = np.where(np.isfinite(space.low), space.low, seen.contexts.min(axis=0))
    high = np.where(np.isfinite(space.high), space.high, seen.contexts.max(axis=0))
    return low.astype(space.dtype), high.astype(space.dtype)


def actions(env: gym.Env[Any, Any], seen: Records) -> tuple[Array, Array]:
    """Return the first action and the last; of other spaces than those of the families, two that were drawn."""
    space = env.action_space
    if isinstance(space, Discrete):
        return np.asarray(space.start), np.asarray(space.start + space.n - 1)
    if isinstance(space, Assortments):
        first = (np.arange(space.n_items) < space.capacity).astype(np.int8)
        return first, first[::-1]
    return seen.actions[0], seen.actions[-1]


def answers(env: gym.Env[Any, Any], seen: Records, action: Array) -> tuple[Array, Array]:
    """Return the least and the largest feedback to an action; to an assortment: no purchase, and its first item."""
    if isinstance(env.action_space, Assortments):
        return np.asarray(-1), np.asarray(np.flatnonzero(action)[0])
    return seen.feedback.min(), seen.feedback.max()
