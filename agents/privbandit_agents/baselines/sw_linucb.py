"""LinUCB that forgets: for worlds that change.

Wang Chi Cheung, David Simchi-Levi and Ruihao Zhu, "Learning to Optimize under Non-Stationarity", AISTATS 2019
(SW-UCB, whose window this is, in steps).
"""

from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.agent import Action, Array, Feedback
from privbandit_agents.base.arms import learnable
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.settings import Count, NonNegative
from privbandit_agents.baselines.linucb import inverse_of
from privbandit_agents.baselines.ridge import RidgeAgent, RidgeSettings

PARTS = 10
"""A window is forgotten in so many parts, one at a time."""


@dataclass(frozen=True)
class Config(RidgeSettings):
    """Settings of SW-LinUCB.

    Attributes:
        alpha: width of the confidence bonus alpha sqrt(x' A^-1 x), >= 0.
        window: how many users count: the last ones, and up to a tenth of as many before them.
    """

    alpha: NonNegative = 1.0
    window: Count = 2000


class SWLinUCB(RidgeAgent[Config]):
    """Play the arm with the largest x . theta + alpha sqrt(x' A^-1 x), where A and theta are of the last users.

    Deviations:
        Users are forgotten in tenths of a window, so that a user costs one step of rank one, as in LinUCB.
    """

    Config = Config

    def begin(self) -> None:
        super().begin()
        groups = len(self.regression.matrices)
        # [sum x x' | sum y x] of the parts of a window; the first is the one that is filled now
        self.parts = np.zeros((PARTS + 1, groups, self.dim, self.dim + 1))
        self.part, self.left = max(1, self.config.window // PARTS), max(1, self.config.window // PARTS)

    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        self.forget()
        for contexts, arms, rewards in blocks(lambda: self.left, *self.records_of(context, action, feedback)):
            features, groups = self.observed(contexts, arms)
            x, y = learnable(features, np.asarray(rewards, np.float64))
            for row, answer, group in zip(x, y.tolist(), groups, strict=True):
                self.regression.learn(row, self.regression.score(row, group), answer, group)
                self.parts[0, group] += np.outer(row, np.append(row, answer))
            self.left -= len(y)
            if not self.left:
                self._turn()

    def _turn(self) -> None:
        """Forget the oldest part, begin a new one, and solve what is left."""
        self.parts = np.concatenate([np.zeros_like(self.parts[:1]), self.parts[:-1]])
        self.left = self.part
        moments = self.parts.sum(axis=0)
        for group, sums in enumerate(moments):
            inverse = inverse_of(sums[:, :-1] + self.config.ridge * np.eye(self.dim))
            self.regression.matrices[group] = np.column_stack([inverse, inverse @ sums[:, -1]])

    def choose(self, features: Array, directions: Array, estimates: Array, random: Array | None) -> Array:
        width = np.sqrt(np.maximum(np.vecdot(directions, features), 0.0))
        arms: Array = (estimates + self.config.alpha * width).argmax(axis=-1)
        return arms
