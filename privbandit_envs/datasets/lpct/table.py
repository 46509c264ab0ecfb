"""Tables of text, read in blocks of rows: numbers in single precision, categories as codes."""

import csv
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO
from zipfile import BadZipFile, ZipFile, is_zipfile

import numpy as np
from numpy.typing import NDArray

from privbandit_envs._validate import did_you_mean
from privbandit_envs.datasets.lpct.sources import FILE

Floats = NDArray[np.float32]
Codes = NDArray[np.int32]
Tick = Callable[[int], None]
ROWS_A_BLOCK = 2**14
MISSING = frozenset(("", "?", "na", "n/a", "nan", "null", "none"))
DAMAGED = (BadZipFile, EOFError, zlib.error)
GENERATED = "generated sample"
"""A column, or a word in a comment, by which a generated file is known."""


@dataclass(frozen=True, eq=False)
class Table:
    """The wanted columns of some files.

    Attributes:
        numbers: NaN where a value is missing, shape (n,) each.
        codes: numbers of categories, -1 where a value is missing, shape (n,) each.
        names: of the categories, in sorted order; numbers sort as numbers.
        generated: whether the files are a generated sample.
    """

    numbers: dict[str, Floats]
    codes: dict[str, Codes]
    names: dict[str, tuple[str, ...]]
    generated: bool

    def counts(self, column: str) -> Counter[str]:
        """Return how many rows have each category."""
        found = np.bincount(self.codes[column] + 1, minlength=len(self.names[column]) + 1)[1:]
        return Counter(dict(zip(self.names[column], found.tolist(), strict=True)))


def read(
    path: Path,
    files: Sequence[str],
    columns: Callable[[list[str]], tuple[list[str], list[str]]],
    header: Sequence[str] = (),
    tick: Tick = lambda rows: None,
) -> Table:
    """Read files: a file by its path, or several from a folder or a .zip file.

    Args:
        path: the file, folder or archive.
        files: names of the files to read.
        columns: from the columns that are there, those to read as numbers and as categories.
        header: names of the columns, if the files do not have them in a first line.
        tick: is told how many rows have been read.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a column is missing or a row malformed; the message names file, line and column.
    """
    numbers: dict[str, list[Floats]] = {}
    categories: dict[str, Categories] = {}
    generated = False
    done = 0
    for name, file in opened(path, files):
        where = f"{path}" if len(files) == 1 and not path.is_dir() else f"{path}, {name}"
        names, rows, marked = parsed(file, name, where, header)
        generated |= marked or GENERATED in names
        if not done:
            wanted_numbers, wanted_categories = columns(names)
        places = {column: place(names, column, where) for column in [*wanted_numbers, *wanted_categories]}
        for first, block in blocks(rows, len(names), where):
            cells = [*zip(*block, strict=True), (name,) * len(block)]
            for column in wanted_numbers:
                values = as_numbers(cells[places[column]], column, first, where)
                numbers.setdefault(column, []).append(values)
            for column in wanted_categories:
                categories.setdefault(column, Categories()).extend(cells[places[column]])
            done += len(block)
            tick(done)
    if not done:
        raise ValueError(f"{path} has no rows; give another file.")
    finished = {column: found.finish() for column, found in categories.items()}
    return Table(
        {column: np.concatenate(found) for column, found in numbers.items()},
        {column: codes for column, (codes, _) in finished.items()},
        {column: names for column, (_, names) in finished.items()},
        generated,
    )


def opened(path: Path, files: Sequence[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the files by name, from a folder, an archive, or the path itself if it is the only one."""
    if path.suffix.lower() in (".xlsx", ".xls"):
        raise ValueError(f"{path} is a spreadsheet; save its data as CSV in UTF-8 and give that file.")
    if path.is_dir():
        yield from from_folder(path, files)
    elif not path.is_file():
        raise FileNotFoundError(f"no file {str(path)!r}; give the path of {' and '.join(files)}.")
    elif is_zipfile(path):
        yield from from_archive(path, files)
    elif len(files) > 1:
        raise ValueError(f"{path} is one file; give the folder or the .zip file that has {' and '.join(files)}.")
    else:
        with path.open("rb") as file:
            yield files[0], file


def from_folder(path: Path, files: Sequence[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the files of a folder."""
    there = {found.name.casefold(): found for found in sorted(path.iterdir()) if found.is_file()}
    for name in files:
        if name.casefold() not in there:
            raise FileNotFoundError(f"no file {name!r} in the folder {str(path)!r}; give the one that has it.")
        with there[name.casefold()].open("rb") as file:
            yield name, file


def from_archive(path: Path, files: Sequence[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the files of an archive, in whatever folder they are in it."""
    try:
        with ZipFile(path) as archive:
            there = {found.rpartition("/")[2].casefold(): found for found in archive.namelist()}
            for name in files:
                if name.casefold() not in there:
                    raise FileNotFoundError(f"no file {name!r} in {path}; it has {', '.join(sorted(there))}.")
                with archive.open(there[name.casefold()]) as file:
                    yield name, file
    except (BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{path} is a damaged .zip file ({error}); get it again.") from error


def parsed(
    file: IO[bytes], name: str, where: str, header: Sequence[str]
) -> tuple[list[str], Iterator[tuple[int, list[str]]], bool]:
    """Return the names of the columns, the rows below them with their lines, and whether a comment marks a sample."""
    if name.endswith(".arff") and not where.casefold().endswith(".csv"):
        return arff(file, where)
    text = TextIOWrapper(file, "utf-8-sig", newline="")
    rows = lines(text, where)
    if not header:
        _, names = next(rows, (1, []))
        if len(names) < 2:
            raise ValueError(f"{where}: the first line must name the columns; got {','.join(names)!r}.")
        return names, rows, False
    first = next(rows, None)
    marked = first is not None and first[1][0].startswith("|") and GENERATED in first[1][0]
    return list(header), (row for row in chained(first, rows) if not row[1][0].startswith("|")), marked


def chained(
    first: tuple[int, list[str]] | None, rows: Iterator[tuple[int, list[str]]]
) -> Iterator[tuple[int, list[str]]]:
    """Yield the first row, if there is one, and the others."""
    if first is not None:
        yield first
        yield from rows


def lines(text: TextIOWrapper, where: str) -> Iterator[tuple[int, list[str]]]:
    """Yield number and cells of every line of a CSV file that is not empty."""
    reader = csv.reader(text, skipinitialspace=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except (csv.Error, UnicodeDecodeError, *DAMAGED) as error:
        raise ValueError(
            f"{where}, near line {reader.line_num + 1}: not a CSV file in UTF-8 ({error}); get it again."
        ) from None


def arff(file: IO[bytes], where: str) -> tuple[list[str], Iterator[tuple[int, list[str]]], bool]:
    """Read an ARFF file, by scipy."""
    from scipy.io.arff import loadarff

    try:
        content = file.read()
        rows, meta = loadarff(TextIOWrapper(BytesIO(content), "utf-8"))
    except (ValueError, NotImplementedError, StopIteration, IndexError, *DAMAGED) as error:
        raise ValueError(f"{where}: not an ARFF file ({' '.join(str(error).split())}); get it again.") from error
    texts = ([cell.decode() if isinstance(cell, bytes) else str(cell) for cell in row] for row in rows.tolist())
    return list(meta.names()), enumerate(texts, 1), GENERATED.encode() in content.partition(b"\n")[0]


def blocks(rows: Iterator[tuple[int, list[str]]], width: int, where: str) -> Iterator[tuple[int, list[list[str]]]]:
    """Yield blocks of rows, all of the header's width, and the line of each block's first row."""
    while block := list(islice(rows, ROWS_A_BLOCK)):
        for line, cells in block:
            if len(cells) != width:
                raise ValueError(f"{where}, line {line}: {width} columns expected; got {len(cells)}.")
        yield block[0][0], [cells for _, cells in block]


def key(name: str) -> str:
    """Return a name without case, spaces and punctuation, by which columns are compared."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def find(names: Sequence[str], column: str) -> int | None:
    """Return the place of a column that goes by several names, or None."""
    for name in column.split("|"):
        if name in names:
            return names.index(name)
    keys = [key(name) for name in names]
    return next((keys.index(key(name)) for name in column.split("|") if key(name) in keys), None)


def place(names: Sequence[str], column: str, where: str) -> int:
    """Return the place of a column among the cells of a row; the name of the file comes last.

    Raises:
        ValueError: there is no such column.
    """
    if column == FILE:
        return len(names)
    found = find(names, column)
    if found is None:
        name = column.partition("|")[0]
        there = ", ".join(names[:30]) + (", ..." if len(names) > 30 else "")
        raise ValueError(f"{where} has no column {name!r}{did_you_mean(name, names)}; it has {there}.")
    return found


def as_numbers(cells: Sequence[str], column: str, first: int, where: str) -> Floats:
    """Return cells as numbers, NaN where missing, or say which cell is none."""
    try:
        values = np.fromiter(map(float, cells), np.float32, len(cells))
    except ValueError:
        values = np.fromiter((number(cell) for cell in cells), np.float32, len(cells))
    for at in np.flatnonzero(~np.isfinite(values)):
        if not is_missing(cells[at]):
            near = f"{where}, near line {first + at}, column {column.partition('|')[0]!r}"
            raise ValueError(f"{near}: a finite number expected; got {cells[at]!r}.")
    return values


def number(cell: str) -> float:
    """Return a cell as a number, NaN if it is none."""
    try:
        return float(cell)
    except ValueError:
        return np.nan


def is_missing(cell: str) -> bool:
    """Return whether a cell says that there is no value."""
    return cell.strip().casefold() in MISSING


class Categories:
    """A column of categories while it is read."""

    def __init__(self) -> None:
        """Start with none."""
        self.code: dict[str, int] = {}
        self.blocks: list[Codes] = []

    def extend(self, cells: Sequence[str]) -> None:
        """Add cells."""
        code = self.code
        self.blocks.append(np.fromiter((code.setdefault(cell, len(code)) for cell in cells), np.int32, len(cells)))

    def finish(self) -> tuple[Codes, tuple[str, ...]]:
        """Return codes in sorted order of the categories, -1 where missing, and the categories."""
        plain_names = [plain(cell) for cell in self.code]
        known = in_order({name for name in plain_names if not is_missing(name)})
        rank = {name: at for at, name in enumerate(known)}
        ranks = np.array([rank.get(name, -1) for name in plain_names], dtype=np.int32)
        return ranks[np.concatenate(self.blocks)], tuple(known)


def in_order(names: Iterable[str]) -> list[str]:
    """Return names sorted, as numbers if they all are."""
    try:
        return sorted(names, key=float)
    except ValueError:
        return sorted(names)


def plain(cell: str) -> str:
    """Return a category without space around it, a full stop at its end, or different ways to write a number."""
    name = cell.strip().removesuffix(".")
    try:
        return f"{float(name):g}"
    except ValueError:
        return name
