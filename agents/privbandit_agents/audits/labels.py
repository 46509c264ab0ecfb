"""The audits of locally private classifiers: what one user's device sends, of one of two far corners."""

import dataclasses
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.audits.lower_bounds import Claim, Game
from privbandit_agents.base.agent import NEVER
from privbandit_agents.local.gradients.descent import GradientAgent
from privbandit_agents.privacy.mechanisms.additive import Gaussian
from privbandit_agents.registry import make

Floats = NDArray[np.float64]
CORNERS = np.array([[0.0, 0.0], [1.0, 1.0]])
PILOTS = 4000
CERTAIN = 1e3
"""Offset of a model that is sure of label 1."""
AWAKE = 100 * np.array([-1.0, -1, 0, 1, 1, 0, 1, 1, 0])
"""A network with two neurons, each of which one corner wakes."""


class LeafGame(Game):
    """The first user comes from the lower corner of the square or from the upper one, and is answered rightly."""

    pair = "features (0, 0) or (1, 1), label 1"
    statistics = ("projection on the difference of means", "log-likelihood ratio")

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        """Read the claim off the agent's guarantee; find the direction in which the two worlds differ most."""
        self.name, self.config = name, config
        self.env = gym.make("privbandit/Classification-v0", horizon=1000)
        self.claim = Claim(self.agent(0).guarantee.epsilon)
        means = [self.estimates(world, PILOTS, np.random.default_rng(7 + world)).mean(axis=0) for world in (0, 1)]
        self.direction = means[0] - means[1]

    def agent(self, seed: int) -> Any:
        """Return a fresh agent."""
        return make(self.name, self.env, seed=seed, **self.config)

    def reports(self, world: int, runs: int, rng: Generator) -> Any:
        """Return what so many users with the same record send."""
        agent = self.agent(int(rng.integers(2**31)))
        return agent.randomize(np.tile(CORNERS[world], (runs, 1)), np.ones(runs, int), np.ones(runs))

    def estimates(self, world: int, runs: int, rng: Generator) -> Floats:
        """Return the estimates from the reports, flattened."""
        estimates: Floats = self.agent(0).report.estimate(self.reports(world, runs, rng)).reshape(runs, -1)
        return estimates

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        """Return what is seen of one world."""
        reports, device = self.reports(world, runs, rng), self.agent(0)
        leaves, labels = device.encode(CORNERS, np.ones(2, int), np.ones(2))
        cells, values = device.report.encode(leaves, labels)
        likelihood = [
            device.report.randomizer.log_likelihood(reports, int(cells[k]), None if values is None else values[k])
            for k in (0, 1)
        ]
        projection = device.report.estimate(reports).reshape(runs, -1) @ self.direction
        return np.stack([projection, likelihood[0] - likelihood[1]], axis=1)


class RegressionGame(Game):
    """The first user sends a vector about features and label, of one of two records far apart.

    The public state is one of the adversary's choice: for gradients a model that is sure of label 1, so that those of
    label 0 are long; in a network the two records wake different neurons.
    """

    statistics = ("projection on the difference of records", "log-likelihood ratio")

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        """Read the claim off the agent's guarantee."""
        self.name, self.config = name, config | {"hidden": 2} if name == "psgd-network" else config
        self.env = gym.make("privbandit/Classification-v0", horizon=1000)
        agent = self.agent(0)
        epsilon, delta = agent.guarantee.epsilon, agent.guarantee.delta
        self.claim = Claim.gaussian(epsilon, delta) if isinstance(agent.device, Gaussian) else Claim(epsilon)
        self.pair = "features (0, 0) or (1, 1), label 0"
        self.features, self.labels = CORNERS, np.zeros(2, int)
        if not isinstance(agent, GradientAgent):
            self.pair, self.features, self.labels = "label 0 or 1 at features (0, 0)", CORNERS[[0, 0]], np.arange(2)
        self.records = agent.encode(self.features, self.labels)

    def agent(self, seed: int) -> Any:
        """Return a fresh agent in that state, which stays while users report."""
        agent: Any = make(self.name, self.env, seed=seed, **self.config)
        if isinstance(agent, GradientAgent):
            agent.server.plan = dataclasses.replace(agent.server.plan, batch=NEVER)
            theta = AWAKE if self.name == "psgd-network" else agent.server.theta
            agent.server.theta = np.append(theta[:-1], CERTAIN)
        return agent

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        """Return what is seen of one world."""
        agent = self.agent(int(rng.integers(2**31)))
        features, label = np.tile(self.features[world], (runs, 1)), np.full(runs, self.labels[world])
        reports = agent.randomize(features, label, np.ones(runs))
        projection = agent.estimate(reports) @ (self.records[0] - self.records[1])
        return np.stack([projection, self.ratio(agent.device, reports)], axis=1)

    def ratio(self, device: Any, reports: Any) -> Floats:
        """Return the exact log-likelihood ratios of reports (n, ...)."""
        if isinstance(device, Gaussian):
            first, second = (device.log_density(reports, record) for record in self.records)
        else:
            shaped = reports.reshape(len(reports), 1, -1)
            first, second = (device.log_likelihood(shaped, 0, record) for record in self.records)
        return np.asarray(first - second)
