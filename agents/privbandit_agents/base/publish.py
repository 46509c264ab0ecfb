"""The one way in which a curator publishes: it pays, then it draws; a test can watch, or choose the value."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, final

from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.privacy.accounting.ledger import Ledger

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


class Publisher:
    """A curator who publishes through ``publish`` alone.

    ``watcher`` is for tests: it is handed every publication in place of the draw, and its return value is published.
    """

    ledger: Ledger
    watcher: Callable[[Publication], Any] | None = None

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
