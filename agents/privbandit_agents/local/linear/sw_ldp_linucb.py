"""Locally private LinUCB whose server forgets old reports: for worlds that change.

The algorithm is this project's own, after Zheng et al. 2020 and the windows of Cheung, Simchi-Levi and Zhu 2019.
"""

import math
from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.agent import Array
from privbandit_agents.base.settings import Count
from privbandit_agents.local.linear import ldp_linucb
from privbandit_agents.local.linear.moments import GaussianChannel, MomentAgent

PARTS = 10
"""A window is forgotten in so many parts, one at a time."""


@dataclass(frozen=True)
class Config(ldp_linucb.Config):
    """Settings of SW-LDP-LinUCB, beside those of LDP-LinUCB.

    Attributes:
        window: how many users' reports count: the last ones, and up to a tenth of as many before them.
    """

    window: Count = 20_000


class SWLDPLinUCB(MomentAgent[Config]):
    """Users report as for LDP-LinUCB; the server adds up the reports of the last users alone.

    *Formal guarantees.* Those of LDP-LinUCB: one report a user, by the same device. Which reports the server adds up,
    and which it forgets, is post-processing; that a report counts in several estimates costs nothing. Proof:
    docs/privacy/windows.md.
    """

    Config = Config
    proof = "docs/privacy/windows.md"
    gaussian = True

    def begin(self) -> None:
        super().begin()
        if self.config.calibration == "published":
            ldp_linucb.promise_nothing(self)
        self.part = max(1, self.config.window // PARTS)
        self.parts = np.zeros((PARTS, self.channel.size))  # sums of the parts that are full, the newest first
        self.served = self.full = 0

    def open_channel(self) -> GaussianChannel:
        return ldp_linucb.channel_of(self.config, self.dim)

    def learn(self) -> None:
        self.scorer = ldp_linucb.scorer_of(self, self.config)

    def add(self, total: Array, users: int) -> None:
        self.served += users
        self.users += users
        self.total = total
        if self.served == self.refit_at:
            if self.served % self.part == 0:
                self._turn()
            self.learn()
            growing = self.served + max(1, math.ceil(self.users * (self.config.growth - 1)))
            self.refit_at = min(growing, (self.served // self.part + 1) * self.part)

    def frozen_rounds(self) -> int:
        return self.refit_at - self.served

    def _turn(self) -> None:
        """Close the part that is full, and forget the oldest if there are too many."""
        newest = self.total - self.parts.sum(axis=0)
        self.parts = np.concatenate([newest[None], self.parts[:-1]])
        self.full = min(self.full + 1, PARTS)
        self.total, self.users = self.parts.sum(axis=0), self.full * self.part
