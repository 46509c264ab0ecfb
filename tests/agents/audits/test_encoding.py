"""Whatever leaves is bytes: two things are equal if these are, and numbers are features of them."""

import copy
import dataclasses
import datetime
import enum
from collections import Counter, deque, namedtuple
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from privbandit_agents.audits.views.reports import encoded, numbers

Two = namedtuple("Two", "one other")


class Color(enum.Enum):
    """A name for a number."""

    RED = 1


@dataclasses.dataclass
class Sent:
    """A report as an object."""

    value: Any
    more: Any = None


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value


def payload(bits: int) -> Any:
    return (np.array([np.nan]).view(np.uint64) + np.uint64(bits)).view(np.float64)


THINGS: dict[str, Any] = {
    **{"0.0": 0.0, "-0.0": -0.0, "0": 0, "False": False, "None": None, "1": 1, "1.0": 1.0, "True": True, "1j": 1j},
    **{"float32": np.float32(1), "float64": np.float64(1), "int64": np.int64(1), "array of one": np.ones(1)},
    **{"text": "a", "bytes": b"a", "bytearray": bytearray(b"a"), "other text": "b", "lone surrogate": "\ud800"},
    **{"list": [1], "tuple": (1,), "set": {1}, "frozenset": frozenset({1}), "deque": deque([1]), "range": range(1)},
    **{"key 1": {1: 2.0}, "key 2": {2: 2.0}, "ab": {"a": 1, "b": 1}, "ba": {"b": 1, "a": 1}, "counter": Counter("ab")},
    **{"zeros": np.zeros(2), "-zeros": -np.zeros(2), "column": np.zeros((2, 1)), "zeros32": np.zeros(2, np.float32)},
    **{"empty": [], "three": np.zeros(3), "ints": np.zeros(2, int), "none of 3": np.zeros((0, 3))},
    **{"NaN": payload(0), "NaN with payload": payload(1), "negative NaN": -payload(0)},
    **{"far": 10**30, "farther": 10**31, "fraction": Fraction(1, 3), "day": datetime.date(2020, 1, 1)},
    **{"numpy day": np.datetime64("2020-01-01"), "texts": np.array(["a", "b"]), "other texts": np.array(["a", "c"])},
    **{"objects": np.array([1, "x"], object), "masked": np.ma.array([1, 2], mask=[False, True])},
    **{"masked otherwise": np.ma.array([1, 2], mask=[True, True]), "record": np.zeros(1, [("a", float)])},
    **{"enum": Color.RED, "sent": Sent(1), "sent 1.0": Sent(1.0), "two": Two(1, 2), "pair": (1, 2)},
    **{"slots 3": Slotted(3), "slots 4": Slotted(4), "nested": [[1]], "deeper": [[[1]]], "function": print},
    **{"a generator": np.random.default_rng(1), "another": np.random.default_rng(2)},
}


def test_things_that_differ_in_anything_have_other_bytes() -> None:
    bytes_of = {name: encoded(thing) for name, thing in THINGS.items()}
    assert [pair for pair in combinations(bytes_of, 2) if bytes_of[pair[0]] == bytes_of[pair[1]]] == []


def test_copies_have_the_same_bytes() -> None:
    again: list[Any] = [1.0]
    again.append(again)  # contains itself
    for thing in (*THINGS.values(), again):
        assert encoded(copy.deepcopy(thing)) == encoded(thing)
    assert encoded({"b", "a", "c"}) == encoded({"c", "b", "a"})


def test_numbers_are_features_of_the_bytes() -> None:
    """Whatever is encoded differently has another row of numbers, by its structure or by its values."""
    rows = {name: numbers(thing)[0] for name, thing in THINGS.items()}
    assert [pair for pair in combinations(rows, 2) if np.array_equal(rows[pair[0]], rows[pair[1]])] == []
    assert all(np.isfinite(row).all() for row in rows.values())


def test_each_user_has_a_row_whatever_the_report_is() -> None:
    nested = {"b": (np.arange(6).reshape(3, 2), None), "a": [1, 2, 3], "public": np.array([7.0, 8.0])}
    rows = numbers(nested, 3)
    assert len(rows) == 3 and np.ptp(rows[:, 0]) == 0
    moving = rows[:, np.ptp(rows, axis=0) > 0]
    assert moving.tolist() == [[0, 1, 1], [2, 3, 2], [4, 5, 3]]
    lists = numbers([[1.0], [2.0, 3.0]], 2)
    assert lists[0, 1] != lists[1, 1]
    assert numbers(np.zeros((4, 2)), 4)[0, 0] == numbers(np.zeros((9, 2)), 9)[0, 0]  # users are no structure
    keyed = numbers([{0: 0.5}, {1: 0.5}], 2)
    assert (keyed[0] != keyed[1]).any()


def test_users_whose_reports_differ_have_other_rows() -> None:
    """Reports of many users are encoded at once as far as they are alike."""
    things = list(THINGS.values())
    rows = numbers([*things, *map(copy.deepcopy, things)], 2 * len(things))
    assert np.array_equal(rows[: len(things)], rows[len(things) :])
    assert len(np.unique(rows, axis=0)) == len(things)


def test_no_bytes_of_what_cannot_be_sent() -> None:
    with pytest.raises(TypeError, match="no bytes can be made of generator; send numbers, text"):
        encoded(x for x in "ab")


@dataclasses.dataclass(slots=True)
class SlottedBase:
    """A part of a report that no dictionary shows."""

    reward: float


@dataclasses.dataclass
class OnSlots(SlottedBase):
    """A report with a dictionary and a slot."""

    arm: int


ALIKE: dict[str, list[Any]] = {
    "integers beyond 64 bits": [2**63, 2**63 + 1, 2**64 + 1, -(2**70)],
    "integers beyond floats": [2**53, 2**53 + 1, 2**62, 2**62 + 1, -(2**62) - 1, -(2**62)],
    "unsigned": list(np.array([2**63, 2**63 + 1, 2**64 - 1], np.uint64)),
    "slots of a base": [OnSlots(1.0, 5), OnSlots(77.0, 5)],
    "units of time": [np.datetime64("2020-01-01", "D"), np.datetime64("2020-01-01T00", "h")],
    "instants": [np.datetime64(place, "ns") for place in (2**60, 2**60 + 1)],
}


@pytest.mark.parametrize("kind", ALIKE)
def test_values_that_floats_do_not_tell_apart_have_other_rows(kind: str) -> None:
    things = ALIKE[kind]
    for others in (things, [[thing, 1] for thing in things], [{"sent": thing} for thing in things]):
        assert len({row.tobytes() for row in numbers(others, len(others))}) == len(things)
    assert len({encoded(thing) for thing in things}) == len(things)
