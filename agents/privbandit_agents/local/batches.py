"""Learners with a new server for the devices after every batch of users, also within one group."""

import copy
from abc import abstractmethod
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.agent import Array
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.reports import Inputs
from privbandit_agents.base.rows import blocks
from privbandit_agents.local.label_agent import Learner, S
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer


class Server(Protocol):
    """What learns from the estimates of a batch; a shallow copy of it learns by itself."""

    @property
    def left(self) -> int:
        """How many more users report before it changes its mind."""

    def add(self, estimates: Floats, /) -> None:
        """Take in estimates (n, D) of at most ``left`` users, in order."""


V = TypeVar("V", bound=Server)


class BatchLearner(Learner[S], Generic[S, V]):
    """Every user reports one vector, computed from the server's state; the server learns when a batch is full.

    A group of users that is larger than a batch sees the steps in between, as it would if they came one by one.

    Attributes:
        device: randomizer of a user's vector.
        server: learns.
    """

    device: LocalRandomizer
    server: V

    @abstractmethod
    def inputs(self, contexts: Floats, labels: Labels, server: V | None = None) -> Inputs:
        """Return the inputs of n users' devices and their randomizer, given a server; None: the learner's."""

    @abstractmethod
    def estimate(self, reports: Array) -> Floats:
        """Return unbiased estimates of the users' vectors, shape (n, D)."""

    def reports(self, server: V, contexts: Floats, labels: Labels, rng: Generator) -> Iterator[Array]:
        """Yield the reports of one batch after the other, while that server learns from them."""
        for x, y in blocks(lambda: server.left, contexts, labels):
            report = self.inputs(x, y, server).randomize(rng)
            server.add(self.estimate(report))
            yield report

    def randomize(self, contexts: Floats, labels: Labels, rng: Generator) -> Array:
        """Return the reports of n users; each reads a copy of the server in the state that it would meet."""
        if 0 < len(labels) <= self.server.left:  # all see the same server
            return self.inputs(contexts, labels, self.server).randomize(rng)
        return self.joined(list(self.reports(copy.copy(self.server), contexts, labels, rng)))

    def joined(self, reports: list[Array]) -> Array:
        """Return the reports of several batches, or of none, in one array."""
        return np.concatenate(reports) if reports else np.zeros((0, 1, self.device.dim))

    @property
    def left(self) -> int:
        return self.server.left

    def absorb(self, reports: Array) -> None:
        self.server.add(self.estimate(reports))
