"""Agents with a trusted curator, who publishes in one way: it pays, then it draws; a test can watch, or choose."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, final

from privbandit_agents.base.agent import Agent, C, first_visits, in_units
from privbandit_agents.base.spaces import Action, Array, Feedback
from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.privacy.accounting.ledger import Ledger

Release = TypeVar("Release")
T = TypeVar("T")


class Publication(NamedTuple):
    """A release that is about to be made.

    Attributes:
        mechanism: what draws the noise.
        exact: the value that the noise hides; for a minimiser the function that is minimised.
        draw: returns the noisy value.
        cost: the cost that was entered for it, None if that was done before.
        group: of disjoint users whom it is about; None: about anyone.
    """

    mechanism: object
    exact: object
    draw: Callable[[], Any]
    cost: Cost | None
    group: int | None


class CentralAgent(Agent[C], Generic[C, Release]):
    """An agent with a trusted curator: raw data stay in ``curate``, actions read ``release`` and nothing else learned.

    ``update`` hands ``curate`` the records as ``records_of`` makes them: one row a user, and any record counts.

    By the billboard lemma the agent is jointly private if the sequence of releases is private.
    ``ledger`` holds the declared budget; ``publish`` enters a release before it is made. Take an exact value out of the
    state, and set when the next release is due, before you publish it: then an interrupted agent uses no record again,
    and goes on. The object itself, and its saved state, hold raw data and the keys of noise to come: they belong to the
    curator.
    """

    release: Release
    ledger: Ledger
    watcher: Callable[[Publication], Any] | None = None
    """For tests: it is handed every publication in place of the draw, and its return value is published."""
    fixed: ClassVar[frozenset[str]] = Agent.fixed | {"watcher"}

    @final
    @in_units
    def update(self, context: Array, action: Action, feedback: Feedback, person: object = None) -> None:
        records = first_visits(self, self.records_of(context, action, feedback), person)
        new = self.curate(*records) if len(records[-1]) or self.people_seen is None else None
        if new is not None:
            self.release = new

    @abstractmethod
    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Release | None:
        """Take in the raw records of n users; return a release if one is due."""

    @final
    def publish(
        self,
        mechanism: object,
        exact: object,
        draw: Callable[[], T],
        cost: Cost | None = None,
        group: int | None = None,
    ) -> T:
        """Enter a cost in the ledger, then return what ``draw()`` returns: the mechanism's release of the exact value.

        Args:
            mechanism: what draws the noise.
            exact: the value that the noise hides; for a minimiser the function that is minimised.
            draw: takes nothing and returns the noisy value, such as ``partial(mechanism.release, exact, rng)``.
            cost: as ``Ledger.spend`` takes it; None if it was entered before, as for all releases of a counter.
            group: as ``Ledger.spend`` takes it.

        Raises:
            PrivacyBudgetExceeded: the cost would exceed the budget; nothing is drawn.
        """
        if cost is not None:
            self.ledger.spend(cost, group)
        if self.watcher is None:
            return draw()
        released: T = self.watcher(Publication(mechanism, exact, draw, cost, group))
        return released
