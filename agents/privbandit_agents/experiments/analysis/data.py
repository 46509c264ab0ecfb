"""The files of data that every run leaves: all results of its folder, for any tool that reads tables."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import polars as pl

from privbandit_agents.experiments.analysis.frame import as_frame, fit_frame
from privbandit_agents.experiments.jobs.job import Job
from privbandit_agents.experiments.store.results import Finished
from privbandit_envs.files import atomic

MOST_ROWS = 200_000
"""A longer table is written as CSV with the last checkpoint of each trial, or the best point of each fit, alone."""


def write_data(frame: pl.DataFrame, folder: Path) -> None:
    """Write ``results.parquet``, and ``results.csv`` with the same rows unless they are too many.

    Pages of the first have checksums, which ``pyarrow.parquet.read_table(path, page_checksum_verification=True)`` and
    the readers of this project look at.
    """
    memory = BytesIO()  # so that a full disk is an error of the system, whatever polars makes of it
    frame.write_parquet(memory, use_pyarrow=True, pyarrow_options={"write_page_checksum": True})
    with atomic(folder / "results.parquet", "wb") as file:
        file.write(memory.getbuffer())
    short = frame if frame.height <= MOST_ROWS else shortened(frame)
    with atomic(folder / "results.csv") as file:
        file.write(inert(plain(short)).write_csv())


def inert(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table for CSV in which no text is a formula: an apostrophe stands before one."""
    texts = pl.selectors.string()
    formula = texts.str.contains(r"^([=@\t\r]|[+\-][^\d.i])")
    return frame.with_columns(pl.when(formula).then(pl.lit("'") + texts).otherwise(texts).name.keep())


def shortened(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the last checkpoint of each trial, or the best point of the grid of each fit that could run."""
    if "checkpoint" in frame.columns:
        return frame.filter(pl.col("checkpoint") == pl.col("horizon"))
    fit = ["method", "epsilon", "replication", *(key for key in frame.columns if key.startswith("world."))]
    best = frame.filter(pl.col("accuracy") == pl.col("accuracy").max().over(fit))
    return best.unique(fit, keep="first", maintain_order=True)


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table for CSV: None is empty among settings, and a setting that is empty everywhere is left out."""
    settings = [pl.col(name) for name in frame.columns if name.startswith(("env.", "agent."))]
    told = frame.with_columns(
        pl.when(column.cast(pl.String).is_in(["None", "NaN"])).then(None).otherwise(column).name.keep()
        for column in settings
    )
    return told.drop(
        name for name in told.columns if name.startswith(("env.", "agent.")) and told[name].is_null().all()
    )


def write_trials(trials: Sequence[Finished], folder: Path) -> None:
    write_data(as_frame(trials), folder)


def write_fits(jobs: Sequence[Job], results: Mapping[str, Finished], folder: Path) -> None:
    write_data(fit_frame(jobs, results), folder)
