"""Local agents: devices randomize records, and the server sees reports alone."""

import math
from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.base.agent import NEVER, Agent, C, first_visits, in_units, refuse_people
from privbandit_agents.base.people import Seen
from privbandit_agents.base.present import serving
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.spaces import Action, Array, Feedback
from privbandit_agents.base.state import Arrays
from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.keys import Unseeded

Report = TypeVar("Report")
ENTRIES_AT_ONCE = 2**20
"""Most numbers in the reports that are made and absorbed together, if one report has fewer."""


class Randomizer(Protocol):
    """What makes reports."""

    @property
    def epsilon(self) -> float:
        """What one report promises; with Gaussian noise, at the delta that it was calibrated to."""

    def randomize(self, cells: Array, values: Array | None, rng: Generator) -> Array:
        """Draw the reports of n users, given their cells (n,) and values (n, D)."""

    def log_likelihood(self, reports: Array, cell: int, value: Array | None = None) -> NDArray[np.float64]:
        """Return the log density of each report if the input were (cell, value), shape (n,)."""


class Inputs(NamedTuple):
    """The inputs of the devices of n users, and their randomizer.

    Attributes:
        randomizer: makes one report a user.
        cells: shape (n,), -1 for inactive users; 0 where there is one cell.
        values: shape (n, D), or None.
    """

    randomizer: Randomizer
    cells: Array
    values: Array | None

    def randomize(self, rng: Generator) -> Array:
        """Draw the reports, one a user."""
        return self.randomizer.randomize(self.cells, self.values, rng)

    def log_likelihood(self, reports: Array, user: int) -> NDArray[np.float64]:
        """Return the log density of each report if it came from that one of the users, shape (n,)."""
        value = None if self.values is None else self.values[user]
        return self.randomizer.log_likelihood(reports, int(self.cells[user]), value)


def inputs_of(randomizer: Randomizer, vectors: Array) -> Inputs:
    """Return the inputs of a randomizer with one cell: a vector of each user, shape (n, D)."""
    return Inputs(randomizer, np.zeros(len(vectors), np.intp), vectors)


class Devices:
    """Users have devices, and ``rng`` is theirs: reports are drawn from it, and it is no part of the server's state.

    A simulation that goes on bit for bit keeps ``devices_state()`` beside the server's state.
    """

    rng: Generator
    people_seen: Seen | None

    def devices_state(self) -> dict[str, Any]:
        """Return the state of the devices' generator, JSON values: for simulations, never for a server."""
        state: dict[str, Any] = {"rng": self.rng.bit_generator.state}
        if self.people_seen is not None:
            arrays, numbers = self.people_seen.state()
            state["people_seen"] = numbers | {name: array.tolist() for name, array in arrays.items()}
        return state

    def restore_devices(self, values: dict[str, Any]) -> None:
        """Let simulated devices go on with what ``devices_state`` returned."""
        self.rng.bit_generator.state = values["rng"]
        if self.people_seen is not None:
            kinds = {name: array.dtype for name, array in self.people_seen.state()[0].items()}
            self.people_seen.restore(
                {name: np.array(values["people_seen"][name], kind) for name, kind in kinds.items()},
                values["people_seen"],
            )

    def restore(self, arrays: Arrays, values: dict[str, Any]) -> None:
        """Take over the server's state; who has reported is on the devices, so nobody may until they are restored."""
        super().restore(arrays, values)  # type: ignore[misc]
        if self.people_seen is not None:
            self.people_seen.lost = True

    def rekey(self) -> None:
        """Take fresh keys from the operating system, the server's and the devices'."""
        super().rekey()  # type: ignore[misc]
        self.rng = Unseeded()


class LocalAgent(Devices, Agent[C], Generic[C, Report]):
    """An agent whose server never sees raw data: a user's device randomizes its record, the server absorbs the report.

    ``ledger`` holds the declared budget, and ``cost`` is that of one report. ``absorb`` enters each report first of
    all, under its own user, by ``pay``. ``update`` hands ``randomize`` the records as ``records_of`` makes them: any
    record reports, whatever is in it.

    ``rng`` belongs to the users' devices: reports are drawn from it, and nothing else is. The server draws from
    generators that ``begin`` spawns from it (``self.rng_choices = self.rng.spawn(1)[0]``). So ``state()``, what the
    server knows, holds nothing with which a report could be undone, and a loaded agent has devices with a fresh key.
    A simulation that goes on bit for bit keeps ``devices_state()`` beside the server's state.
    """

    ledger: Ledger
    cost: Cost
    fixed: ClassVar[frozenset[str]] = Agent.fixed | {"rng", "people_seen"}
    reports_late: ClassVar[bool] = False
    """Whether users by counts may report together when the policy changes, and not at every checkpoint before: for
    simulation, where nothing but a change of policy depends on their reports."""

    @property
    def at_once(self) -> int:
        """How many users' reports are made and absorbed at once: a bound on memory, by a report's size alone."""
        return NEVER

    @property
    def fewest_summed(self) -> float:
        """From how many users on a simulation may draw a block's sum of reports at once; infinity: not at all."""
        return math.inf

    @final
    @in_units
    def update(self, context: Array, action: Action, feedback: Feedback, person: object = None) -> None:
        rows: tuple[Array, ...] = self.records_of(context, action, feedback)
        visit = self.visit
        if visit.mask is None and self.people_seen is None and len(rows[-1]) == 1:
            with self.paying(1):
                self.absorb(self.randomize(*rows))
            return
        if visit.mask is not None:
            rows += (np.broadcast_to(visit.mask, (len(rows[-1]), visit.mask.shape[-1])),)
        for part in blocks(lambda: self.at_once, *first_visits(self, rows, person)):
            with serving(self, *part[3:]), self.paying(len(part[2])):
                self.absorb(self.randomize(*part[:3]))

    def refuse(self, users: int) -> None:
        with self.paying(users):  # the ledger is asked, and nothing is drawn
            pass

    def paying(self, users: int) -> AbstractContextManager[object]:
        """Draw reports of n new users, and absorb them, within this: what the ledger refuses is not drawn.

        ``absorb`` enters reports, as on a server that gets them from devices. What was drawn and not entered, since an
        error came first, is entered afterwards. An agent without ``cost`` has its own way to pay.
        """
        return Paying(self, users) if users and hasattr(self, "cost") else nullcontext()

    def pay(self, users: int) -> None:
        """Enter the reports of n new users in the ledger, at ``cost`` each."""
        if users:
            self.ledger.spend(self.cost, group=self.ledger.group + 1, groups=users)

    @abstractmethod
    def randomize(self, context: Array, action: Action, feedback: Feedback) -> Report:
        """Return all that leaves the devices of one user or of n; draw from ``rng``, and read public state only."""

    def inputs(self, context: Array, action: Action, feedback: Feedback) -> Inputs | None:
        """Return what devices randomize and by what, for tests and audits, if ``randomize`` is that one call."""

    @abstractmethod
    def absorb(self, report: Report) -> None:
        """Learn from reports."""

    @final
    def update_counts(self, contexts: Array, actions: Action, feedback: Feedback, counts: Array | None = None) -> None:
        """Learn from the sum of reports, drawn at once: of users by counts, or one each, from ``fewest_summed`` on.

        Raises:
            TypeError: the law of the sum is not that of reports whose noise is drawn one by one.
        """
        refuse_people(self)
        if not (self.by_counts if counts is not None else math.isfinite(self.fewest_summed)):
            raise TypeError(f"{self.name} has no law of summed reports: it learns from users one by one.")
        records = self.records_of(contexts, actions, feedback)
        with self.paying(users := len(records[-1]) if counts is None else int(np.sum(counts))):
            self.absorb_sum(self.randomize_sum(*records, counts), users)

    def randomize_sum(self, contexts: Array, actions: Action, feedback: Feedback, counts: Array | None = None) -> Array:
        """Return the sum of the reports of one user a record, or of ``counts[i]``, drawn at once: for simulation.

        By the law of ``randomize``. Users by counts exist in simulations only; so this draws from ``rng`` too, as
        ``select_counts`` may.
        """
        raise TypeError(f"{self.name} has no law of summed reports.")

    def absorb_sum(self, total: Array, users: int) -> None:
        """Learn from the sum of the reports of ``users`` users."""
        raise TypeError(f"{self.name} has no law of summed reports.")


class Paying:
    """The reports of n new users of a local agent are drawn and absorbed within this, as ``LocalAgent.paying`` says."""

    __slots__ = "agent", "entered", "users"

    def __init__(self, agent: LocalAgent[Any, Any], users: int) -> None:
        self.agent, self.users, self.entered = agent, users, agent.ledger.releases

    def __enter__(self) -> None:
        ledger = self.agent.ledger
        ledger.check(self.agent.cost, ledger.group + 1, self.users)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.agent.pay(max(self.users - (self.agent.ledger.releases - self.entered), 0))
