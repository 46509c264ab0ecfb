"""Lines of a table of results: regret along the users, and final regret along epsilon."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from privbandit_agents.experiments.analysis.frame import world_of
from privbandit_agents.experiments.analysis.ranks import finals, interquartile_mean
from privbandit_agents.experiments.analysis.statistics import FEW_SEEDS, Floats, joined, student_interval
from privbandit_agents.experiments.drawing.style import BEST, Line
from privbandit_agents.privacy.accounting.conversions import rho_to_epsilon


def frontiers_of(frame: pl.DataFrame) -> dict[str, list[Line]]:
    """Return the lines of each panel of a frontier; none where nothing is private."""
    return {name: frontier_of(rows) for name, rows in panels_of(with_budgets(finals(frame))).items()}


def panels_of(frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the rows of each environment and horizon by their title."""
    several = frame.group_by("env").agg(pl.col("horizon").n_unique())["horizon"].max() != 1
    found = {}
    for (env, horizon), rows in frame.group_by("env", "horizon", maintain_order=True):
        found[world_of(str(env)) + (f", {horizon:,} users" if several else "")] = rows
    return found


def curves_of(rows: pl.DataFrame) -> list[Line]:
    """Return the mean regret of each agent, at the checkpoints that all its seeds have."""
    found = []
    for (label,), own in rows.group_by("label", maintain_order=True):
        wide = own.pivot("seed", index="checkpoint", values="regret").sort("checkpoint").drop_nulls()
        x = wide["checkpoint"].to_numpy().astype(np.float64)
        found.append(line(own, str(label), x, wide.drop("checkpoint").to_numpy().T))
    return found


def line(rows: pl.DataFrame, label: str, x: Floats, values: Floats) -> Line:
    """Return the line of values, shape (seeds, c), of an agent."""
    agent, notion = rows.row(0, named=True)["agent"], rows.row(0, named=True)["notion"]
    each = list(values) if 1 < len(values) < FEW_SEEDS else []
    return Line(label, agent, x, student_interval(values), len(values), each=each, notion=notion or "none")


def with_budgets(rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``budget``, the epsilon at which an agent is drawn, and ``line``, its label without epsilon and rho."""
    budgets = [
        rho_to_epsilon(rho, 1e-5) if epsilon is None and rho is not None and rho > 0 else epsilon
        for epsilon, rho in rows.select("epsilon", "rho").iter_rows()
    ]
    names = [without_budget(label) for label in rows["label"]]
    unproven = published(rows)
    texts = [
        name if proven else f"{name}, as published, no proof" for name, proven in zip(names, unproven, strict=True)
    ]
    return rows.with_columns(pl.Series("budget", budgets, pl.Float64), pl.Series("line", texts))


def published(rows: pl.DataFrame) -> list[bool]:
    """Return whether the calibration of each row's agent is one with a proof."""
    if "agent.calibration" not in rows.columns:
        return [True] * rows.height
    return [value != "published" for value in rows["agent.calibration"]]


def without_budget(label: str) -> str:
    """Return a label without its epsilon and rho, and without its calibration, which a frontier states in words."""
    name, _, settings = label.partition(" ")
    kept = [one for one in settings.split(", ") if one.partition("=")[0] not in ("epsilon", "rho", "calibration")]
    return f"{name} {', '.join(kept)}".strip()


def frontier_of(rows: pl.DataFrame) -> list[Line]:
    """Return the lines of private agents along epsilon, and two levels; none if nothing is private."""
    private = rows.filter(pl.col("budget").is_not_null() & pl.col("budget").is_finite())
    if private.is_empty():
        return []
    found = [along(own, str(name)) for (name,), own in private.group_by("line", maintain_order=True)]
    x = np.concatenate([one.x for one in found])
    ends = np.array([x.min(), x.max()])
    if ends[0] == ends[1]:
        ends = ends * [0.5, 2.0]
    levels = {name: own for name, own in levels_of(rows).items() if own is not None}
    for name, own in levels.items():
        one = line(own, name, ends, np.repeat(own["regret"].to_numpy()[:, None], 2, axis=1))
        found.append(replace(one, level=True))
    return found


def settings_of(frame: pl.DataFrame, x: str) -> dict[str, list[Line]]:
    """Return the lines of final regret along a column of numbers, a panel for each environment but for that setting."""
    side, _, key = x.rpartition(".")
    told = re.compile(rf"(?<=[( ]){re.escape(key)}=[^,)=]*(?:, )?")
    rows = finals(frame).filter(pl.col(x).is_not_null() & pl.col(x).is_finite())
    for column, where in (("env", "env"), ("line", "agent")):
        texts = rows["label" if column == "line" else column]
        names = [told.sub("", text).replace("()", "").rstrip(", ") if side in ("", where) else text for text in texts]
        rows = rows.with_columns(pl.Series(column, names, pl.String))
    panels = panels_of(rows) if x != "horizon" else {world_of(str(env)): own for (env,), own in by(rows, "env")}
    return {title: [along(own, str(name), x) for (name,), own in by(inner, "line")] for title, inner in panels.items()}


def by(rows: pl.DataFrame, column: str) -> Iterable[tuple[tuple[object, ...], pl.DataFrame]]:
    return rows.group_by(column, maintain_order=True)


def along(rows: pl.DataFrame, name: str, x: str = "budget") -> Line:
    """Return the line of an agent along a column; seeds that some value lacks are left out of the thin ones."""
    by_budget = {float(value): own for (value,), own in rows.sort(x).group_by(x, maintain_order=True)}
    values = [own["regret"].to_numpy() for own in by_budget.values()]
    fewest = min(map(len, values))
    first = line(rows, name, np.array(list(by_budget)), np.stack([one[:fewest] for one in values], axis=1))
    return replace(first, mean=joined([student_interval(one) for one in values]))


def levels_of(rows: pl.DataFrame) -> Mapping[str, pl.DataFrame | None]:
    """Return the rows of the best agent without privacy and those of uniform, by their names in a frontier."""
    plain = rows.filter((pl.col("notion") == "none") & (pl.col("agent") != "uniform"))
    best: tuple[float, str] = (math.inf, "")
    for (label,), own in plain.group_by("label", maintain_order=True):
        best = min(best, (float(interquartile_mean(own["regret"].to_numpy())), str(label)))
    uniform = rows.filter(agent="uniform")
    return {
        f"{BEST}: {best[1]}": plain.filter(label=best[1]) if best[1] else None,
        "uniform": None if uniform.is_empty() else uniform,
    }


def one_budget(panels: Mapping[str, Sequence[Line]]) -> bool:
    """Return whether the private agents of all panels have one epsilon, so that there is nothing along it."""
    return len({float(x) for lines in panels.values() for line in lines if not line.level for x in line.x}) == 1
