"""The audit of layered regression: what one user's device sends on the second layer, under a hostile history.

The reports on layer 1 are the adversary's: they leave two active bins there, a large and a small one, whose released
theta is so large that y_h is clipped. The target's features lie in one of them or in the other.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Floats
from privbandit_agents.privacy.mechanisms.symmetric import smat

USERS = 10**6
"""Users of the first layer, about: enough for its bins to stand out of any noise."""
ANGLE = np.arcsin(0.4999)
"""Angle between the target's features and the strong direction, chosen so that the residual just fits a bin."""


class LayeredGame(AgentGame):
    """The target's features are long or short, and its reward is +1 or -1: other bins, and the extremes of y_h."""

    pair = "long features and reward 1, or short features and reward -1, below two bins of large theta"
    seen = "all that one user's device sends on the second layer, after reports of the adversary's choice"
    unseen = "other layers and histories, and other pairs of records"
    statistics: tuple[str, ...] = ("projection on the difference of the two inputs", "log-likelihood ratio")
    world: ClassVar = {"id": "privbandit/Linear-v0", "n_arms": 2, "dim": 2, "horizon": 10**6}
    settings: ClassVar = {"first": 4 * USERS, "gamma": 2.0}

    def __init__(self, name: str, config: dict[str, Any] | None = None, env: str | None = None) -> None:
        published = (config or {}).get("calibration") == "published"
        preset = {"preset": "published", "kappas": (0.0, 0.0, 0.0, 0.0)} if published else {}
        super().__init__(name, preset | (config or {}), env)
        target = np.array([np.cos(ANGLE), np.sin(ANGLE)])
        self.features = target, target / 4
        if published:
            self.statistics = (*self.statistics, "least eigenvalue in cell 0", "least eigenvalue in cell 1")

    def agent(self, seed: int) -> Any:
        """Return an agent on its second layer, after the history."""
        agent = super().agent(seed)
        while agent.oracle.layer == 1:
            agent.absorb_sum(history(agent), agent.frozen_rounds())
        return agent

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        agent = self.fresh(rng)
        inputs = [self.inputs(agent, one) for one in (0, 1)]
        cell, value = inputs[world]
        randomizer = agent.oracle.randomizer
        reports = randomizer.randomize(np.full(runs, cell), np.tile(value, (runs, 1)), agent.rng)
        ratio = randomizer.log_likelihood(reports, *inputs[0]) - randomizer.log_likelihood(reports, *inputs[1])
        estimates = randomizer.estimate(reports)
        along = estimates[:, inputs[0][0]] @ inputs[0][1] - estimates[:, inputs[1][0]] @ inputs[1][1]
        seen = inputs[: len(self.statistics) - 2]  # for the published calibration
        least = [np.linalg.eigvalsh(smat(estimates[:, cell, -3:]))[:, 0] for cell, _ in seen]
        return np.stack([along, ratio, *least], axis=1)

    def inputs(self, agent: Any, world: int) -> tuple[int, Floats]:
        """Return the target's cell and packed statistics."""
        contexts = np.tile(self.features[world], (1, 2, 1))
        cells, values = agent.inputs(contexts, np.zeros(1, dtype=int), np.array([1.0 - 2 * world]))
        return int(cells[0]), values[0]


def history(agent: Any) -> Floats:
    """Return a sum of estimates that puts half of the users each into the bins k = 0 and 2, with v = e1 and y = 5."""
    randomizer = agent.oracle.randomizer
    total = np.zeros((randomizer.cells, randomizer.dim))
    if randomizer.dim > 1:  # else these users tell the widths of the published preset: there is nothing to tell yet
        packed = agent.oracle.report.layout.pack(np.eye(2)[:1], np.full(1, 5.0), np.zeros((1, 0)))
        total[[0, 2]] = agent.frozen_rounds() / 2 * packed[0]
    return total
