"""What users send, as arrays: whatever is no number becomes NaN, user by user, and no error shows a value."""

import math
import warnings
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from privbandit_envs.spaces import Assortments

Array = NDArray[Any]
FARTHEST = 1e6
"""Agents without privacy, which have no bounds of their own, ignore features and rewards beyond this length."""


class IgnoredRecord(UserWarning):
    """An agent without privacy has ignored a record: it had NaN, infinity, or a length above 10^6."""


def warn_of_ignored() -> None:
    """Warn that a record is ignored; a private agent never does, since a warning tells of the record."""
    text = "a record with NaN, infinity or a length above 1e6 counts as nothing; scale the features and rewards."
    warnings.warn(text, IgnoredRecord, stacklevel=4)


class Records(NamedTuple):
    """The records of n users.

    Attributes:
        contexts: real numbers, shape (n, ...).
        actions: arms, -1 where there is no such arm, shape (n,); or 0/1 sets, shape (n, N).
        feedback: real numbers, shape (n,).
    """

    contexts: Array
    actions: Array
    feedback: Array


def numbers(values: object, shape: tuple[int, ...] = ()) -> Array:
    """Return one user's part of a record, or many users', as real numbers of at most 64 bits, shape (..., *shape).

    An array of real numbers is returned as it is, whatever its shape. In anything else, text, None, complex numbers and
    other objects become NaN, and numbers that are too large become infinity. Each user's part is looked at alone: one
    that has not the right shape is NaN throughout, and the others stay what they are.

    Args:
        values: of one user, nested as deeply as ``shape`` is long, or of many, nested one deeper.
        shape: of one user's part.
    """
    array = real_array(values)
    if array is not None:
        return array
    if nested(values, len(shape) + 1):
        return np.array([part(value, shape) for value in values]).reshape(-1, *shape)  # type: ignore[attr-defined]
    return part(values, shape)


def real_array(values: object) -> Array | None:
    """Return what numpy reads as real numbers as an array, None if it is anything else."""
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


def part(value: object, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return one user's part in float64, NaN where it is no number, and throughout if it has another shape."""
    array = real_array(value)
    if array is not None and array.shape == shape:
        return array.astype(np.float64)
    if not shape:
        return np.array(real(value))
    if not nested(value, 1) or len(value) != shape[0]:  # type: ignore[arg-type]
        return np.full(shape, math.nan)
    return np.stack([part(inner, shape[1:]) for inner in value]) if shape[0] else np.zeros(shape)  # type: ignore[attr-defined]


def real(value: object) -> float:
    """Return a real number in float64, infinity if it is too large, NaN if it is anything else."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, Real | Decimal | np.bool_):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except Exception:  # a class of the caller's own
        return math.nan


def nested(value: object, depth: int) -> bool:
    """Return whether lists, tuples or arrays are nested at least so deeply."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return value.ndim >= depth
    inside = isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)
    return inside and (depth == 1 or any(nested(inner, depth - 1) for inner in value))  # type: ignore[attr-defined]


def contexts_of(context: object, shape: tuple[int, ...]) -> Array:
    """Return the context of one user or of many as numbers, shape ``shape`` or (n, *shape).

    Raises:
        ValueError: it has another shape.
    """
    contexts = numbers(context, shape)
    if contexts.shape != shape and contexts.shape[1:] != shape:
        raise ValueError(f"contexts must have the shape {shape}, or (n, ...) for n users; got {contexts.shape}.")
    return contexts


def records_of(
    context: object, action: object, feedback: object, shape: tuple[int, ...], action_space: object
) -> Records:
    """Return the records of one user or of many, or raise before any is taken in.

    A group that is refused half-way and sent again would count its first users twice.

    Args:
        context: of shape ``shape``, or (n, *shape) for n users.
        action: of one user or of n.
        feedback: of one user or of n.
        shape: of one user's context.
        action_space: of one user.

    Raises:
        ValueError: there are not as many contexts, actions and feedback. The message shows shapes alone.
    """
    single = (action_space.n_items,) if isinstance(action_space, Assortments) else ()
    contexts, actions, answers = numbers(context, shape), numbers(action, single), numbers(feedback)
    contexts = contexts[None] if contexts.shape == shape else contexts
    actions = actions[None] if actions.shape == single else actions
    answers = answers[None] if answers.ndim == 0 else answers
    n, shapes = len(answers), (contexts.shape, actions.shape, answers.shape)
    if shapes != ((n, *shape), (n, *single), (n,)):
        expected = f"n contexts of shape {shape}, n actions of shape {single}, n numbers of feedback"
        raise ValueError(f"records must be {expected}; got shapes {shapes}.")
    return Records(contexts, existing(actions, action_space), answers)


def existing(actions: Array, action_space: object) -> Array:
    """Return arms as integers, -1 where there is no such arm, and sets as 0/1; what is NaN is not there."""
    if isinstance(action_space, Discrete):
        if actions.dtype.kind in "iu" and actions.size == 1 and 0 <= actions.item() < action_space.n:
            return actions
        there = (actions >= 0) & (actions < action_space.n)
        if actions.dtype.kind == "f":
            there &= actions == np.floor(np.where(there, actions, 0.0))
        return np.asarray(np.where(there, actions, -1), np.int64)
    if isinstance(action_space, Assortments) and actions.dtype.kind == "f":
        return np.asarray(np.isfinite(actions) & (actions != 0), np.int8)
    return actions


def usable(features: Array, answers: Array) -> NDArray[np.bool_]:
    """Return which of n records an agent without privacy can learn from: nothing is NaN, infinite or beyond 10^6.

    Args:
        features: shape (n, d), or (n, K, d) for K items each.
        answers: rewards or purchases, shape (n,).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near: Array = np.vecdot(features, features) <= FARTHEST**2
        return np.asarray(near.reshape(len(answers), -1).all(axis=1) & (np.abs(answers) <= FARTHEST))
