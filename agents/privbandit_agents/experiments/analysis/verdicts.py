"""Statements against measurements."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from privbandit_agents.experiments.analysis.statistics import Interval
from privbandit_agents.experiments.analysis.tables import Table, rounded
from privbandit_agents.experiments.schema.statements import Statement

HOLDS, FAILS = "holds", "does not hold"
NOT_DECIDED = "not decided"


@dataclass(frozen=True)
class Verdict:
    """A statement, and its measure with a 95 % interval."""

    statement: Statement
    measured: Interval[float]

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
        """Whether the decision contradicts the expectation."""
        return self.decision == (FAILS if self.statement.expected == "holds" else HOLDS)

    @property
    def words(self) -> str:
        """The decision, and whether it was expected if that adds something."""
        if self.surprising:
            return f"{self.decision.upper()}, against expectation"
        return f"{self.decision}, as expected" if self.decision == FAILS else self.decision


def measured_words(measured: Interval[float]) -> str:
    ends = f" ({rounded(measured.low)} to {rounded(measured.high)})" if measured.known else ""
    return "-" if math.isnan(measured.value) else rounded(measured.value) + ends


def bound_words(statement: Statement) -> str:
    if statement.at_least is None:
        return f"at most {statement.at_most:g}"
    if statement.at_most is None:
        return f"at least {statement.at_least:g}"
    return f"{statement.at_least:g} to {statement.at_most:g}"


def verdict_table(verdicts: Sequence[Verdict], title: str, decides: bool = True) -> Table:
    """Return verdicts as a table.

    Args:
        verdicts: its rows.
        title: above it.
        decides: False if nothing is to be decided by so few users and seeds.
    """
    words, numbers = [], []
    for verdict in verdicts:
        statement, measured = verdict.statement, verdict.measured
        said = {"statement": statement.says, "where": statement.where}
        shown = {"measured (95 % interval)": measured_words(measured), "bound": bound_words(statement)}
        ends = {"measured": measured.value, "low": measured.low, "high": measured.high}
        bounds = {"at_least": statement.at_least, "at_most": statement.at_most}
        words.append({**said, **shown, "verdict": verdict.words if decides else NOT_DECIDED})
        decision = verdict.decision if decides else NOT_DECIDED
        numbers.append({**said, **ends, **bounds, "expected": statement.expected, "verdict": decision})
    real = dict.fromkeys(("measured", "low", "high", "at_least", "at_most"), pl.Float64)
    left = pl.DataFrame(words)
    return Table(left, pl.DataFrame(numbers, schema_overrides=real), title, left=left.columns)


def verdict_lines(verdicts: Table) -> Iterator[str]:
    """Yield the table of verdicts for the terminal; red is against expectation."""
    against = {i: "31" for i, word in enumerate(verdicts.words["verdict"]) if word.endswith("against expectation")}
    yield from verdicts.lines(against)
