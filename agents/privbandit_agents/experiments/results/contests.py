"""Data sets x methods: means over replications, the best and those like it, ranks and wins."""

from collections.abc import Collection, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privbandit_agents.experiments.names import as_text
from privbandit_agents.experiments.results.cells import Cell, Cells
from privbandit_agents.experiments.results.readings import CHOSEN, Reading, Results, Values
from privbandit_agents.experiments.results.statistics import common_seeds, signed_rank_p
from privbandit_agents.experiments.schema.figures import TableSpec
from privbandit_agents.experiments.schema.measures import Pick
from privbandit_envs.validate import one_of

PICKS: dict[Pick, str] = {
    "best": CHOSEN["best"],
    "honest": "point of the grid chosen on one half of the replications, scored on the other, both ways",
}
Bools = NDArray[np.bool_]


def check_columns(spec: TableSpec, cells: Cells) -> None:
    """Raise if a method of a table is not in the experiment."""
    for column in (*spec.methods, *spec.reference):
        one_of(cells.values("method"), method=column)


def contests(spec: TableSpec, cells: Cells, results: Results) -> pl.DataFrame:
    """Return the tables of a file's entry: for each budget, and for accuracy each way to pick from the grid."""
    picks: Sequence[Pick] = ("best", "honest") if spec.y == "accuracy" else ("best",)
    budgets = cells.values("epsilon") or [None]
    return pl.concat([contest(spec, cells, results, epsilon, pick) for pick in picks for epsilon in budgets])


def contest(
    spec: TableSpec, cells: Cells, results: Results, epsilon: float | None, pick: Pick = "best"
) -> pl.DataFrame:
    """Return the table at one budget; methods without one are the same at all."""
    methods = spec.methods or cells.values("method")
    inside = [cell for cell in cells if cell.settings.get("epsilon", epsilon) == epsilon]
    shown = [cell for cell in inside if cell.settings["method"] in methods]
    labels = world_labels(shown)
    keys = [(labels[cell.name], cell.settings["method"]) for cell in shown]
    found = {key: Reading(cell, spec.y, pick=pick).read(results) for key, cell in zip(keys, shown, strict=True)}
    nothing = Values.nothing("not part of the experiment")
    worlds = dict.fromkeys(labels.values())
    values = {data: {method: found.get((data, method), nothing) for method in methods} for data in worlds}
    what = "Accuracy" if spec.y == "accuracy" else "Seconds of one fit"
    budget = "" if epsilon is None else f" at epsilon = {epsilon:g}"
    return compared(f"{what}{budget}, mean over replications; {PICKS[pick]}", values, spec.reference)


def compared(title: str, values: dict[str, dict[str, Values]], reference: Collection[str] = ()) -> pl.DataFrame:
    """Return a row for each data set and method: ``table, data, method, mean, replications, best, close, why``.

    Args:
        title: of the table.
        values: the readings, by data set and method.
        reference: methods that do not compete.

    Returns:
        ``mean`` is NaN where a method could not run. ``best`` are those that compete and have the highest mean, ties
        included; ``close`` others that are not significantly worse.
    """
    rows = []
    for data, by_method in values.items():
        means = np.array([float(one.mean[0]) for one in by_method.values()])
        competes = np.array([method not in reference for method in by_method])
        kept = np.where(competes & ~np.isnan(means), means, -np.inf)
        best = (kept == kept.max()) & (kept > -np.inf)
        close = close_to(list(by_method.values()), best) & competes
        for place, (method, one) in enumerate(by_method.items()):
            told = {"table": title, "data": data, "method": method, "mean": float(means[place])}
            marks = {"best": bool(best[place]), "close": bool(close[place])}
            rows.append({**told, "replications": len(one.replications), **marks, "why": one.why})
    return pl.DataFrame(rows)


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


def rank_sums(rows: pl.DataFrame, reference: Collection[str] = ()) -> dict[str, tuple[float, int]]:
    """Return the sum of ranks over data sets, and on how many it is best, of each method that competes.

    Ties share their rank. What could not run is last; data sets on which nothing ran do not count.
    """
    competing = rows.filter(~pl.col("method").is_in(list(reference)))
    place = (-pl.col("mean").fill_nan(-np.inf)).rank("average").over("data")
    ran = pl.col("mean").is_not_nan().any().over("data")
    counted = competing.with_columns(rank=pl.when(ran).then(place).otherwise(0.0))
    sums = counted.group_by("method", maintain_order=True).agg(pl.col("rank").sum(), pl.col("best").sum())
    return {method: (ranks, wins) for method, ranks, wins in sums.iter_rows()}


def world_labels(cells: Sequence[Cell]) -> dict[str, str]:
    """Return how each cell's world is called: by its source, or by the settings that differ where these are few."""
    worlds = {cell.name: cell.job.spec["world"] for cell in cells}
    distinct = {as_text(world) for world in worlds.values()}
    if len(distinct) == len({world["source"] for world in worlds.values()}):
        return {name: world["source"] for name, world in worlds.items()}
    keys = list(dict.fromkeys(key for world in worlds.values() for key in world))
    differing = [key for key in keys if len({as_text({key: world.get(key)}) for world in worlds.values()}) > 1]
    return {name: as_text({key: world[key] for key in differing if key in world}) for name, world in worlds.items()}
