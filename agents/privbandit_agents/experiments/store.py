"""Result files: one per trial, written whole or not at all, and checked when read."""

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privbandit_agents.experiments.labels import with_settings
from privbandit_agents.state import atomic

if TYPE_CHECKING:
    import polars as pl

SCHEMA = 1
COLUMNS = ("env", "agent", "config", "seed", "checkpoint", "regret", "reward", "seconds")

Payload = dict[str, Any]
"""``trial`` (the spec), ``checkpoints``, ``regret``, ``reward``, ``seconds`` and ``provenance``."""


class CorruptResultError(ValueError):
    """A result file is not what was written."""


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: keys sorted, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def name_of(spec: Mapping[str, Any]) -> str:
    """Return the name of a trial: the first 16 hex digits of the SHA-256 of its canonical JSON."""
    return hashlib.sha256(canonical(spec).encode()).hexdigest()[:16]


def path_of(folder: str | Path, name: str) -> Path:
    """Return where the result of a trial is kept."""
    return Path(folder) / "trials" / f"{name}.json"


def encode(payload: Payload) -> bytes:
    """Return the bytes of a result file: schema version, checksum of the payload, payload."""
    checksum = hashlib.sha256(canonical(payload).encode()).hexdigest()
    return f"{canonical({'schema': SCHEMA, 'checksum': checksum, 'payload': payload})}\n".encode()


def write_result(folder: str | Path, payload: Payload) -> Path:
    """Write the result file of a trial; a failure half-way leaves nothing behind.

    Returns:
        Its path, ``<folder>/trials/<name>.json``.
    """
    path = path_of(folder, name_of(payload["trial"]))
    with atomic(path, "wb") as file:
        file.write(encode(payload))
    return path


def read_result(path: str | Path) -> Payload:
    """Read a result file.

    The file must be, byte for byte, the canonical text of what it holds, under the name of its trial.

    Raises:
        CorruptResultError: it is not, or another version wrote it.
        FileNotFoundError: there is none.
    """
    path = Path(path)
    raw = path.read_bytes()
    try:
        document = json.loads(raw)
        schema, payload = document["schema"], document["payload"]
        intact = encode(payload) == raw and name_of(payload["trial"]) == path.stem
    except (ValueError, KeyError, TypeError, RecursionError):
        schema, intact = SCHEMA, False
    if schema != SCHEMA:
        raise CorruptResultError(f"{path} has schema {schema!r}, not {SCHEMA}: another version of privbandit wrote it.")
    if not intact:
        raise CorruptResultError(f"{path} is corrupt: its checksum does not match; delete it and run the trial again.")
    return dict(payload)


def finished(folder: str | Path, name: str) -> Payload | None:
    """Return the result of a trial that was run before, or None; a corrupt file is set aside as ``.corrupt``."""
    path = path_of(folder, name)
    try:
        return read_result(path)
    except FileNotFoundError:
        return None
    except CorruptResultError as error:
        aside = path.replace(path.with_name(f"{path.name}.corrupt"))
        warnings.warn(f"{error} It was set aside as {aside.name}; the trial runs again.", stacklevel=2)
        return None


def load_results(folder: str | Path) -> "pl.DataFrame":
    """Load every result of a folder; a corrupt file is left out with a warning.

    Args:
        folder: the ``--out`` folder of a run.

    Returns:
        One row per trial and checkpoint. ``env`` is the id with the keyword arguments that are not defaults,
        ``config`` the canonical JSON of the agent's settings, ``checkpoint`` the number of users served, ``regret`` and
        ``reward`` cumulative, ``seconds`` the whole trial's.

    Raises:
        FileNotFoundError: the folder has no results.
    """
    paths = sorted((Path(folder) / "trials").glob("*.json"))
    if not paths:
        raise FileNotFoundError(f"no results in {folder}; `privbandit run --out {folder} ...` writes them.")
    return as_frame(readable(paths)).select(COLUMNS)


def readable(paths: Iterable[Path]) -> Iterable[Payload]:
    """Yield the results in the files that are not corrupt."""
    for path in paths:
        try:
            yield read_result(path)
        except CorruptResultError as error:
            warnings.warn(str(error), stacklevel=3)


def as_frame(payloads: Iterable[Payload]) -> "pl.DataFrame":
    """Return results as a table: ``COLUMNS`` and ``horizon``, one row per trial and checkpoint."""
    import polars as pl

    text, number, real = pl.String, pl.Int64, pl.Float64
    types = dict(zip((*COLUMNS, "horizon"), (text, text, text, number, number, real, real, real, number), strict=True))
    frames = [pl.DataFrame(columns_of(payload), schema=types) for payload in payloads]
    return pl.concat(frames) if frames else pl.DataFrame(schema=types)


def columns_of(payload: Payload) -> dict[str, list[Any]]:
    """Return one trial's part of the table, column by column."""
    trial = payload["trial"]
    rows = len(payload["checkpoints"])
    constant = {
        "env": with_settings(trial["env"], trial["env_kwargs"]),
        "agent": trial["agent"],
        "config": canonical(trial["config"]),
        "seed": trial["seed"],
        "seconds": payload["seconds"],
        "horizon": trial["horizon"],
    }
    varying = {"checkpoint": payload["checkpoints"], "regret": payload["regret"], "reward": payload["reward"]}
    return {name: [value] * rows for name, value in constant.items()} | varying
