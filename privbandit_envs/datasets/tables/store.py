"""Prepared data sets in a folder: one ``.npz`` file each, without pickle."""

import json
import os
import warnings
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from zipfile import BadZipFile, is_zipfile

import numpy as np

from privbandit_envs.datasets.dataset import Dataset
from privbandit_envs.datasets.store import atomic

FOLDER = "PRIVBANDIT_DATA"
"""Environment variable that names the folder of prepared data."""
FORMAT = 1
KIND = "classification"


@dataclass(frozen=True)
class Facts:
    """Where a prepared data set comes from.

    Attributes:
        name: of the data set.
        origin: name of the file that was read.
        generated: whether that is a generated sample, no real data.
        incomplete: rows left out because a value is missing.
        others: rows left out because of another label, or another value of a column that is restricted.
    """

    name: str
    origin: str
    generated: bool
    incomplete: int
    others: int


@dataclass(frozen=True, eq=False)
class Prepared:
    """A data set and where it comes from."""

    data: Dataset
    facts: Facts


def folder() -> Path:
    """Return the folder of prepared data: ``PRIVBANDIT_DATA``, or ``privbandit`` in the user's cache."""
    named = os.environ.get(FOLDER)
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "privbandit"


def place(name: str) -> Path:
    """Return the file of a data set in that folder."""
    return folder() / f"{name}.npz"


def save(prepared: Prepared, path: Path) -> None:
    """Write the file, whole or not at all; make its folder if there is none.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = prepared.data
    names = {"label_names": data.label_names, "feature_names": data.feature_names}
    facts = json.dumps({"kind": KIND, "format": FORMAT, **names, **asdict(prepared.facts)})
    public = np.empty(0, dtype=bool) if data.public is None else data.public
    with atomic(path) as file:
        np.savez(file, facts=np.array(facts), X=data.X, y=data.y, public=public)


def load(path: Path) -> Prepared:
    """Read what ``save`` wrote; the file is read again only if it has changed.

    Warns that the data are a generated sample if they are.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a file of another kind, or a damaged one.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no file {str(path)!r}; privbandit data shows how to make one.")
    stat = path.stat()
    found = _load(path.resolve(), (stat.st_mtime_ns, stat.st_size))
    if found.facts.generated:
        warnings.warn(f"{path} is a generated sample of {found.facts.name}, not real data.", stacklevel=2)
    return found


@lru_cache(maxsize=4)
def _load(path: Path, version: tuple[int, int]) -> Prepared:
    try:
        if not is_zipfile(path):
            raise ValueError("it is no .npz archive")
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            facts = json.loads(str(file["facts"]))
            if facts.pop("kind") != KIND or facts.pop("format") != FORMAT:
                raise ValueError("it is of another kind or version")
            label_names, feature_names = (tuple(facts.pop(key)) for key in ("label_names", "feature_names"))
            public = file["public"]
            data = Dataset(file["X"], file["y"], label_names, feature_names, public if len(public) else None)
            return Prepared(data, Facts(**facts))
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(
            f"{path} is no prepared data set ({reason}); make one with privbandit data NAME PATH."
        ) from error


def facts_of(path: Path) -> Facts | None:
    """Return the facts of a prepared file without reading its rows, or None if there is none."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            facts = json.loads(str(file["facts"]))
            return Facts(**{name: facts[name] for name in Facts.__dataclass_fields__})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile):
        return None
