"""Queries on the frame of results: the last rows, uniform play beside each, a value by seed, a row for each cell.

A frame has a row for each trial, with its curves as lists, or a row for each checkpoint; queries take both.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WORLD = ("env", "horizon")
"""Columns that name a world."""


def curves_in(frame: pl.DataFrame) -> list[str]:
    """Return the columns that are lists, in a frame with a row for each trial."""
    return [name for name, kind in frame.schema.items() if kind == pl.List]


def long(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with a row for each checkpoint."""
    curves = curves_in(frame)
    return frame.explode(curves) if curves else frame


def finals(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the last row of every trial."""
    return frame.with_columns(pl.col(curves_in(frame)).list.last()).filter(pl.col("checkpoint") == pl.col("horizon"))


def uniform_play(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the mean regret of uniform play, ``uniform``, by world and ``checkpoint``."""
    played = long(rows.filter(agent="uniform").select(*WORLD, "checkpoint", "regret"))
    own = played.group_by(*WORLD, "checkpoint", maintain_order=True).agg("regret")
    means = pl.Series([one.to_numpy().mean() for one in own["regret"]], dtype=pl.Float64)
    return own.select(*WORLD, "checkpoint", uniform=means)


def beside_uniform(rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``uniform``: the mean regret of uniform play in the same world after as many users; null where it is none."""
    return rows.join(uniform_play(rows), on=[*WORLD, "checkpoint"], how="left", maintain_order="left")


def wide(rows: pl.DataFrame, value: str) -> tuple[Floats, Floats]:
    """Return the numbers of users that all seeds have, shape (c,), and a value there, shape (seeds, c)."""
    by_seed = long(rows.select("seed", "checkpoint", value)).sort("seed")
    table = by_seed.pivot("seed", index="checkpoint", values=value).sort("checkpoint").drop_nulls()
    return table["checkpoint"].to_numpy().astype(float), table.drop("checkpoint").to_numpy().T.copy()


def worlds(frame: pl.DataFrame) -> Iterator[tuple[str, int, pl.DataFrame]]:
    """Yield each environment and horizon with their rows, in the order in which they come."""
    for _, rows in frame.group_by(WORLD, maintain_order=True):
        env, horizon = rows.select(WORLD).row(0)
        yield env, horizon, rows
