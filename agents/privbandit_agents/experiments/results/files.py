"""The files of results: all of a folder read as one table, and written as one for any tool that reads tables."""

import os
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.names import canonical, check_folder
from privbandit_agents.experiments.results.frame import as_frame, inert
from privbandit_agents.experiments.results.queries import curves_in, finals, long
from privbandit_agents.experiments.store.results import CorruptResultError, Finished, check_settings, read_result
from privbandit_agents.zoo.reading import reading
from privbandit_envs.files import atomic

MOST_ROWS = 200_000
"""A longer table is written as CSV with the last checkpoint of each trial, or the best point of each fit, alone."""


def load_results(folder: str | Path, final: bool = False) -> pl.DataFrame:
    """Load every trial's result of a folder; damaged and stale files are left out with a warning.

    Args:
        folder: the ``--out`` folder of a run.
        final: keep the last checkpoint of each trial alone.

    Returns:
        A polars table, one row per trial and checkpoint (``.to_pandas()`` with the extra ``pandas``). ``env_id`` and
        ``agent`` are names; ``label`` is the agent with the settings that this folder's trials gave it. ``notion``,
        ``epsilon``, ``delta`` and ``rho`` are its promise, null where it promised no such number. ``horizon`` and
        ``checkpoint`` are numbers of users, ``regret`` and ``reward`` cumulative, ``static`` is regret against the best
        fixed policy in worlds that change, ``seconds`` the whole trial's. ``env`` is the id with the keyword arguments
        that are not defaults, and ``config`` the canonical JSON of the agent's settings that are not. ``env.KEY`` and
        ``agent.KEY`` have every setting, also the defaults: null where there is no such setting; NaN, or ``"None"``
        among texts, where it is None.

    Raises:
        FileNotFoundError: the folder has no results of trials.
        ValueError: a folder inside it is a link.
    """
    return as_frame(load_trials(folder), final)


@reading()
def load_trials(
    folder: str | Path, but: Collection[str] = (), pace: Callable[[int, int], None] | None = None
) -> list[Finished]:
    """Load every trial's result of a folder, but those of some names, in the order of names; see ``load_results``.

    ``pace`` is told before each file how many were read, of how many.

    Agents and environments that are neither here nor installed are not imported; their defaults are not compared.
    """
    check_folder(folder)
    trials = Path(folder) / "trials"
    names = (
        sorted(name for name in os.listdir(trials) if name.endswith(".json") and name[:-5] not in but)
        if trials.is_dir()
        else []
    )
    if not names:
        raise FileNotFoundError(f"no results in {folder}; `privbandit run --out {folder} ...` writes them.")
    found = []
    known: dict[str, Any] = {}
    shared: dict[str, Any] = {}  # settings, of which many trials have the same
    for done, name in enumerate(names):
        if pace is not None:
            pace(done, len(names))
        try:
            finished = read_result(trials / name)
            if finished.kind == "trial":
                check_defaults(trials / name, finished, known)
            settings = shared.setdefault(canonical(finished.settings), finished.settings)
            found.append(replace(finished, settings=settings))
        except CorruptResultError as error:
            warnings.warn(f"{error} It is left out.", stacklevel=3)
        except FileNotFoundError:  # set aside by a sweep just now, or a link to nowhere
            warnings.warn(f"{trials / name} is not there any more. It is left out.", stacklevel=3)
    if not found:
        raise FileNotFoundError(f"no results in {folder} that can be read; run its trials again.")
    plays = [finished for finished in found if finished.kind == "trial"]
    if not plays:
        raise FileNotFoundError(f"no trials in {folder}, only fits; `privbandit reproduce` shows these.")
    return plays


def with_those_there(trials: Sequence[Finished], folder: str | Path) -> list[Finished]:
    """Return results, and what else the folder has from earlier runs."""
    known = {finished.name: finished for finished in trials}
    with suppress(FileNotFoundError):
        known |= {finished.name: finished for finished in load_trials(folder, set(known))}
    return list(known.values())


def check_defaults(path: Path, finished: Finished, known: dict[str, Any]) -> None:
    """Raise StaleResultError if a trial was run with defaults that are others today.

    ``known`` gets the settings, by all of a spec but the seed; None where the environment or agent is not here.
    """
    cell = repr({**finished.job, "seed": 0})
    if cell not in known:
        try:
            known[cell] = Trial(**finished.job).settings
        except (Exception, SystemExit):  # of a package that is not here
            known[cell] = None
    if known[cell] is not None:
        check_settings(path, finished.settings, known[cell])


def write_data(frame: pl.DataFrame, folder: Path) -> None:
    """Write ``results.parquet``, and ``results.csv`` with the same rows unless they are too many.

    Pages of the first have checksums, which ``pyarrow.parquet.read_table(path, page_checksum_verification=True)`` and
    the readers of this project look at.
    """
    from pyarrow.parquet import ParquetWriter

    schema, rows = long(frame.clear()).to_arrow().schema, 0
    options = {"compression": "zstd", "write_page_checksum": True}
    with atomic(folder / "results.parquet", "wb") as file, ParquetWriter(file, schema, **options) as writer:
        for part in parts(frame):
            writer.write_table(part.to_arrow())
            rows += part.height
    told = inert(plain(frame if rows <= MOST_ROWS else shortened(frame)))
    with atomic(folder / "results.csv") as file:
        file.write(long(told.clear()).write_csv())
        for part in parts(told):
            part.write_csv(file, include_header=False)


def parts(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield a frame in parts of at most some 20,000 rows, with a row for each checkpoint."""
    rows = long(frame.select(curves_in(frame))).height or frame.height
    for part in frame.iter_slices(max(1, 20_000 * frame.height // max(rows, 1))):
        yield long(part)


def shortened(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the last checkpoint of each trial, or the best point of the grid of each fit that could run."""
    if "checkpoint" in frame.columns:
        return finals(frame)
    fit = ["method", "epsilon", "replication", *(key for key in frame.columns if key.startswith("world."))]
    best = frame.filter(pl.col("accuracy") == pl.col("accuracy").max().over(fit))
    return best.unique(fit, keep="first", maintain_order=True)


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table for CSV: None is empty among settings, and a setting that is empty everywhere is left out."""
    settings = cs.starts_with("env.", "agent.")
    numbers, texts = settings & cs.float(), settings & cs.string()
    told = frame.with_columns(numbers.fill_nan(None), texts.replace({"None": None, "NaN": None}))
    return told.drop(name for name in told.select(settings).columns if told[name].is_null().all())
