"""Caps of the unit sphere: their moments, drawing from them, and the best one for a randomizer."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from privbandit_agents.privacy._validate import within
from privbandit_agents.privacy.randomizers.randomizer import Array, Floats
from privbandit_agents.privacy.vectors import lengths

LEAST = 1e-100
"""Smallest activity and smallest mass of a cap; it makes infinitely large epsilons harmless."""


@dataclass(frozen=True)
class Cap:
    """The cap {u : u_1 >= t} of the unit sphere in R^D under the uniform law.

    Attributes:
        dim: D.
        threshold: t in [0, 1).
    """

    dim: int
    threshold: float

    @property
    def _half(self) -> float:
        return (self.dim - 1) / 2  # (1 + u_1) / 2 has the Beta(half, half) law

    @cached_property
    def mass(self) -> float:
        """P(u_1 >= t)."""
        return 0.5 if self.dim == 1 else float(scipy.special.betainc(self._half, 0.5, 1 - self.threshold**2)) / 2

    @property
    def log_first(self) -> float:
        """Log E[u_1; u_1 >= t]."""
        if self.dim == 1:
            return -math.log(2)
        constant = scipy.special.gammaln(self.dim / 2) - scipy.special.gammaln(self._half) - math.log(math.pi) / 2
        return float(constant + self._half * math.log1p(-(self.threshold**2)) - math.log(self.dim - 1))

    @property
    def second(self) -> float:
        """E[u_1^2; u_1 >= t]."""
        if self.dim == 1:
            return 0.5
        return float(scipy.special.betainc(self._half, 1.5, 1 - self.threshold**2)) / (2 * self.dim)

    def heights(self, inside: Array, uniforms: Floats) -> Floats:
        """Return draws of u_1, shape (n,), given that u lies in the cap or that it does not."""
        if self.dim == 1:
            return np.where(inside, 1.0, -1.0)
        if len(uniforms) == 1:  # numbers are quicker than arrays of one
            mass = self.mass if inside[0] else 1 - self.mass
            height = 1 - 2 * float(scipy.special.betaincinv(self._half, self._half, uniforms.item() * mass))
            return np.array([height if inside[0] else -height])
        low = scipy.special.betaincinv(self._half, self._half, uniforms * np.where(inside, self.mass, 1 - self.mass))
        heights: Floats = np.asarray(1 - 2 * low)
        np.negative(heights, out=heights, where=~inside)
        return heights


def best_cap(
    epsilon: float, cells: int, dim: int, threshold: float | None = None, activity: float | None = None
) -> tuple[float, float]:
    """Return the threshold and the activity of least variance in a cell that holds 1/m of the users.

    A threshold in [0, 1) or an activity in (0, 1] that is given is taken; epsilon > 0 is finite.
    """
    pole = 1 - 2e-8  # nearer to the pole rounding errors matter
    half, highest = (dim - 1) / 2, pole
    if dim > 1:
        highest = min(pole, 1 - 2 * float(scipy.special.betaincinv(half, half, LEAST)))
    if activity is not None:
        within(LEAST, 1.0, activity=activity)
    if threshold is not None or dim == 1:
        height = within(0.0, highest, threshold=threshold or 0.0)
        return height, best_activity(epsilon, cells, Cap(dim, height), activity)[0]

    def spread(log_mass: float) -> float:
        return best_activity(epsilon, cells, Cap(dim, at(log_mass)), activity)[1]

    def at(log_mass: float) -> float:
        return min(max(1 - 2 * float(scipy.special.betaincinv(half, half, math.exp(log_mass))), 0.0), highest)

    bounds = (math.log(Cap(dim, highest).mass), math.log(0.5))
    height = at(scipy.optimize.minimize_scalar(spread, bounds=bounds, method="bounded").x)
    return height, best_activity(epsilon, cells, Cap(dim, height), activity)[0]


def best_activity(epsilon: float, cells: int, cap: Cap, activity: float | None) -> tuple[float, float]:
    """Return the best activity for a cap and the log of the variance it leads to, up to a constant.

    The variance is proportional to ((1 - 1/m) Z^2 + kappa Z / m) / (activity g^2), where kappa = 1 + (e^epsilon - 1)
    mass and Z = 1 + activity (kappa - 1). It is least at activity = sqrt(1 + kappa / (m - 1)) / (kappa - 1), or at 1 if
    that is smaller. An ``activity`` that is given is taken instead of the best; epsilon is finite.
    """
    gain = math.log(cap.mass) + epsilon + math.log(-math.expm1(-epsilon))  # log(kappa - 1)
    kappa = np.logaddexp(0.0, gain)  # this and all that follows in logs
    alone = cells == 1
    free = 0.0 if alone else np.logaddexp(0.0, kappa - math.log(cells - 1)) / 2 - gain
    act = min(max(float(free), math.log(LEAST)), 0.0) if activity is None else math.log(activity)
    z = np.logaddexp(0.0, act + gain)
    others = -math.inf if alone else math.log1p(-1 / cells) + z
    return math.exp(act), float(z + np.logaddexp(others, kappa - math.log(cells)) - act - 2 * cap.log_first)


def directions(normals: Floats) -> Floats:
    """Return uniform directions, shape (n, D), from standard Gaussians of that shape."""
    if normals.shape[-1] == 1:
        return np.where(normals < 0, -1.0, 1.0)
    return np.asarray(normals / lengths(normals))


def around(pole: Floats, heights: Floats, u: Floats) -> Floats:
    """Return unit vectors (n, D) at the given heights over the poles, turned towards the u (n, D)."""
    side = u - (u * pole).sum(axis=1, keepdims=True) * pole
    side /= np.maximum(lengths(side), LEAST)
    return np.asarray(heights[:, None] * pole + np.sqrt(1 - heights[:, None] ** 2) * side)
