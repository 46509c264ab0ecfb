"""The audits of locally private classifiers: what one user's device sends, of one of two far corners."""

import dataclasses
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Claim, Floats
from privbandit_agents.base.agent import NEVER
from privbandit_agents.privacy.mechanisms.additive import Gaussian

WORLD = {"id": "privbandit/Classification-v0", "horizon": 1000}
CORNERS = np.array([[0.0, 0.0], [1.0, 1.0]])
PILOTS = 4000
CERTAIN = 1e3
"""Offset of a model that is sure of label 1."""
AWAKE = 100 * np.array([-1.0, -1, 0, 1, 1, 0, 1, 1])
"""A network but for its offset."""


class LeafGame(AgentGame):
    """The first user comes from the lower corner of the square or from the upper one, and is answered rightly."""

    pair = "features (0, 0) or (1, 1), label 1"
    statistics = ("projection on the difference of means", "log-likelihood ratio")
    seen = "all that one user's device sends about its leaf and its label"
    unseen = "other pairs of records, and other trees"
    world: ClassVar = WORLD
    settings: ClassVar = {"splits": 2}

    def prepare(self) -> None:
        sent = [self.reports(world, PILOTS, np.random.default_rng(7 + world)) for world in (0, 1)]
        means = [self.agent(0).learner.report.estimate(reports).reshape(PILOTS, -1).mean(axis=0) for reports in sent]
        self.direction = means[0] - means[1]  # in which the two worlds differ most

    def reports(self, world: int, runs: int, rng: Generator) -> Any:
        """Return what so many users with the same record send."""
        return self.fresh(rng).randomize(np.tile(CORNERS[world], (runs, 1)), np.ones(runs, int), np.ones(runs))

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        reports, learner = self.reports(world, runs, rng), self.agent(0).learner
        cells, values = learner.encode(CORNERS, np.ones(2, int))
        likelihood = [
            learner.report.randomizer.log_likelihood(reports, int(cells[k]), None if values is None else values[k])
            for k in (0, 1)
        ]
        projection = learner.report.estimate(reports).reshape(runs, -1) @ self.direction
        return np.stack([projection, likelihood[0] - likelihood[1]], axis=1)


class MomentGame(AgentGame):
    """The first user has one of two records far apart, and sends a vector of its features and label."""

    pair = "label 0 or 1 at features (0, 0)"
    statistics = ("projection on the difference of records", "log-likelihood ratio")
    seen = "all that one user's device sends about its features and its label"
    unseen = "other pairs of records, and other states of the server"
    world: ClassVar = WORLD
    features: Floats = CORNERS[[0, 0]]
    labels = np.arange(2)

    def prepare(self) -> None:
        self.records = self.agent(0).learner.encode(self.features, self.labels)

    def claimed(self) -> Claim:
        agent = self.agent(0)
        epsilon, delta = agent.guarantee.epsilon, agent.guarantee.delta
        return Claim.gaussian(epsilon, delta) if isinstance(agent.learner.device, Gaussian) else Claim(epsilon)

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        agent = self.fresh(rng)
        features, label = np.tile(self.features[world], (runs, 1)), np.full(runs, self.labels[world])
        reports = agent.randomize(features, label, np.ones(runs))
        projection = agent.learner.estimate(reports) @ (self.records[0] - self.records[1])
        device, shaped = agent.learner.device, reports.reshape(runs, 1, -1)
        if isinstance(device, Gaussian):
            first, second = (device.log_density(reports, record) for record in self.records)
        else:
            first, second = (device.log_likelihood(shaped, 0, record) for record in self.records)
        return np.stack([projection, first - second], axis=1)


class GradientGame(MomentGame):
    """The first user sends a gradient at a model of the adversary's choice.

    The model is sure of label 1, so that the gradients of label 0 are long. A network has two neurons, each of which
    one record wakes.
    """

    pair = "features (0, 0) or (1, 1), label 0"
    features = CORNERS
    labels = np.zeros(2, int)
    settings: ClassVar = {"hidden": 2}

    def agent(self, seed: int) -> Any:
        """Return a fresh agent with that model, which stays while users report."""
        agent = super().agent(seed)
        server = agent.learner.server
        server.schedule = dataclasses.replace(server.schedule, batch=NEVER)
        server.theta = np.append(AWAKE if "hidden" in self.config else server.theta[:-1], CERTAIN)
        return agent
