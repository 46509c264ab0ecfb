"""The game with any local agent: what one user's device sends, to a new server and to one that has learned."""

import copy
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Self

import gymnasium as gym
import numpy as np
from numpy.random import Generator

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Claim, Floats
from privbandit_agents.audits.games.servers import NEW, Servers, late, layered, layered_pairs, sure, unsure, usual
from privbandit_agents.audits.pairs.records import Pair, Records, answered, drawn, pairs
from privbandit_agents.audits.pairs.scenes import allowed, local_pairs
from privbandit_agents.audits.views.reports import Contrast, numbers, padded
from privbandit_agents.base.state import rekey
from privbandit_agents.privacy.randomizers.gaussian import GaussianReport


@dataclass(frozen=True)
class Scene:
    """A server, which stays as it is, and two records of a user, after each of whom ``next`` may report, too."""

    agent: Any
    pair: Pair
    words: str
    next: Records | None = None


class LocalGame(AgentGame):
    """Look at the report of one user's device, and in some scenes at the next user's, which should not depend on it.

    The statistics are those of ``Contrast``, and the exact likelihood ratio if the agent's ``inputs`` give the values
    that its devices randomize. The servers do not change in the game, so that all reports have the same law.

    A promise of (epsilon, delta) is that of Gaussian noise if the agent's ``inputs`` hand the whole of it to one
    ``GaussianReport``.
    """

    seen = "all that one user's device sends, to a new server or to one that has learned, coordinate by coordinate"
    unseen = "other records and servers, and what coordinates tell only together"
    ready: tuple[str, ...] = ("log-likelihood ratio",)
    statistics: tuple[str, ...] = (*ready, *Contrast.statistics)
    pilots = 500
    heats: ClassVar[Sequence[tuple[int, int]]] = ((12, 2000), (8, 8000))
    runs = 100_000
    presumes = True
    servers: Callable[[AgentGame], Servers] = staticmethod(usual)
    pairs: Callable[[gym.Env[Any, Any]], list[Pair]] = staticmethod(lambda env: local_pairs(env, drawn(env)))
    easiest: Sequence[Pair] = ()

    def claimed(self) -> Claim:
        """Return the guarantee, as one of Gaussian type where a Gaussian report has all of it."""
        agent, sent, found = self.agent(0), drawn(self.env, 1), super().claimed()
        inputs = agent.inputs(*agent.records_of(sent.contexts, sent.actions, sent.feedback))
        report = None if inputs is None else inputs.randomizer
        whole = isinstance(report, GaussianReport) and report.epsilon == found.epsilon
        return Claim.gaussian(found.epsilon, found.delta) if whole else found

    def prepare(self) -> None:
        # few pilot runs are made in few calls, which would hide what the devices of a call share
        effort, self.effort = self.effort, max(self.effort, 1.0)
        self.known_scores = dict[bytes, tuple[Contrast, tuple[float, float]]]()
        super().prepare()
        self.effort = effort

    def stronger(self, factor: float) -> Self | None:
        other = super().stronger(factor)
        if other is not None:  # later servers are not made
            every = chain(other.each_scene(), other.late_scenes())
            other.scene = next(scene for scene in every if scene.words == self.scene.words)
        return other

    def scenes(self) -> list[Scene]:
        return list(self.each_scene())

    def further(self, best: list[Scene]) -> list[Scene]:
        """Return the easiest pairs, and those of answers, with servers that have learned from many users."""
        own = self.agent(0)
        here = [scene for scene in best if scene.agent.observation_space == own.observation_space]
        some = {pair.words: pair for pair in (*(scene.pair for scene in here[:2]), *self.pairs(self.env)[:1])}
        self.easiest = list(some.values())
        return list(self.late_scenes())

    def late_scenes(self) -> Iterator[Scene]:
        for words, _, server in () if self.world else late(self):
            yield from (Scene(server, pair, f"{pair.words}; {words}") for pair in self.easiest)

    def each_scene(self) -> Iterator[Scene]:
        """Yield what to try, server after server, each of which is made when it is asked for."""
        for words, env, server in self.servers(self):
            mine = self.pairs(env)
            mine = allowed([*mine, *answered(mine[0], self.answers)], server)
            yield from (Scene(server, pair, f"{pair.words}; {words}") for pair in mine)
            if words.endswith(NEW):
                others = drawn(env)
                silent = replace(others[:1], feedback=np.full(1, np.nan))  # one user, so that nothing hides noise
                yield from (
                    Scene(server, pair, f"{pair.words}, and the next user's report{without}; {words}", following)
                    for pair in allowed(pairs(env, others)[:5], server)
                    for following, without in (
                        (others[:1], ""),
                        (silent, ", whose feedback is NaN"),
                        (pair.users(0, 1), ", whose record is the first of the two"),
                    )
                )

    def tried(self, scene: Scene, runs: int) -> tuple[Contrast, tuple[float, float]]:
        # two reports show a fault of the second if both are read well
        contrast, (bound, tie) = super().tried(scene, runs if scene.next is None else max(runs, 4 * self.pilots))
        counts = scene.next is None or bound > 1.05 * self.claim.level
        return contrast, (bound if counts else 0.0, tie)

    def scored(self, worlds: list[Floats]) -> tuple[Contrast, tuple[float, float]]:
        """Score equal runs once: at first many scenes show the same, such as records that the agent clips to one."""
        if len(worlds[0]) > self.pilots:  # copies were left out
            return super().scored(worlds)
        seen = hashlib.blake2b(b"".join(world.tobytes() for world in worlds)).digest()
        if seen not in self.known_scores:
            self.known_scores[seen] = super().scored(worlds)
        return self.known_scores[seen]

    def observed(self, scene: Scene, world: int, runs: int, rng: Generator) -> Floats:
        least = 64  # users of a call: more than a report has parts
        users, agent = max(runs, least), copy.copy(scene.agent)
        rekey(agent, rng)
        agent.rng = rng.spawn(1)[0]
        # what devices of a call share is seen if there are many calls
        each = least if scene.next is not None else max(least, math.ceil(users / 16))  # in 16 calls
        reports = [self.sent(agent, scene, world, each) for _ in range(math.ceil(users / each))]
        rows = each * (1 + (scene.next is not None))
        if all(isinstance(one, np.ndarray) and one.ndim and len(one) == rows for one in reports):
            if len({one.shape[1:] for one in reports}) == 1:  # all at once, which takes less time
                reports, each, rows = [np.concatenate(reports)], len(reports) * each, len(reports) * rows
        parts, told = [numbers(report, rows).reshape(each, -1) for report in reports], self.known(scene)
        width = max(part.shape[1] for part in parts)
        known = np.concatenate([told(report, each) for report in reports])
        return np.column_stack([known, np.concatenate([padded(part, width) for part in parts])])[:runs]

    def sent(self, agent: Any, scene: Scene, world: int, users: int) -> Any:
        """Return the reports of users in one call, with the next users' reports if the scene has them."""
        sent = scene.pair.users(world, users)
        if scene.next is not None:
            both = sent.then(scene.next[np.arange(users) % len(scene.next.feedback)])
            sent = both[np.arange(2 * users).reshape(2, -1).T.ravel()]  # one of these, one of those
        return agent.randomize(*agent.records_of(sent.contexts, sent.actions, sent.feedback))

    def known(self, scene: Scene) -> Callable[[Any, int], Floats]:
        """Return what makes statistics, shape (users, k), of users' reports: log-likelihood ratios, or zeros."""
        records, agent = scene.pair.records, scene.agent
        inputs = agent.inputs(*agent.records_of(records.contexts, records.actions, records.feedback))
        nothing = inputs is None or scene.next is not None

        def told(report: Any, users: int) -> Floats:
            if nothing:
                return np.zeros((users, len(self.ready)))
            try:
                first, second = (inputs.log_likelihood(report, user) for user in (0, 1))
            except NotImplementedError:  # its density is not known
                return np.zeros((users, len(self.ready)))
            with np.errstate(invalid="ignore"):
                # a report that is impossible in one world has an infinite ratio
                return np.asarray(np.clip(np.nan_to_num(first - second), -1e3, 1e3)[:, None])

        return told


class Gradients(LocalGame):
    """Look at reports to a model that is sure of label 1, too."""

    seen = "all that one user's device sends, to a new server, one that has learned, or one with a hostile model"
    settings: ClassVar = {"hidden": 2}
    heats: ClassVar = ((12, 1000), (6, 4000))  # the likelihood ratio is known, so that few runs of each scene do
    servers = staticmethod(sure)


class Kernels(LocalGame):
    """Look at reports to a model that is sure of nothing, too."""

    seen = "all that one user's device sends, to new, learned or hostile servers"
    pilots = 128
    heats: ClassVar = ((12, 1000), (6, 3000))
    servers = staticmethod(unsure)


class Layered(LocalGame):
    """Look at reports of the second layer, too."""

    seen = "all that one user's device sends, to a new server and on the second layer, below reports that lie"
    unseen = "other layers and histories, and other records"
    world: ClassVar = {"id": "privbandit/Linear-v0", "n_arms": 2, "dim": 2, "horizon": 10**6}
    runs = 25_000
    # a first layer of about a million users, whose bins stand out of any noise
    settings: ClassVar = {"first": 4 * 10**6, "gamma": 2.0}
    published: ClassVar = {"preset": "published", "kappas": (0.0, 0.0, 0.0, 0.0)}  # every bin counts as active
    servers = staticmethod(layered)
    pairs = staticmethod(layered_pairs)
