"""The audit of layered regression: what one user's device sends on the second layer, under a hostile history.

The reports on layer 1 are the adversary's: they leave two active bins there, a large and a small one, whose released
theta is so large that y_h is clipped. The target's features lie in one of them or in the other.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from privbandit_agents.audits.claims import Floats
from privbandit_agents.audits.games.local import LocalGame
from privbandit_agents.audits.pairs.records import Pair
from privbandit_agents.audits.pairs.scenes import arms

ANGLE = np.arcsin(0.4999)
"""Angle between the target's features and the strong direction, chosen so that the residual just fits a bin."""
HOSTILE = "layer 2, after reports on layer 1 that the adversary chose: theta = 5 in two bins"


class LayeredGame(LocalGame):
    """The target's features are long or short, and its reward is +1 or -1: other bins, and the extremes of y_h."""

    seen = "all that one user's device sends, to a new server and on the second layer, below reports that lie"
    unseen = "other layers and histories, and other records"
    world: ClassVar = {"id": "privbandit/Linear-v0", "n_arms": 2, "dim": 2, "horizon": 10**6}
    runs = 25_000
    # a first layer of about a million users, whose bins stand out of any noise
    settings: ClassVar = {"first": 4 * 10**6, "gamma": 2.0}

    def __init__(
        self, name: str, config: dict[str, Any] | None = None, env: str | None = None, effort: str = "normal"
    ) -> None:
        self.published = (config or {}).get("calibration") == "published"
        preset = {"preset": "published", "kappas": (0.0, 0.0, 0.0, 0.0)} if self.published else {}
        if self.published:
            self.seen += "; settings: preset=published, kappas=0, gamma=2, so that every bin counts as active"
        super().__init__(name, preset | (config or {}), env, effort)

    def servers(self) -> Iterator[tuple[str, gym.Env[Any, Any], Any]]:
        if not self.published:
            yield "a new server", self.env, self.server(self.env)
        agent = self.server(self.env)
        while agent.oracle.layer == 1:
            agent.absorb_sum(history(agent), agent.frozen_rounds())
        yield HOSTILE, self.env, agent

    def pairs(self, env: gym.Env[Any, Any], server: Any) -> list[Pair]:
        target = np.array([np.cos(ANGLE), np.sin(ANGLE)])
        far = list(arms(2, target, target / 4))
        if self.published:  # the pair that shows what is wrong with it
            return [pair for pair in far if pair.words == "other features, reward 1 or -1"]
        return [*super().pairs(env, server), *far]


def history(agent: Any) -> Floats:
    """Return a sum of estimates that puts half of the users each into the bins k = 0 and 2, with v = e1 and y = 5."""
    randomizer = agent.oracle.randomizer
    total = np.zeros((randomizer.cells, randomizer.dim))
    if randomizer.dim > 1:  # else these users tell the widths of the published preset: there is nothing to tell yet
        packed = agent.oracle.report.layout.pack(np.eye(2)[:1], np.full(1, 5.0), np.zeros((1, 0)))
        total[[0, 2]] = agent.frozen_rounds() / 2 * packed[0]
    return total
