"""Statements against what was measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from rich.table import Table
from rich.text import Text

from privbandit_agents.experiments.analysis.statistics import Interval
from privbandit_agents.experiments.analysis.tables import markdown_table, rich_table, rounded
from privbandit_agents.experiments.spec.statements import Expected, Statement
from privbandit_envs.files import atomic

HOLDS, FAILS = "holds", "does not hold"
STRADDLES = "undecided (interval straddles the bound)"
UNKNOWN = "undecided (too few seeds for an interval)"
NOT_DECIDED = "not decided"
NO_NUMBER = "undecided (not measured)"


@dataclass(frozen=True)
class Verdict:
    """A statement, and what was measured about it.

    Attributes:
        says: the statement.
        where: it is made.
        measured: with its 95 % interval.
        at_least: lower bound, or None.
        at_most: upper bound, or None.
        expected: whether we know the statement to hold or to fail.
    """

    says: str
    where: str
    measured: Interval
    at_least: float | None = None
    at_most: float | None = None
    expected: Expected = "holds"

    @classmethod
    def on(cls, statement: Statement, measured: Interval) -> "Verdict":
        bounds = statement.at_least, statement.at_most
        return cls(statement.says, statement.where, measured, *bounds, statement.expected)

    @property
    def decision(self) -> str:
        """``HOLDS`` if the whole interval is within the bounds, ``FAILS`` if all of it is beyond one, or undecided."""
        if not self.measured.known:
            return NO_NUMBER if math.isnan(self.measured.value) else UNKNOWN
        least = -math.inf if self.at_least is None else self.at_least
        most = math.inf if self.at_most is None else self.at_most
        if least <= self.measured.low and self.measured.high <= most:
            return HOLDS
        return FAILS if self.measured.high < least or self.measured.low > most else STRADDLES

    @property
    def surprising(self) -> bool:
        """Whether the decision is against what is expected."""
        return self.decision == (FAILS if self.expected == "holds" else HOLDS)

    @property
    def words(self) -> str:
        """The decision, and whether it was expected where that says more."""
        if self.surprising:
            return f"{self.decision.upper()}, against expectation"
        return f"{self.decision}, as expected" if self.decision == FAILS else self.decision


def measured_words(measured: Interval) -> str:
    if math.isnan(measured.value):
        return "-"
    ends = f" ({rounded(measured.low)} to {rounded(measured.high)})" if measured.known else ""
    return rounded(measured.value) + ends


def bound_words(verdict: Verdict) -> str:
    if verdict.at_least is None:
        return f"at most {verdict.at_most:g}"
    if verdict.at_most is None:
        return f"at least {verdict.at_least:g}"
    return f"{verdict.at_least:g} to {verdict.at_most:g}"


def as_words(verdicts: Sequence[Verdict], decides: bool) -> pl.DataFrame:
    """Return verdicts as text, one column per column of the printed table."""
    return pl.DataFrame(
        {
            "statement": verdict.says,
            "where": verdict.where,
            "measured (95 % interval)": measured_words(verdict.measured),
            "bound": bound_words(verdict),
            "verdict": verdict.words if decides else NOT_DECIDED,
        }
        for verdict in verdicts
    )


def as_numbers(verdicts: Sequence[Verdict], decides: bool) -> pl.DataFrame:
    """Return verdicts with all digits."""
    real = {name: pl.Float64 for name in ("measured", "low", "high", "at_least", "at_most")}
    rows = [
        {
            "statement": verdict.says,
            "where": verdict.where,
            "measured": verdict.measured.value,
            "low": verdict.measured.low,
            "high": verdict.measured.high,
            "at_least": verdict.at_least,
            "at_most": verdict.at_most,
            "expected": verdict.expected,
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
    words = as_words(verdicts, decides)
    table = rich_table(title, leading=1)
    for column in words.columns:
        table.add_column(column, overflow="fold", ratio=3 if column == "statement" else None)
    for row in words.iter_rows():
        table.add_row(*map(Text, row))
    return table


def write_verdicts(verdicts: Sequence[Verdict], folder: Path, title: str, decides: bool = True) -> None:
    """Write ``verdicts.csv``, with all digits, and ``verdicts.md``."""
    with atomic(folder / "verdicts.csv") as file:
        file.write(as_numbers(verdicts, decides).write_csv())
    with atomic(folder / "verdicts.md") as file:
        words = as_words(verdicts, decides)
        file.write(f"{title}\n\n{markdown_table(words, left=words.columns)}")
