"""The game of schedules with any joint agent: after which users its release changes, and its ``frozen_rounds``."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Floats
from privbandit_agents.audits.pairs.populations import opposites
from privbandit_agents.audits.pairs.records import USERS_A_RUN, Records, drawn
from privbandit_agents.audits.views.reports import Contrast
from privbandit_agents.audits.views.transcript import portions, transcript

SEEDS = 2
"""Seeds of agents whose runs find boundaries; six further ones try them."""
KEPT = 4
"""Boundaries that pilot runs look for; they stop once this number is the same for all seeds."""


@dataclass(frozen=True)
class Boundary:
    """Two neighbouring populations, which differ in the user at ``place``, and their description."""

    worlds: tuple[Records, Records]
    place: int
    words: str


class ScheduleGame(AgentGame):
    """Look after every user whether the release has changed, and at ``frozen_rounds``; at nothing else.

    If a schedule depends on raw data, some two populations have different ones. Half-way populations, whose first users
    are those of the one and whose others those of the other, then have one schedule up to some user and another one
    from there on: bisection finds two neighbours between whom it changes, given an agent's seed. Such neighbours are
    tried with agents of other seeds. A schedule may well depend on releases, and on noise: so it is fresh runs that
    decide, of the neighbours that pilot runs separate best.
    """

    statistics = Contrast.statistics
    part = "schedule"
    seen = f"after which of up to {USERS_A_RUN} users the release changes, and what frozen_rounds says after each"
    unseen = "what is released, actions, and other populations"
    runs, budget = 400, 160_000
    pilots, fits = 30, 100

    def prepare(self) -> None:
        self.found = self.boundaries()
        if not self.found:
            self.runs, self.pair = 20, "populations that differ in everything: all had one schedule"
            self.blind = True
            return
        super().prepare()
        self.pair = f"{self.scene.words} (the worst of {len(self.found)} boundaries)"
        # an event that never happens in one world has a bound after 12 e^epsilon runs
        self.runs = max(self.runs, min(int(12 * math.exp(min(self.claim.epsilon, 10.0))), 2000))

    def scenes(self) -> list[Boundary]:
        return self.found

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        if not self.found:
            return np.zeros((runs, len(self.statistics)))
        return super().play(world, runs, rng)

    def boundaries(self) -> list[Boundary]:
        """Return neighbours whose schedules differ for most seeds, of all that bisection finds."""
        self.users, self.columns = self.trial()
        self.users_a_run = self.users
        found: list[tuple[float, Boundary]] = []
        for seed in range(SEEDS):
            for words, one, other in opposites(self.env, self.users, self.agent(0)):
                if sum(share == 1 for share, _ in found) == KEPT:
                    break
                seen = self.schedule(seed, one)
                if not np.array_equal(seen, self.schedule(seed, other)):
                    boundary = self.bisected(seed, one, other, seen, words)
                    found.append((self.apart(boundary), boundary))
        best = sorted(found, key=lambda one: -one[0])[:KEPT]
        return [boundary for share, boundary in best if share]

    def bisected(self, seed: int, one: Records, other: Records, seen: Floats, words: str) -> Boundary:
        """Return neighbours between one population and another, whose schedule differs from that of the first."""
        same, changed = 0, self.users
        while changed - same > 1:
            middle = (same + changed) // 2
            if np.array_equal(self.schedule(seed, other[:middle].then(one[middle:])), seen):
                same = middle
            else:
                changed = middle
        worlds = (other[:same].then(one[same:]), other[:changed].then(one[changed:]))
        return Boundary(worlds, same, f"user {same + 1} of {words}")

    def apart(self, boundary: Boundary) -> float:
        """Return for which share of further seeds the two worlds have different schedules soon after the target."""
        differ = 0
        checked = 6  # further seeds
        for seed in range(SEEDS, SEEDS + checked):
            one, other = (self.schedule(seed, users, boundary.place) for users in boundary.worlds)
            differ += not np.array_equal(one, other)
        return differ / checked

    def trial(self) -> tuple[int, list[int] | slice]:
        """Return how many users a run has, and which numbers of the release do not change after every single user."""
        most = min(USERS_A_RUN, getattr(self.env.unwrapped, "horizon", USERS_A_RUN))
        told = [look.release for look in transcript(self.agent(0), one_by_one(drawn(self.env)[:most]))]
        if len({len(release) for release in told}) > 1:
            return most, slice(None)
        always = (np.diff(np.array(told), axis=0) != 0).all(axis=0)
        return most, np.flatnonzero(~always).tolist()

    def schedule(self, seed: int, users: Records, start: int | None = None) -> Floats:
        """Return whether the release changed after each user, and ``frozen_rounds`` then, shape (2, users).

        With ``start`` only users from there on count, up to the last of 4 changes.
        """
        seen, left = np.zeros((2, self.users)), 4
        looks = transcript(self.agent(seed), one_by_one(users[: self.users]))
        before = next(looks).release[self.columns]
        for t, look in enumerate(looks):
            now = look.release[self.columns]
            seen[:, t] = not np.array_equal(now, before), min(look.frozen, USERS_A_RUN)
            before = now
            if start is not None and t >= start:
                left -= int(seen[0, t])
                if not left:
                    break
        return seen[:, start or 0 :]

    def observed(self, scene: Boundary, world: int, runs: int, rng: Generator) -> Floats:
        """Return the times of the next changes, and all that is seen from the target on."""
        rows = []
        for _ in range(runs):
            seen = self.schedule(int(rng.integers(2**31)), scene.worlds[world], scene.place)
            times = np.append(np.flatnonzero(seen[0]), np.full(4, self.users))[:4]
            rows.append(np.concatenate([times, seen.ravel()]))
        return np.array(rows)


def one_by_one(users: Records) -> Iterator[Records]:
    return portions(users, range(1, 1 + len(users.feedback)))
