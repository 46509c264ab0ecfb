"""Result files: one per trial, written whole or not at all, and checked when read."""

import hashlib
import json
import os
import warnings
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import from_json

from privbandit_envs.files import atomic

SCHEMA = 3
SERIES = {"checkpoints": "<i8", "regret": "<f8", "reward": "<f8"}
"""The series of a result and their types; in the file each is the base64 of its bytes."""
CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
ERRORS = {"mad": "<f8", "mse": "<f8"}
"""Series that some results have beside them."""
PARTS = {"trial", "settings", *SERIES, "seconds", "simulation", "provenance"}

Payload = dict[str, Any]
"""``trial`` (the spec), ``settings`` (with defaults), ``checkpoints``, ``regret``, ``reward``, ``seconds``,
``simulation``, ``provenance``; maybe ``mad`` and ``mse``."""


class CorruptResultError(ValueError):
    """A result file is not what was written."""


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: keys sorted, no spaces."""
    return CANONICAL.encode(value)


def name_of(spec: Mapping[str, Any]) -> str:
    """Return the name of a trial: the first 16 hex digits of the SHA-256 of its canonical JSON."""
    return hashlib.sha256(canonical(spec).encode()).hexdigest()[:16]


def path_of(folder: str | Path, name: str) -> Path:
    """Return where the result of a trial is kept."""
    return Path(folder) / "trials" / f"{name}.json"


def encode(payload: Payload) -> bytes:
    """Return the bytes of a result file: a line with schema version and checksum, and the payload in a second line."""
    packed = {
        key: b64encode(np.array(payload[key], dtype=kind).tobytes()).decode()
        for key, kind in series_of(payload).items()
    }
    body = canonical({**payload, **packed}).encode()
    return b"%b\n%b\n" % (header_of(body), body)


def series_of(payload: Payload) -> dict[str, str]:
    """Return the series that a result has, and their types."""
    return SERIES | {key: kind for key, kind in ERRORS.items() if key in payload}


def header_of(body: bytes) -> bytes:
    """Return the first line of a result file, in canonical JSON."""
    return b'{"checksum":"%b","schema":%d}' % (hashlib.sha256(body).hexdigest().encode(), SCHEMA)


def write_result(folder: str | Path, payload: Payload) -> Path:
    """Write the result file of a trial; a failure half-way leaves nothing behind.

    Returns:
        Its path, ``<folder>/trials/<name>.json``.
    """
    path = path_of(folder, name_of(payload["trial"]))
    with atomic(path, "wb", sync=False) as file:
        file.write(encode(payload))
    return path


def read_result(path: str | Path, arrays: bool = False) -> Payload:
    """Read a result file.

    The file must be, byte for byte, what was written, under the name of its trial.

    Args:
        path: of the file.
        arrays: return the series as arrays; default: as lists.

    Raises:
        CorruptResultError: it is not, or another version wrote it.
        FileNotFoundError: there is none.
    """
    path = Path(path)
    try:
        header, _, rest = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CorruptResultError(f"{path} cannot be read ({error}); delete it and run the trial again.") from error
    body = rest[:-1]
    if header == header_of(body) and rest.endswith(b"\n"):
        payload = payload_of(body)
        if payload is not None and name_of(payload["trial"]) == path.stem:
            return payload if arrays else {**payload, **{key: payload[key].tolist() for key in series_of(payload)}}
        raise CorruptResultError(f"{path} is not the result of its trial; delete it and run the trial again.")
    if schema_of(header) not in (SCHEMA, None):
        raise CorruptResultError(f"{path} has schema {schema_of(header)!r}, not {SCHEMA}: another version wrote it.")
    raise CorruptResultError(f"{path} is corrupt: its checksum does not match; delete it and run the trial again.")


def payload_of(body: bytes) -> Payload | None:
    """Return a payload if it has the parts of a whole result: series of one length, up to the horizon."""
    try:
        payload: Payload = from_json(body)
        series = series_of(payload)
        payload |= {key: np.frombuffer(b64decode(payload[key], validate=True), kind) for key, kind in series.items()}
        users = payload["checkpoints"]
        whole = users[-1] == payload["trial"]["horizon"] and all(len(payload[key]) == len(users) for key in series)
        parts = payload.keys() - ERRORS.keys() == PARTS and all(
            isinstance(payload[key], dict) for key in ("settings", "provenance")
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None
    return payload if whole and parts else None


def schema_of(header: bytes) -> Any:
    """Return the schema version that a first line names, or None."""
    try:
        return json.loads(header)["schema"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def finished(folder: str | Path, name: str, settings: Mapping[str, Any]) -> Payload | None:
    """Return the result of a trial that was run before, or None.

    A file that is corrupt, or whose trial had other settings behind the same spec because a default has changed since,
    is set aside as ``.corrupt`` or ``.stale``.
    """
    path = path_of(folder, name)
    try:
        payload = read_result(path)
    except FileNotFoundError:
        return None
    except CorruptResultError as error:
        set_aside(path, "corrupt", str(error))
        return None
    if payload["settings"] == settings:
        return payload
    change = changed_setting(payload["settings"], settings)
    set_aside(path, "stale", f"{path} was run with other defaults ({change}).")
    return None


def set_aside(path: Path, kind: str, why: str) -> None:
    """Rename a result that does not count, with a warning; another process may have done so already."""
    aside = path.with_name(f"{path.name}.{kind}")
    number = 1
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}.{kind}-{number}")
    try:
        path.replace(aside)
    except FileNotFoundError:
        return
    warnings.warn(f"{why} It was set aside as {aside.name}; the trial runs again.", stacklevel=3)


def changed_setting(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return the first setting that differs, in words."""
    for side in ("env", "agent"):
        for key in sorted({*old[side], *new[side]}):
            was, now = old[side].get(key), new[side].get(key)
            if was != now:
                return f"{side}.{key} was {was!r} and is {now!r}"
    return "other settings"
