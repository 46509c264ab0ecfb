"""LinUCB for a parameter shared by the arms.

Yasin Abbasi-Yadkori, David Pal and Csaba Szepesvari, "Improved Algorithms for Linear Stochastic Bandits", NeurIPS
2011; the name is from Li, Chu, Langford and Schapire, "A Contextual-Bandit Approach to Personalized News Article
Recommendation", WWW 2010.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from privbandit_agents.baselines.ridge import Array, RidgeAgent
from privbandit_envs.validate import at_least, positive


@dataclass(frozen=True)
class Config:
    """Settings of LinUCB.

    Attributes:
        alpha: width of the confidence bonus alpha sqrt(x' A^-1 x), >= 0.
        ridge: regularisation of A = ridge I + sum x x', > 0.
        growth: the policy changes when the number of users has grown by this factor, >= 1; 1: with every user. Above
            1, users can be served by counts.
    """

    alpha: float = 1.0
    ridge: float = 1.0
    growth: float = 1.0

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(0, alpha=self.alpha)
        at_least(1, growth=self.growth)
        positive(ridge=self.ridge)


class LinUCB(RidgeAgent[Config]):
    """Play the arm with the largest x . theta + alpha sqrt(x' A^-1 x)."""

    Config = Config

    def begin(self) -> None:
        """Start without data."""
        super().begin()
        d = self.regression.matrix.shape[1]
        self.moments = np.eye(d, d + 1) * self.config.ridge  # [A | b] of all users, where the policy is behind them
        self.users, self.refit_at = 0, 1

    def frozen_rounds(self) -> int:
        """Return the number of users before the policy changes."""
        return 1 if self.config.growth == 1 else self.refit_at - self.users

    def update(self, context: Array, action: Any, feedback: Any) -> None:
        """Learn from one user or from many, at once or when it is time."""
        if self.config.growth == 1:
            return super().update(context, action, feedback)
        self.forget()
        users = list(self.one_by_one(context, action, feedback))
        while users:
            now, users = users[: self.frozen_rounds()], users[self.frozen_rounds() :]
            x = np.array([self.features(one)[arm] for one, arm, _ in now], dtype=np.float64)
            y = np.array([reward for _, _, reward in now], dtype=np.float64)
            self.add(x, y, np.ones(len(now), dtype=np.int64))
        return None

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        """Whether the policy is ever frozen."""
        return "exact" if self.config.growth > 1 else ""

    def update_counts(self, contexts: Array, actions: Any, feedback: Any, counts: Array) -> None:
        """Learn from users by counts, who come before the policy changes."""
        x = self.features(contexts)[np.arange(len(contexts)), actions].astype(np.float64)
        self.add(x, np.asarray(feedback, dtype=np.float64), counts)

    def add(self, x: Array, y: Array, counts: Array) -> None:
        """Add ``counts[i]`` times (x_i, y_i) to the moments; change the policy when it is time."""
        if not np.isfinite(y).all():
            raise ValueError(f"feedback must be finite; got {y[~np.isfinite(y)][0]!r}.")
        rows = np.column_stack([x, y])
        each = x[:, :, None] * (counts[:, None] * rows)[:, None, :]
        self.moments = np.add.reduce(np.concatenate([self.moments[None], each]), axis=0)
        self.users += int(counts.sum())
        if self.users == self.refit_at:
            self.refit_at = max(self.users + 1, math.ceil(self.users * self.config.growth))
            a, b = self.moments[:, :-1], self.moments[:, -1]
            self.regression.matrix[:] = np.vstack([np.linalg.inv(a), np.linalg.solve(a, b)])

    def choose(self, features: Array, scored: Array) -> Array:
        """Return argmax of estimate plus bonus."""
        squared_width = np.vecdot(scored[..., :-1], features)
        np.abs(squared_width, out=squared_width)  # rounding may leave a little less than 0
        bound = np.sqrt(squared_width, out=squared_width)
        bound *= self.config.alpha
        bound += scored[..., -1]
        arms: Array = bound.argmax(axis=-1)
        return arms
