"""Where to clip a user's contribution, and how large a coefficient must be to show through the noise.

Everything here is a function of public constants and earlier releases. Features, divided by their public scale, and
residuals are presumed Gaussian; if they are not, estimates are worse and privacy is the same.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from privbandit_agents.privacy.mechanisms.selection import GumbelTopK

LEVELS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""Clip levels to choose from, in standard deviations."""


@lru_cache(maxsize=256)
def passed(level: float) -> float:
    """Return P(|Z| < level) of a standard Gaussian: by Bussgang's theorem, the slope of clip(Z) on Z."""
    return math.erf(level / math.sqrt(2))


@lru_cache(maxsize=256)
def power(level: float) -> float:
    """Return E min(|Z|, level)^2 of a standard Gaussian."""
    density = math.exp(-(level**2) / 2) / math.sqrt(2 * math.pi)
    return passed(level) - 2 * level * density + level**2 * (1 - passed(level))


@lru_cache(maxsize=64)
def largest_of(arms: int) -> float:
    """Return E max(Z_1, ..., Z_K)^2 of independent standard Gaussians: the second moment along a greedy direction."""
    z = np.linspace(-9, 9, 20_001)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    below = np.cumsum(density) * (z[1] - z[0])
    return float(np.trapezoid(z**2 * arms * density * np.minimum(below, 1.0) ** (arms - 1), z))


def with_rounding(bound: float, users: int) -> float:
    """Return how far replacing a user moves the sum of n floats, if it moves the sum of n real numbers by ``bound``.

    Each is at most bound / 2 in size, or between 0 and bound. A sum is within n 2^-53 of the sum of their sizes.
    """
    return bound * (1 + 2 * (users + 1) ** 2 * 2.0**-53)


@dataclass(frozen=True)
class Clip:
    """How a batch's contributions clip(x_j) clip(y - x . theta) are clipped, summed and released.

    *Formal guarantees.* Whatever the record, a contribution lies in +-feature_limit residual_limit in every coordinate,
    so replacing a user moves the sum by at most ``sensitivity`` in sup norm; ``mechanism`` is calibrated to that, and
    to the rounding of the sum.

    Attributes:
        users: n of the batch.
        feature_limit: largest |feature| counted.
        residual_limit: largest |residual| counted.
        slope: expected contribution in units of feature_scale^2 times the error of the coefficient, if residuals have
            the presumed scale.
        sampling: standard deviation of the sum without noise.
        mechanism: the release of the sum.
    """

    users: int
    feature_limit: float
    residual_limit: float
    slope: float
    sampling: float
    mechanism: GumbelTopK

    @property
    def sensitivity(self) -> float:
        return 2 * self.feature_limit * self.residual_limit


@dataclass(frozen=True)
class Presumed:
    """Public presumptions about the batch: scales, sizes, and the budget of the sum.

    Attributes:
        dim: d.
        feature_scale: standard deviation of a feature.
        residual_scale: standard deviation of the residuals.
        rho: zCDP budget of the release.
        selection: share of it for selection.
        kept: coordinates of the support so far.
        noise: of ``GumbelTopK``.
    """

    dim: int
    feature_scale: float
    residual_scale: float
    rho: float
    selection: float
    kept: int
    noise: str = "numpy"

    def clip(self, users: int, new: int, feature: float, residual: float) -> Clip:
        """Return the release of ``new`` coordinates beside the kept ones, clip levels in standard deviations."""
        limits = feature * self.feature_scale, residual * self.residual_scale
        bound = with_rounding(2 * limits[0] * limits[1], users)
        mechanism = GumbelTopK.from_rho(self.rho, new, bound, self.selection, self.kept, self.noise)
        spread = math.sqrt(users * power(feature) * power(residual)) * self.feature_scale * self.residual_scale
        return Clip(users, *limits, passed(feature) * passed(residual), spread, mechanism)

    def detectable(self, clip: Clip) -> float:
        """Return the coefficient that stands out from the noise of the d coordinates without signal, about."""
        largest = clip.mechanism.beta * math.log(self.dim) + clip.sampling * math.sqrt(2 * math.log(self.dim))
        return largest / (clip.users * clip.slope * self.feature_scale**2)

    def variance(self, clip: Clip) -> float:
        """Return the variance of a released coefficient."""
        return (clip.mechanism.sigma**2 + clip.sampling**2) / (clip.users * clip.slope * self.feature_scale**2) ** 2

    def best(self, users: int, new: int) -> Clip:
        """Return the clip levels that detect the smallest coefficient, or for no new ones have the least variance."""
        clips = [self.clip(users, new, *levels) for levels in product(LEVELS, LEVELS)]
        return min(clips, key=self.detectable if new else self.variance)

    def users_needed(self, new: int, coefficient: float) -> int:
        """Return the least number of users at which ``new`` coefficients of that size are detectable.

        For fixed levels the detectable size is a / n + b / sqrt(n), so the number is a root of a quadratic.
        """
        log_dim = math.log(self.dim)
        needed = math.inf
        for levels in product(LEVELS, LEVELS):
            clip = self.clip(1, new, *levels)
            unit = clip.slope * self.feature_scale**2 * coefficient
            a, b = clip.mechanism.beta * log_dim / unit, clip.sampling * math.sqrt(2 * log_dim) / unit
            needed = min(needed, ((b + math.sqrt(b**2 + 4 * a)) / 2) ** 2)
        return max(1, math.ceil(min(needed, 1e15)))
