"""Checks of arguments: whatever is given, an error is one short sentence."""

from typing import Any

import numpy as np
import pytest

from privbandit_envs.validate import as_number, at_least, count, did_you_mean, listed, number, numbers, one_of, shown

HUGE = 10**5000


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (lambda v: number(x=v), HUGE),
        (lambda v: at_least(1, x=v), -HUGE),
        (lambda v: count(x=v), -HUGE),
        (lambda v: numbers(1, x=v), [HUGE]),
        (lambda v: numbers(2, x=v), np.zeros((300, 300))),
        (lambda v: one_of(["a", "b"], x=v), "a" * 10**6),
        (lambda v: number(x=v), "\x1b[31m" + "1" * 10**6),
        (lambda v: number(x=v), list(range(10**5))),
    ],
    ids=[str(case) for case in range(8)],
)
def test_an_error_is_short_whatever_the_value(check: Any, value: object) -> None:
    with pytest.raises(ValueError, match=r"^x must ") as raised:
        check(value)
    assert str(raised.value).isprintable() and len(str(raised.value)) < 130


def test_a_value_is_shown_whole_up_to_sixty_characters() -> None:
    assert shown("a" * 58) == repr("a" * 58) and shown("a" * 59) == "'" + "a" * 59 + "..."
    assert shown(np.eye(2)) == "array([[1., 0.], [0., 1.]])"


def test_numbers_are_spelled_in_ascii() -> None:
    assert [as_number(text) for text in ("1", " -2.5e3 ", ".5")] == [1, -2500, 0.5]
    for text in ("1_0", "\u0663", "\u00a01", "", "one"):
        with pytest.raises(ValueError, match=r"no number|could not convert"):
            as_number(text)


def test_the_nearest_of_many_names_is_found() -> None:
    names = [f"feature_{number}" for number in range(10**5)]
    assert did_you_mean("featur_99999", names) == " (did you mean 'feature_99999'?)"
    assert did_you_mean("q", names) == did_you_mean("x" * 10**6, names) == ""
    assert (
        listed(names) == "100,000 others"
        and listed(["a", "b"]) == "a, b"
        and listed(["a" * 61, "\x1b"]) == "a" * 60 + "..., ?"
    )
