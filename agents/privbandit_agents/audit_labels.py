"""The audit of a locally private classifier: what one user's device sends, of one of two leaves."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.privacy.audit import Claim, Game
from privbandit_agents.registry import make

Floats = NDArray[np.float64]
CORNERS = np.array([[0.0, 0.0], [1.0, 1.0]])
PILOTS = 4000


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
