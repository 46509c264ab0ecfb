"""Generated files with the columns of the real ones, for tests and for trying things out: no real data.

Columns are drawn independently of each other from simple laws; the label depends on one number of the row. A column
``generated sample``, or a comment in a file without a header, marks such a file; the mark survives its preparation.
"""

import csv
import tomllib
from collections.abc import Mapping
from importlib import resources
from io import StringIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.random import Generator, default_rng

from privbandit_envs.datasets.tables.files import GENERATED
from privbandit_envs.datasets.tables.sources import SOURCES
from privbandit_envs.files import atomic
from privbandit_envs.validate import count, one_of
from privbandit_envs.validate import seed as checked_seed

Law = tuple[float, float] | tuple[float, float, int] | tuple[str, ...]
"""A range of numbers, perhaps with a number of digits after the point; or categories, all equally often."""


def read(name: str, laws: Mapping[str, list[Any]]) -> dict[str, Law]:
    """Return the columns of a data set and their laws, from an entry of ``samples.toml``."""
    columns: dict[str, Law] = {column: tuple(law) for column, law in laws.items()}
    if name == "email":  # between the first column and the last
        words: dict[str, Law] = {f"word{number}": (0, 9) for number in range(3000)}
        columns = {"Email No.": columns["Email No."], **words, **columns}
    return columns


COLUMNS = {
    name: read(name, laws)
    for name, laws in tomllib.loads(resources.files(__package__).joinpath("samples.toml").read_text("utf-8")).items()
}
"""The columns of the files, in their order, and the law of each."""


def write(name: str, path: Path, rows: int = 500, seed: int = 0) -> int:
    """Write a sample, whole or not at all, and return the number of its rows.

    Args:
        name: one of ``SOURCES``.
        path: the file; a .zip file is written if the data set has several files.
        rows: number of rows in each file, at least 50.
        seed: seed of the sample.

    Raises:
        OSError: it cannot be written.
        ValueError: an unknown name, too few rows or a bad seed.
    """
    files = SOURCES[one_of(SOURCES, name=name)].files
    if count(rows=rows) < 50:
        raise ValueError(f"rows must be >= 50; got {rows}.")
    rng = default_rng(checked_seed(seed=seed))
    contents = [content(name, file, rows, rng) for file in files]
    with atomic(path, "wb", follow=True) as target:
        if len(files) == 1:
            target.write(contents[0].encode())
        else:
            with ZipFile(target, "w") as archive:
                for file, text in zip(files, contents, strict=True):
                    archive.writestr(file, text)
    return rows * len(files)


def content(name: str, file: str, rows: int, rng: Generator) -> str:
    columns = table(name, rows, rng)
    if file.endswith(".arff"):
        first = [f"% {GENERATED}", "@relation sample"]
        for column, law in COLUMNS[name].items():
            kind = f"{{{','.join(map(str, law))}}}" if isinstance(law[0], str) else "numeric"
            first.append(f"@attribute {column} {kind}")
        return "\n".join([*first, "@data", ""]) + text(columns)
    if SOURCES[name].header:
        return f"|{GENERATED}\n" + text(columns, end="." if file.endswith(".test") else "")
    columns[GENERATED] = ["1"] * rows
    return text({column: [column, *cells] for column, cells in columns.items()})


def text(columns: dict[str, list[str]], end: str = "") -> str:
    lines = StringIO()
    rows = zip(*columns.values(), strict=True)
    csv.writer(lines, lineterminator="\n").writerows([*row[:-1], row[-1] + end] for row in rows)
    return lines.getvalue()


def table(name: str, rows: int, rng: Generator) -> dict[str, list[str]]:
    label = SOURCES[name].label.partition("|")[0]
    columns = {column: draw(law, rows, rng) for column, law in COLUMNS[name].items()}
    numbers = [column for column, law in COLUMNS[name].items() if not isinstance(law[0], str) and column != label]
    low, *_, high = sorted(columns[label], key=COLUMNS[name][label].index)
    order = np.argsort(np.argsort([float(cell) for cell in columns[numbers[min(1, len(numbers) - 1)]]]))
    likely = rng.random(rows) < 0.2 + 0.6 * order / rows
    columns[label] = [
        cell if cell not in (low, high) else high if one else low
        for cell, one in zip(columns[label], likely.tolist(), strict=True)
    ]
    return columns


def draw(law: Law, rows: int, rng: Generator) -> list[str]:
    if isinstance(law[0], str):
        return [str(law[at]) for at in rng.permutation(np.arange(rows) % len(law)).tolist()]
    low, high, digits = (*law, 0)[:3]
    if not digits:
        return [str(cell) for cell in rng.integers(int(low), int(high) + 1, rows).tolist()]
    return [f"{cell:.{int(digits)}f}" for cell in rng.uniform(float(low), float(high), rows).tolist()]
