"""Worlds of rows at rest: private rows, public rows and a test set for every replication."""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Self

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from privbandit_agents.experiments.fields import Model, Positive
from privbandit_envs.datasets import Dataset, load
from privbandit_envs.families.classification import SYNTHETIC, eta

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


class World(Model):
    """Where rows come from.

    ``lpct-synthetic``: the pair of laws of ``ClassificationProblem``; private and test rows are drawn from P, public
    rows from Q. A data set: 20 % of its private rows are the test set, the others report; public rows are drawn at
    random, or among those that the data set makes public.

    In a replication all worlds of a source share their draws: more rows are the same rows and some more, and another
    gamma changes the public labels alone. So comparisons of worlds are paired.

    Attributes:
        source: ``lpct-synthetic``, or a data set that ``privbandit_envs.datasets.load`` knows.
        n_public: number of public rows; default: all that the data set makes public.
        n_private: number of private rows without the test set; default: 10 000 synthetic ones, all of a data set.
        n_test: number of synthetic test rows.
        gamma: relative signal of the synthetic public rows, > 0.
        deduplicate: whether a data set keeps one of every set of equal rows.
        stretch: (low, high): all features are multiplied by one a, uniform in between, drawn once a replication.
    """

    source: str = SYNTHETIC
    n_public: Positive | None = None
    n_private: Positive | None = None
    n_test: Positive | None = None
    gamma: Annotated[float, Field(gt=0)] | None = None
    stretch: tuple[float, float] | None = None
    deduplicate: bool | None = None

    @field_validator("stretch")
    @classmethod
    def _increasing(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not 0 < value[0] <= value[1]:
            raise ValueError(f"must be [low, high] with 0 < low <= high; got {list(value)}")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.source == SYNTHETIC:
            for key, value in {"n_public": 50, "n_private": 10_000, "n_test": 5_000, "gamma": 0.5}.items():
                if getattr(self, key) is None:
                    setattr(self, key, value)
        elif given := [key for key in ("n_test", "gamma", "stretch") if getattr(self, key) is not None]:
            raise ValueError(f"{given[0]} is for {SYNTHETIC}; the data set {self.source} has no such setting")
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """The settings given or filled in, as JSON values."""
        return self.model_dump(mode="json", exclude_none=True)


@dataclass(frozen=True)
class Sample:
    """The rows of one replication.

    Attributes:
        private: X (n, d) and y (n,) of those who report.
        public: X and y of the public rows.
        test: X and y of the test set.
        n_labels: K; labels are 0, ..., K - 1.
    """

    private: tuple[Floats, Labels]
    public: tuple[Floats, Labels]
    test: tuple[Floats, Labels]
    n_labels: int


def draw(world: World, replication: int, shrink: int = 1) -> Sample:
    """Return the rows of a replication.

    Args:
        world: where they come from.
        replication: its number, the seed.
        shrink: private and test rows are divided by it.

    Raises:
        ValueError: more rows asked for than the data set has, or no number of public rows.
        FileNotFoundError: the data set is not on this machine.
    """
    if world.source == SYNTHETIC:
        return synthetic(world, replication, shrink)
    return split(load(world.source, deduplicate=bool(world.deduplicate)), world, replication, shrink)


def generator(replication: int) -> np.random.Generator:
    """Return the generator of a replication's rows, apart from any other of the same seed."""
    return default_rng([68001, replication])


def synthetic(world: World, replication: int, shrink: int) -> Sample:
    assert world.n_private and world.n_public and world.n_test and world.gamma
    private, public, test, scale = generator(replication).spawn(4)
    a = 1.0 if world.stretch is None else scale.uniform(*world.stretch)

    def rows(n: int, gamma: float, rng: np.random.Generator) -> tuple[Floats, Labels]:
        draws = rng.random((n, 3))
        x = draws[:, :2]
        return a * x, (draws[:, 2] < eta(x, gamma)).astype(np.int64)

    return Sample(
        rows(shrunk(world.n_private, shrink), 1.0, private),
        rows(world.n_public, world.gamma, public),
        rows(shrunk(world.n_test, shrink), 1.0, test),
        2,
    )


@cache
def best_accuracy(points: int = 1000) -> float:
    """Return the accuracy of the best classifier of the synthetic private rows, 0.786, by the midpoint rule."""
    grid = (np.arange(points) + 0.5) / points
    chances = eta(np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2))
    return float(np.maximum(chances, 1 - chances).mean())


def split(data: Dataset, world: World, replication: int, shrink: int) -> Sample:
    order = generator(replication).permutation(len(data.y))
    mask = getattr(data, "public", None)
    may = order if mask is None else order[mask[order]]
    public = may[: public_rows(world, len(may), mask is not None)]
    private = order[len(public) :] if mask is None else order[~mask[order]]
    cut = int(0.8 * len(private))  # the others are the test set
    learn, test = private[:cut], private[cut:]
    if world.n_private is not None:
        if world.n_private > cut:
            raise ValueError(f"n_private must be at most {cut} for {world.source}; got {world.n_private}.")
        learn = learn[: world.n_private]
    learn, test = learn[: shrunk(len(learn), shrink)], test[: shrunk(len(test), shrink)]

    def rows(chosen: Labels) -> tuple[Any, Labels]:
        return data.X[chosen], data.y[chosen]

    return Sample(rows(learn), rows(public), rows(test), len(data.label_names))


def public_rows(world: World, available: int, ruled: bool) -> int:
    """Return how many public rows there are: as asked, or all that the data set's rule makes public.

    Without a rule at least one row stays private.
    """
    if world.n_public is None and not ruled:
        raise ValueError(f"n_public must be given for {world.source}, which has no public rows of its own.")
    most = available if ruled else available - 1
    asked = available if world.n_public is None else world.n_public
    if asked > most:
        raise ValueError(f"n_public must be at most {most} for {world.source}; got {asked}.")
    return asked


def shrunk(n: int, divisor: int) -> int:
    """Return a fraction of n, but not less than 50 rows or all there are."""
    return min(n, max(50, n // divisor))
