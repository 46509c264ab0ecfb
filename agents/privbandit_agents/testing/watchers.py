"""Watchers of a curator's publications: one writes them down, the other makes a twin publish the same."""

import copy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.base.central import Publication
from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.privacy.mechanisms.counters import Counter


class Note(NamedTuple):
    """One publication.

    Attributes:
        mechanism: by which it was.
        exact: the value that it hides.
        released: what everybody sees.
        cost: that was entered for it, if any.
        group: of users whom it is about.
        kind: what of it must not depend on data, in words.
    """

    mechanism: Any
    exact: Any
    released: Any
    cost: Cost | None
    group: int | None
    kind: str


@dataclass
class Writer:
    """A watcher that writes down publications."""

    notes: list[Note] = field(default_factory=list)

    def __call__(self, made: Publication) -> Any:
        released = made.draw()
        self.notes.append(noted(made, released))
        return released


@dataclass
class Forcer:
    """A watcher that returns the values of a script, in order, in place of draws.

    Attributes:
        script: the notes of another run.
        what: which users differ from those of the script, for messages.
        exact: the exact values of the publications, at the scripted releases.
        drawn: exact values where it would have published, and what.
        values: the exact values of every release.
    """

    script: list[Note]
    what: str
    exact: list[Any] = field(default_factory=list)
    drawn: list[tuple[Any, Any]] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def __call__(self, made: Publication) -> Any:
        at = len(self.exact)
        assert at < len(self.script), f"{self.what}: publishes more than its twin; when it does must not depend on data"
        note, drawn = self.script[at], made.draw()
        own = noted(made, note.released)
        assert own.kind == note.kind, f"{self.what}: publishes {own.kind} where its twin publishes {note.kind}"
        self.exact.append(own.exact)
        self.drawn.append((noted(made, drawn).exact, copy.deepcopy(drawn)))
        return copy.deepcopy(note.released)


def noted(made: Publication, released: Any) -> Note:
    """Return a publication with its values as they are now; a function is looked at where it was released."""
    exact = made.exact(released) if callable(made.exact) else made.exact
    return Note(made.mechanism, copy.deepcopy(exact), copy.deepcopy(released), made.cost, made.group, kind(made, exact))


def kind(made: Publication, exact: Any) -> str:
    """Return in words what must not depend on data: the mechanism and its numbers, shape, cost and group."""
    numbers = {
        name: value
        for name, value in getattr(made.mechanism, "__dict__", {}).items()
        if isinstance(value, int | float | str)
    }
    settings = ", ".join(f"{name}={value:.6g}" for name, value in numbers.items() if not isinstance(value, str))
    shapes = [np.shape(part) for part in (exact if isinstance(exact, tuple) else [exact])]
    about = "" if made.group is None else f", about group {made.group}"
    paid = "" if made.cost is None else f", for {in_words(made.cost)}"
    return f"{type(made.mechanism).__name__}({settings}) of shape {shapes}{about}{paid}"


def in_words(cost: Cost | None) -> str:
    parts = {name: value for name, value in vars(cost).items() if value} if cost is not None else {}
    return ", ".join(f"{name} = {value:.6g}" for name, value in parts.items()) or "nothing"


class Release(NamedTuple):
    """What one mechanism has published, all calls of a counter together, and at which ``notes`` of the script.

    Its price is the mechanism's own cost, or else the cost that was entered for it, if any.
    """

    mechanism: Any
    exact: Any
    released: Any
    price: Cost | None
    group: int | None
    notes: list[int]


def releases_of(notes: list[Note]) -> list[Release]:
    """Group notes by release: all of a counter is one release, and every other note is one."""
    together: dict[int, list[int]] = {}
    for at, note in enumerate(notes):
        together.setdefault(id(note.mechanism) if isinstance(note.mechanism, Counter) else -1 - at, []).append(at)
    found = []
    for places in together.values():
        columns = [note.exact for note in notes], [note.released for note in notes]
        first, exact, released = notes[places[0]], *(joined(places, column) for column in columns)
        price = getattr(first.mechanism, "cost", first.cost)
        if price is not None and price.gaussian:  # one currency for releases of all kinds
            price = replace(price, rho=price.rho + price.gaussian, gaussian=0.0)
        found.append(Release(first.mechanism, exact, released, price, first.group, places))
    return found


def joined(places: list[int], values: list[Any]) -> Any:
    """Return the values of one release; those of a counter are the rows of all its calls."""
    return values[places[0]] if len(places) == 1 else np.concatenate([values[place] for place in places])


def loss(mechanism: Any, exact: Any, other: Any, released: Any) -> Cost:
    """Return the cost of hiding whether the value was ``exact`` or ``other``; nothing if both are the same.

    The mechanism's own ``cost`` is the supremum over the pairs that it allows: a larger loss refutes its calibration.

    Raises:
        LookupError: the mechanism has no method ``loss``.
    """
    if not hasattr(mechanism, "loss"):
        raise LookupError(f"{type(mechanism).__name__} has no method loss(exact, other, released)")
    try:
        cost: Cost = mechanism.loss(exact, other, released)
    except ValueError:  # ``pure(0)`` is refused
        values = exact if isinstance(exact, tuple) else (exact,)
        others = other if isinstance(other, tuple) else (other,)
        if len(values) == len(others) and all(map(np.array_equal, values, others)):
            return Cost()
        raise
    return cost


def standardised(mechanism: Any, exact: Any, released: Any) -> NDArray[np.float64]:
    """Return the noise of a release as independent standard normals, shape (k,), if it is as declared.

    Raises:
        LookupError: the mechanism has no method ``standardised``.
    """
    try:
        return np.ravel(mechanism.standardised(exact, released))
    except AttributeError:
        raise LookupError(f"{type(mechanism).__name__} has no method standardised(exact, released)") from None
