"""LinUCB for a parameter shared by the arms.

Yasin Abbasi-Yadkori, David Pal and Csaba Szepesvari, "Improved Algorithms for Linear Stochastic Bandits", NeurIPS
2011; the name is from Li, Chu, Langford and Schapire, "A Contextual-Bandit Approach to Personalized News Article
Recommendation", WWW 2010.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from privbandit_agents.base.agent import Action, Array, Feedback, next_change
from privbandit_agents.base.arms import learnable, played
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.settings import AtLeast, NonNegative
from privbandit_agents.baselines.ridge import RidgeAgent, RidgeSettings


@dataclass(frozen=True)
class Config(RidgeSettings):
    """Settings of LinUCB.

    Attributes:
        alpha: width of the confidence bonus alpha sqrt(x' A^-1 x), >= 0.
        growth: the policy changes when the number of users has grown by this factor, >= 1; 1: with every user. Above
            1, users can be served by counts.
    """

    alpha: NonNegative = 1.0
    growth: Annotated[float, AtLeast(1)] = 1.0


class LinUCB(RidgeAgent[Config]):
    """Play the arm with the largest x . theta + alpha sqrt(x' A^-1 x)."""

    Config = Config

    def begin(self) -> None:
        super().begin()
        d = self.regression.matrix.shape[1]
        self.moments = np.eye(d, d + 1) * self.config.ridge  # [A | b] of all users, where the policy is behind them
        self.users, self.refit_at = 0, 1

    def frozen_rounds(self) -> int:
        return 1 if self.config.growth == 1 else self.refit_at - self.users

    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        if self.config.growth == 1:
            return super().update(context, action, feedback)
        self.forget()
        records = self.records_of(context, action, feedback)
        for contexts, arms, rewards in blocks(self.frozen_rounds, *records, most=256):  # so many stay in cache
            self.update_counts(contexts, arms, rewards, np.ones(len(rewards), np.int64))
        return None

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        return "exact" if self.config.growth > 1 else ""

    def update_counts(self, contexts: Array, actions: Action, feedback: Feedback, counts: Array) -> None:
        """Learn from users by counts, who come before the policy changes."""
        x, y = learnable(played(self.features(contexts), actions), np.asarray(feedback, dtype=np.float64))
        each = x[:, :, None] * (counts[:, None] * np.column_stack([x, y]))[:, None, :]
        self.moments = np.add.reduce(np.concatenate([self.moments[None], each]), axis=0)
        self.users += int(counts.sum())
        if self.users == self.refit_at:
            self.refit_at = next_change(self.users, self.config.growth)
            a, b = self.moments[:, :-1], self.moments[:, -1]
            self.regression.matrix[:] = np.vstack([np.linalg.inv(a), np.linalg.solve(a, b)])

    def choose(self, features: Array, scored: Array) -> Array:
        squared_width = np.vecdot(scored[..., :-1], features)
        np.maximum(squared_width, 0.0, out=squared_width)  # rounding may leave a little less than 0
        bound = np.sqrt(squared_width, out=squared_width)
        bound *= self.config.alpha
        bound += scored[..., -1]
        arms: Array = bound.argmax(axis=-1)
        return arms
