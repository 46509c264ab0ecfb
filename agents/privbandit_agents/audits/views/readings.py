"""Readings of a joint agent as numbers, and statistics that separate two worlds."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.audits.claims import Floats
from privbandit_agents.audits.views.reports import Contrast, solved

STATISTICS = (
    *(f"actions and releases: {name}" for name in Contrast.statistics),
    "projection of all releases",
    "likelihood ratio of all releases, as if their noise were Laplace",
)
"""The statistics of each run's readings."""


class Layout(NamedTuple):
    """The order of a reading: first the actions, then ``times`` releases of ``width`` numbers each."""

    actions: int
    times: int
    width: int
    adds: bool = True

    def moves(self, seen: Floats) -> Floats:
        """Return the first release, and how much each later one differs from the one before, shape (n, times * width).

        Noise of releases that add up is drawn anew in every move; those that do not are returned as they are.
        """
        released = seen[:, self.actions :].reshape(len(seen), self.times, self.width)
        return (np.diff(released, axis=1, prepend=0.0) if self.adds else released).reshape(len(seen), -1)

    def hanging(self, zero: Floats, one: Floats) -> float:
        """Return the mean correlation, by size, of each number's noise with the same number's at the next time."""
        if self.times < 2 or not self.width:
            return 0.0
        parts = [self.moves(world).reshape(len(world), self.times, self.width) for world in (zero, one)]
        noise = np.concatenate([part - part.mean(axis=0) for part in parts])
        sizes = np.sqrt((noise**2).mean(axis=0)) + 1e-9
        return float(np.abs((noise[:, 1:] * noise[:, :-1]).mean(axis=0) / (sizes[1:] * sizes[:-1])).mean())


class Readings(NamedTuple):
    """Statistics that two samples of actions and releases suggest.

    Attributes:
        center: of the releases' moves in the middle between the worlds, shape (D,).
        weights: the difference of their means over their covariance (Fisher): best for Gaussian noise.
        far: half of the difference of their means.
        scale: mean absolute deviation of each: the scale, if the noise is Laplace.
        grown: by how much the noise of a number is larger in one of the worlds: logarithm of the ratio, less its error.
    """

    everything: Contrast
    layout: Layout
    center: Floats
    weights: Floats
    far: Floats
    scale: Floats
    grown: float

    @property
    def kept(self) -> NDArray[np.intp]:
        return self.everything.kept

    @property
    def distance(self) -> float:
        """Of the two worlds' releases: of their means, squared, in units of their noise, and of their sizes."""
        return float(2 * self.far @ self.weights + self.grown**2)

    @property
    def loss(self) -> float:
        """Privacy loss by the difference of means if the noise is Laplace, and by that of the sizes in its tails."""
        # noise of another size is worth Laplace noise 7 scales out: one run of a thousand
        return float(np.sum(2 * np.abs(self.far) / self.scale)) + 7.0 * -float(np.expm1(-self.grown))

    @classmethod
    def of(cls, zero: Floats, one: Floats, layout: Layout, brief: bool = False) -> "Readings":
        """Compare samples of the two worlds, shapes (n, D); if it is ``brief`` by distance and loss alone."""
        # releases add up, or do not, as their noise hangs less together from one to the next
        layout = min((layout._replace(adds=adds) for adds in (True, False)), key=lambda way: way.hanging(zero, one))
        moves = [layout.moves(world) for world in (zero, one)]
        means = [world.mean(axis=0) for world in moves]
        noises = [a - b for a, b in zip(moves, means, strict=True)]
        far, scale = (means[0] - means[1]) / 2, np.abs(np.concatenate(noises)).mean(axis=0) + 1e-9
        noise = np.concatenate(noises)
        weights = solved(noise, 2 * far[:, None])[:, 0]
        center = (means[0] + means[1]) / 2
        # worlds that draw the same noise show the ratio of its sizes after few runs
        sizes = [np.abs(part).mean(axis=0) + 1e-9 for part in noises]
        n = min(map(len, noises))
        squares = [np.sqrt((part[:n] ** 2).mean(axis=0)) + 1e-9 for part in noises]
        alike = np.clip((noises[0][:n] * noises[1][:n]).mean(axis=0) / squares[0] / squares[1], -1, 1)
        ratios = np.abs(np.log(sizes[0] / sizes[1])) - 2 * np.sqrt((1 - alike**2) / max(n, 1))
        grown = float(ratios.max(initial=0.0))
        everything = Contrast.of(zero[:1, :0], one[:1, :0]) if brief else Contrast.of(zero, one)
        return cls(everything, layout, center, weights, far, scale, grown)

    def __call__(self, seen: Floats) -> Floats:
        """Return the statistics of views (n, D), shape (n, 7)."""
        layout = self.layout
        apart = layout.moves(seen) - self.center
        ratio = np.clip(apart * np.sign(self.far), -np.abs(self.far), np.abs(self.far)) @ (2 / self.scale)
        return np.column_stack([self.everything(seen), apart @ self.weights, ratio])
