"""Tables of data sets x methods: means over replications, what is best or not significantly worse, ranks and wins."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text
from scipy.stats import rankdata

from privbandit_agents.experiments.analysis.cells import Cells
from privbandit_agents.experiments.analysis.readings import FitReading, Results, Values
from privbandit_agents.experiments.analysis.statistics import Floats, common_seeds, signed_rank_p
from privbandit_agents.experiments.analysis.tables import markdown_table, rich_table
from privbandit_agents.experiments.names import as_text
from privbandit_agents.experiments.spec.figures import TableSpec
from privbandit_agents.experiments.spec.measures import Pick
from privbandit_envs.files import atomic
from privbandit_envs.validate import one_of

LEVEL = 0.05
BEST, CLOSE, NONE = "*", "'", "-"
PICKS: dict[Pick, str] = {
    "best": "best over the grid, chosen on the test sets",
    "honest": "point of the grid chosen on one half of the replications, scored on the other, both ways",
}
MARKS = (
    f"{BEST} best; {CLOSE} not significantly worse (one-sided Wilcoxon signed-rank test, level {LEVEL}); "
    f"{NONE} could not run"
)

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Contest:
    """A table at one budget.

    Attributes:
        title: what it shows.
        worlds: its rows.
        methods: its columns.
        values: what was read, a list of columns for each row.
        competes: which methods do, shape (methods,).
        marked: whether best ones are marked and ranks given, which is for accuracy.
    """

    title: str
    worlds: list[str]
    methods: list[str]
    values: list[list[Values]]
    competes: Bools
    marked: bool

    @property
    def means(self) -> Floats:
        """Means over replications, shape (worlds, methods); NaN where a method could not run."""
        return np.array([[float(column.mean[0]) for column in row] for row in self.values])

    @property
    def best(self) -> Bools:
        """Which are the best that compete, ties included, shape (worlds, methods)."""
        return np.array([leaders(np.where(self.competes, row, np.nan)) for row in self.means])

    @property
    def close(self) -> Bools:
        """Which are not the best, but not significantly worse, shape (worlds, methods)."""
        return np.array([close_to(row, best) & self.competes for row, best in zip(self.values, self.best, strict=True)])

    @property
    def rank_sums(self) -> Floats:
        """Sums over worlds of the ranks of those that compete, ties sharing theirs, shape (methods,); NaN for others.

        What could not run is last; worlds on which nothing ran do not count.
        """
        means = self.means[:, self.competes]
        ranked = [rankdata(-np.nan_to_num(row, nan=-np.inf)) for row in means if not np.isnan(row).all()]
        sums = np.full(len(self.methods), np.nan)
        sums[self.competes] = np.sum(ranked, axis=0) if ranked else 0.0
        return sums

    @property
    def wins(self) -> NDArray[np.int64]:
        """On how many worlds each method is best, ties included, shape (methods,)."""
        return np.asarray(self.best.sum(axis=0))

    @property
    def reasons(self) -> list[str]:
        """Why methods could not run, a sentence each."""
        rows = zip(self.worlds, self.values, strict=True)
        named = [(world, *pair) for world, row in rows for pair in zip(self.methods, row, strict=True)]
        return [f"{method} on {world}: {values.why}" for world, method, values in named if values.why]


def leaders(means: Floats) -> Bools:
    """Return which of a row are the greatest; none if there is no number."""
    if np.isnan(means).all():
        return np.zeros(len(means), np.bool_)
    return np.asarray(means == np.nanmax(means))


def close_to(row: Sequence[Values], best: Bools) -> Bools:
    """Return which values are not significantly below the first best one, in pairs of a replication."""
    close = np.zeros(len(row), np.bool_)
    if not best.any():
        return close
    leader = row[int(best.argmax())]
    for place, values in enumerate(row):
        if not best[place] and len(values.replications):
            close[place] = worse_p(leader, values) >= LEVEL
    return close


def worse_p(leader: Values, values: Values) -> float:
    """Return the p-value of Wilcoxon's test against the alternative that the leader is better."""
    kept = common_seeds(leader.replications, values.replications)
    return signed_rank_p((leader.of(kept).above - values.of(kept).above)[:, 0], "greater")


def check_columns(spec: TableSpec, cells: Cells) -> None:
    """Raise if a method of a table is not in the experiment."""
    for column in (*spec.methods, *spec.reference):
        one_of(cells.values("method"), method=column)


def contests(spec: TableSpec, cells: Cells, results: Results) -> list[Contest]:
    """Return the tables of a file's entry: for each budget, and for accuracy each way to pick from the grid."""
    picks: Sequence[Pick] = ("best", "honest") if spec.y == "accuracy" else ("best",)
    budgets = cells.values("epsilon")
    return [contest(spec, cells, results, epsilon, pick) for pick in picks for epsilon in budgets or [None]]


def contest(spec: TableSpec, cells: Cells, results: Results, epsilon: float | None, pick: Pick = "best") -> Contest:
    """Return the table at one budget; methods without one are the same at all."""
    methods = spec.methods or list(dict.fromkeys(cell.settings["method"] for cell in cells))
    shown = Cells(
        cell
        for cell in cells
        if cell.settings["method"] in methods and cell.settings.get("epsilon", epsilon) == epsilon
    )
    labels = world_labels(shown)
    worlds = list(dict.fromkeys(labels.values()))
    found = {
        (labels[cell.name], cell.settings["method"]): FitReading(cell, spec.y, pick).read(results) for cell in shown
    }
    nothing = Values.nothing("not part of the experiment")
    values = [[found.get((world, method), nothing) for method in methods] for world in worlds]
    what = "Accuracy" if spec.y == "accuracy" else "Seconds of one fit"
    budget = "" if epsilon is None else f" at epsilon = {epsilon:g}"
    title = f"{what}{budget}, mean over replications; {PICKS[pick]}"
    competes = np.array([method not in spec.reference for method in methods])
    return Contest(title, worlds, methods, values, competes, spec.y == "accuracy")


def world_labels(cells: Cells) -> dict[str, str]:
    """Return how each cell's world is called: by its source, or by the settings that differ where these are few."""
    worlds = {cell.name: cell.job.spec["world"] for cell in cells}
    distinct = {as_text(world) for world in worlds.values()}
    if len(distinct) == len({world["source"] for world in worlds.values()}):
        return {name: world["source"] for name, world in worlds.items()}
    keys = list(dict.fromkeys(key for world in worlds.values() for key in world))
    differing = [key for key in keys if len({as_text({key: world.get(key)}) for world in worlds.values()}) > 1]
    return {name: as_text({key: world[key] for key in differing if key in world}) for name, world in worlds.items()}


def as_words(table: Contest) -> pl.DataFrame:
    """Return a table as text."""
    means, best, close = table.means, table.best, table.close
    rows = [
        {"data": world}
        | {method: word(means[i, j], table.marked, best[i, j], close[i, j]) for j, method in enumerate(table.methods)}
        for i, world in enumerate(table.worlds)
    ]
    if table.marked:
        ends = list(zip(table.methods, table.competes, table.rank_sums, table.wins, strict=True))
        rows.append({"data": "rank sum"} | {method: f"{ranks:g}" if in_it else "" for method, in_it, ranks, _ in ends})
        rows.append({"data": "number of No. 1"} | {method: str(n) if in_it else "" for method, in_it, _, n in ends})
    return pl.DataFrame(rows)


def word(mean: float, marked: bool, best: bool, close: bool) -> str:
    """Return a mean with its mark."""
    if np.isnan(mean):
        return NONE
    if not marked:
        return f"{mean:.1e}"
    return f"{mean:.4f}{BEST if best else CLOSE if close else ''}"


def as_numbers(tables: Sequence[Contest]) -> pl.DataFrame:
    """Return tables with all digits, one row for each number."""
    rows = [
        {
            "table": table.title,
            "data": world,
            "method": method,
            "mean": float(table.means[i, j]),
            "replications": len(table.values[i][j].replications),
            "best": bool(table.best[i, j]),
            "close": bool(table.close[i, j]),
            "why": table.values[i][j].why,
        }
        for table in tables
        for i, world in enumerate(table.worlds)
        for j, method in enumerate(table.methods)
    ]
    return pl.DataFrame(rows)


def as_markdown(tables: Sequence[Contest]) -> str:
    """Return tables as Markdown, each with its title and the reasons for what is missing."""
    parts = []
    for table in tables:
        words = as_words(table).with_columns(pl.all().str.replace("*", r"\*", literal=True))
        reasons = "".join(f"- {why}\n" for why in table.reasons)
        marks = f"\n{MARKS.replace('*', chr(92) + '*', 1)}.\n" if table.marked else ""
        parts.append(f"{table.title}\n\n{markdown_table(words, left=['data'])}{marks}\n{reasons}")
    return "\n".join(parts)


def write_contests(tables: Sequence[Contest], folder: Path, name: str, missing: Sequence[str]) -> None:
    """Write tables as CSV and Markdown, with a line for every data set that is not here."""
    with atomic(folder / f"{name}.csv") as file:
        file.write(as_numbers(tables).write_csv())
    with atomic(folder / f"{name}.md") as file:
        file.write(as_markdown(tables) + "".join(f"\n{line}\n" for line in missing))


def contest_table(table: Contest) -> Table:
    shown = rich_table(table.title, caption=Text(MARKS) if table.marked else None, caption_justify="left")
    words = as_words(table)
    for column in words.columns:
        shown.add_column(column, justify="left" if column == "data" else "right", overflow="fold")
    for row in words.iter_rows():
        shown.add_row(*map(Text, row))
    return shown
