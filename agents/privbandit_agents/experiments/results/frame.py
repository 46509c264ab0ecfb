"""Results as a table of data: one row per trial and checkpoint, one column per setting."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from privbandit_agents.experiments.jobs.job import Job
from privbandit_agents.experiments.jobs.trial import ERRORS
from privbandit_agents.experiments.names import TALLIES, agent_text, canonical, name_of, swept, with_settings
from privbandit_agents.experiments.results.queries import finals, long
from privbandit_agents.experiments.store.results import Finished

Kinds = Mapping[str, Any]
COLUMNS = (
    *("env_id", "agent", "label", "notion", "epsilon", "delta", "rho", "horizon", "seed"),
    *("checkpoint", "regret", "reward", "seconds", "env", "config"),
)
"""What every table has; settings follow, as ``env.KEY`` and ``agent.KEY``."""
PROMISES = ("notion", "epsilon", "delta", "rho")
ARRAYS = ("regret", "reward")
MORE = (*ERRORS, *TALLIES)
"""Quantities that only some trials have."""
NOTES: Kinds = {
    **{"cell": pl.String, "player": pl.String, "privacy": pl.String},
    **{"visits": pl.Int64, "person": pl.Float64},
}
"""The name of a cell, its agent with the module, its promise in words, how often a person comes, epsilon in all."""
NUMBER = r"(\d[\d.e+-]*|inf)"
PROMISED = rf"((?:local|shuffle)(?:-reward)?|joint|reward) (?:rho {NUMBER}|{NUMBER}(?:, {NUMBER})?)"
WORDS = re.compile(rf"{PROMISED}(?: a (?:visit|person))?(?: \(rho {NUMBER}\))?")
KINDS: Kinds = {
    "notion": pl.String,
    **dict.fromkeys(("epsilon", "delta", "rho", "seconds", "regret", "reward"), pl.Float64),
    **dict.fromkeys(("horizon", "seed", "checkpoint"), pl.Int64),
}


def as_frame(trials: Sequence[Finished], final: bool = False) -> pl.DataFrame:
    """Return results of trials as a table, one row per trial and checkpoint; ``final`` keeps the last one of each.

    The column ``static`` is there if a world changes.
    """
    frame = public(frame_of(trials, ("static",)))
    return finals(frame) if final else long(frame)


def public(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame of trials with the columns that files have."""
    return frame.select(*COLUMNS, *(name for name in frame.columns if name not in (*COLUMNS, *NOTES)))


def frame_of(trials: Sequence[Finished], more: Sequence[str] = MORE) -> pl.DataFrame:
    """Return the frame of trials, a row for each, with its checkpoints and the values there as lists.

    It has, besides the columns of ``as_frame``, those in ``NOTES``, and the ``more`` quantities that any trial has.
    """
    places, cells = numbered_cells(trials)
    names = [name_of({key: run.job[key] for key in run.job if key not in ("seed", "checkpoints")}) for run in cells]
    notes = [
        (names[place], run.job["agent"], told_of(run), run.notes.get("visits", 1), run.notes.get("person"))
        for run, place in zip(trials, places, strict=True)
    ]
    table = cell_table(cells)[places].with_columns(
        pl.Series("seed", [run.job["seed"] for run in trials], pl.Int64),
        pl.Series("seconds", [run.seconds for run in trials], pl.Float64),
        *map(pl.Series, NOTES, zip(*notes, strict=True), NOTES.values()),
    )
    users = [run.arrays["checkpoints"] for run in trials]
    quantities = [*ARRAYS, *(name for name in more if any(name in run.arrays for run in trials))]
    curves = {
        name: np.concatenate(
            [run.arrays.get(name, np.full(len(at), np.nan)) for run, at in zip(trials, users, strict=True)]
        )
        for name in quantities
    }
    flat = pl.DataFrame({"checkpoint": np.concatenate(users).astype(np.int64), **curves}).fill_nan(None)
    trial = np.repeat(np.arange(len(trials)), [len(at) for at in users])
    return table.hstack(flat.group_by(pl.Series("trial", trial), maintain_order=True).agg(pl.all()).drop("trial"))


def told_of(run: Finished) -> str:
    """Return the promise of a trial, and its agent if the name stands for another one."""
    agent, played = str(run.job["agent"]), str(run.notes.get("played", run.job["agent"]))
    by = "" if played.rpartition(":")[2] == agent.rpartition(":")[2] else f"; {played} played"
    return f"{run.notes.get('privacy', 'not recorded')}{by}"


def numbered_cells(trials: Sequence[Finished]) -> tuple[np.ndarray[Any, Any], list[Finished]]:
    """Return which cell each trial belongs to, and one trial of each cell; those of a cell differ in their seed."""
    found: dict[str, int] = {}
    cells: list[Finished] = []
    places = np.empty(len(trials), np.int64)
    for i, run in enumerate(trials):
        key = repr((run.job["env"], run.job["env_kwargs"], run.job["agent"], run.job["config"], run.job["horizon"]))
        places[i] = found.setdefault(key, len(cells))
        if places[i] == len(cells):
            cells.append(run)
    return places, cells


def cell_table(cells: Sequence[Finished]) -> pl.DataFrame:
    """Return what all trials of a cell share, one row per cell."""
    labels = labels_of(cells)
    fixed = [
        {
            "env_id": run.job["env"].rpartition(":")[2],
            "agent": run.job["agent"].rpartition(":")[2],
            "label": label,
            **dict(zip(PROMISES, promise_of(run), strict=True)),
            "horizon": run.job["horizon"],
            "env": with_settings(run.job["env"], run.job["env_kwargs"]),
            "config": canonical(run.job["config"]),
        }
        for run, label in zip(cells, labels, strict=True)
    ]
    known = pl.DataFrame(fixed, schema_overrides={key: kind for key, kind in KINDS.items() if key in fixed[0]})
    given = [
        {f"{side}.{key}": value for side in ("env", "agent") for key, value in run.settings[side].items()}
        for run in cells
    ]
    return known.with_columns(settings_columns(given))


def labels_of(cells: Sequence[Finished]) -> list[str]:
    """Return each agent's name with the settings that any trial of this agent has given, also where it has not."""
    given = swept((run.job["agent"], run.job["config"]) for run in cells)
    every = [(run.job["agent"], {**run.settings["agent"], **run.job["config"]}) for run in cells]
    return [agent_text(agent, {key: both[key] for key in given[agent] if key in both}) for agent, both in every]


def promise_of(run: Finished) -> tuple[str | None, float | None, float | None, float | None]:
    """Return the notion, epsilon, delta and rho that an agent promised; of old results from the words, to 4 digits."""
    if (told := run.notes.get("guarantee")) is not None:
        return told["notion"], told["epsilon"], told["delta"], told["rho"]
    words = run.notes.get("privacy")
    if words is None:
        return None, None, None, None
    if (read := WORDS.match(words)) is None:
        return words.partition(" ")[0], None, None, None
    notion, alone, *pair, beside = read.groups()
    epsilon, delta, rho = (None if text is None else float(text) for text in (*pair, alone or beside))
    return notion, epsilon, 0.0 if epsilon is not None and delta is None else delta, rho


def settings_columns(given: Sequence[Mapping[str, Any]]) -> list[pl.Series]:
    """Return a column for each setting.

    Null stands where there is no such setting. A setting that is None is NaN among numbers and ``"None"`` among texts.
    """
    names = dict.fromkeys(key for one in given for key in one)
    return [column(name, [(name in one, one.get(name)) for one in given]) for name in names]


def column(name: str, values: Sequence[tuple[bool, Any]]) -> pl.Series:
    there = [value for known, value in values if known]
    kind, cast = kind_of(there)
    return pl.Series(name, [cast(value) if known else None for known, value in values], kind)


def kind_of(values: Sequence[Any]) -> tuple[Any, Callable[[Any], Any]]:
    """Return the type of a column that holds all values, and what makes each of them fit."""
    told = [value for value in values if value is not None]
    if told and all(isinstance(value, bool) for value in values):
        return pl.Boolean, bool
    if told and all(isinstance(value, int | float) and not isinstance(value, bool) for value in told):
        whole = all(isinstance(value, int) and abs(value) < 2**63 for value in values)
        return (pl.Int64, int) if whole else (pl.Float64, lambda value: math.nan if value is None else float(value))
    return pl.String, lambda value: value if isinstance(value, str) else "None" if value is None else canonical(value)


def fit_frame(jobs: Iterable[Job], results: Mapping[str, Finished]) -> pl.DataFrame:
    """Return results of fits as the frame, one row per replication and point of the grid."""
    rows, given = [], []
    for job in (job for job in jobs if job.name in results):
        run = results[job.name]
        numbers = (run.arrays[name].tolist() for name in ("accuracy", "seconds"))
        scores = zip(job.points, run.reasons, *numbers, strict=True)
        for place, (point, why, accuracy, seconds) in enumerate(scores):
            told = {"cell": job.cell, "place": place}
            told |= {"method": job.traits["method"], "agent": job.traits["agent"], "epsilon": run.job["epsilon"]}
            scored = {"accuracy": accuracy, "seconds": seconds, "why": why or ""}
            rows.append({**told, "replication": job.replication, **scored})
            settings = {**run.settings["agent"], **point}
            given.append(
                {f"world.{key}": value for key, value in run.job["world"].items()}
                | {f"agent.{key}": value for key, value in settings.items()}
            )
    kinds = dict.fromkeys(("epsilon", "accuracy", "seconds"), pl.Float64)
    return pl.DataFrame(rows, schema_overrides=kinds).with_columns(settings_columns(given))


def inert(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table for CSV in which no text is a formula: an apostrophe stands before one."""
    texts = pl.selectors.string()
    formula = texts.str.contains(r"^([=@\t\r]|[+\-][^\d.i])")
    return frame.with_columns(pl.when(formula).then(pl.lit("'") + texts).otherwise(texts).name.keep())
