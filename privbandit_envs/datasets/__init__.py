"""Real data: data sets for classification, and hotel searches.

Three nouns: a *table* (rows of features with a label), a *store* (files that were prepared), a *source* (where they
come from).

``load`` reads a data set for classification: bundled with scikit-learn, from OpenML, from a CSV file, or one of the
paper's eleven ``tables``. ``hotels`` reads, prepares and keeps hotel searches for assortment problems.
"""

import warnings
from functools import lru_cache
from pathlib import Path

from privbandit_envs.datasets import bundled, packaged, tables
from privbandit_envs.datasets.dataset import Dataset
from privbandit_envs.validate import did_you_mean, shown

__all__ = ["Dataset", "load"]

OPENML = "openml:"
NAMES = (*bundled.NAMES, *tables.NAMES, *(name for name, sheet in packaged.SHEETS.items() if sheet.kind == "labels"))


def load(
    source: str, label: str | None = None, deduplicate: bool = False, download: bool = False, schema: str | None = None
) -> Dataset:
    """Return a data set; reading it again is free. It warns if rows are copies of others.

    Args:
        source: ``"breast_cancer"``, ``"digits"``, ``"digits-binary"`` (is the digit >= 5?) or ``"wine"``; one of
            ``tables.NAMES``; ``"shuttle"``, ``"yeast"``, ``"phishing"`` or ``"segment"``, which ``privbandit data get``
            downloads; ``"openml:<id or name>"``; or the path of a CSV file, or of a file that ``privbandit data
            NAME PATH`` wrote (``.npz``).
        label: the column to predict, for CSV files (default: the last one) and OpenML (default: its own target).
        deduplicate: whether to keep one of every set of rows with equal features and label.
        download: whether to download what ``privbandit data get`` would.
        schema: of a table, the path of its file.

    Raises:
        ValueError: an unknown source or column, or data that cannot be read.
        FileNotFoundError: no such file, or a data set that must be prepared from a file first.
        ConnectionError: OpenML, or the UCI repository, cannot be reached.
        ImportError: scikit-learn is needed and missing.

    Examples:
        >>> data = load("wine")
        >>> data.X.shape, data.label_names
        ((178, 13), ('class_0', 'class_1', 'class_2'))
    """
    data = _read(source, label, download, schema)
    if deduplicate:
        return data.deduplicated
    if len(data.different) < len(data.y):
        warnings.warn(
            f"{source}: {len(data.y):,} rows are {len(data.different):,} different ones, and a copy in training and "
            "test rows rewards memory; deduplicate=True keeps one of each.",
            stacklevel=2,
        )
    return data


def _read(source: str, label: str | None, download: bool, schema: str | None) -> Dataset:
    """Return a data set as it is; the arguments and errors are those of ``load``."""
    own = source in NAMES or source.endswith(".npz")
    if own and label is not None:
        raise ValueError(f"label is for CSV files and OpenML; {source} has its own, got {shown(label)}.")
    if (own or source.startswith(OPENML)) and schema is not None:
        raise ValueError(f"schema is for files of tables; {source} has its own, got {shown(schema)}.")
    if source in bundled.NAMES:
        return bundled.read(source)
    if source in tables.NAMES:
        return tables.load(source)
    if source in packaged.SHEETS and source in NAMES:
        return packaged.labels(source, download)
    if source.startswith(OPENML):
        from privbandit_envs.datasets import openml

        return openml.fetch(source.removeprefix(OPENML), label)
    path = Path(source).expanduser()
    if path.suffix == ".npz":
        return tables.data.load(path).data
    if not path.is_file() and path.suffix != ".csv":
        raise ValueError(
            f"source must be one of {', '.join(NAMES)}, {OPENML}<id or name>, or the path of a table; "
            f"got {shown(source)}{did_you_mean(source, NAMES)}."
        )
    if not path.is_file():
        raise FileNotFoundError(f"no file {str(path)!r}; source must be the path of a table.")
    files = path, *([] if schema is None else [Path(schema).expanduser()])
    version = tuple((stat.st_mtime_ns, stat.st_size) for stat in (file.stat() for file in files))
    return _table(path.resolve(), label, schema, version)


@lru_cache
def _table(path: Path, label: str | None, schema: str | None, version: tuple[tuple[int, int], ...]) -> Dataset:
    """Return a file's table, read again only if it has changed.

    The label is the named column, or the one with this role in the schema, or the last one.
    """
    from privbandit_envs.datasets.frames import labelled
    from privbandit_envs.tables.reading import Text, source
    from privbandit_envs.tables.schema import Schema

    made = None if schema is None else Schema.of(schema)
    found = source(path)
    names = found.names if isinstance(found, Text) else found.collect_schema().names()
    own = [] if made is None else [field.name for field in made.of_role("label")]
    return labelled(path, label or (*own, names[-1])[0], schema=made)
