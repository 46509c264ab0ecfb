"""A data set for classification, as every loader returns it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows of numbers with one label each; the arrays are read-only, because data sets are shared.

    Attributes:
        X: features, shape (n, d), finite, in single or double precision.
        y: labels 0, ..., K - 1, shape (n,).
        label_names: names of the labels, K of them.
        feature_names: names of the columns, d of them.
        public: rows that the data set's own rule makes public, shape (n,); None: there is no such rule.
        scaled: whether features lie in [0, 1] by bounds of a schema, so that no rows are needed to scale them.
    """

    X: NDArray[np.floating[Any]]
    y: NDArray[np.int64]
    label_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    public: NDArray[np.bool_] | None = None
    scaled: bool = False

    def __post_init__(self) -> None:
        if self.X.shape != (len(self.y), len(self.feature_names)) or not self.feature_names:
            raise ValueError(f"X must have one row a label and one column a feature; got shape {self.X.shape}.")
        if not all(np.isfinite(self.X[rows]).all() for rows in row_blocks(len(self.y))):
            raise ValueError("X must be finite; fill in or leave out missing values.")
        if len(self.label_names) < 2:
            raise ValueError(f"a data set needs at least two different labels; got {list(self.label_names)}.")
        self.X.flags.writeable = self.y.flags.writeable = False
        if self.public is not None:
            if self.public.shape != self.y.shape or self.public.all() or not self.public.any():
                raise ValueError("public must be true or false for every row, and leave rows of both kinds.")
            self.public.flags.writeable = False

    def __deepcopy__(self, memo: object) -> "Dataset":
        return self  # nothing in it can change

    @cached_property
    def different(self) -> NDArray[np.intp]:
        """The first of every set of rows with equal features and label, in order, shape (m,)."""
        keys = [keys_of(self.X[rows], self.y[rows]) for rows in row_blocks(len(self.y))]
        return np.sort(np.unique(np.concatenate(keys), return_index=True)[1])

    @cached_property
    def deduplicated(self) -> "Dataset":
        """The different rows alone."""
        rows = self.different
        public = None if self.public is None else self.public[rows]
        return Dataset(self.X[rows], self.y[rows], self.label_names, self.feature_names, public, self.scaled)


def row_blocks(n: int) -> Iterator[slice]:
    """Yield the rows of large data in blocks, so that intermediate arrays stay small."""
    most = 2**16  # rows that are checked at once
    return (slice(first, min(first + most, n)) for first in range(0, n, most))


def keys_of(X: NDArray[np.floating[Any]], y: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number for every row, the same for rows with equal features and label, shape (n,)."""
    table = np.column_stack([X, y]).astype(np.float64) + 0.0  # -0 is 0
    rows = table.view(np.dtype((np.void, table.itemsize * table.shape[1]))).ravel()
    return np.fromiter(map(hash, rows.tolist()), np.int64, len(rows))


def encode(labels: Iterable[object]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Number labels of any type 0, ..., K - 1 in sorted order; numbers sort as numbers.

    Returns:
        (codes, names): the code of every label, and the name of every code.

    Examples:
        >>> encode([10, 9.5, 10])
        (array([1, 0, 1]), ('9.5', '10'))
    """
    names = [str(label) for label in labels]
    known = in_order(set(names))
    code = {name: number for number, name in enumerate(known)}
    return np.array([code[name] for name in names], dtype=np.int64), tuple(known)


def in_order(names: Iterable[str]) -> list[str]:
    """Return names sorted, as numbers if they all are."""
    known = sorted(names)
    try:
        return sorted(known, key=float)
    except ValueError:
        return known
