"""Recursive ridge regression, the agents' side of it that LinUCB, LinTS and greedy play share."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
from scipy.linalg.blas import dger

from privbandit_agents.base.agent import Action, Agent, Array, Feedback, arms_or_context, n_arms
from privbandit_agents.base.arms import played
from privbandit_agents.base.records import FARTHEST, warn_of_ignored
from privbandit_agents.base.settings import Positive, Settings

NOTHING = (None, np.empty(0), np.empty(0))


@dataclass(frozen=True)
class RidgeSettings(Settings):
    """Settings that these agents share.

    Attributes:
        ridge: regularisation of A = ridge I + sum x x', > 0.
    """

    ridge: Positive = 1.0


R = TypeVar("R", bound=RidgeSettings)


class Ridge:
    """theta = A^-1 b with A = ridge I + sum x x' and b = sum r x, kept up to date by rank-one steps.

    A^-1 and theta are one matrix M = [A^-1 | theta] of shape (d, d + 1): x M gives A^-1 x and the estimate x . theta in
    one product, and by Sherman and Morrison both change by one outer product, written in place. No step costs more
    than O(d^2).

    Args:
        dim: d.
        ridge: regularisation, > 0.
    """

    def __init__(self, dim: int, ridge: float) -> None:
        self.matrix: Array = np.zeros((dim + 1, dim), order="F")  # M', so that M itself is C-ordered
        self.matrix[np.arange(dim), np.arange(dim)] = 1 / ridge

    def score(self, features: Array) -> Array:
        """Return x M for features of shape (..., d): A^-1 x, and x . theta in the last column."""
        scored: Array = features.dot(self.matrix.T)
        return scored

    def learn(self, x: Array, scored: Array, reward: float) -> None:
        """Add one observation, given its ``score``; ``scored`` is overwritten. What is not usable is ignored."""
        if not (abs(reward) <= FARTHEST and x.dot(x) <= FARTHEST**2):
            warn_of_ignored()
            return
        direction = scored[:-1]
        scored[-1] -= reward
        gain = -1.0 / (1.0 + float(direction.dot(x)))
        self.matrix = dger(gain, scored, direction, a=self.matrix, overwrite_a=1)


class RidgeAgent(Agent[R]):
    """An agent that keeps a Ridge over the features of the arms it plays; a subclass says how to choose.

    Where all arms share one context of shape (d,), arm a has the features (x, 1) in its own block of (d + 1) K.
    """

    fixed: ClassVar[frozenset[str]] = Agent.fixed | {"last"}
    plays = staticmethod(arms_or_context)

    def begin(self) -> None:
        self.n_arms = n_arms(self.action_space)
        shape = self.context_shape
        self.shared_context = len(shape) == 1
        dim = (shape[0] + 1) * self.n_arms if self.shared_context else shape[1]
        self.regression = Ridge(dim, self.config.ridge)
        self.last: tuple[Array | None, Array, Array] = NOTHING

    @abstractmethod
    def choose(self, features: Array, scored: Array) -> Array:
        """Return arms, given features (..., K, d) and their scores (..., K, d + 1)."""

    def select_action(self, context: Array) -> Action:
        context = self.contexts_of(context)
        with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
            features = self.features(context)
            scored = self.regression.score(features)
            self.last = context, features, scored
            return self.choose(features, scored)

    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        last, features, scored = self.last
        self.forget()
        if context is last and scored.ndim == 2 and type(action) is np.int64 and isinstance(feedback, float):
            self.regression.learn(features[action], scored[action], feedback)
            return
        contexts, arms, rewards = self.records_of(context, action, feedback)
        with np.errstate(over="ignore", invalid="ignore"):
            for x, reward in zip(played(self.features(contexts), arms), rewards.tolist(), strict=True):
                self.regression.learn(x, self.regression.score(x), reward)

    def predict(self, contexts: Array) -> Array:
        return self.regression.score(self.features(contexts))[..., -1]

    def forget(self) -> None:
        """Forget the last (context, features, scores): they belong to the regression as it was."""
        self.last = NOTHING

    def restored(self) -> None:
        self.forget()

    def features(self, context: Array) -> Array:
        """Return the features of every arm in float64, shape (..., K, d)."""
        if not self.shared_context:
            return context.astype(np.float64)
        *users, dim = context.shape
        features = np.zeros((*users, self.n_arms, self.n_arms, dim + 1))
        for arm in range(self.n_arms):
            features[..., arm, arm, :dim] = context
            features[..., arm, arm, dim] = 1
        return features.reshape(*users, self.n_arms, -1)
