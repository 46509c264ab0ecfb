"""What most locally private agents are: one report a user, and a server that reads the sum of what reports estimate."""

import math
from abc import abstractmethod
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.base.guarantee import Guarantee, arithmetic_of
from privbandit_agents.base.local import ENTRIES_AT_ONCE, Inputs, LocalAgent, Randomizer
from privbandit_agents.base.rows import added, blocks, keep_pages
from privbandit_agents.base.settings import PrivateSettings
from privbandit_agents.base.spaces import Action, Array, Feedback
from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.randomizers.randomizer import dense

P = TypeVar("P", bound=PrivateSettings)


class Device(Randomizer, Protocol):
    """A randomizer whose reports are added up: ``LocalRandomizer``, ``GaussianReport`` or ``NoisyProducts``."""

    @property
    def cost(self) -> Cost:
        """What one report costs."""

    @property
    def cells(self) -> int:
        """M."""

    @property
    def entries(self) -> int:
        """How many numbers an estimate has."""

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise in a coordinate of an estimate."""

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        """Whether sums of estimates are drawn at once; ``"normal"``: from their normal limit."""

    @property
    def fewest_summed(self) -> float:
        """From how many users on ``total`` of one user an input may stand for their reports; infinity: never."""

    def estimate(self, reports: Array) -> NDArray[np.float64]:
        """Return unbiased estimates, one row a report."""

    def total(self, cells: Array, vectors: Any, rng: Generator, counts: Array | None = None) -> NDArray[np.float64]:
        """Draw the sum of the estimates at once, of one user an input, or of ``counts[i]``: for simulation."""


class SummedReports(LocalAgent[P, Array]):
    """Users report what ``placed`` makes of their records, by ``device``; when a run of users ends the server learns.

    A subclass calls ``equip`` in ``begin``.

    *Formal guarantees.* Those of the device, under replacement of a user's whole record: one report a user, whatever
    ``placed`` makes of the record, as long as it reads public state only.

    Attributes:
        device: makes a report a user, estimates from it, and draws sums of estimates where it can.
        total: sum of the estimates, shape (D,).
        users: how many have reported.
        refit_at: after how many the run ends.
    """

    fixed: ClassVar[frozenset[str]] = LocalAgent.fixed | {"device"}
    proof: ClassVar[str]
    asks_anew: ClassVar[bool] = False
    """Whether a run may ask for other reports than the one before: none is drawn for the next, and late ones are not
    read if they have another shape."""
    device: Device
    total: Array
    users: int
    refit_at: int

    def equip(self, device: Device, exact: bool = True) -> None:
        """Begin without users, and promise what the device does; a published calibration has no promise.

        Args:
            device: of the first run.
            exact: whether later runs and the server are as exact as this device.
        """
        keep_pages(device.entries)
        config: Any = self.config
        proven = getattr(config, "calibration", "correct") == "correct"
        self.device, self.total, self.users, self.refit_at = device, np.zeros(device.entries), 0, 1
        self.cost = device.cost
        self.ledger = Ledger(config.epsilon if proven else math.inf, self.cost.delta)
        arithmetic = arithmetic_of(device) if exact else "real"
        self.guarantee = Guarantee.local(config.epsilon, self.cost.delta, self.proof, proven, arithmetic)

    # on the devices

    @abstractmethod
    def placed(self, context: Array, action: Action, feedback: Feedback) -> tuple[Array, Any]:
        """Return users' cells (n,) and vectors, dense, by their factors or None: what devices randomize."""

    def inputs(self, context: Array, action: Action, feedback: Feedback) -> Inputs:
        cells, vectors = self.placed(*self.records_of(context, action, feedback))
        return Inputs(self.device, cells, dense(vectors))

    def randomize(self, context: Array, action: Action, feedback: Feedback) -> Array:
        return self.inputs(context, action, feedback).randomize(self.rng)

    @property
    def at_once(self) -> int:
        room = max(1, ENTRIES_AT_ONCE // self.device.entries)
        return min(room, self.frozen_rounds()) if self.asks_anew else room

    # sums of reports, for simulation

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        return self.device.by_counts

    @property
    def fewest_summed(self) -> float:
        return self.device.fewest_summed

    def randomize_sum(self, contexts: Array, actions: Action, feedback: Feedback, counts: Array | None = None) -> Array:
        drawn = self.device.total(*self.placed(contexts, actions, feedback), self.rng, counts)
        return drawn.reshape(-1)

    # on the server

    def estimate(self, reports: Array) -> Array:
        """Return unbiased estimates of the summands, shape (n, D)."""
        return self.device.estimate(reports).reshape(len(reports), -1)

    def absorb(self, report: Array) -> None:
        for (part,) in blocks(self.frozen_rounds, report):
            self.pay(len(part))
            read = not self.asks_anew or self.fits(part)
            self.add(added(self.total, self.estimate(part)) if read else self.total, len(part))

    def fits(self, reports: Array) -> bool:
        """Return whether reports have the shape of this run's; others were asked for before."""
        return reports.shape[1] == self.device.cells and reports.size == len(reports) * self.device.entries

    def absorb_sum(self, total: Array, users: int) -> None:
        self.pay(users)
        self.add(self.total + total, users)

    def add(self, total: Array, users: int) -> None:
        """Go on to a new sum after n more users, who have paid, and learn if the run ends."""
        self.total = total
        self.users += users
        if self.users >= self.refit_at:
            self.refit_at = self.next_refit()  # a run with users, whatever is raised
            self.learn()
            self.refit_at = self.next_refit()

    @abstractmethod
    def learn(self) -> None:
        """Change the policy by ``total``; set that to zeros if the next run begins with none."""

    @abstractmethod
    def next_refit(self) -> int:
        """Return after how many users the run that begins ends."""

    def frozen_rounds(self) -> int:
        return max(self.refit_at - self.users, 1)
