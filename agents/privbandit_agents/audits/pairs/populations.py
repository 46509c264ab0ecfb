"""Populations that differ in every user: in the answers, the features or the actions, or in all of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from privbandit_agents.audits.pairs.records import BEYOND, Records, actions, answers, corners, drawn
from privbandit_agents.audits.pairs.scenes import joint_pairs
from privbandit_agents.base.agent import AnyAgent
from privbandit_agents.base.spaces import Array
from privbandit_envs.spaces import Assortments

OPPOSITE = (
    ("the least answers", "the most answers"),
    ("answers far below any clip", "answers beyond any clip"),
    ("contexts at the lower corner", "contexts at the upper corner"),
    ("the first action", "the last action"),
)
"""Populations that are compared with each other besides those that are drawn."""
Schedule = Callable[[int, Records, int | None], Array]
"""The schedule of an agent of a seed that serves these users; with a number, up to some changes after so many."""


@dataclass(frozen=True)
class Boundary:
    """Two neighbouring populations, which differ in the user at ``place``, and their description."""

    worlds: tuple[Records, Records]
    place: int
    words: str

    def apart(self, schedule: Schedule, seeds: range) -> float:
        """Return for which share of seeds the two have different schedules soon after the target."""
        seen = [[schedule(seed, users, self.place) for users in self.worlds] for seed in seeds]
        return sum(not np.array_equal(one, other) for one, other in seen) / len(seeds)


def boundaries(
    schedule: Schedule, env: gym.Env[Any, Any], users: int, agent: AnyAgent, seeds: int, most: int
) -> list[Boundary]:
    """Return neighbours whose schedules differ for most seeds, of all that bisection finds."""
    found: list[tuple[float, Boundary]] = []
    for seed in range(seeds):
        for words, one, other in opposites(env, users, agent):
            if sum(share == 1 for share, _ in found) == most:
                break
            seen = schedule(seed, one, None)
            if not np.array_equal(seen, schedule(seed, other, None)):
                boundary = bisected(partial(schedule, seed), one, other, seen, words)
                found.append((boundary.apart(schedule, range(seeds, seeds + 6)), boundary))
    best = sorted(found, key=lambda one: (-one[0], one[1].place))[:most]
    return [boundary for share, boundary in best if share]


def crowds(env: gym.Env[Any, Any], seen: Records, agent: AnyAgent) -> Iterator[Boundary]:
    """Yield neighbours whose target comes last, after one or three users who have its first record."""
    for pair in joint_pairs(env, seen, agent):
        for before in (1, 3):
            worlds = (pair.users(0, before).then(pair.users(world, 1)) for world in (0, 1))
            yield Boundary((next(worlds), next(worlds)), before, f"{pair.words}, after {before} like the first")


def bisected(
    schedule: Callable[[Records, int | None], Array], one: Records, other: Records, seen: Array, words: str
) -> Boundary:
    """Return neighbours between one population and another, whose schedule differs from that of the first."""
    same, changed = 0, len(one.feedback)
    while changed - same > 1:
        middle = (same + changed) // 2
        if np.array_equal(schedule(other[:middle].then(one[middle:]), None), seen):
            same = middle
        else:
            changed = middle
    worlds = (other[:same].then(one[same:]), other[:changed].then(one[changed:]))
    return Boundary(worlds, same, f"user {same + 1} of {words}")


def opposites(env: gym.Env[Any, Any], users: int, agent: AnyAgent) -> Iterator[tuple[str, Records, Records]]:
    """Yield pairs of populations that differ in every user, with descriptions; arguments as for ``populations``."""
    found = populations(env, users, agent)
    usual, *others = found
    for one, other in (*OPPOSITE, *((usual, other) for other in others)):
        if other in found:
            yield f"{other}, then {one}", found[one], found[other]


def populations(env: gym.Env[Any, Any], users: int, agent: AnyAgent) -> dict[str, Records]:
    """Return populations of ``users`` users by name."""
    first = drawn(env, users)
    least, most = extremes(env, first)
    turns = np.arange(users) % 2 == 0

    def answered(feedback: Array) -> Records:
        return replace(first, feedback=np.asarray(feedback, np.float64))

    found = {
        "users as drawn": first,
        "the least answers": answered(least),
        "the most answers": answered(most),
        "the least and the most in turn": answered(np.where(turns, least, most)),
        "answers of 0": answered(np.zeros(users)),
        "answers beyond any clip": answered(np.full(users, BEYOND)),
        "answers far below any clip": answered(np.full(users, -BEYOND)),
        "answers of NaN": answered(np.full(users, np.nan)),
        "hardly any answers": answered(np.where(np.arange(users) % 8 == 8 - 1, most, np.nan)),  # one user in eight
    }
    if agent.guarantee.of_rewards:
        return found
    low, high = corners(env, first)
    shape = first.contexts.shape
    for words, contexts in (
        ("contexts at the lower corner", np.broadcast_to(low, shape)),
        ("contexts at the upper corner", np.broadcast_to(high, shape)),
        ("contexts beyond any clip", BEYOND * first.contexts),
        ("contexts of NaN", np.full(shape, np.nan)),
    ):
        found[words] = replace(first, contexts=contexts)
    found["contexts and answers of 0"] = replace(first, contexts=np.zeros(shape), feedback=np.zeros(users))
    for words, action in zip(("the first action", "the last action"), actions(env, first), strict=True):
        found[words] = replace(first, actions=np.broadcast_to(action, first.actions.shape).copy())
    for seed in (1, 2):
        found[f"users drawn by seed {seed}"] = drawn(env, users, seed)
    return found


def extremes(env: gym.Env[Any, Any], seen: Records) -> tuple[Array, Array]:
    """Return the least and the largest feedback of each user, shape (n,) each."""
    if isinstance(env.action_space, Assortments):
        pairs = [answers(env, seen, action) for action in seen.actions]
        return np.array([one for one, _ in pairs], float), np.array([other for _, other in pairs], float)
    least, most = answers(env, seen, seen.actions[0])
    return np.full(len(seen.feedback), least), np.full(len(seen.feedback), most)
