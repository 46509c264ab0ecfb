"""Audits of agents that play arms with features: two records far apart, and probes that read an estimate of theta."""

from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Floats
from privbandit_agents.base.agent import AnyAgent, Array
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer

ROUNDS = 16
PILOTS = 4000


@runtime_checkable
class Distinguishable(Protocol):
    """A local agent for arms with features that knows which two records its reports tell apart best.

    If it also has a ``randomizer``, a LocalRandomizer with one cell that ``encode``'s vectors go through, an audit uses
    the exact likelihood of a report.
    """

    def far_apart(self) -> tuple[Array, Array]:
        """Return the features (2, d) of the chosen arms and the rewards (2,) of two records."""

    def encode(self, context: Array, action: Array, feedback: Array) -> Array:
        """Return what the devices of n users randomize, shape (n, D)."""


class FarApartGame(AgentGame):
    """Look at the report of one user, who has one of the two records that the agent calls ``far_apart``."""

    pair = "the two records that a report tells apart best"
    statistics = ("projection on the difference of means", "log-likelihood ratio")
    seen = "all that a new agent's device sends about one user"
    unseen = "reports to a server that has learned, and pairs of records that the agent does not name"

    def prepare(self) -> None:
        means = [self.reports(world, PILOTS, np.random.default_rng(7 + world)).mean(axis=0) for world in (0, 1)]
        self.direction = means[0] - means[1]  # in which the reports of the two worlds differ most

    def records(self, agent: Distinguishable, worlds: Array) -> tuple[Array, Array, Array]:
        """Return the records of users in worlds (n,); all arms have the same features."""
        features, rewards = agent.far_apart()
        shape = self.env.observation_space.shape or ()
        spread = features[worlds].reshape(len(worlds), *[1] * (len(shape) - 1), -1)
        return np.broadcast_to(spread, (len(worlds), *shape)).copy(), np.zeros(len(worlds), int), rewards[worlds]

    def reports(self, world: int, runs: int, rng: Generator) -> Floats:
        """Return the reports of so many users with the same record, flattened."""
        agent = self.fresh(rng)
        return np.asarray(agent.randomize(*self.records(agent, np.full(runs, world)))).reshape(runs, -1)

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        reports = self.reports(world, runs, rng)
        return np.stack([reports @ self.direction, self.ratio(reports)], axis=1)

    def ratio(self, reports: Floats) -> Floats:
        """Return the exact log-likelihood ratios, where the agent has a randomizer; else zeros."""
        agent = self.agent(0)
        randomizer = getattr(agent, "randomizer", None)
        if not isinstance(randomizer, LocalRandomizer):
            return np.zeros(len(reports))
        shaped = reports.reshape(len(reports), randomizer.cells, randomizer.dim)
        first, second = agent.encode(*self.records(agent, np.arange(2)))
        return randomizer.log_likelihood(shaped, 0, first) - randomizer.log_likelihood(shaped, 0, second)


class ProbeGame(AgentGame):
    """Read the estimate from the actions of probe users after every release; the other users are the adversary's.

    A probe is offered two arms whose scores cross where the estimate passes a threshold, so that a bank of them reads
    it. The target is the first user; its own action is left out, as joint privacy allows.
    """

    pair = "the first user's reward 1 or -1 at x = e1"
    statistics = (*(f"reading after {t} users" for t in range(1, ROUNDS + 1)), "sum of readings")
    seen = f"the actions of probe users after each of {ROUNDS} users, who read the estimate along e1"
    unseen = "the Gram matrix, later targets, and other pairs of records"
    world: ClassVar = {"id": "privbandit/Linear-v0", "n_arms": 2, "dim": 2, "horizon": ROUNDS}
    settings: ClassVar = {"bonus_scale": 0.0, "growth": 1.001}  # play the estimate alone, and release after every user

    def prepare(self) -> None:
        """Prepare the probes: +-cos(phi) e1 against sin(phi) e2, for angles phi from 0 to a right one."""
        angles = np.linspace(0, np.pi / 2, 101)[1:-1]
        along, across = np.cos(angles), np.sin(angles)
        arms = [np.stack([np.outer(sign * along, [1, 0]), np.outer(across, [0, 1])], axis=1) for sign in (1, -1)]
        self.probes = np.concatenate(arms).astype(np.float32)
        self.weights = np.repeat([1.0, -1.0], len(angles))
        self.target, self.pinned = (np.tile(unit, (2, 1)).astype(np.float32) for unit in np.eye(2))

    def statistic(self, agent: AnyAgent, world: int) -> Floats:
        found = np.zeros(ROUNDS)
        for t in range(ROUNDS):  # the target is the first user, the others pin the second coordinate
            agent.update(self.pinned if t else self.target, 0, 1.0 if t else 1.0 - 2.0 * world)
            found[t] = (np.asarray(agent.select_action(self.probes)) == 0) @ self.weights
        return np.append(found, found.sum())
