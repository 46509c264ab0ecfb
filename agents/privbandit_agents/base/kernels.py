"""Features with a Gaussian kernel as inner product, from public rows.

Christopher Williams and Matthias Seeger, "Using the Nystroem Method to Speed Up Kernel Machines", NeurIPS 2000.
"""

from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.labels import Floats


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
        """Return the features of rows (n, d), shape (n, dim); NaN and infinity count as 1/2, the rest is clipped."""
        x = np.clip(np.nan_to_num(x, nan=0.5, posinf=0.5, neginf=0.5), -1e6, 1e6)
        if self.gamma == 0:
            return (x - self.places) * self.root
        similar: Floats = np.exp(-self.gamma * distances(x, self.places)) @ self.root
        return similar


def distances(x: Floats, z: Floats) -> Floats:
    """Return squared distances between rows (n, d) and (m, d), shape (n, m)."""
    squares: Floats = np.vecdot(x, x)[:, None] + np.vecdot(z, z)[None] - 2 * (x @ z.T)
    np.maximum(squares, 0.0, out=squares)
    return squares
