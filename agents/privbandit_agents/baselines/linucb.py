"""LinUCB for a parameter shared by the arms.

Yasin Abbasi-Yadkori, David Pal and Csaba Szepesvari, "Improved Algorithms for Linear Stochastic Bandits", NeurIPS
2011; the name is from Li, Chu, Langford and Schapire, "A Contextual-Bandit Approach to Personalized News Article
Recommendation", WWW 2010. The window is that of Wang Chi Cheung, David Simchi-Levi and Ruihao Zhu, "Learning to
Optimize under Non-Stationarity", AISTATS 2019, in steps.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from privbandit_agents.base.agent import next_change
from privbandit_agents.base.arms import learnable
from privbandit_agents.base.rows import Products, blocks
from privbandit_agents.base.settings import AtLeast, Count, LateSettings, NonNegative
from privbandit_agents.base.spaces import Action, Array, Feedback
from privbandit_agents.base.ties import best
from privbandit_agents.baselines.ridge import RidgeAgent, RidgeSettings

ZERO = np.zeros(1)  # a number would be made an array for every user


@dataclass(frozen=True)
class Config(RidgeSettings, LateSettings):
    """Settings of LinUCB.

    Attributes:
        alpha: width of the confidence bonus alpha sqrt(x' A^-1 x), >= 0.
        growth: the policy changes when the number of users has grown by this factor, >= 1; 1: with every user. Above
            1, users can be served by counts.
        window: only the last ``window`` users count, and up to a tenth more before them; None: all users count. It
            needs growth = 1.
    """

    alpha: NonNegative = 1.0
    growth: Annotated[float, AtLeast(1)] = 1.0
    window: Count | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window is not None and self.growth > 1:
            raise ValueError(f"a window needs growth = 1; got growth = {self.growth!r} and window = {self.window!r}.")

    @property
    def at_once(self) -> bool:
        """Whether every user is learned from at once, by one step of rank one, and never forgotten."""
        return self.growth == 1 and self.window is None


class LinUCB(RidgeAgent[Config]):
    """Play the arm with the largest x . theta + alpha sqrt(x' A^-1 x); with a window, A and theta are of its users.

    Deviations:
        A window forgets its users in tenths, so that a user costs one step of rank one, with a window or without.
    """

    Config = Config
    optimistic = True

    def begin(self) -> None:
        super().begin()
        groups = len(self.regression.matrices)
        # where the policy is behind the users: [A | b] of all, and what came since the policy changed
        self.moments = np.tile(np.eye(self.dim, self.dim + 1) * self.config.ridge, (groups, 1, 1))
        self.newer = Products(self.dim + 1, groups)
        self.users, self.changed_at, self.refit_at = 0, 0, 1
        if self.config.window is not None:
            # [sum x x' | sum y x] of the parts of the window, and how many users the newest part still takes
            # a window forgets a tenth of its users at a time
            self.parts = np.zeros((10, groups, self.dim, self.dim + 1))
            self.part = self.left = max(1, self.config.window // len(self.parts))

    def frozen_rounds(self) -> int:
        return 1 if self.config.growth == 1 else self.refit_at - self.users

    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        if self.config.at_once:
            return super().update(context, action, feedback)
        self.forget()
        records = self.records_of(context, action, feedback)
        if self.config.window is not None:
            self._update_window(*records)
        else:
            for contexts, arms, rewards in blocks(self.frozen_rounds, *records, most=Products.AT_ONCE):
                self.newer.add(*self._rows(contexts, arms, rewards))
                self._count(len(rewards))
        return self.heard(len(records[-1]))

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        return "exact" if self.config.growth > 1 else ""

    def update_counts(self, contexts: Array, actions: Action, feedback: Feedback, counts: Array) -> None:
        """Learn from users by counts, who come before the policy changes."""
        rows, groups = self._rows(contexts, actions, np.asarray(feedback, dtype=np.float64))
        for group in range(len(self.moments)):
            chosen = groups == group
            self.moments[group] += (counts[chosen, None] * rows[chosen, :-1]).T @ rows[chosen]
        self._count(int(counts.sum()))

    def _rows(self, contexts: Array, arms: Any, rewards: Array) -> tuple[Array, Array]:
        """Return the records as rows (x, y), and the regression that each is for."""
        x, groups = self.observed(contexts, arms)
        return np.column_stack(learnable(x, rewards)), np.array(groups)

    def _count(self, users: int) -> None:
        """Count users, and change the policy if it is time."""
        self.users += users
        if self.users == self.refit_at:
            self._change()
            self.changed_at, self.refit_at = self.users, next_change(self.users, self.config.growth)

    def _change(self) -> None:
        """Bring the policy up to all users: by steps of rank one if few are new, else by the inverse."""
        new = self.newer.open.view().copy()
        alone = len(new) == self.users - self.changed_at  # nobody came by counts
        self.moments += self.newer.take()[:, :-1]
        for group, moments in enumerate(self.moments):
            rows = new[new[:, 0] == group, 1:]
            if alone and 4 * len(rows) <= self.dim:
                for x, y in zip(rows[:, :-1], rows[:, -1].tolist(), strict=True):
                    self.regression.learn(x, self.regression.score(x, group), y, group)
            else:
                inverse = inverse_of(moments[:, :-1])
                self.regression.matrices[group] = np.column_stack([inverse, inverse @ moments[:, -1]])

    def _update_window(self, contexts: Array, arms: Array, rewards: Array) -> None:
        """Learn from users one by one, and forget the oldest part of the window when the newest is full."""
        for some, played, told in blocks(lambda: self.left, contexts, arms, rewards):
            features, groups = self.observed(some, played)
            x, y = learnable(features, np.asarray(told, np.float64))
            for row, answer, group in zip(x, y.tolist(), groups, strict=True):
                self.regression.learn(row, self.regression.score(row, group), answer, group)
            self.newer.add(np.column_stack([x, y]), np.array(groups))
            self.left -= len(y)
            if not self.left:
                self._turn()

    def _turn(self) -> None:
        """Forget the oldest part, begin a new one, and solve the rest."""
        oldest = self.parts[-1]
        self.parts = np.concatenate([self.newer.take()[None, :, :-1], self.parts[:-1]])
        self.left = self.part
        moments = self.parts.sum(axis=0)
        for group, sums in enumerate(moments):
            inverse = inverse_of(sums[:, :-1] + self.config.ridge * np.eye(self.dim))
            self.regression.matrices[group] = np.column_stack([inverse, inverse @ sums[:, -1]])
        if self.ahead is None:
            return
        for ahead, own, gone in zip(self.ahead.matrices, self.regression.matrices, oldest, strict=True):
            left = inverse_of(ahead[:, :-1]) - gone[:, :-1]
            sound = np.linalg.eigvalsh(left)[0] > self.config.ridge / 2  # those who are gone were served before
            ahead[:, :-1] = inverse_of(left) if sound else own[:, :-1]

    def choose(self, features: Array, directions: Array, estimates: Array, random: Array | None) -> Array:
        squared_width = np.vecdot(directions, features)
        np.maximum(squared_width, ZERO, out=squared_width)  # rounding may leave a little less than 0
        bound = np.sqrt(squared_width, out=squared_width)
        if self.config.alpha != 1:
            bound *= self.config.alpha
        bound += estimates
        arms: Array = best(bound, self.ties)
        return arms


def inverse_of(a: Array) -> Array:
    """Return the inverse of a positive definite matrix, by its Cholesky factor: half the work of a general one."""
    factor, failed = dpotrf(a, lower=1)
    inverse, _ = dpotri(factor, lower=1)
    if failed:
        return np.asarray(np.linalg.inv(a))
    lower = np.tril(inverse, -1)
    return np.asarray(lower + lower.T + np.diag(np.diagonal(inverse)))
