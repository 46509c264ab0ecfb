"""The tables: results, verdicts, and comparisons of methods; a quantity is a column here and in ``summary``."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from privbandit_agents.experiments.names import short
from privbandit_agents.experiments.results.contests import rank_sums
from privbandit_agents.experiments.results.readings import CHOSEN
from privbandit_agents.experiments.results.statistics import Interval
from privbandit_agents.experiments.results.verdicts import FAILS, surprising
from privbandit_agents.experiments.schema.figures import TableSpec
from privbandit_agents.experiments.text import paragraph
from privbandit_agents.experiments.views.table import Column, Row, Table, write_tables

AGAIN = (
    "Users are drawn from people: who comes k times is promised k times the epsilon of one user, and k^2 times the rho."
)
BEST, CLOSE, NONE = "*", "'", "-"
MARKS = (
    f"{BEST} best; {CLOSE} not significantly worse (one-sided Wilcoxon signed-rank test, level 0.05); "
    f"{NONE} could not run"
)


def regret_of(row: Row) -> Interval[float]:
    """Return the mean regret of a row and its interval, which is above 0."""
    found = Interval.around(row["regret"], row["half_width"])
    return found.positive.mapped(float) if row["regret"] > 0 else found


def promise(row: Row) -> str:
    """Return an agent's promise in words; of one a visit, how often it is made to a person, and epsilon in all."""
    once = row["visits"] == 1 or row["privacy"] == "none" or " a person" in row["privacy"]
    worth = "" if row["person"] is None else f", epsilon {row['person']:.3g} in all"
    return str(row["privacy"]) if once else f"{row['privacy']}; up to {row['visits']:,} visits a person{worth}"


def percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.3g} %" if share < 1 else f"{100 * share:,.0f} %"


SPEED = Column("users/s", lambda row: f"{row['rounds_per_s']:,.0f}")
TRIALS = (
    Column("environment", lambda row: short(row["env"]), True),
    Column("rounds", lambda row: f"{row['horizon']:,}"),
    Column("agent", "label", True),
    Column("rank", lambda row: f"{'' if row['notion'] in (None, 'none') else row['notion']} {row['rank']}".strip()),
    Column("seeds", "seeds"),
    Column("final regret", lambda row: regret_of(row).said()),
    Column("median", "median"),
    Column("vs uniform", lambda row: f"{row['ratio_to_uniform']:.3g}" if row["ratio_to_uniform"] is not None else ""),
    Column("mean reward", lambda row: f"{row['reward']:.3f}"),
    SPEED._replace(title="rounds/s"),
    Column("privacy", promise, True),
)
"""Columns of the written table of trials."""
SHOWN = (
    Column("agent", "label", True),
    Column("promise", promise, True),
    Column("regret", "regret"),
    Column("95 % interval", lambda row: regret_of(row).ends()),
    Column("of uniform", lambda row: percent(row["ratio_to_uniform"])),
)
"""Columns of the table of trials on a terminal."""
FITS = (
    Column("world", "world", True),
    Column("method", "method", True),
    Column("epsilon", lambda row: "" if row["epsilon"] is None else f"{row['epsilon']:g}"),
    Column("replications", "replications"),
    Column(CHOSEN["best"], lambda row: Interval.around(row["best"], row["half_width"]).said(digits)),
    Column("best point", "best_point", True),
    Column(CHOSEN["honest"], lambda row: NONE if row["honest"] is None else digits(row["honest"])),
    Column("seconds", lambda row: NONE if row["seconds"] is None else f"{row['seconds']:.1e}"),
    Column("note", "note", True),
)
"""Columns of the table of fits."""
VERDICTS = (
    Column("statement", "statement", True),
    Column("where", "where", True),
    Column("measured (95 % interval)", lambda row: Interval(row["measured"], row["low"], row["high"]).said(), True),
    Column("bound", lambda row: bound_words(row["at_least"], row["at_most"]), True),
    Column("verdict", lambda row: verdict_words(row), True),
)


def digits(value: float) -> str:
    return f"{value:.4f}"


def bound_words(at_least: float | None, at_most: float | None) -> str:
    if at_least is None:
        return f"at most {at_most:g}"
    return f"at least {at_least:g}" if at_most is None else f"{at_least:g} to {at_most:g}"


def verdict_words(row: Row) -> str:
    """Return a verdict, and whether it was expected if that adds something."""
    if surprising(row):
        return f"{row['verdict'].upper()}, against expectation"
    return f"{row['verdict']}, as expected" if row["verdict"] == FAILS else str(row["verdict"])


def summary_table(summary: pl.DataFrame) -> Table:
    """Return a summary of trials or of fits as the table that is written."""
    again = "visits" in summary.columns and (summary["visits"] > 1).any()
    return Table(summary, FITS if "world" in summary.columns else TRIALS, note=f"\n{AGAIN}\n" if again else "")


def shown(summary: pl.DataFrame, speed: bool = False) -> Iterator[str]:
    """Yield a summary of trials for the terminal, a table for each environment; red is worse than uniform play.

    Args:
        summary: from ``summarised``.
        speed: whether a column has the users a second.
    """
    for (env, horizon), own in summary.group_by("env", "horizon", maintain_order=True):
        ratios, seeds = own["ratio_to_uniform"].fill_null(0.0).to_list(), sorted(set(own["seeds"]))
        told = f"{seeds[0]} seeds" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
        title = f"{short(str(env))}, {horizon:,} users, {told if seeds[-1] > 1 else '1 seed'}"
        red = [place for place, ratio in enumerate(ratios) if ratio > 1]
        yield from Table(own, (*SHOWN, *[SPEED] * speed), title, red=red).lines()
        yield ""


def verdict_table(verdicts: pl.DataFrame, title: str) -> Table:
    """Return verdicts as a table; red is against expectation."""
    red = [place for place, row in enumerate(verdicts.iter_rows(named=True)) if surprising(row)]
    return Table(verdicts, VERDICTS, title, red=red)


def contest_tables(contested: pl.DataFrame, spec: TableSpec) -> list[Table]:
    """Return the tables of data sets x methods, at each budget and way to pick; the first has the numbers of all."""
    parts = contested.partition_by("table", maintain_order=True)
    tables = [contest_table(rows, spec) for rows in parts]
    return [Table(one.rows, one.columns, one.title, one.note, numbers=contested) for one in tables]


def contest_table(rows: pl.DataFrame, spec: TableSpec) -> Table:
    """Return the table at one budget, with ranks and wins; below it are the marks and the reasons for missing cells."""
    methods = list(dict.fromkeys(rows["method"]))
    words: dict[str, dict[str, str]] = {}
    for row in rows.iter_rows(named=True):
        words.setdefault(row["data"], {})[row["method"]] = word(row, spec.y == "accuracy")
    if spec.y == "accuracy":
        found = rank_sums(rows, spec.reference)
        words["rank sum"] = {method: f"{ranks:g}" for method, (ranks, _) in found.items()}
        words["number of No. 1"] = {method: str(wins) for method, (_, wins) in found.items()}
    lines = [{"data": data, **dict.fromkeys(methods, ""), **line} for data, line in words.items()]
    reasons = [
        f"- {method} on {data}: {why}\n"
        for data, method, why in rows.select("data", "method", "why").iter_rows()
        if why
    ]
    marks = f"\n{MARKS.replace(BEST, chr(92) + BEST, 1)}.\n" * (spec.y == "accuracy")
    columns = [Column("data", "data", True), *(Column(method, method) for method in methods)]
    return Table(pl.DataFrame(lines), columns, rows["table"][0], "".join((marks, "\n", *reasons)), numbers=rows)


def word(row: Row, marked: bool) -> str:
    """Return a mean with its mark."""
    if row["mean"] != row["mean"]:
        return NONE
    if not marked:
        return f"{row['mean']:.1e}"
    return f"{digits(row['mean'])}{BEST if row['best'] else CLOSE if row['close'] else ''}"


def write_contests(tables: Sequence[Table], folder: Path, name: str, missing: Sequence[str]) -> None:
    """Write tables of methods, with a line for every data set that is not here."""
    *others, last = tables
    note = last.note + "".join(f"\n{line}\n" for line in missing)
    write_tables([*others, Table(last.rows, last.columns, last.title, note, numbers=last.numbers)], folder, name)


def contest_lines(tables: Sequence[Table], spec: TableSpec) -> Iterator[str]:
    """Yield tables of methods for the terminal."""
    for one in tables:
        yield from (*one.lines(), "")
        if spec.y == "accuracy":
            yield from (*paragraph(MARKS), "")
