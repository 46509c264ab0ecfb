"""Tables of text, read in blocks of rows: numbers in single precision, categories as codes."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from privbandit_envs.datasets.dataset import in_order
from privbandit_envs.datasets.tables.files import GENERATED, blocks, opened, parsed
from privbandit_envs.datasets.tables.sources import FILE, Source
from privbandit_envs.validate import as_number, did_you_mean, is_number, listed, shown

Floats = NDArray[np.float32]
Codes = NDArray[np.int32]
Tick = Callable[[int], None]
Choice = Callable[[list[str]], tuple[list[str], list[str]]]
"""Takes the columns of a file; returns those to read as numbers and those to read as categories."""
MISSING = frozenset(("", "?", "na", "n/a", "nan", "null", "none"))


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
        found = np.bincount(self.codes[column] + 1, minlength=len(self.names[column]) + 1)[1:]
        return Counter(dict(zip(self.names[column], found.tolist(), strict=True)))


def read(path: Path, source: Source, choice: Choice, tick: Tick = lambda rows: None, called: str = "") -> Table:
    """Read the files of a data set: a file by its path, or several from a folder or a .zip file.

    Args:
        path: the file, folder or archive.
        source: the data set.
        choice: the columns to read.
        tick: called with the number of rows read so far.
        called: names the path in errors; default: the path itself.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a column is missing or a row malformed; the message names file, line and column.
    """
    called = called or str(path)
    reading = Reading(choice, source.header, tick)
    with opened(path, source.files, source.megabytes, called) as found:
        for name, file in found:
            reading.add(name, file, called if path.is_file() and len(source.files) == 1 else f"{called}, {name}")
    if not reading.rows:
        raise ValueError(f"{called} has no rows; give another file.")
    return reading.table()


@dataclass(eq=False)
class Reading:
    """The columns of a table while its files are read."""

    choice: Choice
    header: Sequence[str]
    tick: Tick
    numbers: dict[str, list[Floats]] = field(default_factory=dict)
    categories: dict[str, "Categories"] = field(default_factory=dict)
    rows: int = 0
    generated: bool = False

    def add(self, name: str, file: IO[bytes], where: str) -> None:
        """Read a file; the first one decides which columns all must have."""
        names, rows, marked = parsed(file, name, where, self.header)
        self.generated |= marked or GENERATED in names
        if not self.rows:
            as_number, as_category = self.choice(names)
            self.numbers = {column: [] for column in as_number}
            self.categories = {column: Categories() for column in as_category}
        if len(self.numbers) > 10_000:
            raise ValueError(f"{where} has {len(names):,} columns; no data set here has more than 10,000.")
        places = places_of((*self.numbers, *self.categories), names, where)
        for at, block in blocks(rows, len(names), where):
            cells = [*zip(*block, strict=True), (name,) * len(block)]
            for column, found in self.numbers.items():
                found.append(as_numbers(cells[places[column]], column, at, where))
            for column, categories in self.categories.items():
                categories.extend(cells[places[column]])
            self.rows += len(block)
            self.tick(self.rows)

    def table(self) -> Table:
        """Return the table; blocks of numbers are freed once they are joined."""
        finished = {column: found.finish() for column, found in self.categories.items()}
        return Table(
            {column: np.concatenate(self.numbers.pop(column)) for column in list(self.numbers)},
            {column: codes for column, (codes, _) in finished.items()},
            {column: names for column, (_, names) in finished.items()},
            self.generated,
        )


def key(name: str) -> str:
    """Return a name without case, spaces and punctuation, by which columns are compared."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def find(names: Sequence[str], columns: Iterable[str]) -> dict[str, int]:
    """Return the places of the columns that are there; a column has one of several names."""
    exact = {name: at for at, name in reversed([*enumerate(names)])}  # the first one of several
    alike = {key(name): at for name, at in reversed(exact.items())}
    places = {}
    for column in columns:
        spellings = [column, *column.split("|")]
        found = [exact[name] for name in spellings if name in exact]
        found += [alike[key(name)] for name in spellings if key(name) in alike]
        if found:
            places[column] = found[0]
    return places


def places_of(columns: Sequence[str], names: Sequence[str], where: str) -> dict[str, int]:
    """Return the places of columns among the cells of a row; the name of the file comes last.

    Raises:
        ValueError: a column is missing, or there are two of its name.
    """
    places = {**find(names, columns), FILE: len(names)}
    for column in columns:
        name = column.partition("|")[0]
        if column not in places:
            raise ValueError(f"{where} has no column {name!r}{did_you_mean(name, names)}; it has {listed(names)}.")
    often = Counter(names)
    for column in columns:
        if column != FILE and often[names[places[column]]] > 1:
            raise ValueError(f"{where} has more than one column {shown(names[places[column]])}; leave one of them.")
    return places


def as_numbers(cells: Sequence[str], column: str, lines: Sequence[int], where: str) -> Floats:
    """Return cells as numbers, NaN where missing; raise ValueError for a cell that is neither."""
    text = "".join(cells)
    try:
        number = float if text.isascii() and "_" not in text else as_number
        values = np.fromiter(map(number, cells), np.float32, len(cells))
    except ValueError:
        values = np.fromiter((float(cell) if is_number(cell) else np.nan for cell in cells), np.float32, len(cells))
    for at in np.flatnonzero(~np.isfinite(values)).tolist():
        if not is_missing(cells[at]):
            place = f"{where}, line {lines[at]}, column {column.partition('|')[0]!r}"
            raise ValueError(f"{place}: a finite number expected; got {shown(cells[at])}.")
    return values


def is_missing(cell: str) -> bool:
    return cell.strip().casefold() in MISSING


class Categories:
    """A column of categories while it is read."""

    def __init__(self) -> None:
        self.code: dict[str, int] = {}
        self.blocks: list[Codes] = []

    def extend(self, cells: Sequence[str]) -> None:
        code = self.code
        self.blocks.append(np.fromiter((code.setdefault(cell, len(code)) for cell in cells), np.int32, len(cells)))

    def finish(self) -> tuple[Codes, tuple[str, ...]]:
        """Return the codes, -1 where missing, and the categories; codes follow the categories' sorted order."""
        plain_names = [plain(cell) for cell in self.code]
        known = in_order({name for name in plain_names if not is_missing(name)})
        rank = {name: at for at, name in enumerate(known)}
        ranks = np.array([rank.get(name, -1) for name in plain_names], dtype=np.int32)
        return ranks[np.concatenate(self.blocks)], tuple(known)


def plain(cell: str) -> str:
    """Return a category without spaces around it or a full stop behind it; numbers are written in one way."""
    name = cell.strip().removesuffix(".")
    try:
        value = as_number(name)
    except ValueError:
        return name
    return str(int(value)) if value.is_integer() else str(value)
