"""The game with any joint agent: its releases after the first user, and its actions towards later users."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Discrete
from numpy.random import Generator

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Floats
from privbandit_agents.audits.games.batches import BatchCanaries
from privbandit_agents.audits.games.schedules import ScheduleGame
from privbandit_agents.audits.pairs.populations import populations
from privbandit_agents.audits.pairs.records import USERS_A_RUN, Pair, Records, drawn
from privbandit_agents.audits.pairs.scenes import joint_pairs
from privbandit_agents.audits.views.readings import STATISTICS, Layout, Readings
from privbandit_agents.audits.views.transcript import added, changes, portions, transcript
from privbandit_agents.zoo.registry import spaces_of

PROBES = 32
LATE = 64, 512, 4096  # numbers of users after whom the target comes in some scenes, if there are so many
AMONG = (
    "contexts and answers of 0",
    "contexts beyond any clip",
    "answers beyond any clip",
    "answers far below any clip",
    "contexts at the upper corner",
    "hardly any answers",
)
"""Populations among whom the best pairs are tried once more."""
RUNS_OF_PURE = 5000  # runs for claims of epsilon: one clear event shows more than many guesses


@dataclass(frozen=True)
class Scene:
    """Two records that a user may have after some ``before``, and the users around; ``words`` describes these."""

    pair: Pair
    others: Records
    words: str
    before: int = 0


class JointGame(AgentGame):
    """Replace the first user's record; look again and again at the releases, and at the actions towards probe users.

    It looks at each change of the policy at first, then whenever users have doubled. The probes, and the users who come
    after the target, are drawn from the environment. The pairs of records that are easiest to separate are also tried
    among users who hide them least: with records of zeros, or far beyond any clip.
    """

    part = "all releases"
    seen = f"the releases, and the actions towards {PROBES} probe users, at up to 16 times after the target"
    unseen = "most targets but the first user, users after the horizon, and other pairs of records"
    statistics = STATISTICS
    runs, budget = 1000, 200_000
    pilots, fits = 16, 200
    heats: ClassVar[Sequence[tuple[int, int]]] = ((4, 60),)
    times: int = 16
    among: int = 1  # pairs that are tried among all of ``AMONG``
    layout = Layout(0, 1, 0)

    def prepare(self) -> None:
        if self.times == 1 and self.claim.rho is None:  # canaries have less power
            self.runs, self.budget = RUNS_OF_PURE, 200_000  # users of all runs
        self.others = drawn(self.env)
        self.looks = self.trial()
        self.users_a_run = self.looks[-1] + PROBES * len(self.looks)
        super().prepare()

    def trial(self) -> list[int]:
        """Return the numbers of users after which to look: as the view changes in a trial run, then doubling."""
        most = self.horizon
        head, first = self.others[: min(most, USERS_A_RUN)], min(self.times, 8)
        found = changes(self.agent(0), head, self.others.contexts[:PROBES], first) or [len(head.feedback)]
        while len(found) < self.times and found[-1] < most:
            found.append(min(2 * found[-1], most))
        return found

    @property
    def horizon(self) -> int:
        return getattr(self.env.unwrapped, "horizon", USERS_A_RUN)

    def looks_of(self, scene: Scene) -> list[int]:
        """Return after how many users, from the target on, to look in a scene: none comes after the horizon."""
        room = max(self.horizon - scene.before, 1)
        return [users for users in self.looks if users <= room] or [room]

    def scenes(self) -> list[Scene]:
        pairs = joint_pairs(self.env, self.others, self.agent(0), self.answers)
        return [Scene(pair, self.others, pair.words) for pair in pairs]

    def further(self, best: list[Scene]) -> list[Scene]:
        found = populations(self.env, USERS_A_RUN, self.agent(0))
        some = [(name, found[name]) for name in AMONG if name in found]
        late = [users for users in LATE if self.times > 1 and users < self.horizon]
        return [
            Scene(scene.pair, others, f"{scene.words}, among {name}")
            for scene in best[: self.among]
            for name, others in [*some, ("users with the first record", scene.pair.users(0, USERS_A_RUN))]
        ] + [
            replace(scene, before=users, words=f"{scene.words}, after {users} users")
            for scene in best[:2]
            for users in late
        ]

    def tried(self, scene: Scene, runs: int) -> tuple[Any, tuple[float, float]]:
        """Try a scene; at first, among many, by the first looks alone."""
        every = self.looks
        self.looks = every[: 8 if runs == self.pilots else len(every)]
        try:
            return super().tried(scene, runs)
        finally:
            self.looks = every

    def paired(self, scene: Scene, runs: int) -> list[Floats]:
        """Return what pilot runs see in both worlds, whose agents have the same seeds.

        Where they draw the same noise, the difference of the worlds' means is known after few runs. A curator need not
        release equally many numbers in all runs: the longest release decides how many are read.
        """
        found = [self.collected(scene, world, runs, np.random.default_rng(7)) for world in (0, 1)]
        width = max(len(release) for _, told in found for releases in told for release in releases)
        self.layout = Layout(found[0][0].shape[1], len(self.looks_of(scene)), width)
        return [self.table(*one, width) for one in found]

    def contrast_of(self, zero: Floats, one: Floats) -> Any:
        return Readings.of(zero, one, self.layout)

    def worth(self, held_out: tuple[Floats, Floats], alpha: float = 0.001) -> float:
        """Return the bound if it shows a fault, else 0."""
        bound = super().worth(held_out, alpha)
        return bound if bound > self.claim.level else 0.0

    def tie(self, worlds: list[Floats]) -> float:
        """Return how far apart the means of the releases are, by all runs: few of them may count the target at all.

        An action that all runs of a world take, and none of the other, is infinitely far.
        """
        zero, one = worlds
        acted = [world[:, : self.layout.actions] for world in worlds]
        firm = [(each == each[:1]).all(axis=0) for each in acted]
        if (firm[0] & firm[1] & (acted[0][0] != acted[1][0])).any():
            return math.inf
        apart, pure = Readings.of(zero, one, self.layout, brief=True), self.claim.rho is None and not self.claim.delta
        return float(apart.loss if pure else apart.distance)

    def observed(self, scene: Scene, world: int, runs: int, rng: Generator) -> Floats:
        readings: Any = self.contrast
        return self.table(*self.collected(scene, world, runs, rng), readings.layout.width)

    def collected(self, scene: Scene, world: int, runs: int, rng: Generator) -> tuple[Floats, list[list[Floats]]]:
        """Return the actions of each run, as indicators of arms, (runs, a), and its releases at all times."""
        looks, found = self.looks_of(scene), []
        others = scene.others[np.arange(1, looks[-1]) % len(scene.others.feedback)]
        users = scene.pair.users(world, 1).then(others)
        earlier = scene.others[np.arange(scene.before) % len(scene.others.feedback)]
        for _ in range(runs):
            agent = self.fresh(rng)
            if scene.before:
                agent.update(earlier.contexts, earlier.actions, earlier.feedback)
            found.append(self.readings(agent, users, looks))
        return np.stack([np.concatenate(acted) for acted, _ in found]), [released for _, released in found]

    def table(self, actions: Floats, told: list[list[Floats]], width: int) -> Floats:
        """Return actions and releases as rows; releases are filled with zeros, or cut, to ``width`` numbers."""
        released = np.zeros((len(told), len(told[0]), width))
        for row, releases in zip(released, told, strict=True):
            for k, release in enumerate(releases):
                row[k, : len(release)] = release[:width]
        return np.column_stack([actions, released.reshape(len(told), -1)])

    def readings(self, agent: Any, users: Records, looks: list[int]) -> tuple[list[Floats], list[Floats]]:
        """Serve users; return actions towards probes, and the release and all publications, at all times."""
        acted, released, told = list[Floats](), list[Floats](), np.zeros(0)
        probes = self.others.contexts[:PROBES]
        for look in transcript(agent, portions(users, looks)):
            if look.users:
                told = added(told, look.news)
                acted.append(self.indicators(agent.select_action(probes)))
                released.append(np.concatenate([look.release, told]))
        return acted, released

    def indicators(self, chosen: Any) -> Floats:
        """Return the actions towards the probes; of arms an indicator for each."""
        _, space = spaces_of(self.env)
        if isinstance(space, Discrete):
            chosen = chosen[:, None] == np.arange(space.start, space.start + space.n)
        return np.asarray(chosen, np.float64).ravel()


class FirstRelease(JointGame):
    """Look at the first change alone: runs are short, so that there can be many."""

    besides = ()
    part = "first release"
    seen = f"the first release, and the actions towards {PROBES} probe users after it"
    unseen = "later releases, targets after the first user, and other pairs of records"
    runs = 2000
    pilots = 24
    fits = 1000
    heats: ClassVar = ((8, 60), (4, 200))
    times = 1
    among = 6


JointGame.besides = (FirstRelease, ScheduleGame, BatchCanaries)
