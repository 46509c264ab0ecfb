"""Tables of data sets x methods: means over replications, the best and those like it, ranks and wins."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import scipy
from numpy.typing import NDArray

from privbandit_agents.experiments.analysis.cells import Cell, Cells
from privbandit_agents.experiments.analysis.readings import FitReading, Results, Values
from privbandit_agents.experiments.analysis.statistics import Floats, common_seeds, signed_rank_p
from privbandit_agents.experiments.analysis.tables import CHOSEN, Table, write_tables
from privbandit_agents.experiments.names import as_text
from privbandit_agents.experiments.schema.figures import TableSpec
from privbandit_agents.experiments.schema.measures import Pick
from privbandit_agents.experiments.text import paragraph
from privbandit_envs.validate import one_of

BEST, CLOSE, NONE = "*", "'", "-"
PICKS: dict[Pick, str] = {
    "best": CHOSEN["best"],
    "honest": "point of the grid chosen on one half of the replications, scored on the other, both ways",
}
MARKS = (
    f"{BEST} best; {CLOSE} not significantly worse (one-sided Wilcoxon signed-rank test, level 0.05); "
    f"{NONE} could not run"
)

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Contest:
    """A table at one budget, of worlds x methods.

    Attributes:
        values: the readings, a list of columns for each row.
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
        means = np.where(self.competes & ~np.isnan(self.means), self.means, -np.inf)
        return np.asarray((means == means.max(axis=1, keepdims=True)) & (means > -np.inf))

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
        ranked = [scipy.stats.rankdata(-np.nan_to_num(row, nan=-np.inf)) for row in means if not np.isnan(row).all()]
        sums = np.full(len(self.methods), np.nan)
        sums[self.competes] = np.sum(ranked, axis=0) if ranked else 0.0
        return sums

    @property
    def wins(self) -> NDArray[np.int64]:
        """On how many worlds each method is best, ties included, shape (methods,)."""
        return np.asarray(self.best.sum(axis=0))

    @property
    def reasons(self) -> list[str]:
        rows = zip(self.worlds, self.values, strict=True)
        named = [(world, *pair) for world, row in rows for pair in zip(self.methods, row, strict=True)]
        return [f"{method} on {world}: {values.why}" for world, method, values in named if values.why]


def close_to(row: Sequence[Values], best: Bools) -> Bools:
    """Return which values are not significantly below the first best one, in pairs of a replication."""
    close = np.zeros(len(row), np.bool_)
    if not best.any():
        return close
    leader = row[int(best.argmax())]
    for place, values in enumerate(row):
        if not best[place] and len(values.replications):
            kept = common_seeds(leader.replications, values.replications)
            ahead = (leader.of(kept).above - values.of(kept).above)[:, 0]
            close[place] = signed_rank_p(ahead, "greater") >= 0.05
    return close


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
    methods = spec.methods or cells.values("method")
    inside = [cell for cell in cells if cell.settings.get("epsilon", epsilon) == epsilon]
    shown = [cell for cell in inside if cell.settings["method"] in methods]
    labels = world_labels(shown)
    worlds = list(dict.fromkeys(labels.values()))
    keys = [(labels[cell.name], cell.settings["method"]) for cell in shown]
    found = {key: FitReading(cell, spec.y, pick).read(results) for key, cell in zip(keys, shown, strict=True)}
    nothing = Values.nothing("not part of the experiment")
    values = [[found.get((world, method), nothing) for method in methods] for world in worlds]
    what = "Accuracy" if spec.y == "accuracy" else "Seconds of one fit"
    budget = "" if epsilon is None else f" at epsilon = {epsilon:g}"
    title = f"{what}{budget}, mean over replications; {PICKS[pick]}"
    competes = np.array([method not in spec.reference for method in methods])
    return Contest(title, worlds, methods, values, competes, spec.y == "accuracy")


def world_labels(cells: Sequence[Cell]) -> dict[str, str]:
    """Return how each cell's world is called: by its source, or by the settings that differ where these are few."""
    worlds = {cell.name: cell.job.spec["world"] for cell in cells}
    distinct = {as_text(world) for world in worlds.values()}
    if len(distinct) == len({world["source"] for world in worlds.values()}):
        return {name: world["source"] for name, world in worlds.items()}
    keys = list(dict.fromkeys(key for world in worlds.values() for key in world))
    differing = [key for key in keys if len({as_text({key: world.get(key)}) for world in worlds.values()}) > 1]
    return {name: as_text({key: world[key] for key in differing if key in world}) for name, world in worlds.items()}


def contest_table(contest: Contest) -> Table:
    """Return a contest as a table; below it are the reasons for missing cells."""
    means, best, close = contest.means, contest.best, contest.close
    words: list[dict[str, str]] = []
    numbers = []
    for i, world in enumerate(contest.worlds):
        words.append({"data": world})
        for j, method in enumerate(contest.methods):
            words[-1][method] = word(means[i, j], contest.marked, best[i, j], close[i, j])
            read = contest.values[i][j]
            place = {"table": contest.title, "data": world, "method": method, "mean": float(means[i, j])}
            marks = {"best": bool(best[i, j]), "close": bool(close[i, j])}
            numbers.append({**place, "replications": len(read.replications), **marks, "why": read.why})
    if contest.marked:
        ends = list(zip(contest.methods, contest.competes, contest.rank_sums, contest.wins, strict=True))
        words.append({"data": "rank sum"} | {method: f"{ranks:g}" if in_it else "" for method, in_it, ranks, _ in ends})
        words.append({"data": "number of No. 1"} | {method: str(n) if in_it else "" for method, in_it, _, n in ends})
    reasons = "".join(f"- {why}\n" for why in contest.reasons)
    return Table(pl.DataFrame(words), pl.DataFrame(numbers), contest.title, f"\n{reasons}", left=["data"])


def word(mean: float, marked: bool, best: bool, close: bool) -> str:
    if np.isnan(mean):
        return NONE
    if not marked:
        return f"{mean:.1e}"
    return f"{mean:.4f}{BEST if best else CLOSE if close else ''}"


def starred(contest: Contest) -> Table:
    """Return a contest as Markdown has it: stars are escaped, and below it is what marks mean."""
    table = contest_table(contest)
    words = table.words.with_columns(pl.all().str.replace("*", r"\*", literal=True))
    marks = f"\n{MARKS.replace('*', chr(92) + '*', 1)}.\n" if contest.marked else ""
    return replace(table, words=words, note=marks + table.note)


def write_contests(contests: Sequence[Contest], folder: Path, name: str, missing: Sequence[str]) -> None:
    """Write contests as CSV and Markdown, with a line for every data set that is not here."""
    *tables, last = map(starred, contests)
    notes = last.note + "".join(f"\n{line}\n" for line in missing)
    write_tables([*tables, replace(last, note=notes)], folder, name)


def contest_lines(contest: Contest) -> Iterator[str]:
    """Yield a contest for the terminal."""
    yield from contest_table(contest).lines()
    if contest.marked:
        yield from paragraph(MARKS)
        yield ""
