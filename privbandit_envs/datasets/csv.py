"""CSV files with a header, columns of numbers, and a column of labels."""

import math
from array import array
from functools import lru_cache
from pathlib import Path

import numpy as np

from privbandit_envs.datasets.dataset import Dataset, encode
from privbandit_envs.datasets.lines import table_rows
from privbandit_envs.validate import as_number, did_you_mean, is_number, listed, shown


def read(path: Path, label: str | None = None) -> Dataset:
    """Read a CSV file; it is read again only if it has changed.

    The first line names the columns. Labels may be anything; all other cells are finite numbers.

    Args:
        path: the file, in UTF-8.
        label: the column to predict; default: the last one.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no header, no such column, or a malformed row; the message names file, line and column.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no file {str(path)!r}; source must be the path of a CSV file.")
    stat = path.stat()
    return _read(path.resolve(), label, (stat.st_mtime_ns, stat.st_size))


@lru_cache
def _read(path: Path, label: str | None, version: tuple[int, int]) -> Dataset:
    where = str(path)
    with path.open("rb") as file:
        rows = table_rows(file, where)
        _, cells = next(rows, (1, [""]))
        header = [name.strip() for name in cells]
        position = label_position(path, header, label)
        names = [*header[:position], *header[position + 1 :]]
        features, labels = array("d"), []
        for line, cells in rows:
            labels.append(cells.pop(position).strip())
            features.extend(numbers(cells, f"{where}, line {line}", names))
    y, label_names = encode(labels)
    if len(label_names) < 2:
        raise ValueError(f"{where} needs at least two different labels; got {shown(list(label_names))}.")
    return Dataset(np.frombuffer(features).reshape(len(y), -1), y, label_names, tuple(names))


def label_position(path: Path, header: list[str], label: str | None) -> int:
    """Check the header and return the place of the label column."""
    if len(header) < 2 or any(map(is_number, header)):
        raise ValueError(f"{path}: the first line must name at least two columns; got {shown(','.join(header))}.")
    if label is None:
        return len(header) - 1
    if header.count(label) != 1:
        often = "more than one column" if label in header else "no column"
        near = did_you_mean(label, (name for name in header if name != label))
        raise ValueError(f"{path} has {often} {shown(label)}{near}; it has {listed(header)}.")
    return header.index(label)


def numbers(cells: list[str], where: str, names: list[str]) -> list[float]:
    """Return a row's features; raise ValueError for a cell that is no finite number."""
    plain = "".join(cells)
    try:
        row = list(map(float if plain.isascii() and "_" not in plain else as_number, cells))
        if math.isfinite(sum(row)):
            return row
    except ValueError:
        pass
    for name, cell in zip(names, cells, strict=True):
        if not is_number(cell):
            raise ValueError(f"{where}, column {shown(name)}: a finite number expected; got {shown(cell)}.")
    return row
