"""Records as users send them: what becomes of what is no number, and what is refused."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete
from privbandit_agents.base.records import FLOAT64, contexts_of, records_of, rows_of, usable, users_in

from privbandit_envs.spaces import Assortments

SHAPE = (2, 3)
ARMS = Discrete(2)


class Angry(float):
    """A number that does not want to be one."""

    def __float__(self) -> float:
        raise RuntimeError("secret-7")


def numbers(values: Any, shape: tuple[int, ...] = ()) -> Any:
    """Return a group's part as numbers."""
    return rows_of(values, users_in(values), shape, FLOAT64, "numbers")


def test_the_space_fixes_the_dtype_and_well_formed_arrays_stay() -> None:
    for dtype in (np.float64, np.float32):
        array = np.ones((4, 2), dtype)
        assert contexts_of(array, (2,), np.dtype(dtype)) is array
    for given in (np.float64, np.float16, np.int8, np.uint64, np.bool_, np.longdouble):
        assert contexts_of(np.ones((4, 2), given), (2,), np.dtype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("bad", [0.5, None, "x", 1j, 10**400, 2**60, True, np.float16(0.1), np.longdouble(0.1), [1, 2]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nobody_changes_the_bits_of_another(bad: Any, dtype: Any) -> None:
    for one in (0.1, 2**24 + 1, 2**53 + 1, True, np.float32(0.1), np.float16(0.1), 1e300, 2**63 - 1):
        alone = contexts_of([[one, 1]], (2,), np.dtype(dtype))
        for others in ([[bad, 1]], [bad], [[bad]], [[[bad, bad]]]):
            assert contexts_of([[one, 1], *others, [0, 1]], (2,), np.dtype(dtype))[0].tobytes() == alone[0].tobytes()


def test_a_list_is_a_group_unless_it_can_be_one_context() -> None:
    groups: list[Any] = [[None, None], ["a", "b"], [1, 2], [[1, 2], None, None], [[[1, 2, 3]] * 2, None], [{}, {}, {}]]
    ones: list[Any] = [[[1, 2, 3], None], [[1, 2, 3], [4]], [["a"] * 3] * 2, None, "text", 7, {}]
    for group in groups:
        assert contexts_of(group, SHAPE).shape == (len(group), *SHAPE)
    for one in ones:
        assert contexts_of(one, SHAPE).shape == SHAPE


@pytest.mark.parametrize("bad", [None, "a", [1, 2], [[1, 2], [3]], [], {}, 10**400, [[[1]]]])
def test_a_group_of_bad_records_counts_as_many_as_one_of_good_records(bad: Any) -> None:
    for contexts in ([bad, bad], [bad, [[0.0] * 3] * 2]):
        taken = records_of(contexts, [bad, 1], [bad, 0.5], SHAPE, ARMS)
        assert [part.shape for part in taken] == [(2, *SHAPE), (2,), (2,)]
        assert taken.actions.tolist()[1] == 1 and taken.feedback[1] == 0.5
    assert len(records_of(bad, bad, None, SHAPE, ARMS).feedback) == 1
    assert len(records_of([bad], [bad], [bad], SHAPE, ARMS).feedback) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2, 2.0),
        (Fraction(1, 2), 0.5),
        (Decimal("0.5"), 0.5),
        (np.longdouble("0.5"), 0.5),
        (np.bool_(True), 1.0),
        (10**400, math.inf),
        (-(10**400), -math.inf),
        (np.longdouble("1e4000"), math.inf),
        (Fraction(10**400), math.inf),
        ("1.0", math.nan),
        (b"1", math.nan),
        (None, math.nan),
        (1j, math.nan),
        (object(), math.nan),
        (np.datetime64("2020-01-01"), math.nan),
        ({"a": 1}, math.nan),
    ],
)
def test_one_value_alone_and_in_a_group(value: Any, expected: float) -> None:
    assert numbers([value])[0] == pytest.approx(expected, nan_ok=True)
    assert numbers([0.25, value, 3]).tolist() == pytest.approx([0.25, expected, 3.0], nan_ok=True)
    group = numbers([[1, 2], [value, 5], [6, 7]], (2,))
    assert group.tolist()[::2] == [[1, 2], [6, 7]]
    assert group[1].tolist() == pytest.approx([expected, 5.0], nan_ok=True)


def test_a_number_that_raises_is_none() -> None:
    assert math.isnan(numbers([Angry(1.0), None])[0])


def test_a_part_of_another_shape_is_none_and_the_others_stay() -> None:
    good = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    for bad in ([[1.0, 2.0, 3.0]], [[1.0], [2.0]], [], None, "text", 7, [good], np.zeros((5, 5))):
        group = numbers([good, bad, good], SHAPE)
        assert group.shape == (3, *SHAPE) and np.isnan(group[1]).all()
        assert np.array_equal(group[::2], [good, good])
    endless: list[Any] = []
    endless.append(endless)
    assert np.isnan(numbers(endless, SHAPE)).all()


def test_contexts_of_another_shape_are_refused_without_their_values() -> None:
    assert contexts_of(np.zeros(SHAPE), SHAPE).shape == SHAPE
    assert contexts_of(np.zeros((4, *SHAPE)), SHAPE).shape == (4, *SHAPE)
    for wrong in ((3,), (3, 2), (4, 3, 2), (1, 4, *SHAPE), (0,)):
        with pytest.raises(ValueError, match=r"^contexts must have the shape \(2, 3\), or .* got \(") as error:
            contexts_of(np.full(wrong, 123456.0), SHAPE)
        assert "123456" not in str(error.value)


def test_one_record_and_many_are_rows() -> None:
    contexts = np.zeros((2, *SHAPE))
    one = records_of(contexts[0], 1, 0.5, SHAPE, ARMS)
    two = records_of(contexts, [1, 0], [0.5, 1.0], SHAPE, ARMS)
    for taken, n in ((one, 1), (two, 2)):
        assert [part.shape for part in taken] == [(n, *SHAPE), (n,), (n,)]
    sets = records_of(contexts[0], np.ones(2, np.int8), -1, SHAPE, Assortments(2, 1))
    assert [part.shape for part in sets] == [(1, *SHAPE), (1, 2), (1,)]


@pytest.mark.parametrize("arm", [np.int64(1), 1, 0, -1, 2, -7, True, 10**30, np.int64(-7), np.int64(5)])
def test_the_usual_record_of_one_user_is_that_of_a_group_of_one(arm: Any) -> None:
    context = np.arange(np.prod(SHAPE), dtype=np.float64).reshape(SHAPE)
    alone = records_of(context, arm, 0.5, SHAPE, ARMS)
    listed = records_of(context[None], [arm], [0.5], SHAPE, ARMS)
    for one, of_group in zip(alone, listed, strict=True):
        assert one.dtype == of_group.dtype
        np.testing.assert_array_equal(one, of_group)


@pytest.mark.parametrize(
    ("actions", "feedback"), [([1, 0], [0.5]), ([1], [0.5, 1.0]), ([[1, 0]], [0.5, 1.0]), (1, [0.5, 1.0]), ([], [])]
)
def test_groups_of_unequal_parts_are_refused(actions: Any, feedback: Any) -> None:
    with pytest.raises(ValueError, match=r"^records must be n contexts of shape \(2, 3\)"):
        records_of(np.zeros((2, *SHAPE)), actions, feedback, SHAPE, ARMS)


def test_arms_that_do_not_exist_are_minus_one() -> None:
    sent = [0, 1, 2, -1, 0.5, math.nan, math.inf, "0", 1e30, True]
    taken = records_of(np.zeros((len(sent), *SHAPE)), sent, np.zeros(len(sent)), SHAPE, ARMS)
    assert taken.actions.tolist() == [0, 1, -1, -1, -1, -1, -1, -1, -1, 1]
    assert taken.actions.dtype == np.int64


def test_items_that_are_no_number_are_not_on_offer() -> None:
    taken = records_of(np.zeros((1, 3, 2)), [[None, 1, math.inf]], [0], (3, 2), Assortments(3, 2))
    assert taken.actions.tolist() == [[0, 1, 0]]


def test_what_can_be_learned_from() -> None:
    x = np.array([[1.0, 0], [math.nan, 0], [math.inf, 0], [1e6, 1e6], [1e308, 0], [0, 0], [0, 0], [0, 0]])
    y = np.array([1.0, 1, 1, 1, 1, math.nan, 1.1e6, -1e6])
    assert usable(x, y).tolist() == [True, False, False, False, False, False, False, True]
    with np.errstate(over="ignore"):
        single = x.astype(np.float32)
    assert usable(single[:, None], y).tolist() == usable(x, y).tolist()


@pytest.mark.parametrize("answer", [[], [1, 2], [[]], [None, 1], [0.5], {}, None, "x", 10**400])
def test_one_action_is_of_one_user_whatever_the_answer_is(answer: Any) -> None:
    context, items = np.ones(SHAPE), Assortments(4, 2)
    for one in (context, context.tolist(), None, "x", [1, 2, 3]):
        for action, space in ((1, ARMS), (np.int64(1), ARMS), (np.array([1, 0, 0, 1], np.int8), items)):
            taken = records_of(one, action, answer, SHAPE, space)
            assert taken.contexts.shape == (1, *SHAPE) and taken.feedback.shape == (1,) and len(taken.actions) == 1
            assert taken.feedback[0] == 0.5 if answer == [0.5] else not np.isfinite(taken.feedback[0])


@pytest.mark.parametrize("answers", [np.ones(2), np.ones(0), [0.5, 1.0]])
def test_one_action_for_a_group_is_refused(answers: Any) -> None:
    for contexts in (np.ones((2, *SHAPE)), np.ones((2, *SHAPE)).tolist()):
        with pytest.raises(ValueError, match="records must be"):
            records_of(contexts, 1, answers, SHAPE, ARMS)
