"""CSV files with a header, columns of numbers, and a column of labels."""

import csv
import math
from functools import lru_cache
from pathlib import Path

import numpy as np

from privbandit_envs.datasets.dataset import Dataset, encode
from privbandit_envs.validate import did_you_mean


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
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file)
        header = [name.strip() for name in next(lines, [])]
        position = label_position(path, header, label)
        names = [*header[:position], *header[position + 1 :]]
        features, labels = [], []
        for cells in filter(None, lines):
            if len(cells) != len(header):
                raise ValueError(f"{path}, line {lines.line_num}: {len(header)} columns expected; got {len(cells)}.")
            labels.append(cells.pop(position).strip())
            features.append(numbers(cells, f"{path}, line {lines.line_num}", names))
    y, label_names = encode(labels)
    return Dataset(np.array(features, dtype=float).reshape(len(y), len(names)), y, label_names, tuple(names))


def label_position(path: Path, header: list[str], label: str | None) -> int:
    """Check the header and return the place of the label column."""
    if len(header) < 2 or any(map(is_number, header)):
        raise ValueError(f"{path}: the first line must name at least two columns; got {','.join(header)!r}.")
    if label is None:
        return len(header) - 1
    if label not in header:
        raise ValueError(f"{path} has no column {label!r}{did_you_mean(label, header)}; it has {', '.join(header)}.")
    return header.index(label)


def numbers(cells: list[str], where: str, names: list[str]) -> list[float]:
    """Return a row's features; raise ValueError for a cell that is no finite number."""
    try:
        row = [float(cell) for cell in cells]
        if math.isfinite(sum(row)):
            return row
    except ValueError:
        pass
    for name, cell in zip(names, cells, strict=True):
        if not is_number(cell):
            raise ValueError(f"{where}, column {name!r}: a finite number expected; got {cell!r}.")
    return row


def is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False
