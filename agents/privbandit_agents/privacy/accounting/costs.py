"""What releases cost in pure, approximate, zero-concentrated and Gaussian privacy, and how costs compose."""

import math
from dataclasses import dataclass

from privbandit_agents.privacy._validate import budget, failure
from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon, pure_to_rho, rho_to_epsilon

SLACK = 1e-9
"""Relative room for rounding when costs are held against a budget or a delta; sums of costs are rounded up."""


@dataclass(frozen=True)
class Cost:
    """The privacy cost of one or more releases to one user; costs of releases about the same user add.

    >>> (zcdp(0.25) + zcdp(0.5)).rho
    0.75

    Attributes:
        pure: sum of epsilons of pure releases.
        pure_rho: the same releases in zCDP, sum of eps^2 / 2.
        rho: sum over zero-concentrated releases.
        epsilon: sum of epsilons of approximate releases.
        delta: sum of deltas of approximate releases.
        gaussian: sum of mu^2 / 2 over releases with Gaussian noise, which is their rho too.
    """

    pure: float = 0.0
    pure_rho: float = 0.0
    rho: float = 0.0
    epsilon: float = 0.0
    delta: float = 0.0
    gaussian: float = 0.0

    def __post_init__(self) -> None:
        one = self.pure >= 0 and self.pure_rho >= 0 and self.rho >= 0  # a loop takes twice as long, for every user
        if not (one and self.epsilon >= 0 and self.delta >= 0 and self.gaussian >= 0):
            raise ValueError(f"a cost must be >= 0 in every component; got {self}.")

    def __add__(self, other: "Cost") -> "Cost":
        """Sequential composition: both releases are about the same user. Sums are rounded up: no cost is lost."""
        return Cost(*map(at_least, vars_of(self), vars_of(other)))

    def __or__(self, other: "Cost") -> "Cost":
        """Parallel composition: the releases are about different users, who pay at most the larger of each part."""
        return Cost(*map(max, vars_of(self), vars_of(other)))

    def at(self, delta: float) -> float:
        """Return the smallest epsilon of (epsilon, delta)-DP that the composition theorems give.

        *Formal guarantees.* The smaller of two valid bounds (docs/privacy/accounting.md): basic composition of the pure
        and approximate releases with the converted zCDP part; or pure releases counted in zCDP, eps^2 / 2 each, and
        converted with it. The conversion gets the delta that the approximate releases leave. Gaussian releases are
        converted exactly if all that is not pure or approximate is Gaussian, else through zCDP.

        | delta | result |
        |---|---|
        | below the sum of deltas | infinity |
        | equal to it, or less by a rounding | basic composition without a zCDP or Gaussian part, infinity with one |
        """
        left, noisy = delta - self.delta, self.rho + self.gaussian
        if -SLACK * delta <= left < 0:  # rounding
            left = 0.0
        if left < 0 or (left == 0 and noisy > 0):
            return math.inf
        if left == 0 or noisy == 0:
            converted = 0.0
        elif self.rho:
            converted = rho_to_epsilon(noisy, left)
        else:
            converted = gaussian_epsilon(mu=math.sqrt(2 * self.gaussian), delta=left)
        basic = self.pure + self.epsilon + converted
        if left == 0:
            return basic
        return min(basic, self.epsilon + rho_to_epsilon(noisy + self.pure_rho, left))

    def as_rho(self) -> float:
        """Return the zCDP parameter of the releases; infinity if some are approximate."""
        return math.inf if self.epsilon or self.delta else self.rho + self.gaussian + self.pure_rho


def pure(epsilon: float) -> Cost:
    """Return the cost of an epsilon-DP release.

    >>> pure(0.5).at(delta=0.0)
    0.5
    """
    return Cost(pure=budget(epsilon=epsilon), pure_rho=pure_to_rho(epsilon))


def zcdp(rho: float) -> Cost:
    """Return the cost of a rho-zCDP release.

    >>> round(zcdp(0.1).at(delta=1e-5), 3)
    1.914
    """
    return Cost(rho=budget(rho=rho))


def gaussian_dp(rho: float) -> Cost:
    """Return the cost of a mu-Gaussian-DP release, mu^2 / 2 = rho: of Gaussian noise on a sum, or in a counter.

    Use ``zcdp`` where releases to the same user are of other kinds too: nothing is won there, and users of other groups
    are then compared by one number.

    >>> round(gaussian_dp(0.1).at(delta=1e-5), 3)
    1.76
    """
    return Cost(gaussian=budget(rho=rho))


def in_units(distance: float, scale: float) -> float:
    """Return distance / scale; 0 / 0 is 0: a value that does not move costs nothing."""
    return distance / scale if scale else (math.inf if distance else 0.0)


def gaussian_loss(distance: float, sigma: float) -> Cost:
    """Return the cost of a move under Gaussian noise: distance^2 / (2 sigma^2)."""
    return Cost(gaussian=in_units(distance, sigma) ** 2 / 2)


def pure_loss(distance: float, scale: float) -> Cost:
    """Return the cost of a move under noise with tails exp(-distance / scale)."""
    epsilon = in_units(distance, scale)
    return Cost(pure=epsilon, pure_rho=epsilon * epsilon / 2)


def approximate(epsilon: float, delta: float) -> Cost:
    """Return the cost of an (epsilon, delta)-DP release.

    >>> (approximate(0.5, 1e-6) + pure(0.5)).at(delta=1e-6)
    1.0
    """
    return Cost(epsilon=budget(epsilon=epsilon), delta=failure(delta=delta))


def at_least(a: float, b: float) -> float:
    """Return a + b, rounded up where floats cannot hold it: by less than 2^-52 of it, and never down.

    >>> at_least(1.0, 1e-30) > 1.0
    True
    """
    total = a + b
    if not a or not b:
        return total
    larger, smaller = (a, b) if a > b else (b, a)
    # the difference of the sum and its larger part is exact
    return math.nextafter(total, math.inf) if smaller > total - larger else total


def vars_of(cost: Cost) -> tuple[float, ...]:
    return cost.pure, cost.pure_rho, cost.rho, cost.epsilon, cost.delta, cost.gaussian
