"""Users' records as arrays: whatever is no number becomes NaN, user by user, and no error shows a value.

Nothing in one user's record decides how another one is read: the space fixes the dtype, and the number of users is that
of the feedback.
"""

import math
import warnings
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import ArrayLike, DTypeLike, NDArray

from privbandit_agents.privacy.vectors import LIMIT
from privbandit_envs.spaces import Assortments

Array = NDArray[Any]
Floats = np.dtype[np.floating[Any]]
FLOAT32, FLOAT64, INT64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
NUMBER = float, np.int64
SINGLE = float, int, np.generic, type(None)


class IgnoredRecord(UserWarning):
    """An agent without privacy has ignored a record: it had NaN, infinity, or a length above 10^6."""


def warn_of_ignored() -> None:
    """Warn that a record is ignored; a private agent never does, since a warning reveals the record."""
    text = "a record with NaN, infinity or a length above 1e6 counts as nothing; scale the features and rewards."
    warnings.warn(text, IgnoredRecord, stacklevel=4)


class Records(NamedTuple):
    """The records of n users.

    Attributes:
        contexts: real numbers of the dtype that the space fixes, shape (n, ...).
        actions: arms, -1 where there is no such arm, shape (n,); or 0/1 sets, shape (n, N).
        feedback: float64, shape (n,).
    """

    contexts: Array
    actions: Array
    feedback: Array


def dtype_of(space: Any) -> Floats:
    """Return the dtype in which an agent computes with contexts of a space: float32 stays, all else is float64."""
    return FLOAT32 if space.dtype == FLOAT32 else FLOAT64


def contexts_of(context: object, shape: tuple[int, ...], dtype: Floats = FLOAT64) -> Array:
    """Return the context of one user or of many as numbers of ``dtype``, shape ``shape`` or (n, *shape).

    Anything but a number becomes NaN, user by user. A list is a group, one entry a user, unless it can be one context:
    its length and its depth of nesting are those of ``shape``. ``update`` has the feedback to count users by.

    Args:
        context: an array, or lists of anything.
        shape: of one user's context.
        dtype: of the result.

    Raises:
        ValueError: an array of numbers of another shape.
    """
    array = real_array(context)
    if array is not None and (array.shape == shape or array.shape[1:] == shape):
        return cast(array, dtype)
    if array is not None and typed(context):
        raise ValueError(f"contexts must have the shape {shape}, or (n, ...) for n users; got {array.shape}.")
    entries = entries_of(context)
    if entries is None or (not nested(entries, len(shape) + 1) and may_be_one(entries, shape)):
        return part(context, shape, dtype)
    return stacked(entries, shape, dtype)


def records_of(
    context: object,
    action: object,
    feedback: object,
    shape: tuple[int, ...],
    action_space: object,
    dtype: Floats = FLOAT64,
) -> Records:
    """Return the records of one user or of many, or raise before any is taken in.

    The feedback gives the number of users: one if it is no sequence, whatever is in the record. An answer that is a
    list is one user's if the action is a number, or an array of one set, and the context is nested as one. A group
    that is refused half-way and sent again would count its first users twice.

    Args:
        context: of shape ``shape``, or (n, *shape) for n users.
        action: of one user or of n.
        feedback: of one user or of n.
        shape: of one user's context.
        action_space: of one user.
        dtype: of contexts.

    Raises:
        ValueError: the numbers of contexts, actions and feedback differ. The message shows shapes alone.
    """
    single = (action_space.n_items,) if isinstance(action_space, Assortments) else ()
    if isinstance(context, np.ndarray) and context.dtype == dtype:
        if isinstance(action, np.ndarray) and isinstance(feedback, np.ndarray):
            n = feedback.shape
            kinds = action.dtype == INT64 and feedback.dtype == FLOAT64
            if kinds and len(n) == 1 and context.shape == n + shape and action.shape == n + single:
                return Records(context, existing(action, action_space), feedback)  # as all of this makes them
        arm = isinstance(action, np.int64) or (type(action) is int and -1 <= action < 2**31)
        if arm and isinstance(feedback, float) and not single and context.shape == shape:
            return Records(context[None], existing(np.array([action]), action_space), np.array([feedback]))
    needed = expected(shape, single)
    alone = (
        np.asarray(action).shape == single
        if typed(action)
        else not single and isinstance(action, int | float | np.generic)
    )
    alone = alone and not (typed(feedback) or nested(context, len(shape) + 1))
    users = None if alone else users_in(feedback)
    answers = rows_of(feedback, users, (), FLOAT64, needed)
    actions = rows_of(action, users, single, None, needed)
    contexts = rows_of(context, users, shape, dtype, needed)
    return Records(contexts, existing(actions, action_space), answers)


@cache
def expected(shape: tuple[int, ...], single: tuple[int, ...]) -> str:
    """Return in words which records there should be."""
    return f"n contexts of shape {shape}, n actions of shape {single}, n numbers of feedback"


def users_in(feedback: object) -> int | None:
    """Return how many users answer; None: one user, who is no group."""
    if isinstance(feedback, SINGLE):
        return None
    entries = entries_of(feedback)
    return None if entries is None else len(entries)


def rows_of(
    values: object,
    users: int | None,
    shape: tuple[int, ...],
    dtype: Floats | None,
    needed: str,
) -> Array:
    """Return one part of the records of n users, shape (n, *shape).

    The shape of an array of numbers is the caller's, so another one is refused; a list is read user by user.

    Args:
        values: of n users; or of one user, if ``users`` is None or 1.
        users: n; None: one user, who is no group.
        shape: of one user's part.
        dtype: of the result; None: integers stay integers.
        needed: the records that are expected, in words, for errors.

    Raises:
        ValueError: a group of another size, or an array of numbers of another shape.
    """
    n = 1 if users is None else users
    if isinstance(values, np.ndarray) and values.dtype == (dtype or INT64):
        if values.shape == (n, *shape):
            return values
        if n == 1 and values.shape == shape:
            return values[None]
    elif not shape and n == 1 and isinstance(values, NUMBER):
        return np.array([values], dtype)
    array = real_array(values)
    if array is not None:
        if array.shape == (n, *shape):
            return cast(array, dtype)
        if n == 1 and array.shape == shape:
            return cast(array, dtype)[None]
    entries = entries_of(values)
    if users is None and not typed(values):  # whatever it is, it is one user's
        alone = entries is not None and len(entries) == 1 and nested(entries, len(shape) + 1)
        return part(entries[0] if alone and entries is not None else values, shape, dtype)[None]
    if typed(values) or entries is None or len(entries) != n:
        found = array.shape if array is not None else "no group" if entries is None else f"({len(entries)}, ...)"
        raise ValueError(f"records must be {needed}; got shape {found} for n = {n}.")
    return stacked(entries, shape, dtype)


def typed(values: object) -> bool:
    """Return whether values are an array of numbers, of one dtype and one shape, which its caller has made."""
    return isinstance(values, np.ndarray) and values.dtype.kind in "biuf"


def cast(array: Array, dtype: Floats | None) -> Array:
    """Return real numbers in a dtype, by way of float64: each number is converted as if it were alone.

    A finite number beyond float32 becomes the largest one that float32 has.
    """
    if dtype is None or array.dtype == dtype:
        return array
    double = array.astype(FLOAT64, copy=False)
    if dtype == FLOAT64:
        return double
    most = float(np.finfo(dtype).max)
    return np.where(np.isfinite(double), np.clip(double, -most, most), double).astype(dtype)


def in_floats(values: object) -> Array:
    """Return real numbers as float64, or as they are if they are float32; anything else stays."""
    array = np.asarray(values)
    return array if array.dtype == FLOAT32 or array.dtype.kind not in "biuf" else array.astype(FLOAT64, copy=False)


def stacked(entries: Sequence[object], shape: tuple[int, ...], dtype: Floats | None) -> Array:
    """Return each user's part in its row, shape (n, *shape)."""
    return np.array([part(entry, shape, dtype) for entry in entries], dtype or FLOAT64).reshape(-1, *shape)


def real_array(values: object) -> Array | None:
    """Return what numpy reads as real numbers as an array of at most 64 bits, None if it is anything else."""
    try:
        array = np.asarray(values)
    except Exception:  # anything may be inside
        return None
    if array.dtype.kind not in "biuf":
        return None
    if array.dtype.itemsize <= 8:
        return array
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def part(value: object, shape: tuple[int, ...], dtype: Floats | None = None) -> Array:
    """Return one user's part, NaN where it is no number, and throughout if it has another shape.

    A row of another length is NaN throughout, and the other rows stay as they are.
    """
    if not shape:
        return cast(np.array(real(value)), dtype)
    array = real_array(value)
    if array is not None and array.shape == shape:
        return cast(array, dtype or FLOAT64)
    entries = entries_of(value)
    if entries is None or len(entries) != shape[0]:
        return np.full(shape, math.nan, dtype)
    if len(shape) == 1:
        return cast(np.array([real(inner) for inner in entries]), dtype)
    return np.array([part(inner, shape[1:], dtype) for inner in entries], dtype or FLOAT64).reshape(shape)


def real(value: object) -> float:
    """Return a real number in float64, infinity if it is too large, NaN if it is anything else."""
    if type(value) not in (float, int):  # most are
        array = real_array(value)
        if array is not None and array.shape == ():
            return float(array)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, Real | Decimal | np.bool_):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    except Exception:  # a class of the caller's own
        return math.nan


def entries_of(value: object) -> Sequence[object] | None:
    """Return the elements of a list, a tuple or an array, None if it is anything else."""
    if isinstance(value, list | tuple):
        return value
    if not isinstance(value, np.ndarray):
        try:
            value = np.asarray(value)
        except Exception:  # anything may be inside
            return None
    return value if value.ndim else None  # type: ignore[return-value]


def nested(value: object, depth: int) -> bool:
    """Return whether lists, tuples or arrays are nested at least this deeply in one place."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return value.ndim >= depth
    inside = isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)
    return inside and (depth == 1 or any(nested(inner, depth - 1) for inner in value))  # type: ignore[attr-defined]


def may_be_one(entries: Sequence[object], shape: tuple[int, ...]) -> bool:
    """Return whether a list may be one context, if a broken one: of the length of ``shape``, and nested as deeply."""
    return bool(shape) and len(entries) == shape[0] and nested(entries, len(shape))


def existing(actions: Array, action_space: object) -> Array:
    """Return arms as integers, -1 where there is no such arm, and sets as 0/1; NaN counts as absent."""
    if isinstance(action_space, Discrete):
        if actions.dtype == np.int64 and actions.size == 1 and 0 <= actions.item() < action_space.n:
            return actions
        there = (actions >= 0) & (actions < action_space.n)
        if actions.dtype.kind == "f":
            there &= actions == np.floor(np.where(there, actions, 0.0))
        return np.asarray(np.where(there, actions, -1), np.int64)
    if isinstance(action_space, Assortments):
        return np.asarray(np.isfinite(actions) & (actions != 0), np.int8)
    return actions


def usable(features: Array, answers: Array) -> NDArray[np.bool_]:
    """Return which of n records an agent without privacy can learn from: nothing is NaN, infinite or beyond 10^6.

    Args:
        features: shape (n, d), or (n, K, d) for K items each.
        answers: rewards or purchases, shape (n,).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near: Array = np.vecdot(features, features) <= LIMIT**2
        return np.asarray(near.reshape(len(answers), -1).all(axis=1) & (np.abs(answers) <= LIMIT))


def played(contexts: ArrayLike, arms: ArrayLike, dtype: DTypeLike | None = np.float64) -> Array:
    """Return the features of the played arms, shape (n, d); zeros where an arm does not exist.

    Args:
        contexts: shape (n, K, d).
        arms: shape (n,), or one number for n = 1.
        dtype: of the result; None: that of the contexts.
    """
    x, chosen = np.asarray(contexts), np.asarray(arms).reshape(-1)
    if len(x) == 1 and 0 <= (arm := chosen.item()) < x.shape[1] and arm == int(arm):
        return x[:, int(arm)].astype(dtype or x.dtype)  # a user alone costs a third of a group
    exists = (chosen >= 0) & (chosen < x.shape[1]) & (chosen == np.floor(chosen))
    rows = x[np.arange(len(x)), np.where(exists, chosen, 0).astype(np.intp)].astype(dtype or x.dtype, copy=False)
    rows[~exists] = 0
    return rows
