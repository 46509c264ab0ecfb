"""What every loader returns."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows of numbers with a label each; the arrays are read-only, since data sets are shared.

    Attributes:
        X: features, shape (n, d), finite.
        y: labels 0, ..., K - 1, shape (n,).
        label_names: what the labels stand for, K names.
        feature_names: of the columns, d names.
    """

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    label_names: tuple[str, ...]
    feature_names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check that there is something to classify."""
        if self.X.shape != (len(self.y), len(self.feature_names)) or not self.feature_names:
            raise ValueError(f"X must have one row a label and one column a feature; got shape {self.X.shape}.")
        if not np.isfinite(self.X).all():
            raise ValueError("X must be finite; fill in or leave out what is missing.")
        if len(self.label_names) < 2:
            raise ValueError(f"a data set needs at least two different labels; got {list(self.label_names)}.")
        self.X.flags.writeable = self.y.flags.writeable = False


def encode(labels: Iterable[object]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Number labels of any type 0, ..., K - 1 in sorted order; numbers sort as numbers.

    Returns:
        (codes, names): the code of every label, and the name of every code.
    """
    names = [str(label) for label in labels]
    known = sorted(set(names))
    try:
        known.sort(key=float)
    except ValueError:
        pass
    code = {name: number for number, name in enumerate(known)}
    return np.array([code[name] for name in names], dtype=np.int64), tuple(known)
