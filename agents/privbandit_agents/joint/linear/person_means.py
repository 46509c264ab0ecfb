"""A curator's means of each person's records, and the times at which their sum is released.

Daniel Levy, Ziteng Sun, Kareem Amin, Satyen Kale, Alex Kulesza, Mehryar Mohri and Ananda Theertha Suresh, "Learning
with User-Level Privacy", NeurIPS 2021, have means of a person's records clipped to where they concentrate. Proof:
docs/privacy/people.md.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.base.people import Bools, Ids, Seen, ids_of
from privbandit_agents.privacy.contributions.moments import SENSITIVITY

Array = NDArray[Any]
RADIUS = 0.5
"""To which means are clipped: about their length after many visits, and less than half that of one record."""


def snapshot_times(visits: int) -> list[int]:
    """Return the numbers of visits after which means are released: 16, then doubling, up to ``visits``."""
    times = [min(16, visits)]
    while 2 * times[-1] <= visits:
        times.append(2 * times[-1])
    return times


def shares_of(times: list[int], visits: int) -> Array:
    """Return each release's share of rho: in proportion to the root of the visits that it serves."""
    served = np.diff(np.array([*times, max(visits, times[-1] + 1)]))
    return np.asarray(np.sqrt(served) / np.sqrt(served).sum())


class PersonMeans(Seen):
    """Every visit of n people counts, in the mean of its person's vectors.

    *Formal guarantees.* Replacing all vectors of one person, each within the unit ball times sqrt(1.5) and two of them
    at most 2 apart, moves ``total`` by at most ``sensitivity`` in the l2 norm, however many there are: a mean lies in
    the convex hull, and clipped means in a ball. Clipped means are rounded to a grid on which any sum of n of them is
    exact in floats.

    Args:
        most: n; visits of whoever is new after them are not in ``total``.
        size: of a vector.

    Attributes:
        slots: the places of the people of the next visits, -1 for those who do not count.
        sums: of the vectors of each, shape (m, size) for the m people so far.
        visits: how many they are, shape (m,).
        done: whether nothing will be released any more.
    """

    def __init__(self, most: int, size: int) -> None:
        super().__init__(0)
        self.most, self.size, self.done = most, size, False
        self.sums, self.visits = np.zeros((0, size)), np.zeros(0, np.int64)
        self.places: dict[int, int] = {}
        self.slots = np.zeros(0, np.intp)

    @property
    def full(self) -> bool:
        return self.done

    @property
    def step(self) -> float:
        """The grid: sums of n numbers in [-RADIUS, RADIUS] are exact in floats."""
        return math.ldexp(1.0, math.ceil(math.log2(self.most + 1)) - 52)

    @property
    def sensitivity(self) -> float:
        """How far replacing one person moves ``total``: the smaller of both diameters, and what rounding adds."""
        return min(SENSITIVITY, 2 * RADIUS * (1 + 1e-12)) + math.sqrt(self.size) * self.step

    def new(self, person: object, visits: int) -> Bools:
        return np.full(visits, not self.done)

    def within(self, person: Ids, records: int) -> Ids:
        return person[:records]

    def taken(self, records: tuple[Array, ...], person: object, refuse: Callable[[int], None]) -> tuple[Array, ...]:
        """Find the places of people, and return all records, or none if nothing will be released."""
        visits = len(records[-1])
        if self.done:
            return tuple(part[:0] for part in records)
        if person is None:
            fresh = max(min(visits, self.most - self.counted), 0)
            self.slots = np.r_[self.counted + np.arange(fresh), np.full(visits - fresh, -1)].astype(np.intp)
            self.counted += fresh
        else:
            names, first, whose = np.unique(ids_of(person, visits), return_index=True, return_inverse=True)
            for place in np.argsort(first):
                name = int(names[place])
                if name not in self.places and self.counted < self.most:
                    self.places[name] = self.counted
                    self.counted += 1
            found = np.array([self.places.get(int(name), -1) for name in names], np.intp)
            self.slots = found[whose]
        if (more := self.counted - len(self.visits)) > 0:
            room = max(more, min(len(self.visits), self.most - len(self.visits)))
            grown = (
                np.concatenate([part, np.zeros((room, *part.shape[1:]), part.dtype)])
                for part in (self.sums, self.visits)
            )
            self.sums, self.visits = grown
        return records

    def add(self, vectors: Array) -> None:
        """Add the vectors (n, size) of the next visits that were ``taken`` to the sums of their people."""
        slots, self.slots = self.slots[: len(vectors)], self.slots[len(vectors) :]
        counts = slots >= 0
        np.add.at(self.sums, slots[counts], vectors[counts])
        np.add.at(self.visits, slots[counts], 1)

    @property
    def came(self) -> int:
        """How many people have come, of those who count; public."""
        return int(np.count_nonzero(self.visits))

    def total(self) -> Array:
        """Return the sum of all people's clipped means, shape (size,)."""
        means = self.sums / np.maximum(self.visits, 1)[:, None]
        means *= np.minimum(1.0, RADIUS / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-100))
        return np.asarray((np.rint(means / self.step) * self.step).sum(axis=0))

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        names = np.array([[name, place] for name, place in self.places.items()], np.int64).reshape(-1, 2)
        arrays = {"sums": self.sums[: self.counted], "visits": self.visits[: self.counted], "places": names}
        return arrays, {"counted": self.counted, "done": self.done}

    def restore(self, arrays: dict[str, Array], values: dict[str, Any]) -> None:
        sums, visits, places, counted = arrays["sums"], arrays["visits"], arrays["places"], values["counted"]
        if type(counted) is not int or not 0 <= counted <= self.most or type(values["done"]) is not bool:
            raise ValueError(f"people must be at most {self.most}; got {counted!r:.20}")
        fits = sums.shape == (counted, self.size) and visits.shape == (counted,) and places.shape[1:] == (2,)
        if not (fits and np.isfinite(sums).all() and (visits >= 0).all() and places.dtype == np.int64):
            raise ValueError(f"the sums of {counted} people must be numbers, {self.size} for each")
        self.sums, self.visits = sums.copy(), visits.astype(np.int64)
        self.places = dict(places.tolist())
        self.counted, self.done, self.lost = counted, values["done"], False
