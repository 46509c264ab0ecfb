"""What agents that predict labels have in common: public data, exploration, and learning from labels that are known."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.base.agent import NEVER, Agent, Array, C, Space, labels_of_contexts, n_arms, uniforms_per_user

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
PublicData = tuple[Array, Labels]
EXPLORATION = 0.05
SCALES = ("public", "range")


class LabelAgent(Agent[C]):
    """Predict labels, having public data; as a bandit, or offline from users whose labels are known.

    With two labels the feedback reveals the label, and there is nothing to explore. With more only a right prediction
    does, and a random label now and then keeps all of them in play.

    Args:
        observation_space: of one user.
        action_space: of one user.
        config: settings with ``exploration``: the probability of a random label; None: 0 with two labels, 0.05 with
            more.
        rng: the agent's own randomness.
        public_data: features (n, d) and labels (n,).
    """

    uses_public_data = True
    postprocessing: ClassVar[frozenset[str]] = frozenset()
    """Settings that only change what is made of the reports, so that another value costs no privacy."""

    def begin(self) -> None:
        """Say how much to explore."""
        super().begin()
        self.n_labels = n_arms(self.action_space)
        default = 0.0 if self.n_labels == 2 else EXPLORATION
        self.exploration = default if self.config.exploration is None else self.config.exploration

    plays = staticmethod(labels_of_contexts)

    @abstractmethod
    def chances(self, contexts: Array) -> Floats:
        """Return the estimated probabilities of the labels, contexts (n, d) to (n, K)."""

    @abstractmethod
    def learn_labels(self, contexts: Array, labels: Labels, aggregate: bool = False) -> None:
        """Learn from n more users (n, d) whose labels are known; predictions may change with ``conclude`` only.

        Args:
            contexts: shape (n, d).
            labels: shape (n,).
            aggregate: draw the sum of the users' reports at once where its law is exact: for simulation.
        """

    def conclude(self) -> None:
        """Let the predictions reflect all that was learnt."""

    def reprocess(self, config: Any) -> None:
        """Predict by other settings in ``postprocessing`` from the same reports."""
        self.config = config
        self.conclude()

    def explored(self, labels: Labels, context: Array, rng: Generator) -> Any:
        """Return the labels for one user or many, some of them replaced by random ones."""
        if self.exploration:
            single = self.observation_space.shape or ()
            luck = uniforms_per_user(rng, context, single, 2).reshape(-1, 2)
            labels = np.where(luck[:, 0] < self.exploration, (luck[:, 1] * self.n_labels).astype(np.int64), labels)
        return labels if np.ndim(context) == 2 else int(labels[0])

    def propensities(self, chosen: NDArray[np.bool_]) -> Floats:
        """Return the probability of answers that are (True) or are not the best guess, shape as ``chosen``."""
        explored = self.exploration / self.n_labels
        probability: Floats = np.where(chosen, 1 - self.exploration + explored, explored)
        return probability


class PublicLabelAgent(LabelAgent[C]):
    """Predict from the public data alone: the policy never changes, and users tell nothing."""

    def select_action(self, context: Array) -> Any:
        """Return the likeliest label, or explore."""
        rows = np.asarray(context).reshape(-1, *(self.observation_space.shape or ()))
        return self.explored(self.chances(rows).argmax(axis=1), context, self.rng)

    def update(self, context: Array, action: Any, feedback: Any) -> None:
        """Learn nothing."""

    def learn_labels(self, contexts: Array, labels: Labels, aggregate: bool = False) -> None:
        """Learn nothing."""

    def frozen_rounds(self) -> int:
        """Return that nothing changes."""
        return NEVER


def ends_of(feature_range: Any, dim: int | None = None) -> Floats:
    """Return the lower and upper ends of features, shape (2, dim) if ``dim`` is given.

    Raises:
        ValueError: not a pair of numbers or arrays (dim,), not finite, or not increasing.
    """
    shape = () if dim is None else (dim,)
    try:
        low, high = (np.asarray(end, np.float64) for end in feature_range)
        ends = np.stack(
            [np.broadcast_to(end, shape or np.broadcast_shapes(low.shape, high.shape)) for end in (low, high)]
        )
    except (TypeError, ValueError):
        arrays = "arrays of one length" if dim is None else f"arrays of length {dim}"
        raise ValueError(f"feature_range must be (low, high), numbers or {arrays}; got {feature_range!r}.") from None
    if not (np.isfinite(ends[1] - ends[0]) & (ends[0] < ends[1])).all():
        raise ValueError(f"feature_range must be finite with low < high; got {feature_range!r}.")
    return ends


def in_unit_cube(observation_space: Space) -> str:
    """Return "" if the features are in [0, 1]^d, else what is needed, in words."""
    low, high = getattr(observation_space, "low", 0), getattr(observation_space, "high", 1)
    unit = np.all(np.equal(low, 0)) and np.all(np.equal(high, 1))
    return "" if unit else "classification of contexts in [0, 1]^d"
