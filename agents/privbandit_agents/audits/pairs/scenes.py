"""Pairs of records for devices: one for each part of a record that a report may reveal, and the parts together."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete

from privbandit_agents.audits.pairs.records import BEYOND, Pair, Records, answered, corners, pairs
from privbandit_agents.base.agent import AnyAgent
from privbandit_agents.base.spaces import Array
from privbandit_envs.spaces import Assortments

WILD = (BEYOND, 1e200, math.inf)
"""Sizes of numbers out of all range: one whose square is a number, one whose square is none, and none."""


def local_pairs(env: gym.Env[Any, Any], seen: Records) -> list[Pair]:
    """Return pairs of records that an environment's users may have."""
    shape, space = env.observation_space.shape or (), env.action_space
    found = pairs(env, seen) + absent(seen) + list(wild(seen))
    if isinstance(space, Discrete) and len(shape) == 2:
        even = np.full(shape, shape[1] ** -0.5)  # it and its negative are farthest apart in l1
        found += arms(shape[0], *np.eye(shape[1])[:2])
        found.append(pair("equal features and reward 1, or their negatives", (even, 0, 1.0), (-even, 0, -1.0)))
    elif isinstance(space, Discrete) and len(shape) == 1:
        found += labels(int(space.n), *corners(env, seen))
    elif isinstance(space, Assortments) and len(shape) == 2:
        found += [*sets(space, shape[1] - 1), *odd_sets(space, seen)]
    return found


def joint_pairs(env: gym.Env[Any, Any], seen: Records, agent: AnyAgent, answers: Sequence[float] = ()) -> list[Pair]:
    """Return pairs of records for a curator: at the corners of the spaces, unit vectors, and far beyond any clip."""
    shape, found = env.observation_space.shape or (), pairs(env, seen) + absent(seen)
    found += answered(found[0], answers)
    found += islice(wild(seen, (BEYOND,)), 4)
    if isinstance(env.action_space, Assortments):
        found += [*odd_sets(env.action_space, seen)]
    if isinstance(env.action_space, Discrete) and len(shape) == 2:  # a unit vector is the farthest in l2
        one, other = np.eye(shape[1])[:2]
        found += islice(arms(shape[0], one, other), 2)
        beyond = np.tile(BEYOND * one, (shape[0], 1))
        found.append(pair("features and reward beyond any clip", (beyond, 0, BEYOND), (beyond, 0, -BEYOND)))
    return allowed(found, agent)


def allowed(found: list[Pair], agent: AnyAgent) -> list[Pair]:
    """Return the pairs that an agent promises to hide: if rewards alone are protected, those that differ in these."""
    if not agent.guarantee.of_rewards:
        return found
    return [pair for pair in found if alike(pair.records.contexts) and alike(pair.records.actions)]


def alike(two: Array) -> bool:
    return bool(np.array_equal(two[0], two[1], equal_nan=two.dtype.kind == "f"))


def pair(words: str, one: tuple[Any, ...], other: tuple[Any, ...]) -> Pair:
    return Pair(words, Records(*(np.array(part) for part in zip(one, other, strict=True))))


def absent(seen: Records) -> list[Pair]:
    """Return pairs in which the second record has NaN in place of the context, or of the feedback."""
    context, action, answer = seen.contexts[0].astype(float), seen.actions[0], float(seen.feedback[0])
    return [
        pair("a context or NaN", (context, action, answer), (np.full_like(context, np.nan), action, answer)),
        pair("feedback or NaN", (context, action, answer), (context, action, np.nan)),
    ]


def odd_sets(space: Assortments, seen: Records) -> Iterator[Pair]:
    """Yield pairs in which the second record has a set that is none: of all items, or with items that count twice."""
    context, offered = seen.contexts[0].astype(float), (np.arange(space.n_items) < space.capacity).astype(np.int8)
    yield pair("a set or all items", (context, offered, 0.0), (context, np.ones_like(offered), 0.0))
    yield pair("a set, or each of its items ten times", (context, offered, 0.0), (context, 10 * offered, 0.0))


def wild(seen: Records, sizes: tuple[float, ...] = WILD) -> Iterator[Pair]:
    """Yield pairs with numbers out of all range, which an agent has to clip or to ignore: in the answer or the context.

    Contexts keep their last column, an item's revenue, in one of the pairs.
    """
    context, action, answer = seen.contexts[0].astype(float), seen.actions[0], float(seen.feedback[0])
    kept = np.array(context)
    if kept.ndim:
        kept[..., :-1] = 0.0
    for size in sizes:
        far = np.where(context < 0, -size, size)
        yield pair(f"feedback {size:g} or {-size:g}", (context, action, size), (context, action, -size))
        yield pair(f"feedback {size:g} or 0", (context, action, size), (context, action, 0.0))
        yield pair(f"a context of {size:g} or its negative", (far, action, answer), (-far, action, answer))
        yield pair(f"a context of {size:g}, or none", (far, action, 1.0), (np.zeros_like(far), action, 1.0))
    far = BEYOND * (context - kept) + kept
    yield pair("features beyond any clip or 0", (far, action, 1.0), (kept, action, 1.0))
    yield pair("features and feedback beyond any clip", (far, action, BEYOND), (far, action, -BEYOND))


def arms(n: int, one: Array, other: Array) -> Iterator[Pair]:
    """Yield pairs for n arms that have the features (d,) of the first record, or of the other one.

    Only the reward differs, or the features, or both; or an arm's number, where all arms look alike; or the features
    of an arm that was not chosen.
    """
    context, elsewhere = np.tile(one, (n, 1)), np.tile(other, (n, 1))
    slanted = context / 2 + elsewhere * np.sqrt(3) / 2  # (x x', x r) of this one is farthest from the first's
    unchosen = np.concatenate([context[:1], elsewhere[1:]])
    yield pair("reward 1 or -1", (context, 0, 1.0), (context, 0, -1.0))
    yield pair("other features, reward 1", (context, 0, 1.0), (elsewhere, 0, 1.0))
    yield pair("other features, reward 0", (context, 0, 0.0), (elsewhere, 0, 0.0))
    yield pair("other features, reward 1 or -1", (context, 0, 1.0), (elsewhere, 0, -1.0))
    yield pair("features at 60 degrees, reward 1 or -1", (context, 0, 1.0), (slanted, 0, -1.0))
    yield pair("features or 0", (context, 0, 1.0), (np.zeros_like(context), 0, 1.0))
    yield pair("the first arm or the last, all arms alike", (context, 0, 1.0), (context, n - 1, 1.0))
    yield pair("features of an arm that was not chosen", (context, 0, 1.0), (unchosen, 0, 1.0))


def sets(space: Assortments, dim: int) -> Iterator[Pair]:
    """Yield pairs for sets of items, of which two have opposite features and all others none; revenues are 1.

    Only the purchase differs; or only the features; or only the features of an item that was not on offer.
    """
    context = np.zeros((space.n_items, dim + 1))
    context[:, -1] = 1.0
    elsewhere = context.copy()
    context[:2, 0] = (1.0, -1.0)[: space.n_items]
    elsewhere[:2, 0] = -context[:2, 0]
    offered = (np.arange(space.n_items) < space.capacity).astype(np.int8)
    unoffered = np.where(offered[:, None] != 0, context, BEYOND)
    yield pair("the purchase of an item or of its opposite", (context, offered, 0.0), (context, offered, 1.0))
    yield pair("the purchase of an item or of nothing", (context, offered, 0.0), (context, offered, -1.0))
    yield pair("opposite features of what was bought", (context, offered, 0.0), (elsewhere, offered, 0.0))
    yield pair("features of what was not on offer", (context, offered, 0.0), (unoffered, offered, 0.0))


def labels(n: int, low: Array, high: Array) -> list[Pair]:
    """Return pairs for n labels of contexts at two far corners.

    Only the label differs, every two labels in turn; or the corner; or both; or whether the label was found at all.
    """
    last = n - 1
    found = [
        pair(f"label {a} or {b} at the {words} corner", (corner, a, 1.0), (corner, b, 1.0))
        for words, corner in (("lower", low), ("upper", high))
        for a in range(n)
        for b in range(a + 1, n)
    ]
    for label in (0, last):
        found.append(pair(f"opposite corners, label {label}", (low, label, 1.0), (high, label, 1.0)))
    return [
        *found,
        pair(f"opposite corners, label 0 or {last}", (low, 0, 1.0), (high, last, 1.0)),
        pair("a right answer or a wrong one", (high, 0, 1.0), (high, 0, 0.0)),
        pair(f"a wrong answer, 0 or {last}", (high, 0, 0.0), (high, last, 0.0)),
        pair("opposite corners, a wrong answer", (low, 0, 0.0), (high, 0, 0.0)),
        pair("the right answer at one corner, a wrong one at the other", (low, 0, 1.0), (high, 0, 0.0)),
    ]
