"""All results of a folder, as one table."""

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privbandit_agents.experiments.labels import with_settings
from privbandit_agents.experiments.store import (
    SERIES,
    CorruptResultError,
    Payload,
    canonical,
    changed_setting,
    read_result,
)
from privbandit_agents.experiments.trial import Trial

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("env", "agent", "config", "seed", "checkpoint", "regret", "reward", "seconds")


def load_results(folder: str | Path) -> "pl.DataFrame":
    """Load every result of a folder; what is corrupt, or was run with other defaults, is left out with a warning.

    Args:
        folder: the ``--out`` folder of a run.

    Returns:
        One row per trial and checkpoint. ``env`` is the id with the keyword arguments that are not defaults,
        ``config`` the canonical JSON of the agent's settings, ``checkpoint`` the number of users served, ``regret`` and
        ``reward`` cumulative, ``seconds`` the whole trial's.

    Raises:
        FileNotFoundError: the folder has no results.
    """
    return as_frame(load_payloads(folder)).select(COLUMNS)


def load_payloads(folder: str | Path) -> list[Payload]:
    """Load every result of a folder in the order of names; see ``load_results``."""
    trials = Path(folder) / "trials"
    names = sorted(name for name in os.listdir(trials) if name.endswith(".json")) if trials.is_dir() else []
    if not names:
        raise FileNotFoundError(f"no results in {folder}; `privbandit run --out {folder} ...` writes them.")
    payloads = []
    known: dict[Any, Any] = {}
    for name in names:
        try:
            payload = read_result(trials / name, arrays=True)
            check_settings(trials / name, payload, known)
            payloads.append(payload)
        except CorruptResultError as error:
            warnings.warn(str(error), stacklevel=3)
    if not payloads:
        raise FileNotFoundError(f"no results in {folder} that can be read; run its trials again.")
    return payloads


def check_settings(path: Path, payload: Payload, known: dict[Any, Any]) -> None:
    """Raise CorruptResultError if a trial was run with defaults that are others today.

    Args:
        path: of the result.
        payload: what it holds.
        known: settings found so far, by all of a spec but the seed; None where the environment or agent is not here.
    """
    spec = payload["trial"]
    cell = spec["env"], spec["agent"], spec["horizon"], repr(spec["env_kwargs"]), repr(spec["config"])
    if cell not in known:
        try:
            known[cell] = Trial(**spec).settings
        except Exception:  # of a package that is not here
            known[cell] = None
    if known[cell] not in (None, payload["settings"]):
        change = changed_setting(payload["settings"], known[cell])
        raise CorruptResultError(f"{path} was run with other defaults ({change}); it is left out.")


def as_frame(payloads: Iterable[Payload]) -> "pl.DataFrame":
    """Return results as a table: ``COLUMNS`` and ``horizon``, one row per trial and checkpoint."""
    import polars as pl

    payloads = list(payloads)
    text, number, real = pl.String, pl.Int64, pl.Float64
    kinds = {"env": text, "agent": text, "config": text, "seed": number, "seconds": real, "horizon": number}
    constants = pl.DataFrame([constants_of(payload) for payload in payloads], schema=kinds)
    lengths = np.array([len(payload["checkpoints"]) for payload in payloads], dtype=np.int64)
    rows = constants[np.repeat(np.arange(len(payloads)), lengths)]
    series = [pl.Series(key.removesuffix("s"), joined(payloads, key)) for key in SERIES]
    return rows.with_columns(series).select(*COLUMNS, "horizon")


def joined(payloads: list[Payload], key: str) -> Any:
    """Return one series of all results, end to end."""
    return np.concatenate([np.asarray(payload[key], dtype=SERIES[key]) for payload in payloads] or [np.empty(0)])


def constants_of(payload: Payload) -> dict[str, Any]:
    """Return what is the same in all rows of a trial."""
    trial = payload["trial"]
    return {
        "env": with_settings(trial["env"], trial["env_kwargs"]),
        "agent": trial["agent"],
        "config": canonical(trial["config"]),
        "seed": trial["seed"],
        "seconds": payload["seconds"],
        "horizon": trial["horizon"],
    }
