"""Ties: of several arms with the largest index a user gets each as likely, wherever they stand.

*Formal guarantees.* A user's uniform is that of its number in a stream which a seed fixes, and the seed is drawn before
anybody comes. No record enters either, nor moves another user to another number. So a choice among equal indices is a
function of released or public values, of the user's own context and of independent random numbers: post-processing.
"""

import math
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from privbandit_agents.base.rows import Uniforms

Array = NDArray[Any]
Bools = NDArray[np.bool_]
FLOAT64 = np.dtype(np.float64)
FEW = 8
"""So many values are quicker looked through as a list."""
ROUNDING = 2.0**-40
"""By what share of the largest value others may be less and count as equal; 2^-18 of floats of 32 bits."""
LESS, MORE = 1 - ROUNDING, 1 + ROUNDING


class Ties:
    """What decides between equal indices: a uniform for each user by its number, drawn where one is asked for.

    Args:
        seed: of all users' uniforms.

    Attributes:
        users: who were served.
        present: which arms are there for the users who are served now, shape (..., K); None: all.
    """

    fixed: ClassVar[frozenset[str]] = frozenset({"uniforms", "present"})
    present: Array | None = None

    def __init__(self, seed: int) -> None:
        self.seed, self.users, self.uniforms = seed, 0, Uniforms()

    def of(self, users: int) -> Array:
        """Return the uniforms of the next users, shape (users,)."""
        return self.uniforms.of(self.seed, self.users, users)


class Told(Ties):
    """Uniforms that are given, and whether one was asked for.

    Args:
        uniforms: of the next users, or one number for all.
        present: which arms are there.
    """

    def __init__(self, uniforms: ArrayLike, present: Array | None = None) -> None:
        super().__init__(0)
        self.told, self.asked, self.present = uniforms, False, present

    def of(self, users: int) -> Array:
        self.asked = True
        return np.broadcast_to(self.told, users)


def best(values: Array, ties: Ties) -> Any:
    """Return the present arm of the largest value for one user or for n; of several each is as likely, for each anew.

    Values that differ by rounding are equal: products of matrices round equal rows differently, by their place. NaN is
    never the largest. A user all of whose values are NaN, or minus infinity, gets any arm that is present.

    Args:
        values: shape (..., K).
        ties: of the agent; it says which arms are present.
    """
    present = ties.present
    shown = values if present is None else np.where(present, values, -math.inf)
    if values.ndim == 1:
        least = math.nan
        if shown.dtype is FLOAT64:
            arm = shown.argmax()
            if 1 < shown.size <= FEW:
                others = shown.tolist()
                top = others[arm]
                others.sort()
                second = others[-2]
            else:
                rest = shown.copy()
                top = rest.item(arm)
                rest[arm] = -math.inf
                second = rest.item(rest.argmax())
            least = top * (LESS if top > 0 else MORE)
            if second < least:  # false if one is NaN
                ties.users += 1
                return arm
        equal = np.flatnonzero(shown >= least if least > -math.inf else largest(values, present))
        arm = equal[int(ties.of(1)[0] * len(equal))] if len(equal) > 1 else equal[0]
        ties.users += 1
        return arm
    arms, users = values.shape[-1], values.size // values.shape[-1]
    chosen = shown.argmax(axis=-1)
    rows = shown.reshape(users, arms)
    less = rows < floor(rows[np.arange(users), chosen.ravel()])[:, None]  # nothing is less than NaN
    if np.count_nonzero(less) != users * (arms - 1):
        tied = np.flatnonzero(less.sum(axis=1) < arms - 1)
        here = None if present is None else np.broadcast_to(present, values.shape).reshape(users, arms)[tied]
        several = largest(values.reshape(users, arms)[tied], here)
        nth = np.floor(ties.of(users)[tied] * several.sum(axis=1))[:, None]
        chosen.reshape(users)[tied] = (several.cumsum(axis=1) > nth).argmax(axis=1)
    ties.users += users
    return chosen


def largest(values: Array, present: Array | None = None) -> Bools:
    """Return which arms have the largest value, shape (..., K); all that are present if there is none."""
    top = values.max(axis=-1, keepdims=True)
    if present is None and not np.isnan(top).any():
        return np.asarray(np.greater_equal(values, floor(top), order="C"))  # sums do not depend on how values lie
    here = np.ones(values.shape, bool) if present is None else np.asarray(present, bool)
    there = here & ~np.isnan(values)
    equal = there & (values >= floor(np.where(there, values, -math.inf).max(axis=-1, keepdims=True)))
    return np.asarray(np.where(equal.any(axis=-1, keepdims=True), equal, here))


def floor(top: Array) -> Array:
    """Return from which value on others equal the largest, within rounding."""
    share = 2.0**-18 if top.dtype == np.float32 else ROUNDING
    return np.minimum(top * (1 - share), top * (1 + share))


def one_of(equal: Bools, rng: Generator) -> int:
    """Return one of the arms that are marked, shape (K,), each as likely: for a run of users who share an arm."""
    arms = np.flatnonzero(equal)
    return int(arms[0] if len(arms) == 1 else rng.choice(arms))


def best_in_turn(
    shape: tuple[int, ...], means: Array, served: Array, width: float, known: Bools, ties: Ties
) -> tuple[Array, Array]:
    """Return arms of the largest mean + width / sqrt(n) for users in order, n counting those before; and all n then.

    While some arms have no mean the arm that fewest have got is best.

    Args:
        shape: of the arms: () of one user.
        means: of the arms, shape (K,).
        served: n of each arm, shape (K,), of those who were served before.
        width: of the bonus.
        known: which arms have a mean.
        ties: of the agent.
    """
    chosen, served, present = np.empty(shape, np.intp), served.astype(float), ties.present
    try:
        for user in np.ndindex(shape):
            if present is not None and present.ndim > 1:
                ties.present = present[user]
            index = means + width / np.sqrt(np.maximum(served, 1.0)) if known.all() else -served
            chosen[user] = arm = best(index, ties)
            served[arm] += 1
    finally:
        ties.present = present
    return chosen, served


def redrawn(sets: Array, values: Array, ties: Ties) -> Array:
    """Return sets (n, N) in which items whose value is the least of the set are any of those with that value.

    Args:
        sets: 0/1, of the largest values.
        values: shape (n, N).
        ties: of the agent.
    """
    low = np.where(sets, values, math.inf).min(axis=-1, keepdims=True)
    equal = (values == low) | (np.abs(values - low) <= np.abs(low) - floor(np.abs(low)))
    tied = np.flatnonzero((equal & (sets == 0)).any(axis=-1))
    if len(tied):
        # items in order: each is taken with the share of those still needed, by what is left of the user's uniform
        left, sets = ties.of(len(sets))[tied], sets.copy()
        needed = (sets[tied] * equal[tied]).sum(axis=-1).astype(float)
        open_, chosen = equal[tied].sum(axis=-1).astype(float), sets[tied]
        for item in np.flatnonzero(equal[tied].any(axis=0)):
            here = equal[tied, item]
            share = np.where(here, needed / np.maximum(open_, 1), 0.0)
            taken = left < share
            spread = (left - np.where(taken, 0.0, share)) / np.where(taken, share, 1 - share)
            left = np.where(here, np.clip(spread, 0.0, 1 - 2**-53), left)
            chosen[:, item] = np.where(here, taken, chosen[:, item])
            needed, open_ = needed - taken, open_ - here
        sets[tied] = chosen
    ties.users += len(sets)
    return sets
