"""Records that attack: what no user should send, in the context, in the action, or in the feedback."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from privbandit_agents.audits.pairs.records import Record
from privbandit_agents.base.agent import AnyAgent

SECRET = "secret-7"  # no error, warning or state may show it
NO_NUMBERS: dict[str, object] = {
    "text": SECRET,
    "bytes": SECRET.encode(),
    "None": None,
    "an object": object(),
    "a dictionary": {SECRET: 1.0},
    "a complex number": 7j,
    "a date": np.datetime64("2020-01-01"),
    "NaN": float("nan"),
}
"""A record with one of these counts as one with NaN in its place."""
FAR: dict[str, object] = {
    "1e308": 1e308,
    "3e38": 3e38,
    "-1e300": -1e300,
    "1e-310": 1e-310,
    "the least number": 5e-324,
    "an integer": 10**30,
    "an integer of 401 digits": 10**400,
    "a long double": np.longdouble("1e4000"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
}
"""Numbers, if far ones, or infinite: agents clip or ignore them."""
PARTS = ("context", "action", "feedback")


class Attack(NamedTuple):
    """One part of a record, replaced.

    Attributes:
        part: 0, 1, 2: the context, the action, or the feedback.
        value: what stands in its place.
        harmless: NaN in its place, in the right shape.
        no_number: whether it counts as NaN.
    """

    name: str
    part: int
    value: Any
    harmless: Any
    no_number: bool

    def on(self, record: Record) -> Record:
        """Return one user's record with the part replaced."""
        return Record(*(self.value if at == self.part else one for at, one in enumerate(record)))


def in_group(records: Record, sent: list[Attack], harmless: bool = False) -> Record:
    """Return the records of a group, in lists, where users 0, 2, 4, ... attack; ``harmless``: NaN in its place."""
    parts: list[Any] = [list(part) for part in records]
    for place, attack in enumerate(sent):
        parts[attack.part][2 * place] = attack.harmless if harmless else attack.value
    return Record(*parts)


def attacks(record: Record) -> Iterator[Attack]:
    """Yield attacks on one user's record: every hostile value throughout a part, in one entry of it, and odd shapes."""
    for at, part in enumerate(record):
        shape = np.shape(part)
        for name, value in (NO_NUMBERS | FAR).items():
            known = name in NO_NUMBERS
            yield Attack(f"{PARTS[at]}: {name}", at, filled(shape, value), filled(shape, np.nan), known)
            if shape:
                yield Attack(f"{PARTS[at]}: {name} in one entry", at, spoilt(part, value), spoilt(part, np.nan), known)


def misfits(record: Record) -> Iterator[Attack]:
    """Yield parts of the wrong length for one user, of text and of numbers."""
    for at, part in enumerate(record):
        for length in (0, 2, 50):
            for value in (SECRET, 1.0):
                wrong = (length,) if np.ndim(part) == 0 else (length, *np.shape(part)[:-1], np.shape(part)[-1] + 1)
                name, harmless = f"a {PARTS[at]} of length {length}", filled(np.shape(part), np.nan)
                yield Attack(name, at, filled(wrong, value), harmless, False)


def filled(shape: tuple[int, ...], value: object) -> Any:
    """Return lists of this shape with the value everywhere."""
    return [filled(shape[1:], value) for _ in range(shape[0])] if shape else value


def spoilt(part: Any, value: object) -> Any:
    """Return a part in lists, with the value in its first entry."""
    lists = np.asarray(part).tolist()
    inner = lists
    for _ in range(np.ndim(part) - 1):
        inner = inner[0]
    inner[0] = value
    return lists


def finite(agent: AnyAgent) -> bool:
    """Return whether every number of an agent's state is finite."""
    arrays, _ = agent.state()
    return all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f")
