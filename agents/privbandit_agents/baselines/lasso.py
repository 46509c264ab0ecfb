"""The sparsity-agnostic lasso bandit.

Min-hwan Oh, Garud Iyengar and Assaf Zeevi, "Sparsity-Agnostic Lasso Bandit", ICML 2021, Algorithm 1.
"""

import math
from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.agent import Agent, next_change
from privbandit_agents.base.arms import Floats, learnable
from privbandit_agents.base.records import played
from privbandit_agents.base.rows import ROWS_OF_GRAM, Rows, blocks
from privbandit_agents.base.settings import Count, Growth, Positive, Settings
from privbandit_agents.base.spaces import Action, Array, Feedback, arms_with_features
from privbandit_agents.base.ties import best


@dataclass(frozen=True)
class Config(Settings):
    """Settings of the lasso bandit.

    Attributes:
        lambda_0: scale of the penalty lambda_t = lambda_0 sqrt((4 ln t + 2 ln d) / t), > 0; about half the scale of the
            reward's noise.
        growth: refit when the number of users has grown by this factor, > 1.
        first: users before the first fit, >= 1, who get any arm.
    """

    lambda_0: Positive = 0.05
    growth: Growth = 1.3
    first: Count = 1


class SparsityAgnosticLasso(Agent[Config]):
    """Play greedily on a lasso estimate of all users' data; the sparsity need not be known.

    Deviations:
        The estimate is refitted when the number of users has grown by ``growth``, not for every user; in between the
        policy is frozen. The solver starts from the last estimate.
    """

    Config = Config
    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        dim = self.context_shape[1]
        self.gram, self.moment = np.zeros((dim, dim)), np.zeros(dim)
        self.features, self.feedback = Rows((dim,), self.observation_space.dtype), Rows((), np.float64)
        self.beta = np.zeros(dim)
        self.users, self.refit_at = 0, self.config.first

    def select_action(self, context: Array) -> Action:
        """Return argmax x . beta; only the support of beta is read (line 4)."""
        support = np.flatnonzero(self.beta)
        with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
            scores: Array = np.vecdot(context[..., support], self.beta[support].astype(context.dtype))
        arms: Array = best(scores, self.ties)
        return arms

    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        """Keep the played features; refit when it is time (lines 5 to 7)."""
        contexts, arms, rewards = self.records_of(context, action, feedback)
        for x, y in blocks(self._room, *learnable(played(contexts, arms, dtype=None), rewards)):
            self.features.append(x)
            self.feedback.append(y)
            self.users += len(y)
            self._digest()

    def frozen_rounds(self) -> int:
        return self.refit_at - self.users

    def _room(self) -> int:
        return min(self.frozen_rounds(), ROWS_OF_GRAM - len(self.features))

    def _digest(self) -> None:
        """Add kept rows to the Gram matrix when there are many; solve the lasso when it is time."""
        due = self.users == self.refit_at
        if due or len(self.features) == ROWS_OF_GRAM:
            x = self.features.view()
            self.gram += x.T @ x
            self.moment += x.T.astype(np.float64) @ self.feedback.view()
            self.features.clear()
            self.feedback.clear()
        if due:
            t, dim = self.users, len(self.beta)
            penalty = self.config.lambda_0 * math.sqrt((4 * math.log(t) + 2 * math.log(dim)) / t)
            self.beta = lasso(self.gram / t, self.moment / t, penalty, self.beta)
            self.refit_at = next_change(t, self.config.growth)


def lasso(
    gram: Floats, moment: Floats, penalty: float, start: Floats, tolerance: float = 1e-7, sweeps: int = 1000
) -> Floats:
    """Minimize beta' gram beta - 2 moment . beta + penalty |beta|_1 by coordinate descent on a growing active set.

    Args:
        gram: X'X / t, shape (d, d).
        moment: X'y / t, shape (d,).
        penalty: lambda, > 0.
        start: where to start, shape (d,).
        tolerance: largest change of a coordinate in the last sweep, relative to the largest coefficient.
        sweeps: the most sweeps.
    """
    beta = np.where(gram.diagonal() > 0, start, 0.0)
    residual = moment - gram @ beta
    threshold = penalty / 2
    diagonal = gram.diagonal().tolist()
    for _ in range(sweeps):
        candidates = np.flatnonzero((beta != 0) | (np.abs(residual) > threshold * (1 + 1e-9)))
        change = 0.0
        for j in candidates.tolist():
            if diagonal[j] == 0:
                continue
            old = float(beta[j])
            target = float(residual[j]) + diagonal[j] * old
            new = math.copysign(max(abs(target) - threshold, 0.0), target) / diagonal[j]
            if new != old:
                residual -= gram[j] * (new - old)
                beta[j] = new
                change = max(change, abs(new - old))
        if change <= tolerance * max(float(np.abs(beta).max()), 1e-12):
            break
    return beta
