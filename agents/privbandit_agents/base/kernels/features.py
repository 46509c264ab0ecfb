"""Features by public rows: standardized ones, and those with a Gaussian kernel as inner product.

Christopher Williams and Matthias Seeger, "Using the Nystroem Method to Speed Up Kernel Machines", NeurIPS 2000.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from privbandit_agents.base.labels import Floats
from privbandit_agents.base.rows import remembered
from privbandit_agents.base.spaces import Array
from privbandit_agents.privacy.vectors import lengths, modest


@dataclass(frozen=True)
class KernelFeatures:
    """Features with the kernel as inner product, exactly so between the rows at which it is taken.

    Attributes:
        places: those rows, shape (m, d).
        gamma: of exp(-gamma |x - z|^2); 0 stands for the features themselves, standardised.
        root: the inverse root of the kernel between the places, shape (m, m); for gamma = 0: 1 / deviation, (d,).
    """

    places: Floats
    gamma: float
    root: Floats

    @classmethod
    def of(cls, x: Floats, width: float, components: int) -> "KernelFeatures":
        """Return the features for public rows (n, d): of some at even distances, if there are too many."""
        if width == 0 or len(x) == 0:
            deviation = x.std(axis=0) if len(x) else np.ones(x.shape[1])
            mean = x.mean(axis=0, keepdims=True) if len(x) else np.zeros((1, x.shape[1]))
            return cls(mean, 0.0, 1 / np.where(deviation > 1e-3, deviation, 1.0))
        places = x[np.linspace(0, len(x) - 1, min(len(x), components)).astype(int)]
        gamma = width / max(x.shape[1] * x.var(), 1e-3**2)
        values, vectors = np.linalg.eigh(np.exp(-gamma * distances(places, places)))
        return cls(places, gamma, vectors / np.sqrt(np.maximum(values, 1e-9)) @ vectors.T)

    @property
    def dim(self) -> int:
        return int(self.root.shape[-1])

    def __call__(self, x: Floats) -> Floats:
        """Return the features of rows (n, d), shape (n, dim); what is not finite counts as 1/2, the rest is clipped."""
        if self.gamma == 0:
            return (finite(x) - self.places) * self.root
        similar = self.apart(x)
        similar *= -self.gamma
        return np.asarray(np.exp(similar, out=similar) @ self.root)

    def apart(self, x: Floats) -> Floats:
        """Return the squared distances of rows (n, d) from the places, shape (n, m)."""
        return distances(finite(x), self.places, self.squares)

    @cached_property
    def squares(self) -> Floats:
        """Squared lengths of the places, shape (m,)."""
        return np.asarray(np.vecdot(self.places, self.places))


@dataclass(frozen=True)
class PublicFeatures:
    """Standardise by public statistics, clip to [-3, 3], append 1, and, with ``unit``, scale every row to norm 1.

    *Formal guarantees.* A function of public data that is applied to one row at a time. With ``unit`` every row has
    norm 1; else its norm is at most 3 sqrt(d) + 1.

    Attributes:
        mean: shape (d,).
        deviation: shape (d,), > 0.
        unit: whether rows have norm 1.
    """

    mean: Floats
    deviation: Floats
    unit: bool = True

    @classmethod
    def of(cls, x: Array, unit: bool = True) -> Self:
        """Read the statistics off public rows (n, d); without any, those of uniform features."""
        rows = np.asarray(x, np.float64)
        if not len(rows):
            return cls(np.full(rows.shape[1], 0.5), np.full(rows.shape[1], 12**-0.5), unit)
        deviation = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(deviation > 1e-3, deviation, 1.0), unit)  # the rest is only centred

    @property
    def dim(self) -> int:
        return len(self.mean) + 1

    @remembered
    def __call__(self, x: Array) -> Floats:
        """Return the features of rows (n, d), shape (n, d + 1)."""
        rows = np.empty((len(x), self.dim))
        standard = rows[:, :-1]
        rows[:, -1] = 1.0
        np.subtract(x, self.mean, out=standard)
        standard /= self.deviation
        np.minimum(np.maximum(standard, -3.0, out=standard), 3.0, out=standard)
        if self.unit:
            rows /= lengths(rows)
        return rows


def finite(x: Floats) -> Floats:
    """Return rows in which a number that is not finite is 1/2, and others are clipped."""
    return x if modest(x, 1e6) else np.clip(np.nan_to_num(x, nan=0.5, posinf=0.5, neginf=0.5), -1e6, 1e6)


def distances(x: Floats, z: Floats, of_z: Floats | None = None) -> Floats:
    """Return squared distances between rows (n, d) and (m, d), shape (n, m), given squared lengths of the latter."""
    products = x @ z.T
    products *= 2
    squares: Floats = np.vecdot(x, x)[:, None] + (np.vecdot(z, z) if of_z is None else of_z)
    squares -= products
    return np.maximum(squares, 0.0, out=squares)
