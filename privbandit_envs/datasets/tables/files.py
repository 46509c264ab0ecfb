"""Files of rows: CSV or ARFF, by themselves, in a folder or in an archive."""

import csv
import zlib
from collections.abc import Generator, Iterator, Sequence
from io import BytesIO, TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import IO
from zipfile import BadZipFile, ZipFile, is_zipfile

Row = tuple[int, list[str]]  # the number of a line and its cells
ROWS_A_BLOCK = 2**14
Found = Generator[tuple[str, IO[bytes]], None, None]  # files by name; to be closed
DAMAGED = (BadZipFile, EOFError, zlib.error)
GENERATED = "generated sample"
"""A column, or a word in a comment, by which a generated file is known."""


def opened(path: Path, files: Sequence[str]) -> Found:
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


def from_folder(path: Path, files: Sequence[str]) -> Found:
    there = {found.name.casefold(): found for found in sorted(path.iterdir()) if found.is_file()}
    for name in files:
        if name.casefold() not in there:
            raise FileNotFoundError(f"no file {name!r} in the folder {str(path)!r}; give the one that has it.")
        with there[name.casefold()].open("rb") as file:
            yield name, file


def from_archive(path: Path, files: Sequence[str]) -> Found:
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


def parsed(file: IO[bytes], name: str, where: str, header: Sequence[str]) -> tuple[list[str], Iterator[Row], bool]:
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
    first = list(islice(rows, 1))
    marked = any(cells[0].startswith("|") and GENERATED in cells[0] for _, cells in first)
    return list(header), (row for row in chain(first, rows) if not row[1][0].startswith("|")), marked


def lines(text: TextIOWrapper, where: str) -> Iterator[Row]:
    """Yield number and cells of every line of a CSV file that is not empty."""
    reader = csv.reader(text, skipinitialspace=True)
    try:
        with text:
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
    except (csv.Error, UnicodeDecodeError, *DAMAGED) as error:
        raise ValueError(
            f"{where}, near line {reader.line_num + 1}: not a CSV file in UTF-8 ({error}); get it again."
        ) from None


def arff(file: IO[bytes], where: str) -> tuple[list[str], Iterator[Row], bool]:
    from scipy.io.arff import loadarff

    try:
        content = file.read()
        rows, meta = loadarff(TextIOWrapper(BytesIO(content), "utf-8", errors="replace"))
    except (ValueError, NotImplementedError, StopIteration, IndexError, *DAMAGED) as error:
        raise ValueError(
            f"{where}: not an ARFF file ({' '.join(str(error).split()) or 'no rows'}); get it again."
        ) from error
    texts = ([cell.decode() if isinstance(cell, bytes) else str(cell) for cell in row] for row in rows.tolist())
    return list(meta.names()), enumerate(texts, 1), GENERATED.encode() in content.partition(b"\n")[0]


def blocks(rows: Iterator[Row], width: int, where: str) -> Iterator[tuple[int, list[list[str]]]]:
    """Yield blocks of rows, all of the header's width, and the line of each block's first row."""
    while block := list(islice(rows, ROWS_A_BLOCK)):
        for line, cells in block:
            if len(cells) != width:
                raise ValueError(f"{where}, line {line}: {width} columns expected; got {len(cells)}.")
        yield block[0][0], [cells for _, cells in block]
