"""Tables of yours as worlds: rows with a label, and people with a row for each arm."""

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privbandit_envs.datasets.dataset import Dataset
from privbandit_envs.validate import listed, shown

if TYPE_CHECKING:
    import polars as pl

    from privbandit_envs.tables.encoding import Encoding

Table: TypeAlias = "str | Path | Any"
"""The path of a file, a frame of any library that narwhals knows, or arrays by name."""


@dataclass(frozen=True, eq=False)
class ArmTable:
    """People who each have K arms, with the features and the reward of every arm; the arrays are read-only.

    Attributes:
        features: finite, shape (n, K, d).
        rewards: in [-1, 1], shape (n, K).
        public: people with public rows, shape (n,); None: there is no such rule.
        scaled: whether features lie in [0, 1] by bounds of a schema.
    """

    features: NDArray[np.float64]
    rewards: NDArray[np.float64]
    public: NDArray[np.bool_] | None = None
    scaled: bool = False

    def __post_init__(self) -> None:
        for part in (self.features, self.rewards):
            part.flags.writeable = False

    def __deepcopy__(self, memo: object) -> "ArmTable":
        return self  # nothing in it can change


def labelled(table: Table, label: str, public: str | None = None, schema: Any = None) -> Dataset:
    """Return a table as a data set for classification: one row a person, one column the label, the others features."""
    encoding, frame = encoding_of(table, schema, label=label, public=public)
    warn_of_levels(encoding, schema)
    labels = encoding.schema[label].levels
    if len(labels) < 2:
        raise ValueError(f"column {shown(label)} must have at least two different labels; got {shown(labels)}.")
    X, others = encoding.encoded(frame)
    y = others[label].to_numpy().astype(np.int64)
    return Dataset(X, y, tuple(labels), tuple(encoding.names), flags(others, public), encoding.scaled)


def armed(table: Table, user: str, reward: str, public: str | None = None, schema: Any = None) -> ArmTable:
    """Return a table with one row for each arm of each person; arms are in the order of their rows."""
    encoding, frame = encoding_of(table, schema, person=user, reward=reward, public=public)
    warn_of_levels(encoding, schema)
    X, others = encoding.encoded(frame)
    if others[user].has_nulls():
        row = others[user].is_null().arg_max()
        raise ValueError(f"column {shown(user)} names nobody in row {row}; leave the row out.")
    who = (others[user].rank("dense") - 1).to_numpy()
    sizes = np.bincount(who)
    if len(other := np.flatnonzero(sizes != sizes[0])):
        people = others[user].unique().sort()
        found = f"{shown(people[0])} has {sizes[0]} and {shown(people[int(other[0])])} has {sizes[other[0]]}"
        raise ValueError(f"every person must have one row for each arm; in column {shown(user)} {found}.")
    order = np.argsort(who, kind="stable").reshape(len(sizes), sizes[0])
    features, rewards = X[order], others[reward].to_numpy()[order]
    if not (np.abs(rewards) <= 1).all():
        wild = rewards[np.abs(rewards) > 1][0]
        raise ValueError(f"column {shown(reward)} must hold rewards in [-1, 1]; got {wild:g}: scale them.")
    known = flags(others, public)
    if known is not None:
        known = np.asarray(known[order].all(axis=1), dtype=bool)  # who has a private row is private
        if known.all() or not known.any():
            raise ValueError(f"column {shown(public)} must make some people public and leave some private.")
    return ArmTable(features, rewards, known, encoding.scaled)


def encoding_of(
    table: Table, schema: Any, guessed: Collection[str] = (), **roles: str | None
) -> "tuple[Encoding, pl.LazyFrame]":
    """Return how a table becomes rows of numbers, and the table.

    It is by its schema, or by one that is read from it: then numbers stay as they are, and ``guessed`` are roles that
    columns take by their names.

    Raises:
        ValueError: no such columns, or none is left for features.
        ImportError: polars is not installed.
    """
    try:
        from privbandit_envs.tables.encoding import Encoding
        from privbandit_envs.tables.proposing import proposed
        from privbandit_envs.tables.reading import scan
        from privbandit_envs.tables.schema import Schema, plain
    except ImportError as error:
        raise ImportError(f"a table needs {error.name}; run pip install 'privbandit[bench]'.") from error
    if schema is None:
        found, frame = proposed(table, guessed, **roles)
    else:
        found = Schema.of(schema).roles(**roles)
        frame = scan(table, plain(found.fields), found.missing)
    if not found.of_role("context"):
        known = [f"{field.name} ({field.use.role})" for field in found.fields]
        raise ValueError(f"a table needs a column of features; it has {listed(known)}.")
    return Encoding(found, scaled=schema is not None), frame


def warn_of_levels(encoding: "Encoding", schema: Any) -> None:
    """Say which features have levels or bounds that come from the rows of a table without a schema."""
    read = [field.name for field in encoding.schema.of_role("context") if field.type not in ("number", "integer")]
    if found := [name for name in encoding.schema.private if schema is None and name in read]:
        warnings.warn(
            f"the levels or bounds of {listed(found, 'columns')} come from people's rows: what one person alone has "
            "becomes visible; pass schema= with public ones (docs/howto/tables.md).",
            stacklevel=4,
        )


def flags(others: "pl.DataFrame", public: str | None) -> NDArray[np.bool_] | None:
    """Return which rows a column of 0 and 1 makes public."""
    if public is None:
        return None
    if others[public].dtype.is_numeric() and others[public].is_in([0.0, 1.0]).all():
        found = others[public].to_numpy() == 1
        if found.any() and not found.all():
            return np.asarray(found)
        raise ValueError(f"column {shown(public)} must make some rows public and leave some private.")
    strange = next(value for value in others[public] if value not in (0, 1))
    raise ValueError(f"column {shown(public)} must be 1 for public rows and 0 for others; got {shown(strange)}.")
