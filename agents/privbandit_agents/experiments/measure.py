"""Measures: numbers that a statement bounds, each a function of means over seeds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.random import Generator
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, model_validator

from privbandit_agents.experiments.cells import Cell, check_setting, one, placed, select, wanted_text
from privbandit_agents.experiments.measured import Quantity, Reading, Table, reading_of
from privbandit_agents.experiments.statistics import (
    FEWEST,
    Floats,
    Interval,
    common_seeds,
    expanded,
    percentile_interval,
    seed_weights,
)
from privbandit_envs.validate import number
from privbandit_envs.wrappers import even_checkpoints

POINTS = 50
"""Numbers of users that a slope is fitted to."""
START = 0.1
"""A slope against users starts at this fraction of the horizon."""

Axes = Literal["log", "semilog", "linear"]
"""``log``: log y against log x; ``semilog``: y against log x; ``linear``: y against x."""


def users_or_fraction(value: Any) -> float:
    """Return a number of users, or a fraction of the horizon (a number with a decimal point)."""
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not (whole or (isinstance(value, float) and 0 < value <= 1)):
        raise ValueError(f"must be users, an integer >= 1, or a fraction of the horizon in (0, 1]; got {value!r}")
    return float(value) if isinstance(value, float) else value


def real(value: Any) -> float:
    """Return a finite number."""
    return number(value=value)


Users = Annotated[float, PlainValidator(users_or_fraction)]
Real = Annotated[float, PlainValidator(real)]


class Selection(BaseModel):
    """A cell: ``agent``, ``env``, ``horizon``, ``agent.KEY`` and ``env.KEY``; when it is read, and what.

    Attributes:
        at: users, or a fraction of the horizon; default: the horizon.
        y: the quantity.
    """

    model_config = ConfigDict(extra="allow")
    at: Users = 1.0
    y: Quantity = "regret"

    @property
    def settings(self) -> dict[str, Any]:
        """What the cell must have."""
        return self.model_extra or {}


class Slope(BaseModel):
    """A least-squares slope along the users of one cell, or along the cells that differ in one setting.

    Attributes:
        of: one cell, or all those of a line.
        against: ``users``, ``horizon``, ``env.KEY`` or ``agent.KEY``.
        start: ``from`` in a file; users or a fraction of the horizon (default: a tenth), or a value of the setting.
        end: ``to`` in a file; default: the last.
        axes: which axes are logarithmic.
    """

    model_config = ConfigDict(extra="forbid")
    of: Selection
    against: str = "users"
    start: Annotated[Real | None, Field(alias="from")] = None
    end: Annotated[Real | None, Field(alias="to")] = None
    axes: Axes = "log"


Pair = Annotated[list[Selection], Field(min_length=2, max_length=2)]


class OneOf(BaseModel):
    """Just one of the fields is given."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            known = ", ".join(type(self).model_fields)
            raise ValueError(f"needs one of {known}; got {' and '.join(given) or 'none'}")
        return self


class Measure(OneOf):
    """One of: the mean of a cell, the ratio or the difference of two, a slope."""

    mean: Selection | None = None
    ratio: Pair | None = None
    difference: Pair | None = None
    slope: Slope | None = None


@dataclass(frozen=True)
class Resolved:
    """A measure whose cells are found.

    Attributes:
        points: readings, and the users after which each is read.
        combine: from the means of all points, shape (draws, points), to the measure, shape (draws,).
    """

    points: Sequence[tuple[Reading, Floats]]
    combine: Callable[[Floats], Floats]


def resolve(measure: Measure, cells: Sequence[Cell]) -> Resolved:
    """Find the cells of a measure.

    Raises:
        ValueError: a selection matches none or several, or they share no seed.
    """
    if measure.slope is not None:
        resolved = resolve_slope(measure.slope, cells)
    elif measure.mean is not None:
        resolved = Resolved([point_of(measure.mean, cells)], lambda means: means[:, 0])
    elif measure.ratio is not None:
        points = [point_of(selection, cells) for selection in measure.ratio]
        resolved = Resolved(points, lambda means: means[:, 0] / means[:, 1])
    else:
        points = [point_of(selection, cells) for selection in measure.difference or []]
        resolved = Resolved(points, lambda means: means[:, 0] - means[:, 1])
    check_seeds(resolved)
    return resolved


def check_seeds(resolved: Resolved) -> None:
    """Raise if the cells of a measure will share no seed."""
    seeds = [cell.seeds for reading, _ in resolved.points for cell in (reading.cell, reading.uniform) if cell]
    if not len(common_seeds(*seeds)):
        raise ValueError("the trials compared must have a seed in common; give their parts the same seeds.")


def point_of(selection: Selection, cells: Sequence[Cell]) -> tuple[Reading, Floats]:
    """Return the reading of one cell, and when it is read."""
    cell = one(cells, selection.settings)
    return reading_of(cell, selection.y, cells), np.array([checked_users(selection.at, cell)])


def users_of(at: float, cell: Cell) -> float:
    """Return users within a cell's horizon."""
    horizon = cell.trial.horizon
    users = float(at * horizon if isinstance(users_or_fraction(at), float) else at)
    if users > horizon:
        raise ValueError(f"must be at most the horizon {horizon}; got {users:g}, say a fraction such as 0.5 instead.")
    return users


def checked_users(at: float, cell: Cell) -> float:
    """Return users between a cell's first checkpoint and its horizon."""
    users, first = users_of(at, cell), int(even_checkpoints(cell.trial.horizon, cell.trial.checkpoints)[0])
    if users < first:
        raise ValueError(f"must be at least the first checkpoint, {first} users; got {users:g}.")
    return users


def resolve_slope(slope: Slope, cells: Sequence[Cell]) -> Resolved:
    """Find the points of a slope."""
    along = slope_along_users if slope.against == "users" else slope_along_setting
    points, x = along(slope, cells)
    if len(x) < 2:
        raise ValueError(f"a slope needs two points; {wanted_text(slope.of.settings)} has {len(x)} in its range.")
    return Resolved(points, partial(fitted_slope, x, axes=slope.axes))


def slope_along_users(slope: Slope, cells: Sequence[Cell]) -> tuple[list[tuple[Reading, Floats]], Floats]:
    """Return one cell, read at evenly spaced users of the axis."""
    cell = one(cells, slope.of.settings)
    start = users_of(START if slope.start is None else slope.start, cell)
    end = users_of(1.0 if slope.end is None else slope.end, cell)
    first = cell.trial.horizon / cell.trial.checkpoints
    if not first <= start < end:
        raise ValueError(f"from must be at least the first checkpoint, {first:g} users, and below to; got {start:g}.")
    users = np.linspace(start, end, POINTS) if slope.axes == "linear" else np.geomspace(start, end, POINTS)
    return [(reading_of(cell, slope.of.y, cells), users)], users


def slope_along_setting(slope: Slope, cells: Sequence[Cell]) -> tuple[list[tuple[Reading, Floats]], Floats]:
    """Return the cells of a line, one for each value of a setting."""
    start = -math.inf if slope.start is None else slope.start
    end = math.inf if slope.end is None else slope.end
    line = {x: cell for x, cell in line_of(slope.of.settings, slope.against, cells).items() if start <= x <= end}
    points = [
        (reading_of(cell, slope.of.y, cells), np.array([checked_users(slope.of.at, cell)])) for cell in line.values()
    ]
    return points, np.array(list(line))


def line_of(settings: dict[str, Any], axis: str, cells: Sequence[Cell]) -> dict[float, Cell]:
    """Return the selected cells by increasing value of a setting; each value must select one."""
    check_setting(axis, cells)
    found = [cell for cell in select(cells, settings) if axis in cell.settings]
    with placed(axis):
        values = sorted({real(cell.settings[axis]) for cell in found})
    return {value: one(found, {**settings, axis: value}) for value in values}


def fitted_slope(x: Floats, y: Floats, axes: Axes) -> Floats:
    """Return the least-squares slopes of rows of y, shape (draws, points), against x, shape (points,)."""
    x = np.asarray(x, dtype=np.float64) if axes == "linear" else np.log(x)
    centred = x - x.mean()
    return np.asarray((np.log(y) if axes == "log" else y) @ centred / (centred @ centred))


def estimate(resolved: Resolved, table: Table, rng: Generator, confidence: float = 0.95) -> Interval:
    """Return a measure and its bootstrap interval over the seeds that all its cells have.

    One bootstrap of the seeds goes through all cells, so comparisons are paired; its percentiles are those at which a
    mean gets Student's interval (``expanded``).

    Returns:
        NaN where there is none: no ends below ``FEWEST`` seeds, no value without seeds.
    """
    seeds = common_seeds(*(reading.seeds(table) for reading, _ in resolved.points))
    if not len(seeds):
        return Interval(math.nan)
    read = [reading.at(users, seeds, table) for reading, users in resolved.points]
    above, below = (np.concatenate(part, axis=1) for part in zip(*read, strict=True))
    with np.errstate(all="ignore"):
        value = float(resolved.combine((above.mean(axis=0) / below.mean(axis=0))[None])[0])
        if len(seeds) < FEWEST:
            return Interval(value)
        weights = seed_weights(len(seeds), rng)
        drawn = resolved.combine((weights @ above) / (weights @ below))
        return percentile_interval(value, drawn, expanded(confidence, len(seeds)))
