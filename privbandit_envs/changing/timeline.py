"""Worlds that change: parameters that jump and drift, laws of users that shift."""

import copy
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from privbandit_envs.problem import ArmProblem, Array, Floats, Problem
from privbandit_envs.validate import count, number, shown

TIME = ("jumps", "drift", "shifts")
"""Arguments of every environment that make its world change."""
EVERY = 50
"""Number of users between two turns of a drifting parameter."""


@dataclass(frozen=True)
class Changes:
    """When and how a world changes; the first user is number 0.

    Attributes:
        jumps: numbers of users, from whom on the hidden parameter is another one, drawn anew.
        drift: angle in radians by which the parameter turns with every user, in a plane that is drawn.
        shifts: from a number of users to arguments of the family that are others from there on; the parameter stays.

    Raises:
        ValueError: a number that is no integer >= 1, or comes twice; a drift that is no finite number.
    """

    jumps: tuple[int, ...]
    drift: float
    shifts: Mapping[int, Mapping[str, Any]]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Changes":
        """Return the changes over time in an environment's arguments."""
        jumps, drift, shifts = (config.get(name) for name in TIME)
        jumps, drift, shifts = () if jumps is None else jumps, 0.0 if drift is None else drift, shifts or {}
        if isinstance(jumps, str) or not isinstance(jumps, Sequence | np.ndarray):
            raise ValueError(f"jumps must be a list of numbers of users; got {shown(jumps)}.")
        if not isinstance(shifts, Mapping) or not all(isinstance(new, Mapping) for new in shifts.values()):
            raise ValueError(f"shifts must be a table from numbers of users to arguments; got {shown(shifts)}.")
        times = tuple(sorted(count(jumps=user) for user in jumps))
        if len(set(times)) < len(times):
            raise ValueError(f"jumps must be different numbers of users; got {shown(jumps)}.")
        moved = {count(shifts=int(user) if str(user).isdecimal() else user): dict(new) for user, new in shifts.items()}
        return cls(times, number(drift=drift), moved)

    def __bool__(self) -> bool:
        return bool(self.jumps or self.drift or self.shifts)


class Timeline(Problem):
    """A world that is another one from some users on; ``at(user)`` is the world that a user meets.

    Questions without a time are answered for the first user. Nobody is served by counts.

    Args:
        made: builds a world of the family from a generator and arguments.
        config: arguments of the first one.
        changes: what happens.
        seed: of the hidden parameters; the first ones are those of the world that does not change.

    Raises:
        ValueError: a family without a hidden parameter jumps or drifts, a jump changes nothing, or a shift changes the
            spaces.
    """

    def __init__(
        self,
        made: Callable[[Generator, dict[str, Any]], Problem],
        config: dict[str, Any],
        changes: Changes,
        seed: SeedSequence,
    ) -> None:
        self.changes, self.worlds, self.starts = changes, [made(default_rng(seed), config)], [0]
        first = self.worlds[0]
        self.observation_space, self.action_space = first.observation_space, first.action_space
        self.public_data, self.n_rows = getattr(first, "public_data", None), first.n_rows
        self.units = first.units
        self.auxiliary_data = getattr(first, "auxiliary_data", None)
        if (changes.jumps or changes.drift) and not first.hidden:
            raise ValueError(f"{type(first).__name__} has no hidden parameter that could jump or drift.")
        for user, new in changes.shifts.items():
            if given := [name for name in first.hidden if name in new]:
                raise ValueError(
                    f"the shift at {user} gives {given[0]}, the parameter, which shifts leave; jumps change it."
                )
        keys = seed.spawn(2 * len({*changes.jumps, *changes.shifts}) + 1)
        for user in sorted({*changes.jumps, *changes.shifts}):
            config = {**config, **changes.shifts.get(user, {})}
            key, before = keys.pop(), self.worlds[-1]
            world = settled(made(default_rng(key), config), first)
            for again in key.spawn(64) if user in changes.jumps else ():  # few parameters: the same may come again
                if not np.array_equal(parameter(world), parameter(before)):
                    break
                world = settled(made(default_rng(again), config), first)
            if (world.observation_space, world.action_space) != (first.observation_space, first.action_space):
                raise ValueError(f"the shift at {user} changes the spaces; agents are made for those of the beginning.")
            if user not in changes.jumps:
                for name in first.hidden:
                    setattr(world, name, getattr(before, name))
            elif np.array_equal(parameter(world), parameter(before)):
                raise ValueError(f"the jump at {user} changes nothing: {first.hidden[0]} is given.")
            self.worlds.append(world)
            self.starts.append(user)
        self.planes = [plane(parameter(w), default_rng(keys[0])) for w in self.worlds] if changes.drift else []

    def at(self, user: int) -> Problem:
        place = bisect_right(self.starts, user) - 1
        world = self.worlds[place]
        steps = (user - self.starts[place]) // EVERY * EVERY
        return turned(world, self.planes[place], self.changes.drift * steps) if self.changes.drift and steps else world

    def unchanged(self, user: int) -> int:
        place = bisect_right(self.starts, user)
        left = self.starts[place] - user if place < len(self.starts) else super().unchanged(user)
        return min(left, EVERY - (user - self.starts[place - 1]) % EVERY) if self.changes.drift else left

    def visits(self, users: int) -> int:
        return self.worlds[0].visits(users)

    def contexts(self, n: int, rng: Generator) -> Array:
        return self.worlds[0].contexts(n, rng)

    def expected_reward(self, contexts: Array, actions: Array) -> Floats:
        return self.worlds[0].expected_reward(contexts, actions)

    def best_action(self, contexts: Array) -> Array:
        return self.worlds[0].best_action(contexts)

    def outcome(self, contexts: Array, actions: Array, rng: Generator) -> tuple[Array, Floats]:
        return self.worlds[0].outcome(contexts, actions, rng)

    def fixed_policy(self, first: int, users: int) -> Callable[[Array], Array] | None:
        """Return the fixed policy that is best on average over these users' moments; None where arms have no means.

        Its average is over all moments of a world that jumps, and over 32 of one that drifts.
        """
        last = first + users
        n = 32  # moments of a world that drifts
        if self.changes.drift:
            moments = np.linspace(first, last, n, endpoint=False).astype(int).tolist()
            weighted = [(self.at(user), users / n) for user in moments]
        else:
            ends = [*self.starts[1:], last]
            lasting = [min(end, last) - max(start, first) for start, end in zip(self.starts, ends, strict=True)]
            weighted = [(world, float(n)) for world, n in zip(self.worlds, lasting, strict=True) if n > 0]
        worlds = [(world, weight) for world, weight in weighted if isinstance(world, ArmProblem)]
        if len(worlds) < len(weighted):
            return None
        return lambda users: np.asarray(sum(weight * world.means(users) for world, weight in worlds)).argmax(axis=1)


def settled(world: Problem, first: Problem) -> Problem:
    """Return a world of a time line with what it has from the first one."""
    world.settle(first)
    return world


def parameter(world: Problem) -> Floats:
    """Return a world's hidden parameter, shape (d,)."""
    return np.asarray(getattr(world, world.hidden[0]), np.float64)


def plane(theta: Floats, rng: Generator) -> tuple[Floats, Floats]:
    """Return theta's direction and an orthogonal one that is 0 where theta is, both of length 1.

    Raises:
        ValueError: theta has fewer than two entries that are not 0, so that it cannot turn.
    """
    across = rng.standard_normal(len(theta)) * (theta != 0)
    if np.count_nonzero(theta) < 2:
        raise ValueError("a parameter with fewer than two entries that are not 0 cannot drift.")
    along = theta / np.linalg.norm(theta)
    across -= (across @ along) * along
    return along, across / np.linalg.norm(across)


def turned(world: Problem, of: tuple[Floats, Floats], angle: float) -> Problem:
    """Return a world with its hidden vectors turned in a plane."""
    along, across = of
    moved = copy.copy(world)
    for name in world.hidden:
        x = getattr(world, name)
        if isinstance(x, np.ndarray) and x.dtype.kind == "f":
            a, b = along @ x, across @ x
            x = x + (math.cos(angle) - 1) * (np.multiply.outer(along, a) + np.multiply.outer(across, b))
            x = x + math.sin(angle) * (np.multiply.outer(across, a) - np.multiply.outer(along, b))
            setattr(moved, name, x)
    return moved
