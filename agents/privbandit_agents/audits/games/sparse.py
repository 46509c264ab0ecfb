"""The audit of FLIPHAT: one user of a batch is replaced, later users' contexts read the estimate.

All other users are the adversary's. Those of the target's batch pin the first coordinate of the estimate far above
the noise and hold the others at a fifth of it. Those of the next batch are probes: offered cos(phi) e_j against
sin(phi) e_1, a user plays the first arm if the ratio of the two estimates exceeds tan(phi), so a dozen of them measure
it by bisection. The target's own action is left out, as joint privacy allows.
"""

import copy
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Floats
from privbandit_agents.base.agent import AnyAgent
from privbandit_agents.base.state import rekey

DIM = 11
BATCH = 256  # users of the target's batch
BASE = 0.2  # level at which the batch's other users hold the coordinates, relative to the pinned one


class SparseGame(AgentGame):
    """The target's reward is as large as it may be, or as small; its features push half of the coordinates each way."""

    pair = "one user's reward R or -R at features +-x_max"
    statistics = ("selected from the first half", "signed sum of values", "the same, values clipped")
    seen = f"the estimate after one batch, as {12 * (DIM - 1)} probe users read it from their actions"
    unseen = "later batches, and other pairs of records"
    runs = 2000
    delta = 0.01
    # one iteration keeps all coordinates: values reveal everything
    settings: ClassVar = {"delta": 0.01, "M0": 0.16, "eta": 1e-4, "C": 1.0, "x_max": 8.0, "R": 80.0, "s": DIM}
    world: ClassVar = {"id": "privbandit/SparseLinear-v0", "n_arms": 2, "dim": DIM, "horizon": 8 * BATCH}

    def prepare(self) -> None:
        self.waiting = self.agent(0)  # for the target's batch; its past is public, and the same in all runs
        limit = float(self.waiting.config.x_max)
        self.side = np.repeat([1.0, -1.0], DIM // 2)
        self.others = limit * np.concatenate([[1.0], np.full(DIM - 1, BASE)])
        self.target = limit * np.concatenate([[0.0], self.side])
        while self.waiting.frozen_rounds() < BATCH:
            self.users(self.waiting, np.zeros(DIM), 0.0, self.waiting.frozen_rounds())

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        return np.stack([self.statistics_of(self.fresh(rng), world) for _ in range(runs)])

    def fresh(self, rng: Generator) -> AnyAgent:
        """Return an agent that silent users have brought to a batch of the right size, with noise of its own."""
        agent: AnyAgent = copy.deepcopy(self.waiting)
        rekey(agent, rng)
        return agent

    def statistics_of(self, agent: AnyAgent, world: int) -> Floats:
        self.serve(agent, world)
        ratios = read(agent)
        selected = np.abs(ratios) > 1e-3
        moved = np.where(selected, self.side * (ratios - BASE), 0.0)
        chosen, values = float(self.side @ selected), float(moved.sum())
        clipped = float(np.clip(moved, -1 / BATCH, 1 / BATCH).sum())  # to the target's shift of a value
        return np.array([chosen, values, clipped])

    def serve(self, agent: AnyAgent, world: int) -> None:
        loud = 1e3  # a reward that every clip cuts
        self.users(agent, self.target, loud * (1 - 2 * world), 1)
        self.users(agent, self.others, loud, BATCH - 1)

    def users(self, agent: AnyAgent, features: Floats, reward: float, n: int) -> None:
        """Serve n users with the same record; both arms have the same features."""
        contexts = np.broadcast_to(features, (n, 2, DIM)).astype(np.float32)
        agent.update(contexts, np.zeros(n, dtype=int), np.full(n, reward))


def read(agent: AnyAgent) -> Floats:
    """Return the ratios of the other coordinates of the estimate to the first, as probe users' actions reveal them."""
    low, high = np.full(DIM - 1, -np.pi / 2), np.full(DIM - 1, np.pi / 2)
    probes = np.zeros((DIM - 1, 2, DIM), dtype=np.float32)
    for _ in range(12):
        angle = (low + high) / 2
        probes[:, 0, 1:] = np.diag(np.cos(angle))
        probes[:, 1, 0] = np.sin(angle)
        above = np.asarray(agent.select_action(probes)) == 0
        low, high = np.where(above, angle, low), np.where(above, high, angle)
    return np.asarray(np.tan((low + high) / 2))
