"""Prepared tables: a data set for classification and where it comes from."""

import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from privbandit_envs.datasets import store
from privbandit_envs.datasets.dataset import Dataset

KIND = "classification"


@dataclass(frozen=True)
class TableFacts:
    """Where a prepared table comes from.

    Attributes:
        name: the data set.
        origin: name of the file that was read.
        generated: whether that file is a generated sample, no real data.
        incomplete: rows left out because a value is missing.
        others: rows left out because the label, or the value of a restricted column, is another.
    """

    name: str
    origin: str
    generated: bool
    incomplete: int
    others: int


@dataclass(frozen=True, eq=False)
class PreparedTable:
    """A data set and where it comes from."""

    data: Dataset
    facts: TableFacts


def save(prepared: PreparedTable, path: Path) -> None:
    """Write the file, whole or not at all; raise OSError if it cannot be written."""
    data = prepared.data
    names = {"label_names": data.label_names, "feature_names": data.feature_names}
    public = np.empty(0, dtype=bool) if data.public is None else data.public
    store.save(path, {"kind": KIND, **names, **asdict(prepared.facts)}, {"X": data.X, "y": data.y, "public": public})


def load(path: Path) -> PreparedTable:
    """Read what ``save`` wrote, with a warning if it is a generated sample; the errors are those of ``store.load``."""
    found = store.load(path, _build, "data set", "privbandit data NAME PATH")
    if found.facts.generated:
        warnings.warn(f"{path} is a generated sample of {found.facts.name}, not real data.", stacklevel=2)
    return found


def _build(facts: store.Facts, arrays: store.Arrays) -> PreparedTable:
    if facts["kind"] != KIND:
        raise ValueError("it is of another kind")
    label_names, feature_names = (tuple(facts[key]) for key in ("label_names", "feature_names"))
    public = arrays["public"] if len(arrays["public"]) else None
    return PreparedTable(Dataset(arrays["X"], arrays["y"], label_names, feature_names, public), _known(facts))


def _known(facts: store.Facts) -> TableFacts:
    return TableFacts(**{name: facts[name] for name in TableFacts.__dataclass_fields__})


def facts_of(path: Path) -> TableFacts | None:
    """Return the facts of a prepared table without reading its rows, or None if the file is none."""
    facts = store.facts_of(path)
    if facts is None or facts.get("kind") != KIND or not facts.keys() >= TableFacts.__dataclass_fields__.keys():
        return None
    return _known(facts)
