"""What agents that predict labels share: public data, exploration, and learning from labels that are known."""

from abc import abstractmethod
from typing import ClassVar, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from privbandit_agents.base.agent import NEVER, Agent
from privbandit_agents.base.law import Probabilities, mixed
from privbandit_agents.base.records import FLOAT64, dtype_of, rows_of, users_in
from privbandit_agents.base.rows import uniforms_per_user
from privbandit_agents.base.spaces import Action, Array, Feedback, Space, labels_of_contexts, n_arms
from privbandit_agents.base.ties import best

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
SCALES = ("public", "range")
OUTSIDE = ("clip", "zero")


L = TypeVar("L")


class LabelAgent(Agent[L]):
    """Predict labels, having public data; as a bandit, or offline from users whose labels are known.

    With two labels the feedback reveals the label, and there is nothing to explore. With more only a right prediction
    does, and a random label now and then keeps all of them in play.
    """

    uses_public_data = True
    postprocessing: ClassVar[frozenset[str]] = frozenset()
    """Settings that may change at no cost of privacy, since the reports do not depend on them."""

    plays = staticmethod(labels_of_contexts)

    def begin(self) -> None:
        super().begin()
        self.n_labels = n_arms(self.action_space)
        asked = getattr(self.config, "exploration", 0.0)  # no such setting: nothing is learned from random labels
        self.exploration: float = (0.0 if self.n_labels == 2 else 0.05) if asked is None else asked

    @abstractmethod
    def chances(self, contexts: Array) -> Floats:
        """Return the estimated probabilities of the labels, contexts (n, d) to (n, K)."""

    @abstractmethod
    def learn_labels(self, contexts: Array, labels: Labels, aggregate: bool = False) -> None:
        """Learn from n more users with known labels; predictions may change with ``conclude`` only.

        Args:
            contexts: shape (n, d).
            labels: shape (n,).
            aggregate: draw the sum of the users' reports at once where its law is exact: for simulation.
        """

    def labelled(self, contexts: object, labels: object) -> tuple[Array, Labels]:
        """Return n users' contexts as numbers (n, d), and their labels (n,), 0 for one that does not exist.

        Raises:
            ValueError: the numbers of contexts and labels differ; nothing is taken in.
        """
        needed = f"n contexts of shape {self.context_shape} and n labels"
        known = rows_of(labels, users := users_in(labels), (), FLOAT64, needed)
        rows = rows_of(contexts, users, self.context_shape, dtype_of(self.observation_space), needed)
        there = (known >= 0) & (known < self.n_labels)
        return rows, np.where(there, known, 0).astype(np.int64)

    def conclude(self) -> None:
        """Let the predictions reflect all that was learnt."""

    def reprocess(self, config: L) -> None:
        """Predict by other settings in ``postprocessing`` from the same reports."""
        self.config = config
        self.conclude()

    def law(self, contexts: Array, draws: int, rng: Generator) -> Probabilities:
        """Return the law without exploration, which is exact but for guesses that are drawn, mixed with any label."""
        share, self.exploration = self.exploration, 0.0
        try:
            return mixed(super().law(contexts, draws, rng), share, 1 / self.n_labels)
        finally:
            self.exploration = share

    def explored(self, labels: Labels, context: Array, rng: Generator) -> Action:
        """Return the labels for one user or many, some of them replaced by random ones."""
        if self.exploration:
            uniforms = uniforms_per_user(rng, context, self.context_shape, 2).reshape(-1, 2)
            at_random = (uniforms[:, 1] * self.n_labels).astype(np.int64)
            labels = np.where(uniforms[:, 0] < self.exploration, at_random, labels)
        return labels if context.ndim == 2 else int(labels[0])


class PublicLabelAgent(LabelAgent[L]):
    """Predict from the public data alone: the policy never changes, and nothing is learned from users."""

    def select_action(self, context: Array) -> Action:
        rows = context.reshape(-1, *self.context_shape)
        return self.explored(best(self.chances(rows), self.ties), context, self.rng)

    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        """Learn nothing."""

    def learn_labels(self, contexts: Array, labels: Labels, aggregate: bool = False) -> None:
        """Learn nothing."""

    def frozen_rounds(self) -> int:
        return NEVER


def propensities(chosen: ArrayLike, exploration: float, labels: int) -> Floats:
    """Return the probability of answers, given that of each among best guesses, shape as ``chosen``.

    Args:
        chosen: the probability that an answer is the best guess: 0, 1, or a share if several are; any shape.
        exploration: probability of a random label.
        labels: K.
    """
    explored = exploration / labels
    return explored + (1 - exploration) * np.asarray(chosen)


def ends_of(feature_range: tuple[ArrayLike, ArrayLike], dim: int | None = None) -> Floats:
    """Return the lower and upper ends of features, shape (2, dim) if ``dim`` is given.

    Raises:
        ValueError: not a pair of numbers or arrays (dim,), not finite, or not increasing.
    """
    try:
        low, high = (np.asarray(end, np.float64) for end in feature_range)
        shape = np.broadcast_shapes(low.shape, high.shape) if dim is None else (dim,)
        ends = np.stack([np.broadcast_to(end, shape) for end in (low, high)])
    except (TypeError, ValueError):
        arrays = "arrays of one length" if dim is None else f"arrays of length {dim}"
        raise ValueError(f"feature_range must be (low, high), numbers or {arrays}; got {feature_range!r}.") from None
    if not (np.isfinite(ends[1] - ends[0]) & (ends[0] < ends[1])).all():
        raise ValueError(f"feature_range must be finite with low < high; got {feature_range!r}.")
    return ends


def in_cube(contexts: Array) -> Floats:
    """Return contexts (n, d) within [0, 1]^d; a coordinate that is not finite becomes 1/2."""
    x = contexts.astype(np.float64, copy=False)
    flat = x.reshape(-1)
    # false if one is NaN
    inside = np.minimum.reduce(flat, initial=0.0) >= 0 and np.maximum.reduce(flat, initial=1.0) <= 1
    return x if inside else np.clip(np.where(np.isfinite(x), x, 0.5), 0, 1)


def in_unit_cube(observation_space: Space) -> str:
    """Return "" if the features are in [0, 1]^d, else the requirement, in words."""
    low, high = getattr(observation_space, "low", 0), getattr(observation_space, "high", 1)
    unit = np.all(np.equal(low, 0)) and np.all(np.equal(high, 1))
    return "" if unit else "classification of contexts in [0, 1]^d"
