"""Measures of an offline comparison: numbers that a statement bounds, each a function of means over replications."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from privbandit_agents.experiments.cells import placed, wanted_text
from privbandit_agents.experiments.offline.file import Lead, Measure, Steps
from privbandit_agents.experiments.offline.reading import Cell, Reading, along, reading_of
from privbandit_agents.experiments.offline.runner import Results
from privbandit_agents.experiments.statistics import (
    FEWEST,
    Floats,
    Interval,
    common_seeds,
    expanded,
    percentile_interval,
    seed_weights,
)

Combine = Callable[[Floats], Floats]
"""From the means of all readings, shape (draws, readings), to the measure, shape (draws,)."""


@dataclass(frozen=True)
class Resolved:
    """A measure whose cells are found."""

    readings: Sequence[Reading]
    combine: Combine


def resolve(measure: Measure, cells: Sequence[Cell]) -> Resolved:
    """Find the cells of a measure.

    Raises:
        ValueError: a selection matches none or several, or a line has one point.
    """
    if measure.mean is not None:
        return Resolved([reading_of(measure.mean, cells)], lambda means: means[:, 0])
    if measure.difference is not None:
        pair = [reading_of(selection, cells) for selection in measure.difference]
        return Resolved(pair, lambda means: means[:, 0] - means[:, 1])
    if measure.lead is not None:
        return resolve_lead(measure.lead, cells)
    if measure.peak is not None:
        values, readings = line_of(measure.peak, cells)
        return Resolved(readings, lambda means: values[means.argmax(axis=1)])
    steps = measure.least_step or measure.greatest_step
    assert steps is not None
    readings = line_of(steps, cells)[1]
    if measure.least_step is not None:
        return Resolved(readings, lambda means: np.diff(means, axis=1).min(axis=1))
    return Resolved(readings, lambda means: np.diff(means, axis=1).max(axis=1))


def resolve_lead(lead: Lead, cells: Sequence[Cell]) -> Resolved:
    """Find the cells of one method and of the others; a method without the key is the same at all of its values."""
    first = along(lead.of, lead.along, cells)
    if not first:
        raise ValueError(f"{wanted_text(lead.of.settings)} has no {lead.along}.")
    others = [along(selection, lead.along, cells) for selection in lead.over]
    levels = [reading_of(lead.over[i], cells) if not line else None for i, line in enumerate(others)]
    readings = list(first.values())
    for line, level in zip(others, levels, strict=True):
        if missing := [value for value in first if line and value not in line]:
            raise ValueError(f"nothing to compare with at {lead.along} {missing[0]}.")
        readings += [line[value] if level is None else level for value in first]

    def least(means: Floats) -> Floats:
        table = means.reshape(len(means), -1, len(first))
        return np.asarray((table[:, 0] - table[:, 1:].max(axis=1)).min(axis=1))

    return Resolved(readings, least)


def line_of(steps: Steps, cells: Sequence[Cell]) -> tuple[Floats, list[Reading]]:
    """Return the values of a key and the readings at them."""
    line = along(steps.of, steps.along, cells)
    if len(line) < 2:
        raise ValueError(f"a line along {steps.along} needs two points; it has {len(line)}.")
    with placed(steps.along):
        return np.array(list(line), dtype=np.float64), list(line.values())


def estimate(resolved: Resolved, results: Results, rng: Generator, confidence: float = 0.95) -> Interval:
    """Return a measure and its bootstrap interval over the replications that all its readings have.

    One bootstrap goes through all readings, so comparisons are paired. What the grid picked stays picked.

    Returns:
        NaN where there is none: no ends below ``FEWEST`` replications, no value without any.
    """
    read = [reading.read(results) for reading in resolved.readings]
    kept = common_seeds(*(values.replications for values in read))
    if not len(kept):
        return Interval(math.nan)
    columns = [values.values[np.isin(values.replications, kept)] for values in read]
    matrix = np.stack(columns, axis=1)
    value = float(resolved.combine(matrix.mean(axis=0)[None])[0])
    if len(kept) < FEWEST:
        return Interval(value)
    drawn = resolved.combine(seed_weights(len(kept), rng) @ matrix)
    return percentile_interval(value, drawn, expanded(confidence, len(kept)))
