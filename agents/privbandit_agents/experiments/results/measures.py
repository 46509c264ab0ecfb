"""Measures: numbers that a statement bounds, each a function of means over replications."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from privbandit_agents.experiments.fields import as_list, real
from privbandit_agents.experiments.names import bare
from privbandit_agents.experiments.results import statistics
from privbandit_agents.experiments.results.cells import Cells, wanted_text
from privbandit_agents.experiments.results.readings import Reading, Results, curve, line_along, reading, users_of
from privbandit_agents.experiments.results.statistics import Floats, Interval, common_seeds
from privbandit_agents.experiments.schema.measures import Axes, Lead, Measure, OverBest, Selection, Slope, Steps
from privbandit_agents.experiments.usage import placed

Combine = Callable[[Floats], Floats]
"""From the means at all places of all readings, shape (draws, places), to the measure, shape (draws,)."""


@dataclass(frozen=True)
class Resolved:
    """A measure whose cells are found: the reading, its average, and the function from the average to the measure."""

    readings: Sequence[Reading]
    combine: Combine
    average: str = "mean"


def resolve(measure: Measure, cells: Cells) -> Resolved:
    """Find the cells of a measure.

    Raises:
        ValueError: a selection matches none or several, they share no seed, or a line has one point.
    """
    (kind,) = measure.given
    resolved = RESOLVERS[kind](getattr(measure, kind), cells)
    if resolved.average != WORST_SEED:
        resolved = replace(resolved, average=measure.average)
    elif measure.average != "mean":
        raise ValueError("the worst seed is taken over the mean of all; leave average out.")
    if not len(common_seeds(*(reading.replications for reading in resolved.readings))):
        raise ValueError("the trials compared must have a seed in common; give their parts the same seeds.")
    return resolved


def resolve_cells(selections: Selection | list[Selection], cells: Cells, combine: Combine) -> Resolved:
    return Resolved([reading(cells.one(each.settings), each, cells) for each in as_list(selections)], combine)


def resolve_share(selection: Selection, cells: Cells) -> Resolved:
    """Find a cell, and the cell of ``uniform`` beside it."""
    if selection.y not in (None, "ratio"):
        raise ValueError(f"a share is of regret; got y: {selection.y}.")
    return resolve_cells(selection.model_copy(update={"y": "ratio"}), cells, lambda means: means[:, 0])


def resolve_worst(steps: Steps, cells: Cells) -> Resolved:
    if steps.along == "seeds":
        return replace(resolve_cells(steps.of, cells, lambda means: means[:, 0]), average=WORST_SEED)
    line = line_along(steps.of, steps.along, cells)
    return Resolved(list(line.values()), lambda means: means.max(axis=1))


def resolve_over_best(asked: OverBest, cells: Cells) -> Resolved:
    """Find a cell and those beside it; the known numbers among the others stay as they are in every draw."""
    beside = [other for other in asked.over if isinstance(other, Selection)]
    known = min((other for other in asked.over if not isinstance(other, Selection)), default=math.inf)

    def over_least(means: Floats) -> Floats:
        return np.asarray(means[:, 0] / np.minimum(means[:, 1:].min(axis=1), known))

    return resolve_cells([asked.of, *beside], cells, over_least)


def resolve_slope(slope: Slope, cells: Cells) -> Resolved:
    if slope.against == "users":
        readings, x = slope_along_users(slope, cells)
    else:
        start = -math.inf if slope.start is None else slope.start
        end = math.inf if slope.end is None else slope.end
        line = {x: many for x, many in worlds_along(slope, cells).items() if start <= x <= end}
        readings, x = [one for many in line.values() for one in many], np.array(list(line))
    if len(x) < 2:
        raise ValueError(f"a slope needs two points; {wanted_text(slope.of.settings)} has {len(x)} in its range.")

    def fitted(means: Floats) -> Floats:
        return fitted_slope(x, means.reshape(len(means), len(x), -1).max(axis=2), slope.axes)

    return Resolved(readings, fitted)


def worlds_along(slope: Slope, cells: Cells) -> Mapping[float, list[Reading]]:
    """Return the readings at each place of a slope's line: one, or several, the largest of them counting.

    Raises:
        ValueError: a place lacks a world that another one has.
    """
    if slope.worst_along is None:
        return {x: [one] for x, one in numbered(slope.of, slope.against, cells).items()}
    found: dict[float, list[Reading]] = {}
    for value in line_values(slope.of, slope.worst_along, cells):
        of = slope.of.model_copy(update={slope.worst_along: value})
        for x, one in numbered(of, slope.against, cells).items():
            found.setdefault(x, []).append(one)
    if len({len(many) for many in found.values()}) > 1:
        raise ValueError(f"every {slope.against} must have the same values of {slope.worst_along}.")
    return dict(sorted(found.items()))


def line_values(of: Selection, key: str, cells: Cells) -> list[Any]:
    """Return the values of a setting among the cells of a selection, increasing."""
    values = {
        bare(cell.settings[key]): cell.settings[key] for cell in cells.select(of.settings) if key in cell.settings
    }
    if not values:
        raise ValueError(f"{wanted_text(of.settings)} has no {key}.")
    return sorted(values.values())


def slope_along_users(slope: Slope, cells: Cells) -> tuple[list[Reading], Floats]:
    """Return one cell, read at evenly spaced users of the axis."""
    cell = cells.one(slope.of.settings)
    found = curve(cell, slope.of, cells)
    start = users_of(0.1 if slope.start is None else slope.start, cell)
    end = users_of(1.0 if slope.end is None else slope.end, cell)
    first = cell.job.spec["horizon"] / cell.job.spec["checkpoints"]
    if not first <= start < end:
        raise ValueError(f"from must be at least the first checkpoint, {first:g} users, and below to; got {start:g}.")
    spaced = np.linspace if slope.axes == "linear" else np.geomspace
    users = spaced(start, end, 50)  # points that the slope is fitted to
    return [curve(found.cell, slope.of, cells, users)], users


def numbered(of: Selection, key: str, cells: Cells, every: Cells | None = None) -> Mapping[float, Reading]:
    """Return the readings of a line along numbers; see ``line_along``."""
    line = line_along(of, key, cells, every)
    with placed(key):
        return {real(value): found for value, found in line.items()}


def fitted_slope(x: Floats, y: Floats, axes: Axes) -> Floats:
    """Return the least-squares slopes of rows of y, shape (draws, points), against x, shape (points,)."""
    x = np.asarray(x, dtype=np.float64) if axes == "linear" else np.log(x)
    centred = x - x.mean()
    return np.asarray((np.log(y) if axes == "log" else y) @ centred / (centred @ centred))


def resolve_lead(lead: Lead, cells: Cells) -> Resolved:
    """Find the cells of one line and of the others; a cell without the key is the same at all of its values."""
    first = line_along(lead.of, lead.along, cells)
    if not first:
        raise ValueError(f"{wanted_text(lead.of.settings)} has no {lead.along}.")
    readings = list(first.values())
    for selection in lead.over:
        line = line_along(selection, lead.along, cells)
        if missing := [value for value in first if line and value not in line]:
            raise ValueError(f"nothing to compare with at {lead.along} {missing[0]}.")
        level = [] if line else [reading(cells.one(selection.settings), selection, cells)]
        readings += [line[value] for value in first] if line else level * len(first)

    def least(means: Floats) -> Floats:
        table = means.reshape(len(means), -1, len(first))
        return np.asarray((table[:, 0] - table[:, 1:].max(axis=1)).min(axis=1))

    return Resolved(readings, least)


def resolve_line(steps: Steps, cells: Cells, combine: Callable[[Floats, Floats], Floats]) -> Resolved:
    """Find the cells of a line; ``combine`` takes the values of its key and the means."""
    line = numbered(steps.of, steps.along, cells)
    if len(line) < 2:
        raise ValueError(f"a line along {steps.along} needs two points; it has {len(line)}.")
    return Resolved(list(line.values()), partial(combine, np.array(list(line), dtype=np.float64)))


RESOLVERS: Mapping[str, Callable[[Any, Cells], Resolved]] = {
    "mean": partial(resolve_cells, combine=lambda means: means[:, 0]),
    "share": resolve_share,
    "worst": resolve_worst,
    "over_best": resolve_over_best,
    "ratio": partial(resolve_cells, combine=lambda means: means[:, 0] / means[:, 1]),
    "difference": partial(resolve_cells, combine=lambda means: means[:, 0] - means[:, 1]),
    "slope": resolve_slope,
    "lead": resolve_lead,
    "least_step": partial(resolve_line, combine=lambda x, means: np.diff(means, axis=1).min(axis=1)),
    "greatest_step": partial(resolve_line, combine=lambda x, means: np.diff(means, axis=1).max(axis=1)),
    "peak": partial(resolve_line, combine=lambda x, means: x[means.argmax(axis=1)]),
}
"""How each kind of measure finds its cells."""


WORST_SEED = "worst seed"
AVERAGES: Mapping[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "mean": lambda weights, above, below: (weights @ above) / (weights @ below),
    "median": lambda weights, above, below: statistics.weighted_medians(weights, above / below),
    WORST_SEED: lambda weights, above, below: statistics.weighted_maxima(weights, above / below),
}
"""From weights of replications (draws, n), numerators and denominators (n, places) to averages (draws, places)."""


def estimate(resolved: Resolved, results: Results, rng: Generator, confidence: float = 0.95) -> Interval[float]:
    """Return a measure and its bootstrap interval over the replications that all its cells have.

    One bootstrap of the replications goes through all cells, so comparisons are paired; its percentiles are those at
    which a mean gets Student's interval (``statistics.expanded``). The grid's pick stays the same.

    Returns:
        NaN where there is none: no ends below ``statistics.FEW_SEEDS`` replications, no value without replications.
    """
    read = [reading.read(results) for reading in resolved.readings]
    kept = common_seeds(*(values.replications for values in read))
    if not len(kept):
        return statistics.estimate_alone(math.nan)
    above = np.concatenate([values.of(kept).above for values in read], axis=1)
    below = np.concatenate([values.of(kept).below for values in read], axis=1)
    averages = AVERAGES[resolved.average]
    with np.errstate(all="ignore"):
        value = float(resolved.combine(averages(np.full((1, len(kept)), 1 / len(kept)), above, below))[0])
        if len(kept) < statistics.FEW_SEEDS:
            return statistics.estimate_alone(value)
        drawn = resolved.combine(averages(statistics.seed_weights(len(kept), rng), above, below))
        return statistics.percentile_interval(value, drawn, statistics.expanded(confidence, len(kept)))
