"""The ledger: it counts what has been spent, and refuses a release that would overspend."""

import math
import operator
from dataclasses import dataclass

from privbandit_agents.privacy._validate import budget, count, failure
from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon, pure_to_rho, rho_to_epsilon

SLACK = 1e-9
"""Relative room for rounding when a spend is held against a budget."""


class PrivacyBudgetExceeded(RuntimeError):  # noqa: N818 (the name says it)
    """A release was refused because it would overspend the declared budget."""


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
        if not all(value >= 0 for value in vars_of(self)):
            raise ValueError(f"a cost must be >= 0 in every component; got {self}.")

    def __add__(self, other: "Cost") -> "Cost":
        """Sequential composition: both releases are about the same user."""
        return Cost(*map(operator.add, vars_of(self), vars_of(other)))

    def __or__(self, other: "Cost") -> "Cost":
        """Parallel composition: the releases are about different users, who pay at most the larger of each part."""
        return Cost(*map(max, vars_of(self), vars_of(other)))

    def at(self, delta: float) -> float:
        """Return the smallest epsilon of (epsilon, delta)-DP that the composition theorems give.

        *Formal guarantees.* The smaller of two valid bounds (docs/privacy/accounting.md): basic composition of the pure
        and approximate releases with the converted zCDP part; or pure releases counted in zCDP, eps^2 / 2 each, and
        converted with it. The conversion gets what the approximate releases leave of delta. Gaussian releases are
        converted exactly if all that is not pure or approximate is Gaussian, else through zCDP.

        | delta | result |
        |---|---|
        | below the sum of deltas | infinity |
        | equal to it | basic composition without a zCDP or Gaussian part, infinity with one |
        """
        left, noisy = delta - self.delta, self.rho + self.gaussian
        if left < 0 or (left == 0 and noisy > 0):
            return math.inf
        if left == 0 or noisy == 0:
            converted = 0.0
        elif self.rho:
            converted = rho_to_epsilon(noisy, left)
        else:
            converted = gaussian_epsilon(left, math.sqrt(2 * self.gaussian))
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


def approximate(epsilon: float, delta: float) -> Cost:
    """Return the cost of an (epsilon, delta)-DP release.

    >>> (approximate(0.5, 1e-6) + pure(0.5)).at(delta=1e-6)
    1.0
    """
    return Cost(epsilon=budget(epsilon=epsilon), delta=failure(delta=delta))


class Ledger:
    """A declared budget per user, and what has been spent of it.

    >>> ledger = Ledger(epsilon=1.0)
    >>> ledger.spend(pure(0.6), group=0)
    >>> ledger.spend(pure(0.6), group=1)  # other users: the larger of the two counts, not the sum
    >>> ledger.spent_epsilon()
    0.6
    >>> ledger.spend(pure(0.6), group=1)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    PrivacyBudgetExceeded: (epsilon, delta) = (1.2, 0) would exceed the budget (epsilon, delta) = (1, 0)

    *Formal guarantees.* Neighbours replace one user's whole record. Releases of one ``group`` are about the same users
    and add up. Releases of different groups are about disjoint users and compose in parallel (the maximum), provided
    that membership in a group depends on time and public constants alone. Releases without a group may be about anyone
    and add to all. Adaptive composition is covered: a cost is fixed before its release, never chosen from the outcome.

    Args:
        epsilon: budget of (epsilon, delta)-DP; infinity is allowed.
        delta: its delta, in [0, 1); 0 for pure DP.
        rho: budget of zCDP, instead of epsilon; with it, delta is where ``spent_epsilon`` converts.

    Raises:
        ValueError: a parameter out of range, or both or neither of epsilon and rho.
    """

    def __init__(self, epsilon: float | None = None, delta: float = 0.0, rho: float | None = None) -> None:
        if (epsilon is None) == (rho is None):
            raise ValueError(f"exactly one of epsilon and rho must be given; got epsilon={epsilon}, rho={rho}.")
        self.epsilon = None if epsilon is None else budget(epsilon=epsilon)
        self.rho = None if rho is None else budget(rho=rho)
        self.delta = failure(delta=delta) if delta else 0.0
        self.group, self.releases = -1, 0
        self._everyone, self._open, self._closed = ([0.0] * 6 for _ in range(3))

    def spend(self, cost: Cost, group: int | None = None, groups: int = 1) -> None:
        """Record a release, or refuse it.

        Args:
            cost: to every user that the release is about.
            group: number of the group of disjoint users; numbers rise, and a group that was left never comes back.
            groups: if more than 1, as many groups pay that cost at once: ``group``, ``group + 1``, ...

        Raises:
            PrivacyBudgetExceeded: the total would exceed the budget; nothing is recorded.
            ValueError: a group that was closed before.
        """
        count(groups=groups)
        if group is None and groups != 1:
            raise ValueError(f"groups must be numbered; got groups={groups} without group.")
        # where the cost goes: to everyone, to the open group, or to a new one that closes it
        everyone, opened, closed = self._costs()
        if group is None:
            everyone = everyone + cost
        elif group == self.group and groups == 1:
            opened = opened + cost
        elif group > self.group:
            opened, closed = cost, closed | opened | (cost if groups > 1 else Cost())
        else:
            raise ValueError(f"group must be {self.group} or a later one; got {group}: its users were closed.")
        # nothing is recorded unless the total is within the budget
        total, limit = everyone + (opened | closed), self.rho or self.epsilon or 0.0
        spent = total.at(self.delta) if self.rho is None else total.as_rho()
        if not spent <= limit * (1 + SLACK):
            words = "rho = {:.6g}" if self.rho else f"(epsilon, delta) = ({{:.6g}}, {self.delta:g})"
            exceeds = f"{words.format(spent)} would exceed the budget {words.format(limit)}"
            raise PrivacyBudgetExceeded(f"{exceeds}; declare a larger one or release less.")
        self._everyone, self._open, self._closed = (list(vars_of(part)) for part in (everyone, opened, closed))
        self.group = self.group if group is None else group + groups - 1
        self.releases += groups

    def spent(self) -> Cost:
        """Return the largest cost to any user so far (each component at its maximum)."""
        everyone, opened, closed = self._costs()
        return everyone + (opened | closed)

    def spent_epsilon(self, delta: float | None = None) -> float:
        """Return the epsilon spent so far at ``delta`` (default: the declared one)."""
        return self.spent().at(self.delta if delta is None else delta)

    def _costs(self) -> tuple[Cost, Cost, Cost]:
        return Cost(*self._everyone), Cost(*self._open), Cost(*self._closed)


def vars_of(cost: Cost) -> tuple[float, ...]:
    return cost.pure, cost.pure_rho, cost.rho, cost.epsilon, cost.delta, cost.gaussian
