"""What one user contributes to a logistic regression: gradient and Hessian of its likelihood at a public parameter."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from privbandit_agents.privacy._validate import within
from privbandit_agents.privacy.contributions.moments import Lifted, sanitise
from privbandit_agents.privacy.contributions.quadratic import improved
from privbandit_agents.privacy.vectors import smat

Floats = NDArray[np.float64]
WEIGHT = math.sqrt(2)
"""Weight of the Hessian beside the gradient: what is packed at theta = 0 is half of what ``pack`` makes of 2 y - 1."""
FARTHEST = 20.0
"""Norm of theta, at most: beyond it a mean is no longer a number that floats tell from 1."""
ANGLES = 400
"""Steps of the grid of angles on which ``sensitivity`` looks for the worst pair."""


def factors(features: ArrayLike, reward: ArrayLike, theta: Floats) -> tuple[Floats, Floats]:
    """Return sqrt(h) x and r / sqrt(h), whose products are the gradient r x and the Hessian h x x' of n users.

    mu = 1 / (1 + exp(-x . theta)), r = y - mu and h = mu (1 - mu), after ``sanitise``; a reward below 0 counts as 0.

    *Formal guarantees.* ``sensitivity`` bounds how far one record moves the sum of (r x, w svec(h x x')), whatever the
    record is. A row is the same whoever else is in the group. Proof: docs/privacy/logistic-steps.md.

    Args:
        features: shape (n, d).
        reward: shape (n,).
        theta: of each user's model, |theta| <= ``FARTHEST``, shape (n, d) or (d,).
    """
    x, y = sanitise(features, reward)
    mean = scipy.special.expit(np.vecdot(x, theta))
    root = np.sqrt(mean * (1 - mean))
    return root[:, None] * x, (np.maximum(y, 0.0) - mean) / root


def pack(features: ArrayLike, reward: ArrayLike, theta: Floats) -> Floats:
    """Return (r x, w svec(h x x')) of n users, as ``factors`` has them, shape (n, d + d (d + 1) / 2)."""
    rows, scores = factors(features, reward, theta)
    return Lifted(scores[:, None] * rows, rows, WEIGHT).dense()


def sensitivity(norms: Sequence[float]) -> float:
    """Return how far replacing one record moves the sum of (r x, w svec(h x x')), in the blocks of their models.

    *Formal guarantees.* For models with theta of these norms. Of one model the gradient moves by at most the largest
    |A(a) u(a) - A(b) u(-b)| over two angles, u(a) = (cos a, sin a), A(a) = 1 / (1 + exp(-norm cos a)): the largest
    value on a grid, plus what may lie between. Gradients of two models move by at most sqrt(2) A(0) together. Hessians
    move by at most 1 / sqrt(8). The rest, 10^-12, is rounding. Proof: docs/privacy/logistic-steps.md.
    """
    gradient = max(farthest_gradients(within(0, FARTHEST, norm=norm)) for norm in norms)
    if len(norms) > 1:
        gradient = max(gradient, math.sqrt(2) * float(scipy.special.expit(max(norms))))
    return math.hypot(gradient, WEIGHT / math.sqrt(8)) * (1 + 1e-12)


@lru_cache(maxsize=256)
def farthest_gradients(norm: float) -> float:
    """Return a bound on the distance of two gradients at a theta of this norm: the largest on a grid, and a step."""
    angles = np.linspace(0, np.pi, ANGLES + 1)
    chance = scipy.special.expit(norm * np.cos(angles))
    along, aside = chance * np.cos(angles), chance * np.sin(angles)
    # no distance is more than the sum of both lengths, and one of them is 2 aside
    far = chance + chance[0] > 2 * (1 - 1e-12) * aside.max()
    along, aside = along[far], aside[far]
    # each pair once, in parts that stay in cache
    parts = ((slice(i, i + 32), slice(i, None)) for i in range(0, len(along), 32))
    squares = ((along[a, None] - along[b]) ** 2 + (aside[a, None] + aside[b]) ** 2 for a, b in parts)
    return math.sqrt(max(part.max() for part in squares)) + (1 + norm / 4) * math.pi / ANGLES


def model_of(packed: Floats, dim: int) -> tuple[Floats, Floats]:
    """Return the gradient (d,) and the Hessian (d, d) of a sum of packed records; of the likelihood, not of a loss."""
    return packed[:dim], smat(packed[dim:] / WEIGHT)


class Belief:
    """What noisy models of disjoint batches say of the parameters: post-processing of releases, which reads no data.

    Attributes:
        precision: of each model's theta, shape (models, d, d).
        theta: shape (models, d).
    """

    def __init__(self, models: int, dim: int) -> None:
        self.precision = np.tile(np.eye(dim), (models, 1, 1))  # of the prior
        self.theta = np.zeros((models, dim))

    @property
    def norms(self) -> tuple[float, ...]:
        """The norm of the theta of each model."""
        return tuple(np.sqrt(np.vecdot(self.theta, self.theta)).tolist())

    def learn(self, packed: Floats, sigma: float, radius: float) -> None:
        """Take in the noisy sum of a batch's records at theta, with noise of deviation sigma in every coordinate."""
        for k, part in enumerate(np.split(packed, len(self.theta))):
            gradient, hessian = model_of(part, self.theta.shape[1])
            self.precision[k], move = improved(self.precision[k], -gradient, hessian, sigma, sigma / WEIGHT)
            reached = self.theta[k] + move
            inside = radius * (1 - 1e-12)  # rounding never ends above the radius
            self.theta[k] = reached / max(1.0, float(np.linalg.norm(reached)) / inside)
