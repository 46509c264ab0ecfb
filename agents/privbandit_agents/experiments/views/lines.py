"""Lines of a table of results: regret along the users, and final regret along epsilon."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from privbandit_agents.experiments.names import without_settings, world_text
from privbandit_agents.experiments.results.queries import finals, wide, worlds
from privbandit_agents.experiments.results.ranks import interquartile_mean
from privbandit_agents.experiments.results.statistics import FEW_SEEDS, Floats, joined, student_interval
from privbandit_agents.experiments.views.style import BEST, Line, guarantees
from privbandit_agents.privacy.accounting.conversions import rho_to_epsilon


def frontiers_of(frame: pl.DataFrame) -> dict[str, list[Line]]:
    """Return the lines of each panel of a frontier; none where nothing is private."""
    return {name: frontier_of(rows) for name, rows in panels_of(with_budgets(finals(frame))).items()}


def panels_of(frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the rows of each environment and horizon by their title."""
    several = frame.group_by("env").agg(pl.col("horizon").n_unique())["horizon"].max() != 1
    return {world_text(env) + (f", {horizon:,} users" if several else ""): rows for env, horizon, rows in worlds(frame)}


def curves_of(rows: pl.DataFrame) -> list[Line]:
    """Return the mean regret of each agent, at the checkpoints that all its seeds have."""
    return [
        line(own, str(label), *wide(own, "regret")) for (label,), own in rows.group_by("label", maintain_order=True)
    ]


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
    names = [without_settings(label, ("epsilon", "rho", "calibration")) for label in rows["label"]]
    texts = [
        f"{name}, as published, no proof" if published else name
        for name, published in zip(names, unproven(rows), strict=True)
    ]
    return rows.with_columns(pl.Series("budget", budgets, pl.Float64), pl.Series("line", texts))


def unproven(rows: pl.DataFrame) -> list[bool]:
    """Return whether the calibration of each row's agent is a published one, which has no proof."""
    known = "agent.calibration" in rows.columns
    return [value == "published" for value in rows["agent.calibration"]] if known else [False] * rows.height


def frontier_of(rows: pl.DataFrame) -> list[Line]:
    """Return the lines of private agents along epsilon, and two levels; none if nothing is private."""
    private = rows.filter(pl.col("budget").is_not_null() & pl.col("budget").is_finite())
    if private.is_empty():
        return []
    found = lines_along(private, "budget")
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
    rows = finals(frame).filter(pl.col(x).is_not_null() & pl.col(x).is_finite())
    of_env, of_agent = ([key] if side in ("", one) else [] for one in ("env", "agent"))
    rows = rows.with_columns(
        pl.Series("env", [without_settings(env, of_env, "(") for env in rows["env"]], pl.String),
        pl.Series("line", [without_settings(label, of_agent) for label in rows["label"]], pl.String),
    )
    by_env = rows.group_by("env", maintain_order=True)
    panels = panels_of(rows) if x != "horizon" else {world_text(str(env)): own for (env,), own in by_env}
    return {title: lines_along(inner, x) for title, inner in panels.items()}


def lines_along(rows: pl.DataFrame, x: str) -> list[Line]:
    """Return a line along a column for each name under ``line``."""
    return [along(own, str(name), x) for (name,), own in rows.group_by("line", maintain_order=True)]


def along(rows: pl.DataFrame, name: str, x: str) -> Line:
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


def told_of(frame: pl.DataFrame, budgets: bool = True) -> list[str]:
    """Return what a caption tells of the agents in a frame: their promises, and how often one person comes.

    Args:
        frame: may lack promises, and visits.
        budgets: whether epsilon is told; not if it is on an axis.
    """
    published = unproven(frame)
    known = frame.filter(~pl.Series(published, dtype=pl.Boolean)) if any(published) else frame
    missing = [pl.lit(None).alias(name) for name in ("notion", "epsilon", "delta") if name not in frame.columns]
    promises = known.with_columns(missing).select("notion", "epsilon", "delta").unique(maintain_order=True).rows()
    visits: Any = frame["visits"].max() if "visits" in frame.columns else 1
    told = [f"up to {visits:,} visits a person"] * (visits > 1)
    told += ["as published: without a proof"] * any(published)
    return told + guarantees(promises, budgets)
