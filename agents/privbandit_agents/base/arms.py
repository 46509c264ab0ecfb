"""What agents that play arms share: the played features, what can be learned from them, and the optimistic arm."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbandit_agents.base.records import played, usable, warn_of_ignored
from privbandit_agents.base.rows import remembered
from privbandit_agents.base.ties import Ties, best
from privbandit_agents.privacy.vectors import length, lengths, modest

Array = NDArray[Any]
Floats = NDArray[np.float64]


def learnable(features: Array, rewards: Array) -> tuple[Array, Array]:
    """Return played features (n, d) and rewards (n,), both 0 where a record is not ``usable``; warn of it."""
    if not (good := usable(features, rewards)).all():
        warn_of_ignored()
        features, rewards = np.where(good[:, None], features, 0), np.where(good, rewards, 0)
    return features, rewards


def best_arm(contexts: Array, scorer: Floats, ties: Ties) -> Any:
    """Return argmax of x . theta + width |x|_(A^-1) over the arms, given an ``optimistic_scorer``."""
    with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
        x = contexts.astype(np.float64, copy=False)  # quicker than a product of two dtypes
        scored = x.dot(scorer) if x.ndim < 3 else x @ scorer  # dot is slow for more axes
        bonus = scored[..., :-1]
        return best(scored[..., -1] + np.sqrt(np.vecdot(bonus, bonus)), ties)


@remembered
def with_intercept(contexts: ArrayLike) -> Floats:
    """Return (x / (0.7 sqrt(d)), 1) / sqrt(2), cut to the unit ball, of contexts (..., d): shape (..., d + 1).

    Most contexts of standardized features are cut; the direction of (x, 0.7 sqrt(d)) still shows their length. Entries
    that are not finite stay.
    """
    x = np.asarray(contexts, dtype=np.float64)
    scaled = np.empty((*x.shape[:-1], x.shape[-1] + 1))
    np.divide(x, 0.7 * math.sqrt(x.shape[-1]), out=scaled[..., :-1])
    scaled[..., -1] = 1.0
    scaled /= math.sqrt(2)
    if modest(x, 1e100):
        one = scaled.size == scaled.shape[-1]
        scaled /= max(length(scaled.reshape(-1)), 1.0) if one else np.maximum(lengths(scaled), 1.0)
        return scaled
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(scaled / np.maximum(lengths(scaled), 1.0))


def best_model(x: Floats, scorers: Floats, ties: Ties) -> Any:
    """Return argmax_k of x . theta_k + width |x|_(A_k^-1), given x (..., d) and the arms' scorers (d, K (d + 1))."""
    with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
        scored = x.dot(scorers).reshape(*x.shape[:-1], -1, x.shape[-1] + 1)
        bonus = scored[..., :-1]
        width = np.sqrt(np.add.reduce(bonus * bonus, axis=-1))
        return best(scored[..., -1] + width, ties)


class ArmModels:
    """What agents share that play arms with features by one model, and arms that share a context by a model for each.

    A shared context becomes the features ``with_intercept``, and rewards are then learned as 2 y - 1, y in [0, 1].
    """

    context_shape: tuple[int, ...]
    action_space: Any
    ties: Ties

    @property
    def shared_context(self) -> bool:
        """Whether all arms have one context."""
        return len(self.context_shape) == 1

    @property
    def models(self) -> int:
        """How many models there are: one for each arm if they share the context."""
        return int(self.action_space.n) if self.shared_context else 1

    @property
    def width(self) -> int:
        """How many features a model has."""
        return self.context_shape[0] + 1 if self.shared_context else self.context_shape[1]

    def optimistic(self, contexts: Array, scorers: Floats) -> Any:
        """Return the best arm by the models' optimistic scorers, shape (width, models (width + 1))."""
        if not self.shared_context:
            return best_arm(contexts, scorers, self.ties)
        return best_model(with_intercept(contexts), scorers, self.ties)

    def greedy(self, contexts: Array, scorers: Floats) -> Any:
        """Return the best arm by the models' estimates alone, without their bonus."""
        thetas = scorers[:, self.width :: self.width + 1]
        with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
            values = with_intercept(contexts) @ thetas if self.shared_context else (contexts @ thetas)[..., 0]
        return best(values, self.ties)

    def regressed(self, contexts: Array, arms: Array, rewards: Array) -> tuple[Array, Array, Array | int]:
        """Return features (n, width) and rewards (n,) of n records for the models, and the model of each."""
        if not self.shared_context:
            return played(contexts, arms), rewards, 0
        features, models = with_intercept(contexts), self.models
        if len(arms) != 1 or not 0 <= arms.item() < models:
            exists = (arms >= 0) & (arms < models)
            features, arms = np.where(exists[:, None], features, 0.0), np.where(exists, arms, 0)
        learned = np.maximum(rewards, 0.0)
        np.minimum(learned, 1.0, out=learned)
        learned *= 2
        learned -= 1
        return features, learned, arms


def in_blocks(rows: Array, groups: Array | int, blocks: int) -> Floats:
    """Return rows (n, p) each in its group's block of a row of zeros, shape (n, blocks p)."""
    if blocks == 1:
        return np.asarray(rows)
    spread = np.zeros((len(rows), blocks, rows.shape[1]))
    if len(rows) == 1:
        spread[0, np.asarray(groups).item()] = rows[0]  # a user alone costs a third of a group
    else:
        spread[np.arange(len(rows)), groups] = rows
    return spread.reshape(len(rows), -1)


def optimistic_scorer(roots: Floats, thetas: Floats, width: float) -> Floats:
    """Return [width R' | theta] of models side by side: x times it gives each model's bonus vector and its estimate.

    Args:
        roots: R with R' R = A^-1, shape (d, d), or (models, d, d).
        thetas: shape (d,), or (models, d).
        width: of the bonus.

    Returns:
        Shape (d, models (d + 1)).
    """
    scorers = np.empty((roots.shape[-1], *thetas.shape[:-1], roots.shape[-1] + 1))
    np.multiply(width, roots.transpose(-1, *range(roots.ndim - 1)), out=scorers[..., :-1])
    scorers[..., -1] = thetas.T
    return scorers.reshape(len(scorers), -1)


def ridge_width(sigma: float, added: float, dim: int, users: float) -> float:
    """Return the theory's width of ridge regression on a noisy sum over n users, lambda = ``added`` > 0."""
    return sigma * math.sqrt(dim / added) + math.sqrt(added) + math.sqrt(dim * math.log(1 + users))
