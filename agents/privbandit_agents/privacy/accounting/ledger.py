"""The ledger: it adds up the costs of releases, and refuses one that would overspend.

Ryan Rogers, Aaron Roth, Jonathan Ullman and Salil Vadhan, "Privacy Odometers and Filters: Pay-as-you-Go Composition",
NeurIPS 2016 (filters); Xin Lyu, "Composition Theorems for Interactive Differential Privacy", NeurIPS 2022, and Salil
Vadhan and Wanrong Zhang, "Concurrent Composition Theorems for Differential Privacy", STOC 2023 (two ledgers at once).
"""

import math
import os
from dataclasses import replace
from functools import reduce
from operator import or_
from threading import RLock
from typing import ClassVar

from privbandit_agents.privacy._validate import budget, count, failure
from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon, rho_to_epsilon
from privbandit_agents.privacy.accounting.costs import SLACK, Cost, at_least, vars_of

PURE_IN_GAUSSIAN = math.pi / 2
"""An epsilon-DP release is mu-Gaussian DP for mu^2 / 2 = (pi / 2) eps^2 / 2 (docs/privacy/accounting.md)."""
spending = RLock()
"""Held while a ledger decides, so that of two threads one decides after the other."""
os.register_at_fork(before=spending.acquire, after_in_parent=spending.release, after_in_child=spending.release)

APART = "keep a ledger for each kind, and their budgets add up"


class PrivacyBudgetExceeded(RuntimeError):  # noqa: N818 (the name says it)
    """A release was refused because it would overspend the declared budget."""


class Ledger:
    """A declared budget per user, and the part that has been spent.

    >>> from privbandit_agents.privacy.accounting.costs import pure
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
    that membership in a group depends on time, public constants and releases about earlier groups alone. Releases
    without a group may be about anyone and add to all. Releases of one ``person`` add up whenever they are made: who
    comes k times spends k times; people and groups are about different users. It is a privacy filter:
    whether there is a next release, of which kind and at what cost may be decided in view of earlier ones. The first
    release, before which nothing is known, fixes the currency in which kinds are counted:

    | first release | later ones | accepted as long as |
    |---|---|---|
    | pure, zCDP | pure, zCDP, Gaussian | the sum of rho, mu^2 / 2 and eps^2 / 2 converts to at most epsilon at |
    | | | delta; or all are pure, and their epsilons add up to at most epsilon |
    | Gaussian | Gaussian, pure | the sum of mu^2 / 2 and (pi / 2) eps^2 / 2 converts to at most epsilon at delta |
    | approximate | approximate, pure | epsilons add up to at most epsilon, and deltas to at most delta |

    With ``rho`` all but approximate releases add up in zCDP. What does not fit goes into another ledger: the budgets of
    two ledgers add up. Proof: docs/privacy/accounting.md.

    Args:
        epsilon: budget of (epsilon, delta)-DP; infinity is allowed.
        delta: its delta, in [0, 1); 0 for pure DP.
        rho: budget of zCDP, instead of epsilon; with it, delta is where ``spent_epsilon`` converts.

    Raises:
        ValueError: a parameter out of range, or both or neither of epsilon and rho.
    """

    fixed: ClassVar[frozenset[str]] = frozenset({"_steady", "_top"})

    def __init__(self, epsilon: float | None = None, delta: float = 0.0, rho: float | None = None) -> None:
        if (epsilon is None) == (rho is None):
            raise ValueError(f"exactly one of epsilon and rho must be given; got epsilon={epsilon}, rho={rho}.")
        self.epsilon = None if epsilon is None else budget(epsilon=epsilon)
        self.rho = None if rho is None else budget(rho=rho)
        self.delta = failure(delta=delta) if delta else 0.0
        self.group, self.releases = -1, 0
        self._everyone, self._open, self._closed = ([0.0] * 6 for _ in range(3))
        self._people: dict[str, list[float]] = {}
        self._top = self._people, Cost()
        self._steady: tuple[Cost | None, list[float]] = None, self._everyone

    def spend(self, cost: Cost, group: int | None = None, groups: int = 1, person: str | None = None) -> None:
        """Record a release, or refuse it.

        Args:
            cost: to every user that the release is about.
            group: number of the group of disjoint users; numbers rise, and a group that was left never comes back.
            groups: if more than 1, this many groups pay that cost at once: ``group``, ``group + 1``, ...
            person: name of the one person whom it is about, instead of a group; a name costs memory for good.

        Raises:
            PrivacyBudgetExceeded: the total would exceed the budget; nothing is recorded.
            ValueError: a group that was closed before, or a person and a group.
        """
        with spending:
            if not self._repeats(cost, group, groups, person):
                counted = self._counted(cost)
                everyone, opened, closed, theirs = self._after(counted, group, groups, person)
                self._everyone, self._open, self._closed = (list(vars_of(part)) for part in (everyone, opened, closed))
                if person is not None:
                    self._people[person] = list(vars_of(theirs))
                    self._top = self._people, self._dearest() | theirs
                steady = group is not None and opened == counted and closed | counted == closed
                self._steady = cost if steady else None, self._everyone
            self.group = self.group if group is None else group + groups - 1
            self.releases += groups

    def check(self, cost: Cost, group: int | None = None, groups: int = 1, person: str | None = None) -> None:
        """Raise what ``spend`` would raise, and record nothing."""
        with spending:
            if not self._repeats(cost, group, groups, person):
                self._after(self._counted(cost), group, groups, person)

    def _repeats(self, cost: Cost, group: int | None, groups: int, person: str | None) -> bool:
        """Return whether new groups pay the same as an open one and closed ones: that raises no total."""
        steady, everyone = self._steady  # the list is another one after every other spend and every load
        same = cost is steady and everyone is self._everyone and person is None
        return same and group is not None and group > self.group and groups >= 1

    def _after(self, cost: Cost, group: int | None, groups: int, person: str | None) -> tuple[Cost, Cost, Cost, Cost]:
        """Return the costs to everyone, to the open group, to closed ones, and to a person, after a release."""
        count(groups=groups)
        if group is None and groups != 1:
            raise ValueError(f"groups must be numbered; got groups={groups} without group.")
        if person is not None and group is not None:
            raise ValueError(f"a release is about a person or a group; got group={group} and a person.")
        # where the cost goes: to a person, to everyone, to the open group, or to a new one that closes it
        everyone, opened, closed = self._costs()
        theirs = dearest = self._dearest()
        if person is not None:
            theirs = self.spent_by(person) + cost
        elif group is None:
            everyone = everyone + cost
        elif group == self.group and groups == 1:
            opened = opened + cost
        elif group > self.group:
            opened, closed = cost, closed | opened
            closed = closed | cost if groups > 1 else closed
        else:
            raise ValueError(f"group must be {self.group} or a later one; got {group}: its users were closed.")
        # nothing is recorded unless the kinds have a currency, and the total is within the budget
        total, limit = everyone + (opened | closed | theirs | dearest), self.rho or self.epsilon or 0.0
        spent = self._epsilon_of(total, self.delta) if self.rho is None else total.as_rho()
        if (why := clash(total) or self._late(cost)) and self.rho is None and limit < math.inf:
            raise PrivacyBudgetExceeded(f"{why}.")
        if not spent / (1 + SLACK) <= limit:  # no product, which of a large limit would be infinity
            words = "rho = {:.6g}" if self.rho else f"(epsilon, delta) = ({{:.6g}}, {self.delta:g})"
            exceeds = f"{words.format(spent)} would exceed the budget {words.format(limit)}"
            raise PrivacyBudgetExceeded(f"{exceeds}; declare a larger one or release less.")
        return everyone, opened, closed, theirs

    def _late(self, cost: Cost) -> str:
        """Return why an approximate release comes too late, and the way out; "" if it does not.

        Pure releases may count in zCDP at the whole delta, so an analyst would choose the currency in view of them.
        """
        if not (self.delta and self.releases and cost.delta) or self.spent().delta:
            return ""
        return f"a ledger that began with a pure release counts no approximate ones: begin with these, or {APART}"

    def _counted(self, cost: Cost) -> Cost:
        """Return a cost in the ledger's currency: Gaussian releases count in zCDP unless the first one was Gaussian."""
        if cost.gaussian and (cost.rho or (self.releases and not self.spent().gaussian)):
            return replace(cost, rho=at_least(cost.rho, cost.gaussian), gaussian=0.0)
        return cost

    def _epsilon_of(self, total: Cost, delta: float) -> float:
        """Return the epsilon to compare with a budget at ``delta``; infinity if kinds do not mix."""
        if clash(total):
            return math.inf
        if total.epsilon or total.delta or not delta:
            basic = total.pure + total.epsilon
            return basic if total.delta <= delta * (1 + SLACK) and not total.rho + total.gaussian else math.inf
        if total.gaussian:
            mixed = total.gaussian + PURE_IN_GAUSSIAN * total.pure_rho
            return gaussian_epsilon(mu=math.sqrt(2 * mixed), delta=delta)
        concentrated = rho_to_epsilon(total.rho + total.pure_rho, delta)
        return concentrated if total.rho else min(total.pure, concentrated)

    def spent(self) -> Cost:
        """Return the largest cost to any user so far (each component at its maximum)."""
        with spending:
            everyone, opened, closed = self._costs()
            return everyone + (opened | closed | self._dearest())

    def spent_epsilon(self, delta: float | None = None) -> float:
        """Return the epsilon spent so far at ``delta`` (default: the declared one), in the ledger's currency.

        The budget is the promise. The spending of a run is none if earlier releases decided which came later.
        """
        return self._epsilon_of(self.spent(), self.delta if delta is None else delta)

    def spent_by(self, person: str) -> Cost:
        """Return a person's spending, besides releases about anyone and about groups."""
        return Cost(*self._people.get(person, []))

    def _dearest(self) -> Cost:
        """Return the largest cost to any person, each component at its maximum."""
        people, dearest = self._top  # the names are another dictionary after every load
        if people is not self._people:
            dearest = reduce(or_, (Cost(*spent) for spent in self._people.values()), Cost())
            self._top = self._people, dearest
        return dearest

    def _costs(self) -> tuple[Cost, Cost, Cost]:
        return Cost(*self._everyone), Cost(*self._open), Cost(*self._closed)


def clash(total: Cost) -> str:
    """Return which kinds of releases have no common currency, and the way out; "" if all have one."""
    if (total.epsilon or total.delta) and (total.rho or total.gaussian):
        return f"approximate releases share no ledger with zCDP or Gaussian ones: {APART}"
    if total.rho and total.gaussian:
        return f"a ledger that began with a Gaussian release counts no zCDP ones: begin with zcdp(rho), or {APART}"
    return ""
