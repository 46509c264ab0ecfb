"""Tables of text: numbers in single precision, categories as codes."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privbandit_envs.datasets.dataset import in_order
from privbandit_envs.datasets.tables.files import found_in, parsed
from privbandit_envs.datasets.tables.sources import FILE, Source
from privbandit_envs.tables.reading import Text, without_blanks
from privbandit_envs.validate import as_number, did_you_mean, listed, shown

Floats = NDArray[np.float32]
Codes = NDArray[np.int32]
Tick = Callable[[int], None]
Choice = Callable[[list[str]], tuple[list[str], list[str]]]
"""Takes the columns of a file; returns those to read as numbers and those to read as categories."""
MISSING = ["", "?", "na", "n/a", "nan", "null", "none"]


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
    called, parts, generated = called or str(path), list[pl.DataFrame](), False
    numbers, categories = list[str](), list[str]()
    with found_in(path, source.files, source.megabytes, called) as found:
        for name, content in found:
            where = called if path.is_file() and len(source.files) == 1 else f"{called}, {name}"
            text, marked = parsed(content, name, where, source.header)
            if not parts:  # the first file decides which columns all must have
                numbers, categories = choice(text.names)
            if len(numbers) > 10_000:
                raise ValueError(f"{where} has {len(text.names):,} columns; no data set here has more than 10,000.")
            parts.append(rows_of(text, numbers, categories, name))
            generated |= marked
            tick(sum(map(len, parts)))
    whole = pl.concat(parts)
    if whole.is_empty():
        raise ValueError(f"{called} has no rows; give another file.")
    coded = {column: codes_of(whole[column]) for column in categories}
    return Table(
        {column: whole[column].to_numpy() for column in numbers},
        {column: codes for column, (codes, _) in coded.items()},
        {column: names for column, (_, names) in coded.items()},
        generated,
    )


def rows_of(text: Text, numbers: Sequence[str], categories: Sequence[str], name: str) -> pl.DataFrame:
    """Return the wanted columns of a file: numbers, NaN where missing, and categories as they are written.

    Raises:
        ValueError: a column is missing, or a cell is neither a number nor missing.
    """
    places = places_of((*numbers, *categories), text.names, text.where)
    text.check()
    own = {column: text.names[places[column]] for column in (*numbers, *categories) if column != FILE}
    rows = text.texts().select(list(dict.fromkeys(own.values()))).collect()
    if rows[next(iter(own.values()))].has_nulls():  # perhaps of blank lines
        rows = without_blanks(rows.lazy()).collect()
    rows = rows.select(pl.all().fill_null("").str.strip_chars())
    values = rows.select(pl.col(own[column]) for column in numbers).select(pl.all().cast(pl.Float64, strict=False))
    finite = values.select(pl.all().is_finite().fill_null(False).all()).row(0, named=True) if numbers else {}
    for column in numbers:
        if finite[own[column]]:
            continue
        cells = rows[own[column]]
        odd = (~values[own[column]].is_finite().fill_null(False)).arg_true()
        bad = odd.filter(~cells.gather(odd).str.to_lowercase().is_in(MISSING))
        if len(bad):
            place = f"{text.where}, line {text.line(bad[0])}, column {column.partition('|')[0]!r}"
            raise ValueError(f"{place}: a finite number expected; got {shown(cells[bad[0]])}.")
    whole = values.select(pl.all().fill_null(np.nan).cast(pl.Float32))
    names = pl.Series([name]).new_from_index(0, len(rows))
    found = {column: whole[own[column]] for column in numbers}
    return pl.DataFrame(found | {column: names if column == FILE else rows[own[column]] for column in categories})


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


def codes_of(cells: pl.Series) -> tuple[Codes, tuple[str, ...]]:
    """Return the codes of cells (n,), -1 where missing, and the categories in sorted order, which codes follow."""
    distinct = cells.unique()
    names = [plain(cell) for cell in distinct]
    known = in_order({name for name in names if name.casefold() not in MISSING})
    rank = {name: at for at, name in enumerate(known)}
    ranks = pl.Series([rank.get(name, -1) for name in names], dtype=pl.Int32)
    return cells.replace_strict(distinct, ranks, return_dtype=pl.Int32).to_numpy(), tuple(known)


def plain(cell: str) -> str:
    """Return a category without spaces around it or a full stop behind it; numbers are written in one way."""
    name = cell.strip().removesuffix(".")
    try:
        value = as_number(name)
    except ValueError:
        return name
    return str(int(value)) if value.is_integer() else str(value)
