"""Statements against measurements."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from privbandit_agents.experiments.results.statistics import Interval
from privbandit_agents.experiments.schema.statements import Statement

HOLDS, FAILS = "holds", "does not hold"
NOT_DECIDED = "not decided"


def judged(statements: Sequence[Statement], measured: Sequence[Interval[float]], decides: bool = True) -> pl.DataFrame:
    """Return a row for each statement: ``statement, where, measured, low, high, at_least, at_most, expected, verdict``.

    Args:
        statements: the sentences with their bounds.
        measured: their numbers, with 95 % intervals.
        decides: False if nothing is to be decided by so few users and seeds.
    """
    rows = [
        {
            **{
                "statement": one.says,
                "where": one.where,
                "measured": found.value,
                "low": found.low,
                "high": found.high,
            },
            **{"at_least": one.at_least, "at_most": one.at_most, "expected": one.expected},
            "verdict": decision(found, one.at_least, one.at_most) if decides else NOT_DECIDED,
        }
        for one, found in zip(statements, measured, strict=True)
    ]
    numbers = ("measured", "low", "high", "at_least", "at_most")
    return pl.DataFrame(rows, schema_overrides=dict.fromkeys(numbers, pl.Float64))


def decision(measured: Interval[float], at_least: float | None, at_most: float | None) -> str:
    """Return ``HOLDS`` if the whole interval is within the bounds, ``FAILS`` if all is beyond one; or undecided."""
    if not measured.known:
        why = "not measured" if math.isnan(measured.value) else "too few seeds for an interval"
        return f"undecided ({why})"
    least = -math.inf if at_least is None else at_least
    most = math.inf if at_most is None else at_most
    if least <= measured.low and measured.high <= most:
        return HOLDS
    beyond = measured.high < least or measured.low > most
    return FAILS if beyond else "undecided (interval straddles the bound)"


def surprising(row: Mapping[str, Any]) -> bool:
    """Return whether a verdict contradicts the expectation."""
    return bool(row["verdict"] == (FAILS if row["expected"] == HOLDS else HOLDS))
