"""Result files: one per job, written whole or not at all, and checked when read."""

import hashlib
import json
import os
import warnings
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from privbandit_agents.experiments.names import canonical, name_of, result_path
from privbandit_envs.files import atomic

SCHEMA = 4
Floats = NDArray[np.float64]
JSON = dict[str, Any]


class CorruptResultError(ValueError):
    """A result file is not what was written."""

    suffix = "corrupt"


class StaleResultError(CorruptResultError):
    """Another version of the code wrote the result file, or had other defaults."""

    suffix = "stale"


@dataclass(frozen=True, eq=False)
class Finished:
    """What a job gave.

    Attributes:
        kind: ``"trial"`` or ``"fit"``.
        job: its spec, as JSON values; the hash of it is the job's name.
        settings: all settings with their defaults, by ``env`` and ``agent``.
        arrays: of a trial ``checkpoints, regret, reward``, maybe ``mad, mse``, shape (c,), and ``seconds``, shape (1,);
            of a fit ``accuracy, seconds``, one for each point of the grid, NaN where it could not run.
        notes: of a trial ``simulation``; of a fit ``reasons``, a sentence for each point that could not run, or None.
        provenance: versions, commit, host and date.
        keep: whether the result is stored; one that another day may change, as when a package is missing, is not.
    """

    kind: str
    job: JSON
    settings: JSON
    arrays: Mapping[str, Floats]
    notes: JSON = field(default_factory=dict)
    provenance: Mapping[str, str | None] = field(default_factory=dict)
    keep: bool = True

    @property
    def name(self) -> str:
        return name_of(self.job)

    @property
    def seconds(self) -> float:
        return float(np.nansum(self.arrays["seconds"]))

    @property
    def reasons(self) -> list[str | None]:
        """Why points of the grid could not run; None where they could."""
        return list(self.notes.get("reasons", []))

    @property
    def whole(self) -> bool:
        """Whether a trial's curves all reach its horizon, or a fit's points each have numbers or a reason."""
        if self.kind == "trial":
            users = self.arrays["checkpoints"]
            lengths = {len(array) for name, array in self.arrays.items() if name != "seconds"}
            complete = {"regret", "reward", "seconds"} <= self.arrays.keys() and lengths == {len(users)}
            return complete and bool(users[-1] == self.job["horizon"])
        could = ~np.isnan([self.arrays["accuracy"], self.arrays["seconds"]])
        ran = [reason is None for reason in self.reasons]
        return self.kind == "fit" and len(ran) > 0 and bool((could == ran).all())


def encode(finished: Finished) -> bytes:
    """Return the bytes of a result file: a line with schema version and checksum, and the JSON in a second line.

    The arrays are the base64 of their bytes, so that numbers come back bit for bit.
    """
    arrays = {name: b64encode(np.array(array, "<f8").tobytes()).decode() for name, array in finished.arrays.items()}
    parts = {"kind": finished.kind, "job": finished.job, "settings": finished.settings, "arrays": arrays}
    body = canonical({**parts, "notes": finished.notes, "provenance": dict(finished.provenance)}).encode()
    return b"%b\n%b\n" % (header_of(body), body)


def header_of(body: bytes) -> bytes:
    return b'{"checksum":"%b","schema":%d}' % (hashlib.sha256(body).hexdigest().encode(), SCHEMA)


def decode(body: bytes) -> Finished | None:
    """Return the result that the second line holds, or None if it is not a whole one."""
    try:
        parts = from_json(body)
        texts = parts.pop("arrays")
        arrays = {name: np.frombuffer(b64decode(text, validate=True), "<f8") for name, text in texts.items()}
        found = Finished(**parts, arrays=arrays)
        dicts = all(isinstance(part, dict) for part in (found.job, found.settings, found.notes, found.provenance))
        return found if dicts and found.whole else None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None


def write_result(folder: str | Path, finished: Finished) -> Path:
    """Write the result file of a job; a failure half-way leaves nothing behind.

    Returns:
        Its path, ``<folder>/trials/<name>.json``.
    """
    path = result_path(folder, finished.name)
    with atomic(path, "wb", sync=False) as file:
        file.write(encode(finished))
    return path


def read_result(path: str | Path) -> Finished:
    """Read a result file, which must be, byte for byte, what was written under the name of its job.

    Raises:
        CorruptResultError: it is not.
        StaleResultError: another version wrote it.
        FileNotFoundError: there is none.
    """
    path = Path(path)
    try:
        header, _, rest = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CorruptResultError(f"{path} cannot be read ({error}); delete it and run the job again.") from error
    body = rest[:-1]
    if header == header_of(body) and rest.endswith(b"\n"):
        found = decode(body)
        if found is not None and found.name == path.stem:
            return found
        raise CorruptResultError(f"{path} is not the result of its job; delete it and run the job again.")
    try:
        schema = json.loads(header)["schema"]
    except (ValueError, KeyError, TypeError, RecursionError):
        schema = None
    if schema not in (SCHEMA, None):
        raise StaleResultError(f"{path} has schema {schema!r}, not {SCHEMA}: another version wrote it.")
    raise CorruptResultError(f"{path} is corrupt: its checksum does not match; delete it and run the job again.")


def known_result(folder: str | Path, name: str, settings: Mapping[str, Any]) -> Finished | None:
    """Return the result of a job that was run before, or None.

    A file is set aside as ``.corrupt`` if it is damaged, and as ``.stale`` if another version wrote it or if a default
    has changed since.
    """
    path = result_path(folder, name)
    try:
        found = read_result(path)
        check_settings(path, found.settings, settings)
        return found
    except FileNotFoundError:
        return None
    except CorruptResultError as error:
        set_aside(path, error)
        return None


def check_settings(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise StaleResultError if a job was run with other defaults than today's."""
    changes = []
    for side in ("env", "agent"):
        before, after = old.get(side, {}), new.get(side, {})
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                changes.append(f"{side}.{key} was {before.get(key)!r} and is {after.get(key)!r}")
    if old != new:
        raise StaleResultError(f"{path} was run with other defaults ({[*changes, 'other settings'][0]}).")


def set_aside(path: Path, why: CorruptResultError) -> None:
    """Rename a result that does not count, with a warning; another process may have done so already."""
    aside = path.with_name(f"{path.name}.{why.suffix}")
    number = 1
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}.{why.suffix}-{number}")
    try:
        path.replace(aside)
    except FileNotFoundError:
        return
    warnings.warn(f"{why} It was set aside as {aside.name}; the job runs again.", stacklevel=4)
