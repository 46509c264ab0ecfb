"""The shuffle model: devices that send messages, a shuffler that forgets who sent what, and a server.

Albert Cheu, Adam Smith, Jonathan Ullman, David Zeber and Maxim Zhilyaev, "Distributed Differential Privacy via
Shuffling", EUROCRYPT 2019.
"""

from abc import abstractmethod
from typing import Any, ClassVar, Generic, final

import numpy as np

from privbandit_agents.base.agent import Agent, C, first_visits, in_units
from privbandit_agents.base.local import ENTRIES_AT_ONCE, Devices
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.spaces import Action, Array, Feedback
from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.privacy.accounting.ledger import Ledger


class Shuffler:
    """A box that devices throw messages into: of each kind it keeps the number, and nothing else.

    Messages of finitely many kinds in arbitrary order are no more than how many there are of each kind. So the box is
    as good as one that keeps all messages and mixes them, and takes no room.

    Args:
        kinds: how many kinds of messages there are.
    """

    def __init__(self, kinds: int) -> None:
        self.bag = np.zeros(kinds, np.int64)
        self.users = 0

    def take(self, messages: Array) -> None:
        """Take in the messages of n users, given how many of each kind each sends, shape (n, kinds)."""
        self.bag += messages[0] if len(messages) == 1 else messages.sum(axis=0)
        self.users += len(messages)

    def hand_over(self) -> tuple[Array, int]:
        """Return how many messages of each kind there are, and from how many users; the box is empty then."""
        bag, users = self.bag, self.users
        self.bag, self.users = np.zeros_like(bag), 0
        return bag, users


class ShuffleAgent(Devices, Agent[C], Generic[C]):
    """An agent whose server sees the messages of a batch in arbitrary order, once the batch is whole.

    A user's device turns its record into messages (``randomize``), a trusted shuffler mixes those of a batch, the
    server learns from the mixture (``absorb``). A subclass sets ``cost``, ``ledger``, ``guarantee`` and ``shuffler`` in
    ``begin``. ``update`` hands ``randomize`` the records as ``records_of`` makes them: any record sends, whatever is in
    it, and all send equally many messages.

    ``rng`` and the shuffler's open batch are no part of the server's state: fewer users than a batch hide less than is
    promised. A loaded server opens its batch anew, with fresh users; a simulation that goes on bit for bit keeps
    ``devices_state()``, which has both.

    Attributes:
        cost: of a batch to each of its users; the users of different batches are disjoint.
        shuffler: the open batch, which the server never reads.
        batches: how many batches are behind.
    """

    ledger: Ledger
    cost: Cost
    shuffler: Shuffler
    batches: int
    fixed: ClassVar[frozenset[str]] = Agent.fixed | {"rng", "people_seen", "shuffler", "cost"}

    def begin(self) -> None:
        super().begin()
        self.batches = 0

    def devices_state(self) -> dict[str, Any]:
        """Return the state of the devices' generator and the shuffler's batch: for simulations, never for a server."""
        return super().devices_state() | {"bag": self.shuffler.bag.tolist(), "users": self.shuffler.users}

    def restore_devices(self, values: dict[str, Any]) -> None:
        super().restore_devices(values)
        self.shuffler.bag, self.shuffler.users = np.array(values["bag"], np.int64), int(values["users"])

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has: without a seed, an empty batch."""
        return vars(self) | ({} if self.seeded else {"shuffler": Shuffler(len(self.shuffler.bag))})

    def rekey(self) -> None:
        """Take fresh keys, and open the batch anew: a copy shares neither noise nor users with its agent."""
        super().rekey()
        self.shuffler = Shuffler(len(self.shuffler.bag))

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """How many users the open batch takes: a function of ``batches``, public constants and earlier batches."""

    @final
    def frozen_rounds(self) -> int:
        return self.batch_size - self.shuffler.users

    def refuse(self, users: int) -> None:
        if users and not self.shuffler.users:
            self.ledger.check(self.cost, group=self.ledger.group + 1)

    @final
    @in_units
    def update(self, context: Array, action: Action, feedback: Feedback, person: object = None) -> None:
        most = max(1, ENTRIES_AT_ONCE // len(self.shuffler.bag))
        records = first_visits(self, self.records_of(context, action, feedback), person)
        for part in blocks(self.frozen_rounds, *records, most=most):
            if not self.shuffler.users:  # what the ledger would refuse is not drawn
                self.ledger.check(self.cost, group=self.ledger.group + 1)
            self.shuffler.take(self.randomize(*part))
            if self.shuffler.users == self.batch_size:
                bag, users = self.shuffler.hand_over()  # gone, if the ledger refuses it after all
                self.ledger.spend(self.cost, group=self.ledger.group + 1)
                self.batches += 1
                self.absorb(bag, users)

    @abstractmethod
    def randomize(self, context: Array, action: Action, feedback: Feedback) -> Array:
        """Return how many messages of each kind each of n users of the open batch sends, shape (n, kinds).

        Draw from ``rng``, and read public state only; everybody sends equally many.
        """

    @abstractmethod
    def absorb(self, bag: Array, users: int) -> None:
        """Learn from a batch: the number of messages of each kind from its users, shape (kinds,)."""
