"""Arms that come and go: which arms each user may get, and stand-ins for those that are absent."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from privbandit_envs.validate import fraction, positive, shown

Masks = NDArray[np.bool_]
Available = float | Mapping[int, Sequence[int]]
"""The share of arms that are present, or a calendar: from numbers of users to the arms that are present from then."""


class Presence:
    """The law of masks.

    By a share each arm is present independently of all else; one, drawn uniformly, is present in any case.

    Args:
        available: as ``availability`` returns it.
        n_arms: K.
        rng: of the masks alone, so that users and rewards are those of the world in which every arm is present.
    """

    def __init__(self, available: Available, n_arms: int, rng: Generator) -> None:
        self.available, self.n_arms, self.rng = available, n_arms, rng

    def draw(self, first: int, n: int) -> Masks:
        """Return which arms are present for n users from the number ``first`` on, shape (n, K)."""
        if isinstance(self.available, Mapping):
            masks, starts = np.zeros((n, self.n_arms), np.bool_), [*self.available]
            for user in range(n):
                masks[user, self.available[starts[bisect_right(starts, first + user) - 1]]] = True
            return masks
        keys = self.rng.random((n, self.n_arms))
        return np.asarray((keys < self.available) | (keys == keys.min(axis=1, keepdims=True)))


def availability(available: Available, n_arms: int) -> Available:
    """Return the share of arms that are present, or the calendar in the order of users, or raise ValueError.

    Examples:
        >>> availability(0, 3)
        Traceback (most recent call last):
        ValueError: available must be > 0; got 0.
        >>> availability({"0": [0, 1], "500": [1, 2]}, 3)
        {0: [0, 1], 500: [1, 2]}
        >>> availability({500: [1, 3]}, 3)
        Traceback (most recent call last):
        ValueError: available must say from user 0 on which of the arms 0, ..., 2 are present; got {500: [1, 3]}.
    """
    if not isinstance(available, Mapping):
        return fraction(available=positive(available=available))
    users = [int(user) if str(user).isdecimal() else -1 for user in available]
    lists = [list(arms) if isinstance(arms, Sequence | np.ndarray) else [] for arms in available.values()]
    exist = all(arms and all(arm in range(n_arms) for arm in arms) for arms in lists)
    if len({*users}) < len(users) or min(users, default=-1) != 0 or not exist:
        needed = f"say from user 0 on which of the arms 0, ..., {n_arms - 1} are present"
        raise ValueError(f"available must {needed}; got {shown(dict(available))}.")
    return dict(sorted((user, [int(arm) for arm in arms]) for user, arms in zip(users, lists, strict=True)))


def refuse_absent(masks: Masks, actions: ArrayLike) -> None:
    """Raise ValueError if an action is an arm that is absent; masks (n, K), actions (n,) that are arms."""
    chosen = np.atleast_1d(actions)
    present = masks[np.arange(len(chosen)), chosen]
    if not present.all():
        at = int(np.flatnonzero(~present)[0])
        there = shown(np.flatnonzero(masks[at]).tolist())
        raise ValueError(f"action must be an arm that info['action_mask'] marks as present: {there}; got {chosen[at]}.")


def masks_of(given: ArrayLike, shape: tuple[int, ...], name: str = "action_mask") -> Masks:
    """Return masks as booleans, or raise ValueError: they have another shape or other numbers, or allow nothing.

    Examples:
        >>> masks_of([0, 0, 0], (3,))
        Traceback (most recent call last):
        ValueError: action_mask must be 0 or 1 for every arm, shape (3,), with a 1 for every user; got [0, 0, 0].
    """
    try:
        array = np.asarray(given)
        masks: Masks = array.astype(bool)
        fits = array.shape == shape and bool((masks == array).all() and masks.any(axis=-1).all())
    except (TypeError, ValueError):
        fits = False
    if not fits:
        needed = f"0 or 1 for every arm, shape {shape}, with a 1 for every user"
        raise ValueError(f"{name} must be {needed}; got {shown(given)}.")
    return masks


def uniform_over(masks: Masks) -> NDArray[np.float64]:
    """Return the probability of every arm if one that is present is drawn uniformly; masks (..., K).

    Examples:
        >>> uniform_over(np.array([True, False, True, True, True])).tolist()
        [0.25, 0.0, 0.25, 0.25, 0.25]
    """
    return np.asarray(masks / masks.sum(axis=-1, keepdims=True))


def stand_ins(masks: NDArray[Any]) -> NDArray[np.intp]:
    """Return an arm that is present for each arm, itself where it is; masks (..., K) with an arm in each.

    Absent arms share the present ones out in turn.

    Examples:
        >>> stand_ins(np.array([True, False, True, False, False]))
        array([0, 0, 2, 2, 0])
    """
    here = np.asarray(masks, dtype=bool)
    first_present = np.argsort(~here, axis=-1, kind="stable")
    turn = (np.cumsum(~here, axis=-1) - 1) % here.sum(axis=-1, keepdims=True)
    return np.where(here, np.arange(here.shape[-1]), np.take_along_axis(first_present, turn, axis=-1))
