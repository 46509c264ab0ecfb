"""Recursive ridge regression, the agents' side of it that LinUCB, LinTS and greedy play share."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from scipy.linalg.blas import ddot, dger

from privbandit_agents.base.agent import Agent
from privbandit_agents.base.records import played, warn_of_ignored
from privbandit_agents.base.settings import LateSettings, Positive, Settings
from privbandit_agents.base.spaces import Action, Array, Feedback, Space, arms_or_context, n_arms, no_context
from privbandit_agents.base.ties import Told
from privbandit_agents.privacy.vectors import LIMIT

NOTHING = (None, np.empty(0), np.empty(0))


@dataclass(frozen=True)
class RidgeSettings(Settings):
    """Settings that these agents share.

    Attributes:
        ridge: regularization of A = ridge I + sum x x', > 0.
    """

    ridge: Positive = 1.0


R = TypeVar("R", bound=RidgeSettings)


class Ridge:
    """theta = A^-1 b with A = ridge I + sum x x' and b = sum r x, kept up to date by rank-one steps; G of them at once.

    A^-1 and theta are one matrix M = [A^-1 | theta] of shape (d, d + 1): x M gives A^-1 x and the estimate x . theta in
    one product, and by Sherman and Morrison both change by one outer product, written in place. No step costs more
    than O(d^2).

    Args:
        dim: d.
        ridge: regularization, > 0.
        groups: G, regressions that share nothing.
    """

    limit: ClassVar[float] = LIMIT
    """The largest |reward| and |x| that are learned from."""

    def __init__(self, dim: int, ridge: float, groups: int = 1) -> None:
        self.matrices: Array = np.zeros((groups, dim, dim + 1))
        self.matrices[:, np.arange(dim), np.arange(dim)] = 1 / ridge

    def score(self, features: Array, group: int = 0) -> Array:
        """Return x M for features of shape (..., d): A^-1 x, and x . theta in the last column."""
        matrix = self.matrices[group]
        scored: Array = features.dot(matrix) if features.ndim < 3 else features @ matrix  # dot is slow for more axes
        return scored

    def score_all(self, x: Array) -> Array:
        """Return x M for every group and x of shape (..., d): shape (..., G, d + 1)."""
        scored = (x if x.ndim > 1 else x[None]) @ self.matrices  # one product a group
        return scored[:, 0] if x.ndim == 1 else scored.swapaxes(0, 1)

    def learn(self, x: Array, scored: Array, reward: float, group: int = 0) -> None:
        """Add one observation, given its ``score``; ``scored`` is overwritten. Unusable observations are ignored."""
        if not (abs(reward) <= self.limit and ddot(x, x) <= self.limit**2):  # that of numpy warns of what overflows
            warn_of_ignored()
            return
        self.add(self.matrices[group].T, x, scored, scored[:-1], reward)

    @staticmethod
    def add(matrix: Array, x: Array, scored: Array, direction: Array, reward: float) -> None:
        """Add a usable observation to M, which is given as its transpose, in place.

        Args:
            matrix: the transpose of M.
            x: shape (d,).
            scored: x M, which is overwritten.
            direction: a view of ``scored`` without its last number.
            reward: of x.
        """
        scored[-1] -= reward
        gain = -1.0 / (1.0 + float(direction.dot(x)))
        dger(gain, scored, direction, 1, 1, matrix, 1, 1, 1)  # a = matrix, overwritten; names would cost a microsecond


class RidgeAgent(Agent[R]):
    """An agent that keeps a Ridge over the features of the arms it plays; a subclass decides how to choose.

    Where all arms share one context x of shape (d,), each arm has a regression of its own over the features (x, 1).
    Arms without a context have the constant alone.

    If feedback comes late an optimistic agent's widths count the users whose rewards are still to come, as in Thomas
    Desautels, Andreas Krause and Joel Burdick, "Parallelizing Exploration-Exploitation Tradeoffs in Gaussian Process
    Bandit Optimization", JMLR 2014: so the users of a batch get different arms.

    Attributes:
        ahead: the regressions' matrices A^-1 with all who were served; None: their rewards come at once.
        waiting: how many of them are still to report.
    """

    optimistic: ClassVar[bool] = False
    """Whether arms are chosen by the width of confidence bounds, and by no random numbers."""
    fixed: ClassVar[frozenset[str]] = Agent.fixed | {"last"}

    @staticmethod
    def plays(observation_space: Space, action_space: Space) -> str:
        return no_context(observation_space, action_space) and arms_or_context(observation_space, action_space)

    def begin(self) -> None:
        self.n_arms = n_arms(self.action_space)
        shape = self.context_shape
        self.shared_context = len(shape) <= 1
        own = shape[0] + 1 if shape else 1
        self.dim, groups = (own, self.n_arms) if self.shared_context else (shape[1], 1)
        self.regression = Ridge(self.dim, self.config.ridge, groups)
        self.last: tuple[Array | None, Array, Array] = NOTHING
        late = self.optimistic and getattr(self.config, "feedback", None) is not None
        self.ahead = Ridge(self.dim, self.config.ridge, groups) if late else None
        self.waiting = 0

    @abstractmethod
    def choose(self, features: Array, directions: Array, estimates: Array, random: Array | None) -> Array:
        """Return arms.

        Args:
            features: x of every arm, shape (..., K, d), or (..., 1, d) that all arms share.
            directions: A^-1 x of every arm, shape (..., K, d).
            estimates: x . theta of every arm, shape (..., K).
            random: what ``draw`` returned.
        """

    def draw(self, *users: int) -> Array | None:
        """Draw the random numbers by which n users' arms are chosen, shape (n, ...); one user's if n is left out."""
        return None

    def select_action(self, context: Array) -> Action:
        with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
            features = self.features(context)
            scored = self.scored(features)
            self.last = context, features, scored
            random = self.draw(*features.shape[:-2])
            if self.ahead is not None:
                return self.choose_ahead(self.ahead, features, scored[..., -1], random)
            return self.choose(features, scored[..., :-1], scored[..., -1], random)

    def choose_ahead(self, ahead: Ridge, features: Array, estimates: Array, random: Array | None) -> Array:
        """Choose for users in order; the widths of each count all who were served before."""
        arms, ties, config = np.empty(estimates.shape[:-1], np.intp), self.ties, cast(LateSettings, self.config)
        weight = 1.0 if config.feedback is None else math.sqrt(1 - config.feedback.missing)
        served, present = not isinstance(ties, Told), ties.present
        try:
            for user in np.ndindex(arms.shape):
                x = features[user]
                scored = self.scored(x, ahead)
                if present is not None and present.ndim > 1:
                    ties.present = present[user]
                arms[user] = arm = self.choose(
                    x, scored[..., :-1], estimates[user], None if random is None else random[user]
                )
                played = x[0 if self.shared_context else arm] * weight
                if served and ddot(played, played) <= ahead.limit**2:  # who is only asked about is not served
                    ahead.learn(played, scored[arm] * weight, 0.0, int(arm) if self.shared_context else 0)
                    self.waiting += 1
        finally:
            ties.present = present
        return arms[()]

    def heard(self, users: int) -> None:
        """Count users who have reported; after a batch, or if nobody is waited for, widths are the regressions' own."""
        if self.ahead is not None:
            self.waiting -= users
            config: Any = self.config
            if self.waiting <= 0 or config.feedback.batches:
                self.waiting, self.ahead.matrices = 0, self.regression.matrices.copy()

    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        last, features, scored = self.last
        self.forget()
        if context is last and scored.ndim == 2 and type(action) is np.int64 and isinstance(feedback, float):
            if self.shared_context:
                self.regression.learn(features[0], scored[action], feedback, int(action))
            else:
                self.regression.learn(features[action], scored[action], feedback)
            return self.heard(1)
        contexts, arms, rewards = self.records_of(context, action, feedback)
        with np.errstate(over="ignore", invalid="ignore"):
            for x, group, reward in zip(*self.observed(contexts, arms), rewards.tolist(), strict=True):
                self.regression.learn(x, self.regression.score(x, group), reward, group)
        return self.heard(len(rewards))

    def predict(self, contexts: Array) -> Array:
        return self.scored(self.features(contexts))[..., -1]

    def forget(self) -> None:
        """Forget the last (context, features, scores): they belong to the regression as it was."""
        self.last = NOTHING

    def restored(self) -> None:
        self.forget()

    def features(self, context: Array) -> Array:
        """Return the features of every arm in float64, shape (..., K, d), or (..., 1, d) if all share them."""
        if not self.shared_context:
            return context.astype(np.float64)
        features = np.ones((*context.shape[: context.ndim - len(self.context_shape)], 1, self.dim))
        if self.context_shape:
            features[..., 0, : context.shape[-1]] = context
        return features

    def scored(self, features: Array, regression: Ridge | None = None) -> Array:
        """Return the scores (..., K, d + 1) of all arms, by the regression of those who have reported or by another."""
        regression = regression or self.regression
        if self.shared_context:
            return regression.score_all(features[..., 0, :])
        return regression.score(features)

    def observed(self, contexts: Array, arms: Array) -> tuple[Array, list[int]]:
        """Return the played features (n, d), 0 where an arm does not exist, and the regression that each is for."""
        features = self.features(contexts)
        if not self.shared_context:
            return played(features, arms), [0] * len(arms)
        exists = played(np.ones((len(arms), self.n_arms, 1)), arms)
        return features[:, 0] * exists, np.where(exists[:, 0], arms, 0).astype(int).tolist()
