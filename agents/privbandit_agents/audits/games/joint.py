"""The game with any joint agent: what is released after the first user, and what later users are offered."""

import math
import time
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from gymnasium.spaces import Discrete
from numpy.random import Generator

from privbandit_agents.audits.agents import FINALISTS, AgentGame, AnyAgentGame
from privbandit_agents.audits.claims import Floats
from privbandit_agents.audits.games.batches import BatchCanaries
from privbandit_agents.audits.games.pairs import joint_pairs
from privbandit_agents.audits.games.readings import STATISTICS, Billboard, Exact, Layout, Readings
from privbandit_agents.audits.records import USERS, Pair, Records, drawn
from privbandit_agents.audits.schedules.game import ScheduleGame
from privbandit_agents.audits.schedules.populations import populations
from privbandit_agents.registry import spaces_of

READINGS = 12
"""Times at which is looked, at most."""
CHANGES = 8
"""The first of them are so many changes of the policy; then users double from one to the next."""
USERS_A_RUN = 256
"""Users of a run, at most."""
PROBES = 32
AMONG = ("contexts and answers of 0", "contexts beyond any clip", "answers beyond any clip")
"""Populations among whom the best pairs are tried once more."""
TRIED_AMONG = 2
"""So many pairs."""
TIMED = 3
"""Runs that are timed."""
MANY, LONG = 40_000, 12.0
"""Runs, and CPU seconds, for claims of pure privacy, where one clear event tells more than many guesses."""
PILOTING = 5.0
"""CPU seconds that pilot runs of a game may take, about: they become fewer if an agent is slow, by a third at most."""
STRICT = 0.001
"""Error probability of the bounds by which few pilot runs show a fault."""


@dataclass(frozen=True)
class Scene:
    """Two records that the first user may have, and the users who come after; ``words`` says what these are."""

    pair: Pair
    others: Records
    words: str


class FirstRelease(AnyAgentGame[Scene]):
    """Replace the first user's record; look at the release, and at the actions towards probe users, once.

    The probes, and the users who come after the target, are drawn from the environment. The pairs of records that are
    easiest to tell apart are also tried among users who hide them least: such as have nothing to tell, or far too much.
    A run takes no longer than the first change of the policy, so that there can be many.
    """

    part = "first release"
    seen = f"the first release, and the actions towards {PROBES} probe users after it"
    unseen = "later releases, targets after the first user, and other pairs of records"
    statistics = STATISTICS
    runs = 2000
    pilots, finals, fits = 60, 200, 1000
    times: ClassVar[int] = 1
    layout = Layout(0, 1, 0)

    def prepare(self) -> None:
        if self.times == 1 and self.claim.rho is None and not self.claim.delta:  # canaries have less power
            self.runs, self.seconds = MANY, LONG
        self.hidden, self.start = [np.zeros(0), np.zeros(0)], 0
        self.shorten()
        super().prepare()
        self.hurry(self.pilots)

    def shorten(self) -> None:
        """Make pilot runs fewer if the agent is slow."""
        scenes = self.scenes()
        self.collected(scenes[0], 0, 1, np.random.default_rng(7))  # the first one may prepare something
        started = time.process_time()
        self.collected(scenes[0], 0, TIMED, np.random.default_rng(7))
        took = (time.process_time() - started) / TIMED
        plays = 2 * (self.pilots * len(scenes) + self.finals * FINALISTS + self.fits)
        share = min(1.0, max(PILOTING / (took * plays + 1e-9), 1 / 3))
        for name in ("pilots", "finals", "fits"):
            setattr(self, name, math.ceil(share * getattr(self, name)))

    def scenes(self) -> list[Scene]:
        self.others = drawn(self.env)
        return [Scene(pair, self.others, pair.words) for pair in joint_pairs(self.env, self.others, self.agent(0))]

    def stronger(self, factor: float) -> Self | None:
        return self.larger(factor)

    def further(self, best: list[Scene]) -> list[Scene]:
        found = populations(self.env, USERS, self.agent(0))
        return [
            Scene(scene.pair, found[name], f"{scene.words}, among {name}")
            for scene in best[:TRIED_AMONG]
            for name in AMONG
            if name in found
        ]

    def paired(self, scene: Scene, runs: int) -> list[Floats]:
        """Return what pilot runs see in both worlds, whose agents have the same seeds.

        Where they draw the same noise, the difference of the worlds' means is known after few runs. A curator need not
        tell as many numbers in all runs: the longest release says how many are looked at.
        """
        found = [self.collected(scene, world, runs, np.random.default_rng(7)) for world in (0, 1)]
        width = max(len(release) for _, told in found for releases in told for release in releases)
        self.layout = Layout(found[0][0].shape[1], self.times, width)
        return [self.table(*one, width) for one in found]

    def contrast_of(self, zero: Floats, one: Floats) -> Any:
        hidden = Exact(self.hidden[0], self.hidden[1], self.layout.actions + self.start)
        return Readings.of(zero, one, self.layout, hidden)

    def worth(self, contrast: Any, held_out: tuple[Floats, Floats], alpha: float = STRICT) -> tuple[float, float]:
        """Return the bound if it shows a fault, else 0; then how far apart the means of the releases are."""
        bound, _ = super().worth(contrast, held_out, alpha)
        claimed = self.claim.epsilon if self.claim.rho is None else self.claim.rho
        return bound if bound > claimed else 0.0, contrast.distance

    def observed(self, scene: Scene, world: int, runs: int, rng: Generator) -> Floats:
        """Return the actions and then the releases of each run, as wide as in the pilot runs."""
        readings: Any = self.contrast
        return self.table(*self.collected(scene, world, runs, rng), readings.layout.width)

    def collected(self, scene: Scene, world: int, runs: int, rng: Generator) -> tuple[Floats, list[list[Floats]]]:
        """Return the actions of each run, as indicators of arms, (runs, a), and its releases at all times."""
        target = scene.pair.users(world, 1)
        found = [self.readings(self.fresh(rng), target, scene.others, world) for _ in range(runs)]
        return np.stack([np.concatenate(acted) for acted, _ in found]), [released for _, released in found]

    def table(self, actions: Floats, told: list[list[Floats]], width: int) -> Floats:
        """Return actions and releases as rows; releases are filled with zeros, or cut, to so many numbers."""
        released = np.zeros((len(told), self.times, width))
        for row, releases in zip(released, told, strict=True):
            for k, release in enumerate(releases):
                row[k, : len(release)] = release[:width]
        return np.column_stack([actions, released.reshape(len(told), -1)])

    def readings(self, agent: Any, target: Records, others: Records, world: int) -> tuple[list[Floats], list[Floats]]:
        """Serve the target and then others; return the actions towards the probes and the releases, at all times."""
        (_, space), probes, served = spaces_of(self.env), self.others.contexts[:PROBES], 0
        limit = min(USERS_A_RUN, getattr(self.env.unwrapped, "horizon", USERS_A_RUN))
        acted: list[Floats] = []
        released: list[Floats] = []
        board = Billboard(agent)
        while len(acted) < self.times and served < limit:
            n = agent.frozen_rounds() if len(acted) < CHANGES else max(agent.frozen_rounds(), served)
            n = min(n, limit - served)
            rest = others[np.arange(served + (not served), served + n) % len(others.feedback)]
            for block in [target, rest] if served == 0 else [rest]:
                if len(block.feedback):
                    agent.update(block.contexts, block.actions, block.feedback)
            served += n
            chosen = np.asarray(agent.select_action(probes))
            if isinstance(space, Discrete):  # one indicator for each arm
                chosen = chosen[:, None] == np.arange(space.start, space.start + space.n)
            acted.append(chosen.astype(np.float64).ravel())
            released.append(board.look())
        if board.hidden is not None:
            self.hidden[world], self.start = board.hidden, board.start
        missing = self.times - len(acted)
        return acted + acted[-1:] * missing, released + released[-1:] * missing


class JointGame(FirstRelease):
    """Look again and again: at each change of the policy at first, then whenever users have doubled."""

    part = "all releases"
    seen = f"the releases, and the actions towards {PROBES} probe users, at up to {READINGS} times after the first user"
    unseen = "targets after the first user, and other pairs of records"
    runs, seconds = 1000, 4.0
    pilots, finals, fits = 20, 60, 200
    times = READINGS
    besides: ClassVar[tuple[type[AgentGame], ...]] = (FirstRelease, ScheduleGame, BatchCanaries)
