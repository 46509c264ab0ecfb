"""Rows, one a user: an array that grows, arrays taken in block by block, and uniforms for each user."""

import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ClassVar, ParamSpec

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import DTypeLike, NDArray

from privbandit_agents.privacy.vectors import modest

Array = NDArray[Any]
P = ParamSpec("P")
ROWS_OF_GRAM = 1024
"""Rows that are kept before they are added to a Gram matrix."""
KEPT_BYTES = 2**24
"""Memory for the records of users that an agent without privacy keeps, at most."""


def keep_pages(numbers: int) -> None:
    """Let arrays of so many float64 that are freed stay with the process, which needs as many for the next user.

    C's allocator gives long arrays back to the system and then gets each page anew, which takes as long as a pass over
    them. It keeps them from the first one on that is freed, up to 32 MiB; this one takes no page.
    """
    if numbers >= 2**13:
        np.empty(2**25 - 2**14, np.uint8)


class Rows:
    """Rows appended at the end; the array behind them doubles when it is full.

    Args:
        shape: of one row.
        dtype: of the entries.
        capacity: rows to make room for at first.
    """

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike | None, capacity: int = 64) -> None:
        self.array = np.zeros((capacity, *shape), dtype)
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def append(self, rows: Array) -> None:
        """Add rows of shape (n, ...)."""
        self.more(len(rows))[:] = rows

    def more(self, n: int) -> Array:
        """Return n rows more, to be filled; zeros, unless rows were cleared."""
        start, end = self.size, self.size + n
        if end > len(self.array):
            grown = np.zeros((max(end, 2 * len(self.array)), *self.array.shape[1:]), self.array.dtype)
            grown[:start] = self.array[:start]
            self.array = grown
        self.size = end
        return self.array[start:end]

    def view(self) -> Array:
        """Return the rows, shape (size, ...); valid until the next append."""
        return self.array[: self.size]

    def clear(self) -> None:
        self.size = 0

    def take(self) -> Array:
        """Return the rows and keep none of them: whatever is raised afterwards, no row is used twice."""
        taken, self.array, self.size = self.view(), np.zeros_like(self.array), 0
        return taken

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the rows without the room behind them."""
        return {"rows": self.view()}, {}

    def restore(self, arrays: dict[str, Array], values: dict[str, Any]) -> None:
        self.clear()
        self.append(arrays["rows"])


class Products:
    """The sums of z z' over the rows z of each group, by one product for every 256 rows.

    The bits are the same however rows are cut into calls.

    Args:
        dim: length d of a row.
        groups: G.
        clean: makes rows (n, d) what is added up, each by itself, when there are 256; None: they are.
    """

    AT_ONCE = 256  # rows that stay in cache
    fixed: ClassVar[frozenset[str]] = frozenset({"clean"})

    def __init__(self, dim: int, groups: int = 1, clean: Callable[[Array], Array] | None = None) -> None:
        self.totals: Array = np.zeros((groups, dim, dim))
        self.open = Rows((dim + 1,), np.float64, self.AT_ONCE)  # the group, and the row
        self.clean = clean

    def add(self, rows: Array, groups: Array | int = 0) -> None:
        """Add rows of shape (n, d), each to its group."""
        start = 0
        while start < len(rows):
            stop = min(start + self.AT_ONCE - len(self.open), len(rows))
            columns = self.open.more(stop - start)
            columns[:, 0] = groups[start:stop] if isinstance(groups, np.ndarray) else groups
            columns[:, 1:] = rows[start:stop]
            if self.clean is not None and not modest(columns, 1e100):  # the state is finite at any time
                bad = ~np.isfinite(columns).all(axis=1)
                # what cleaning makes 0 is 0; the rest is cleaned once, as that of all other rows is
                columns[bad, 1:] = np.where(self.clean(columns[bad, 1:]) == 0, 0.0, columns[bad, 1:])
            if len(self.open) == self.AT_ONCE:
                self._close()
            start = stop

    def take(self) -> Array:
        """Return the sums over all rows since the last time, shape (G, d, d)."""
        self._close()
        taken, self.totals = self.totals, np.zeros_like(self.totals)
        return taken

    def _close(self) -> None:
        taken = self.open.take()
        groups, rows = taken[:, 0], taken[:, 1:] if self.clean is None else self.clean(taken[:, 1:])
        for group in range(len(self.totals)):
            chosen = rows if len(self.totals) == 1 else rows[groups == group]
            if len(chosen):
                self.totals[group] += chosen.T @ chosen


def added(total: Array, parts: Array) -> Array:
    """Return a sum and n more parts, shape (n, ...), added one after the other: bit for bit as in single steps."""
    if len(parts) == 1:
        return np.asarray(total + parts[0])
    stacked = np.concatenate([total[None], parts])
    return np.asarray(np.cumsum(stacked, axis=0)[-1] if total.size == 1 else np.add.reduce(stacked, axis=0))


def blocks(room: Callable[[], int], *columns: Array, most: int = sys.maxsize) -> Iterator[tuple[Array, ...]]:
    """Yield users in blocks, none of which goes beyond the next change: the same rows of each array.

    Args:
        room: how many users are left before something changes, asked anew before every block; 0 if the change was
            interrupted: a block without users then makes up for it.
        *columns: arrays of shape (n, ...), one row a user.
        most: users in a block.
    """
    start, users = 0, len(columns[0])
    while start < users:
        stop = start + min(room(), most)
        yield columns if not start and stop >= users else tuple(column[start:stop] for column in columns)
        start = stop


def remembered(made: Callable[P, Array]) -> Callable[P, Array]:
    """Let a function of rows (..., d) keep its last value for one row: who is answered reports next, on one device.

    The value is part of no agent, of no copy and of no file; it is read-only.

    Args:
        made: a function of rows, or such a method of an object that never changes.
    """
    last: tuple[object, object, bytes, Array] = None, None, b"", np.empty(0)

    @wraps(made)
    def make(*given: P.args, **named: P.kwargs) -> Array:
        nonlocal last
        x, owner = given[-1], given[0] if len(given) > 1 else None
        if not isinstance(x, np.ndarray) or not x.ndim or x.size != x.shape[-1]:
            return made(*given, **named)
        row, (of, dtype, before, value) = x.tobytes(), last
        if of is not owner or dtype != x.dtype or before != row:
            value = made(*given, **named).reshape(-1)
            value.setflags(write=False)
            last = owner, x.dtype, row, value
        return value.reshape(*x.shape[:-1], -1)

    return make


class Uniforms:
    """The uniforms that users have by their index: the same whoever asks, and however often; some are drawn ahead."""

    def __init__(self) -> None:
        self.seed, self.first, self.drawn = -1, 0, np.empty(0)

    def of(self, seed: int, first: int, users: int) -> Array:
        """Return those of users ``first`` and on, shape (users,), of the stream that a seed begins."""
        start = first - self.first
        if seed != self.seed or start < 0 or start + users > len(self.drawn):
            self.seed, self.first, start = seed, first, 0
            self.drawn = Generator(PCG64(seed).advance(first)).random(max(users, 256))
        return self.drawn[start : start + users]


def uniforms_per_user(rng: Generator, context: Array, single_shape: tuple[int, ...], *shape: int) -> Array:
    """Draw uniforms of the given shape for each user in ``context``; the same ones however users are grouped."""
    leading = context.shape[: context.ndim - len(single_shape)]
    return np.asarray(rng.random((*leading, *shape)))
