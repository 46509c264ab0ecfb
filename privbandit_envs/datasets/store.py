"""Prepared data on disk: one ``.npz`` file each, with arrays as they are and facts as JSON, without pickle."""

import json
import os
import struct
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile, is_zipfile

import numpy as np
from numpy.typing import NDArray

from privbandit_envs.files import arrays_of, atomic, regular
from privbandit_envs.validate import cut

FOLDER = "PRIVBANDIT_DATA"
"""Environment variable that names the folder of prepared data."""
FORMAT = 1
WRONG = (ValueError, KeyError, TypeError, AttributeError, EOFError, OverflowError, MemoryError)
MALFORMED = (*WRONG, BadZipFile, RuntimeError, zlib.error, struct.error)
T = TypeVar("T")
Facts = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
Build = Callable[[Facts, Arrays], T]
"""Makes data from a file's facts and arrays; raises one of ``MALFORMED`` if they are of another kind."""


def folder() -> Path:
    """Return the folder of prepared data: ``PRIVBANDIT_DATA``, or ``privbandit`` in the user's cache."""
    named = os.environ.get(FOLDER)
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "privbandit"


def save(path: Path, facts: Facts, arrays: Arrays) -> None:
    """Write a file, whole or not at all; raise OSError if it cannot be written."""
    with atomic(path, "wb") as file:
        np.savez(file, facts=np.array(json.dumps({"format": FORMAT, **facts})), **arrays)  # type: ignore[arg-type]


def load(path: Path, build: Build[T], what: str, command: str) -> T:
    """Read what ``save`` wrote; a file is read again only if it has changed.

    Args:
        path: the file.
        build: makes the data.
        what: names the data in errors.
        command: makes such a file.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the file is of another kind or damaged.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no file {str(path)!r}; make one with {command}.")
    stat = path.stat()
    try:
        data: T = _load(path.resolve(), build, (stat.st_mtime_ns, stat.st_size))
    except MALFORMED as error:
        reason = cut(str(error)).rstrip(".")
        raise ValueError(f"{path} is no prepared {what} ({reason}); make one with {command}.") from error
    return data


@lru_cache(maxsize=8)
def _load(path: Path, build: Build[Any], version: tuple[int, int]) -> Any:
    if not is_zipfile(path):
        raise ValueError("it is no .npz archive")
    arrays = arrays_of(path)
    return build(_facts(arrays), {name: array for name, array in arrays.items() if name != "facts"})


def _facts(file: Any) -> Facts:
    facts: Facts = json.loads(str(file["facts"]))
    if facts.pop("format", None) != FORMAT:
        raise ValueError("it is of another kind or version")
    return facts


def facts_of(path: Path) -> Facts | None:
    """Return the facts of a prepared file without reading its arrays, or None if it is no such file."""
    try:
        with regular(path) as opened, np.load(opened, allow_pickle=False) as file:
            return _facts(file)
    except (OSError, *MALFORMED):
        return None
