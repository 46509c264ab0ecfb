"""Statements against what was measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from rich.table import Table

from privbandit_agents.experiments.analysis.statistics import Interval
from privbandit_agents.experiments.analysis.tables import markdown_table, rich_table, rounded, write_both
from privbandit_agents.experiments.spec.statements import Statement

HOLDS, FAILS = "holds", "does not hold"
NOT_DECIDED = "not decided"


@dataclass(frozen=True)
class Verdict:
    """A statement, and what was measured about it, with its 95 % interval."""

    statement: Statement
    measured: Interval

    @property
    def decision(self) -> str:
        """``HOLDS`` if the whole interval is within the bounds, ``FAILS`` if all of it is beyond one, or undecided."""
        if not self.measured.known:
            why = "not measured" if math.isnan(self.measured.value) else "too few seeds for an interval"
            return f"undecided ({why})"
        least = -math.inf if self.statement.at_least is None else self.statement.at_least
        most = math.inf if self.statement.at_most is None else self.statement.at_most
        if least <= self.measured.low and self.measured.high <= most:
            return HOLDS
        beyond = self.measured.high < least or self.measured.low > most
        return FAILS if beyond else "undecided (interval straddles the bound)"

    @property
    def surprising(self) -> bool:
        """Whether the decision is against what is expected."""
        return self.decision == (FAILS if self.statement.expected == "holds" else HOLDS)

    @property
    def words(self) -> str:
        """The decision, and whether it was expected where that says more."""
        if self.surprising:
            return f"{self.decision.upper()}, against expectation"
        return f"{self.decision}, as expected" if self.decision == FAILS else self.decision


def measured_words(measured: Interval) -> str:
    ends = f" ({rounded(measured.low)} to {rounded(measured.high)})" if measured.known else ""
    return "-" if math.isnan(measured.value) else rounded(measured.value) + ends


def bound_words(statement: Statement) -> str:
    if statement.at_least is None:
        return f"at most {statement.at_most:g}"
    if statement.at_most is None:
        return f"at least {statement.at_least:g}"
    return f"{statement.at_least:g} to {statement.at_most:g}"


def as_words(verdicts: Sequence[Verdict], decides: bool) -> pl.DataFrame:
    """Return verdicts as text, one column per column of the printed table."""
    return pl.DataFrame(
        {
            "statement": verdict.statement.says,
            "where": verdict.statement.where,
            "measured (95 % interval)": measured_words(verdict.measured),
            "bound": bound_words(verdict.statement),
            "verdict": verdict.words if decides else NOT_DECIDED,
        }
        for verdict in verdicts
    )


def as_numbers(verdicts: Sequence[Verdict], decides: bool) -> pl.DataFrame:
    real = {name: pl.Float64 for name in ("measured", "low", "high", "at_least", "at_most")}
    rows = [
        {
            "statement": verdict.statement.says,
            "where": verdict.statement.where,
            "measured": verdict.measured.value,
            "low": verdict.measured.low,
            "high": verdict.measured.high,
            "at_least": verdict.statement.at_least,
            "at_most": verdict.statement.at_most,
            "expected": verdict.statement.expected,
            "verdict": verdict.decision if decides else NOT_DECIDED,
        }
        for verdict in verdicts
    ]
    return pl.DataFrame(rows, schema_overrides=real)


def verdict_table(verdicts: Sequence[Verdict], title: str, decides: bool = True) -> Table:
    """Return verdicts as a table for the terminal.

    Args:
        verdicts: its rows.
        title: above it.
        decides: False if nothing is to be decided by so few users and seeds.
    """

    def column(name: str) -> dict[str, Any]:
        return {"overflow": "fold", "ratio": 3 if name == "statement" else None}

    return rich_table(title, as_words(verdicts, decides), column, leading=1)


def write_verdicts(verdicts: Sequence[Verdict], folder: Path, title: str, decides: bool = True) -> None:
    words = as_words(verdicts, decides)
    table = markdown_table(words, left=words.columns)
    write_both(folder, "verdicts", as_numbers(verdicts, decides), f"{title}\n\n{table}")
