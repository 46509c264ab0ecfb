"""The game with any joint agent: what is released after the first user, and what later users are offered."""

from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np
from gymnasium.spaces import Discrete
from numpy.random import Generator

from privbandit_agents.audits.agents import AnyAgentGame
from privbandit_agents.audits.claims import Floats
from privbandit_agents.audits.games.pairs import arms
from privbandit_agents.audits.records import Pair, Records, drawn, pairs
from privbandit_agents.audits.reports import Contrast, flattened
from privbandit_agents.registry import spaces_of

READINGS = 12
"""Times at which is looked, at most."""
CHANGES = 8
"""The first of them are so many changes of the policy; then users double from one to the next."""
USERS_A_RUN = 256
"""Users of a run, at most."""
PROBES = 32


class Readings(NamedTuple):
    """What is seen in some runs, and statistics that two samples of it suggest.

    Attributes:
        everything: of actions and releases, coordinate by coordinate.
        first: of the first release.
        center: of all releases, shape (D,).
        weights: the difference of their means over their covariance (Fisher), shape (D,).
        columns: where the releases begin, and where the first one ends.
    """

    everything: Contrast
    first: Contrast
    center: Floats
    weights: Floats
    columns: tuple[int, int]

    @property
    def kept(self) -> Any:
        return self.everything.kept

    @classmethod
    def of(cls, zero: Floats, one: Floats, columns: tuple[int, int]) -> "Readings":
        """Compare samples of the two worlds, shapes (n, D)."""
        begin, end = columns
        released = [world[:, begin:] for world in (zero, one)]
        moved = released[0].mean(axis=0) - released[1].mean(axis=0)
        noise = np.concatenate([world - world.mean(axis=0) for world in released])
        spread = noise.std(axis=0) + 1e-9
        correlation = noise.T @ noise / len(noise) / np.outer(spread, spread)
        shrunk = correlation + 10 * len(spread) / len(noise) * np.eye(len(spread))
        weights = np.linalg.solve(shrunk, moved / spread) / spread
        first = Contrast.of(*(world[:, begin:end] for world in (zero, one)))
        return cls(Contrast.of(zero, one), first, released[0].mean(axis=0), weights, columns)

    def __call__(self, seen: Floats) -> Floats:
        """Return the statistics of what is seen (n, D), shape (n, 9)."""
        begin, end = self.columns
        projected = (seen[:, begin:] - self.center) @ self.weights
        return np.column_stack([self.everything(seen), self.first(seen[:, begin:end]), projected])


class FirstRelease(AnyAgentGame[Pair]):
    """Replace the first user's record; look at the release, and at the actions towards probe users, once.

    The probes, and the users who come after the target, are drawn from the environment. A run takes no longer than the
    first change of the policy, so that there can be many.
    """

    part = "first release"
    seen = f"the first release, and the actions towards {PROBES} probe users after it"
    unseen = "later releases, targets after the first user, and other pairs of records"
    statistics = (
        *(f"actions and releases: {name}" for name in Contrast.statistics),
        *(f"first release: {name}" for name in Contrast.statistics),
        "projection of all releases",
    )
    runs = 6000
    pilots, finals = 100, 300
    times: ClassVar[int] = 1
    columns = (0, 0)

    def scenes(self) -> list[Pair]:
        self.others = drawn(self.env)
        shape, found = self.env.observation_space.shape or (), pairs(self.env, self.others)
        if isinstance(self.env.action_space, Discrete) and len(shape) == 2:  # a unit vector is the farthest in l2
            found += islice(arms(shape[0], *np.eye(shape[1])[:2]), 2)
        return found

    def contrast_of(self, zero: Floats, one: Floats) -> Any:
        return Readings.of(zero, one, self.columns)

    def observed(self, scene: Pair, world: int, runs: int, rng: Generator) -> Floats:
        """Return the actions (as indicators of arms) and then the releases of each run, flattened."""
        found = [self.readings(self.fresh(rng), scene.users(world, 1)) for _ in range(runs)]
        actions = np.stack([np.concatenate(acted) for acted, _ in found])
        width = max(len(release) for _, released in found for release in released)
        released = np.zeros((runs, self.times, width))
        for row, (_, releases) in zip(released, found, strict=True):
            for k, release in enumerate(releases):
                row[k, : len(release)] = release
        self.columns = actions.shape[1], actions.shape[1] + width
        return np.column_stack([actions, released.reshape(runs, -1)])

    def readings(self, agent: Any, target: Records) -> tuple[list[Floats], list[Floats]]:
        """Serve the target and then others; return the actions towards the probes and the releases, at all times."""
        (_, space), probes, served = spaces_of(self.env), self.others.contexts[:PROBES], 0
        limit = min(USERS_A_RUN, getattr(self.env.unwrapped, "horizon", USERS_A_RUN))
        acted: list[Floats] = []
        released: list[Floats] = []
        while len(acted) < self.times and served < limit:
            n = agent.frozen_rounds() if len(acted) < CHANGES else max(agent.frozen_rounds(), served)
            n = min(n, limit - served)
            rest = self.others[np.arange(served + (not served), served + n) % len(self.others.feedback)]
            for block in [target, rest] if served == 0 else [rest]:
                if len(block.feedback):
                    agent.update(block.contexts, block.actions, block.feedback)
            served += n
            chosen = np.asarray(agent.select_action(probes))
            if isinstance(space, Discrete):  # one indicator for each arm
                chosen = chosen[:, None] == np.arange(space.start, space.start + space.n)
            acted.append(chosen.astype(np.float64).ravel())
            released.append(numbers(getattr(agent, "release", None)))
        missing = self.times - len(acted)
        return acted + acted[-1:] * missing, released + released[-1:] * missing


class JointGame(FirstRelease):
    """Look again and again: at each change of the policy at first, then whenever users have doubled."""

    part = "all releases"
    seen = f"the releases, and the actions towards {PROBES} probe users, at up to {READINGS} times after the first user"
    unseen = "targets after the first user, and other pairs of records"
    runs = 300
    pilots, finals = 40, 60
    times = READINGS
    besides = (FirstRelease,)


def numbers(release: object) -> Floats:
    """Return a release as numbers, shape (D,); one that has others has none."""
    try:
        return np.asarray(flattened(release, 1)[0])
    except TypeError:
        return np.zeros(0)
