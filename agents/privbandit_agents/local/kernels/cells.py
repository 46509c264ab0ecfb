"""Where the public model is in doubt: cells whose users say whether the label that they were given was right."""

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.random import default_rng

from privbandit_agents.base.agent import Array
from privbandit_agents.base.kernels import distances
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.local.kernels.deviations import Deviations, chances
from privbandit_agents.local.kernels.filters import Filters
from privbandit_agents.local.kernels.public import PublicModel, between
from privbandit_agents.local.label_agent import added
from privbandit_agents.privacy.randomizers.one_hot import SignedSubset

SURE, UNLIKELY = 0.95, 0.02
"""The public model is in doubt below the first probability; labels below the second one have no cell."""
POOL = 8000
"""How many points are looked at for places of cells."""
RARE, CLEAR = 0.5, 2.0
"""Cells pay where at most this share of contexts is in doubt, and a cell's users are so many standard deviations."""
SMALL = 1e-9


@dataclass(frozen=True)
class Cells:
    """A cell is a place and a label: those users for whom this place is the nearest, and who were given this label.

    Users of whom the public model is sure have no cell, nor have labels that are unlikely at the place. So there are
    few cells, all of them where mistakes are made. Places are points between two public rows.

    Attributes:
        model: of the public rows.
        places: shape (m, d).
        numbers: of the cell of a place and a label, -1 if there is none, shape (m, K).
        share: of all contexts that have a cell, by points between public rows.
        device: randomizer of a cell and a sign.
    """

    model: PublicModel
    places: Floats
    numbers: Labels
    share: float
    device: SignedSubset

    @classmethod
    def of(cls, model: PublicModel, x: Array, most: int, epsilon: float, noise: str = "numpy") -> Self | None:
        """Choose so many places at most from public rows (n, d); None where the model is in doubt nowhere."""
        rows = np.asarray(x, np.float64) if len(x) > 1 else model.places
        pool = between(rows, POOL, default_rng(0))
        likely = chances(model.features(pool) @ model.theta)
        doubtful = likely.max(axis=1) < SURE
        if not doubtful.any():
            return None
        kept = likely[doubtful][:most] > UNLIKELY
        numbers = np.where(kept, np.cumsum(kept).reshape(kept.shape) - 1, -1)
        device = SignedSubset(epsilon, int(kept.sum()), noise=noise)
        return cls(model, pool[doubtful][:most], numbers, float(doubtful.mean()), device)

    def pay(self, users: int) -> bool:
        """Say whether so many reports tell something: doubt is rare, and a cell's users stand out of the noise."""
        noise = math.sqrt(users * self.device.variance(own=False))
        return self.share <= RARE and users * self.share / len(self.places) >= CLEAR * noise

    def at(self, x: Array) -> Labels:
        """Return the cells of all labels for contexts (n, d), shape (n, K), -1 where there is none."""
        nearest = distances(np.asarray(x, np.float64), self.places).argmin(axis=1)
        sure = chances(self.model.features(x) @ self.model.theta).max(axis=1) >= SURE
        return np.where(sure[:, None], -1, self.numbers[nearest])


class Remembering(Filters):
    """Filters that remember, beside what they learn, which labels turned out wrong in which cells.

    In every other batch users do not report directions: each tells its cell, and whether the label was right. A cell's
    balance is the number of right labels minus that of wrong ones, with noise whose variance is known. Where it is
    below 0, and so far that noise and chance hardly explain it, the label has a lower score there.

    Attributes:
        cells: of contexts and labels.
        balance: shape (number of cells,).
        asked: how many users have told their cells.
        fresh: the balance of the users who wait.
        turn: whether the batch tells cells.
    """

    fixed: ClassVar[frozenset[str]] = Filters.fixed | {"cells"}

    def __init__(self, field: Deviations, noise: float, batch: int, proof: float, cells: Cells) -> None:
        super().__init__(field, noise, batch, proof)
        self.cells, self.asked, self.turn = cells, 0, True
        self.balance = np.zeros(cells.device.cells)
        self.fresh = np.zeros_like(self.balance)

    def add(self, estimates: Floats) -> None:
        if not self.turn:
            super().add(estimates)
            return
        self.fresh = added(self.fresh, estimates)
        self.waiting += len(estimates)
        if not self.left:
            self.learn()

    def learn(self) -> None:
        if self.turn:
            self.balance, self.asked = self.balance + self.fresh, self.asked + self.waiting
            self.fresh, self.waiting = np.zeros_like(self.fresh), 0
        else:
            super().learn()
        self.turn = not self.turn

    def against(self) -> Floats:
        """Return by how much the log probability of a label is lowered in its cell, shape (number of cells,).

        It is the log likelihood ratio of the balance over none, by a normal law.
        """
        device = self.cells.device
        own = np.abs(self.balance) * (1 + device.variance(own=True))
        variance = self.asked * device.variance(own=False) + own + SMALL
        return np.where(self.balance < 0, self.balance**2 / (2 * variance), 0.0)

    def chances(self, contexts: Array) -> Floats:
        likely = super().chances(contexts)
        where = self.cells.at(contexts)
        lowered = np.log(np.maximum(likely, np.finfo(float).tiny)) - np.where(where < 0, 0.0, self.against()[where])
        return chances(lowered)

    def answer(self, contexts: Array) -> Labels:
        return np.asarray(self.chances(contexts).argmax(axis=1))

    def told(self, contexts: Floats, labels: Labels) -> tuple[Labels, Floats]:
        """Return what users say of cells: which one is theirs, -1 for none, shape (n,), and 1 or -1, shape (n, 1).

        Args:
            contexts: shape (n, d).
            labels: as in ``surprises``; with two labels every user knows whether the likeliest one is right.
        """
        two = self.public.shape[1] == 2
        given = self.answer(contexts) if two else np.where(labels < 0, -1 - labels, labels)
        own = np.take_along_axis(self.cells.at(contexts), given[:, None], axis=1)[:, 0]
        return own, np.where(labels == given, 1.0, -1.0)[:, None]
