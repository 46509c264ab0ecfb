"""Devices that keep the records of their person's first ten visits, and report once, on the mean.

Proof: docs/privacy/people.md, Theorem 3.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.base.people import Bools, Ids, Seen, ids_of

Array = NDArray[Any]
VISITS = 10
"""After how many visits of its person a device reports."""
RADIUS = 0.45
"""To which the mean of a person's packed records is clipped: about its length after ten visits."""


class Plan(NamedTuple):
    """What visits become of, one row each.

    Attributes:
        names: the people, in order of their first of these visits.
        places: where each visit's person is, -1 for none.
        before: how many visits of that person were kept before.
    """

    names: Ids
    places: Array
    before: Array


class OwnMeans(Seen):
    """The devices of n people, each with the records of its person until it reports. No server has any of it.

    Args:
        most: n; whoever is new after them has no device here, and is served.
        shape: of one user's context.
        dtype: of contexts.

    Attributes:
        reported: how many devices have reported.
    """

    def __init__(self, most: int, shape: tuple[int, ...], dtype: Any) -> None:
        super().__init__(0)
        self.most, self.reported = most, 0
        self.contexts = np.zeros((0, VISITS, *shape), dtype)
        self.answers = np.zeros((0, VISITS, 2))  # actions and feedback
        self.kept = np.zeros(0, np.int64)  # visits of each person
        self.places: dict[int, int] = {}

    @property
    def full(self) -> bool:
        return self.reported >= self.most

    def _plan(self, person: object, visits: int) -> Plan:
        if person is None:
            places = self.counted + np.arange(visits)
            return Plan(np.zeros(0, np.int64), np.where(places < self.most, places, -1), np.zeros(visits, np.int64))
        names, first, whose = np.unique(ids_of(person, visits), return_index=True, return_inverse=True)
        order = np.argsort(first)
        place_of, counted = np.empty(len(names), np.int64), self.counted
        for row in order:
            known = self.places.get(int(names[row]), -1)
            if known < 0 and counted < self.most:
                known, counted = counted, counted + 1
            place_of[row] = known
        # how many of these visits are of the same person and earlier
        sorted_rows = np.argsort(whose, kind="stable")
        starts = np.searchsorted(whose[sorted_rows], np.arange(len(names)))
        rank = np.empty(visits, np.int64)
        rank[sorted_rows] = np.arange(visits) - starts[whose[sorted_rows]]
        kept = (
            np.where(place_of < len(self.kept), self.kept[np.minimum(place_of, len(self.kept) - 1)], 0)
            if len(self.kept)
            else np.zeros(len(names), np.int64)
        )
        return Plan(names[order], place_of[whose], kept[whose] + rank)

    def new(self, person: object, visits: int) -> Bools:
        plan = self._plan(person, visits)
        return np.asarray((plan.places >= 0) & (plan.before < VISITS))

    def within(self, person: Ids, records: int) -> Ids:
        plan = self._plan(person, len(person))
        last = np.flatnonzero((plan.places >= 0) & (plan.before == VISITS - 1))
        return person if len(last) < records else person[: int(last[records - 1]) + 1]

    def taken(self, records: tuple[Array, ...], person: object, refuse: Callable[[int], None]) -> tuple[Array, ...]:
        """Keep records, and return those of the devices that report now, ten rows each in order of their last visits.

        Raises:
            RuntimeError: the devices have lost what they kept.
        """
        if self.lost:
            way_out = "restore_devices(...) takes what devices_state() gave"
            raise RuntimeError(f"who has reported is on the devices, and not in a server's file: {way_out}.")
        contexts, actions, feedback, *others = records
        plan = self._plan(person, len(feedback))
        keeps = (plan.places >= 0) & (plan.before < VISITS)
        # devices of people who are new
        came = int(plan.places.max(initial=-1)) + 1
        if came > len(self.kept):
            room = max(came, min(2 * len(self.kept), self.most)) - len(self.kept)
            self.contexts = np.concatenate([self.contexts, np.zeros((room, *self.contexts.shape[1:]), contexts.dtype)])
            self.answers = np.concatenate([self.answers, np.zeros((room, *self.answers.shape[1:]))])
            self.kept = np.concatenate([self.kept, np.zeros(room, np.int64)])
        for name in plan.names.tolist():
            if name not in self.places and self.counted < self.most:
                self.places[name] = self.counted
                self.counted += 1
        self.counted = max(self.counted, came)
        # their records
        places, turns = plan.places[keeps], plan.before[keeps]
        self.contexts[places, turns] = contexts[keeps]
        self.answers[places, turns] = np.column_stack([actions, feedback])[keeps]
        np.add.at(self.kept, places, 1)
        report = plan.places[keeps & (plan.before == VISITS - 1)]
        self.reported += len(report)
        rows = self.contexts[report].reshape(-1, *self.contexts.shape[2:])
        answers = self.answers[report].reshape(-1, 2)
        self.contexts[report], self.answers[report] = 0, 0  # a device forgets what it has reported on
        more = (np.ones((len(rows), *part.shape[1:]), part.dtype) for part in others)
        return rows, answers[:, 0], answers[:, 1], *more

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        names = np.array([[name, place] for name, place in self.places.items()], np.int64).reshape(-1, 2)
        parts = {name: getattr(self, name)[: self.counted] for name in ("contexts", "answers", "kept")}
        return {**parts, "places": names}, {"counted": self.counted, "reported": self.reported}

    def restore(self, arrays: dict[str, Array], values: dict[str, Any]) -> None:
        for name in ("contexts", "answers", "kept"):
            own = getattr(self, name)
            setattr(self, name, np.reshape(arrays[name], (-1, *own.shape[1:])).astype(own.dtype))
        self.places = dict(np.reshape(arrays["places"], (-1, 2)).tolist())
        self.counted, self.reported, self.lost = values["counted"], values["reported"], False


def clipped_means(vectors: Array) -> Array:
    """Return the mean of every ten rows, clipped to ``RADIUS``, (10 n, D) to (n, D).

    Raises:
        ValueError: a device has another number of records.
    """
    if len(vectors) % VISITS:
        raise ValueError(f"a device reports on {VISITS} records; got {len(vectors)} rows.")
    means = vectors.reshape(-1, VISITS, vectors.shape[1]).mean(axis=1)
    lengths = np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-100)
    return np.asarray(means * np.minimum(1.0, RADIUS / lengths))
