"""Games with a person who comes again and again, for agents with ``people``: all of the person's records are replaced.

The person's visits are at the same times in both worlds, among others who come once. What the person is offered is not
looked at, as in every audit of a promise towards others.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from privbandit_agents.audits.claims import Floats
from privbandit_agents.audits.games.joint import FirstRelease
from privbandit_agents.audits.games.joint import Scene as JointScene
from privbandit_agents.audits.games.local import NEW, LocalGame, Scene
from privbandit_agents.audits.games.shuffled import ShuffleGame
from privbandit_agents.audits.pairs.records import USERS_A_RUN, Pair, Records, drawn, pairs
from privbandit_agents.audits.views.reports import flattened
from privbandit_agents.base.people import Seen
from privbandit_agents.base.state import rekey

PART = "all visits of a person"
VISITS = 43
"""How often the person comes."""


class JointPersonGame(FirstRelease):
    """Replace all records of one person; look at the releases, and at the actions towards probe users.

    Gaussian noise is presumed, beside the claim, of agents that say so.
    """

    part = PART
    seen = f"the releases and actions towards probe users among {USERS_A_RUN} visits, {VISITS} of them of one person"
    unseen = "other times of the person's visits, and records that differ from visit to visit"
    pilots, fits = 24, 600
    heats: ClassVar = ((3, 100),)
    visits: ClassVar[int] = VISITS

    def prepare(self) -> None:
        super().prepare()
        self.presumed = self.of_gaussian_noise()

    def trial(self) -> list[int]:
        most = min(USERS_A_RUN, getattr(self.env.unwrapped, "horizon", USERS_A_RUN))
        looks = [2**k for k in range(most.bit_length()) if 2**k >= min(8, most)]
        places = np.linspace(0, looks[-1] - 1, min(self.visits, looks[-1])).astype(int)
        self.ids = np.arange(1, looks[-1] + 1)
        self.ids[places] = 0
        return looks

    def scenes(self) -> list[JointScene]:
        return [JointScene(pair, self.others, pair.words) for pair in pairs(self.env, self.others)]

    def further(self, best: list[JointScene]) -> list[JointScene]:
        return []

    def script(self, scene: JointScene, world: int) -> Records:
        """Return the person's visits among the others'."""
        users, others = scene.pair.users(world, 1).then(scene.others), len(scene.others.feedback)
        return replace(users[np.where(self.ids, 1 + np.arange(len(self.ids)) % others, 0)], ids=self.ids)


class LocalPersonGame(LocalGame):
    """Look at all that a device sends while its person comes again and again, with the same record."""

    part = PART
    seen = f"the sum of all that a device sends at {VISITS} visits of its person, to a new server"
    unseen = "other records, records that differ from visit to visit, and servers that have learned"
    settings: ClassVar = {"people": 2**20}
    heats: ClassVar = ((6, 2000), (3, 4000))
    runs = 50_000
    visits: ClassVar[int] = VISITS

    def pairs(self, env: Any, server: Any) -> list[Pair]:
        return pairs(env, drawn(env))

    def each_scene(self) -> Iterator[Scene]:
        return (scene for scene in super().each_scene() if scene.words.endswith(NEW) and scene.next is None)

    def observed(self, scene: Scene, world: int, runs: int, rng: Generator) -> Floats:
        most = max(64, 2**18 // self.visits)
        parts = [self.devices(scene, world, max(64, min(most, runs - start)), rng) for start in range(0, runs, most)]
        return np.concatenate(parts)[:runs]

    def devices(self, scene: Scene, world: int, devices: int, rng: Generator) -> Floats:
        """Return what so many devices send, each at all visits of its person: the ratio, and the sum of reports."""
        agent = copy.copy(scene.agent)
        rekey(agent, rng)
        agent.rng, agent.people_seen = rng.spawn(1)[0], Seen(agent.config.people)
        sent = scene.pair.users(world, devices * self.visits)
        records = agent.records_of(sent.contexts, sent.actions, sent.feedback)
        reported = agent.first_visits(records, np.tile(np.arange(devices), self.visits))
        reports = agent.randomize(*reported)
        rows = len(reported[2])
        columns = np.column_stack([self.known(scene)(reports, rows), flattened(reports, rows)])
        return np.asarray(columns.reshape(rows // devices, devices, -1).sum(axis=0))


class ShufflePersonGame(ShuffleGame):
    """Look at all messages of the first batches, into which one person and others throw theirs in turn."""

    part = PART
    seen = f"the messages of the first {USERS_A_RUN // 16} visits' batches, every second visit one person's"
    runs = 2000
    pilots, fits = 40, 600
    heats: ClassVar = ((3, 200),)
    visits: ClassVar[int] = USERS_A_RUN // 32

    def scenes(self) -> list[Pair]:
        self.others = drawn(self.env)
        return pairs(self.env, self.others)

    def observed(self, scene: Pair, world: int, runs: int, rng: Generator) -> Floats:
        target, told = scene.users(world, 1), []
        ids = np.where(np.arange(2 * self.visits) % 2, 1 + np.arange(2 * self.visits), 0)
        users = target.then(self.others)[np.where(ids, 1 + ids % len(self.others.feedback), 0)]
        for _ in range(runs):
            agent, seen = self.fresh(rng), [np.zeros(1)]
            learn = agent.absorb

            def absorb(bag: Any, size: int, seen: list[Any] = seen, learn: Any = learn) -> None:
                seen[0] = seen[0] + np.asarray(bag, float)
                learn(bag, size)

            agent.absorb = absorb
            agent.update(users.contexts, users.actions, users.feedback, ids)
            told.append(seen[0])
        return np.stack(told)
