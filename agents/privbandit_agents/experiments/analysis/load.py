"""All results of a folder as one table."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.names import canonical, with_settings
from privbandit_agents.experiments.store.results import CorruptResultError, Finished, check_settings, read_result

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("env", "agent", "config", "seed", "checkpoint", "regret", "reward", "seconds")
ARRAYS = ("checkpoints", "regret", "reward")


def load_results(folder: str | Path) -> "pl.DataFrame":
    """Load every trial's result of a folder; damaged and stale files are left out with a warning.

    Args:
        folder: the ``--out`` folder of a run.

    Returns:
        One row per trial and checkpoint. ``env`` is the id with the keyword arguments that are not defaults,
        ``config`` the canonical JSON of the agent's settings, ``checkpoint`` the number of users served, ``regret`` and
        ``reward`` cumulative, ``seconds`` the whole trial's.

    Raises:
        FileNotFoundError: the folder has no results of trials.
    """
    return as_frame(load_trials(folder))


def load_trials(folder: str | Path) -> list[Finished]:
    """Load every trial's result of a folder in the order of names; see ``load_results``."""
    trials = Path(folder) / "trials"
    names = sorted(name for name in os.listdir(trials) if name.endswith(".json")) if trials.is_dir() else []
    if not names:
        raise FileNotFoundError(f"no results in {folder}; `privbandit run --out {folder} ...` writes them.")
    found = []
    known: dict[str, Any] = {}
    for name in names:
        try:
            finished = read_result(trials / name)
            if finished.kind == "trial":
                check_defaults(trials / name, finished, known)
            found.append(finished)
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


def check_defaults(path: Path, finished: Finished, known: dict[str, Any]) -> None:
    """Raise StaleResultError if a trial was run with defaults that are others today.

    ``known`` gets the settings, by all of a spec but the seed; None where the environment or agent is not here.
    """
    cell = repr({**finished.job, "seed": 0})
    if cell not in known:
        try:
            known[cell] = Trial(**finished.job).settings
        except Exception:  # of a package that is not here
            known[cell] = None
    if known[cell] is not None:
        check_settings(path, finished.settings, known[cell])


def as_frame(trials: Sequence[Finished]) -> "pl.DataFrame":
    """Return results of trials as a table with ``COLUMNS``, one row per trial and checkpoint."""
    import polars as pl

    text, whole, real = pl.String, pl.Int64, pl.Float64
    kinds = {"env": text, "agent": text, "config": text, "seed": whole, "seconds": real}
    jobs = [finished.job for finished in trials]
    constants = {
        "env": [with_settings(job["env"], job["env_kwargs"]) for job in jobs],
        "agent": [job["agent"] for job in jobs],
        "config": [canonical(job["config"]) for job in jobs],
        "seed": [job["seed"] for job in jobs],
        "seconds": [finished.seconds for finished in trials],
    }
    lengths = [len(finished.arrays["checkpoints"]) for finished in trials]
    rows = pl.DataFrame(constants, schema=kinds)[np.repeat(np.arange(len(trials)), lengths)]
    series = {name: np.concatenate([finished.arrays[name] for finished in trials]) for name in ARRAYS}
    return rows.with_columns(
        pl.Series("checkpoint", series["checkpoints"].astype(np.int64)),
        pl.Series("regret", series["regret"]),
        pl.Series("reward", series["reward"]),
    ).select(COLUMNS)
