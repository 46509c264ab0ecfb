"""The game of schedules with any joint agent: after which users its release changes, and its ``frozen_rounds``."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Floats
from privbandit_agents.audits.pairs.populations import Boundary, boundaries, crowds
from privbandit_agents.audits.pairs.records import USERS_A_RUN, Records, drawn
from privbandit_agents.audits.views.reports import Contrast
from privbandit_agents.audits.views.transcript import portions, schedule, transcript


class ScheduleGame(AgentGame):
    """Look after every user whether the release has changed, and at ``frozen_rounds``; at nothing else.

    If a schedule depends on raw data, some two populations have different ones. Half-way populations, whose first users
    are those of the one and whose others those of the other, then have one schedule up to some user and another one
    from there on: bisection finds two neighbours between whom it changes, given an agent's seed. Such neighbours are
    tried with agents of other seeds. So are pairs of records right after few users with the first one. A schedule may
    well depend on releases, and on noise: so it is fresh runs that decide, of the neighbours that pilot runs separate
    best.
    """

    statistics = Contrast.statistics
    part = "schedule"
    seen = f"after which of up to {USERS_A_RUN} users the release changes, and what frozen_rounds says after each"
    unseen = "what is released, actions, and other populations"
    runs, budget = 6000, 60_000
    pilots, fits = 60, 400
    heats: ClassVar[Sequence[tuple[int, int]]] = ((3, 400),)
    seeds, most = 1, 4

    def prepare(self) -> None:
        self.users = min(USERS_A_RUN, getattr(self.env.unwrapped, "horizon", USERS_A_RUN))
        self.others = drawn(self.env)[: self.users]
        self.columns = self.irregular()
        self.found = boundaries(self.schedule, self.env, self.users, self.agent(0), self.seeds, self.most)
        if not self.found:
            self.runs, self.pair = 20, "populations that differ in everything: all had one schedule"
            self.blind = True
            return
        early = crowds(self.env, self.others, self.agent(0))
        shares = [(one.apart(self.schedule, range(self.seeds, self.seeds + 40)), one) for one in early]
        self.found += [one for share, one in sorted(shares, key=lambda one: -one[0])[:8] if share]
        super().prepare()
        self.pair = f"{self.scene.words} (the worst of {len(self.found)} boundaries)"
        # a run that ends with the target is short: there are many, which show rare changes
        self.users_a_run = len(self.scene.worlds[0].feedback)

    def scenes(self) -> list[Boundary]:
        return self.found

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        return super().play(world, runs, rng) if self.found else np.zeros((runs, len(self.statistics)))

    def irregular(self) -> list[int] | slice:
        """Return which numbers of the release do not change after every single user."""
        one_by_one = portions(self.others, range(1, 1 + self.users))
        told = [look.release for look in transcript(self.agent(0), one_by_one)]
        if len({len(release) for release in told}) > 1:
            return slice(None)
        found: list[int] = np.flatnonzero(~(np.diff(np.array(told), axis=0) != 0).all(axis=0)).tolist()
        return found

    def tried(self, scene: Boundary, runs: int) -> tuple[Any, tuple[float, float]]:
        """Try a boundary: the more often, the fewer users a run has."""
        return super().tried(scene, min(8 * runs, runs * self.users // len(scene.worlds[0].feedback)))

    def schedule(self, seed: int, users: Records, start: int | None) -> Floats:
        return schedule(self.agent(seed), users[: self.users], self.columns, start)

    def observed(self, scene: Boundary, world: int, runs: int, rng: Generator) -> Floats:
        """Return how long the batch of the target was when it ended, the next changes, and all from the target on."""
        rows = []
        for _ in range(runs):
            seen = self.schedule(int(rng.integers(2**31)), scene.worlds[world], scene.place)
            changes, rest = np.flatnonzero(seen[0]), seen[:, scene.place :]
            before, later = np.split(changes, [np.searchsorted(changes, scene.place)])
            times = np.append(later - scene.place, np.full(4, self.users - scene.place))[:4]
            length = scene.place + times[0] - (before[-1] if len(before) else -1)
            rows.append(np.concatenate([[length], times, rest.ravel()]))
        return np.array(rows)
