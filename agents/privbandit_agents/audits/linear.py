"""The audit of joint agents that play arms with features: probes read an estimate of theta off the actions."""

from typing import ClassVar

import numpy as np

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Floats
from privbandit_agents.base.agent import AnyAgent

ROUNDS = 16


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
