"""Files of rows: CSV or ARFF, by themselves, in a folder or in an archive."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO
from zipfile import ZipFile, ZipInfo

from privbandit_envs.datasets.lines import Row, check_width, csv_rows, text_lines
from privbandit_envs.datasets.tables.archive import archive_of, is_archive, packed, the_one
from privbandit_envs.validate import shown

GENERATED = "generated sample"
"""A column, or a word in a comment, by which a generated file is known."""
Found = Iterator[tuple[str, IO[bytes]]]  # files by name, one open at a time


@contextmanager
def opened(path: Path, files: Sequence[str], megabytes: int, called: str) -> Iterator[Found]:
    """Open files of a folder, of an archive, or the path itself if it is the only one.

    Args:
        path: the file, folder or archive.
        files: names of the files.
        megabytes: how large the files may be together, unpacked.
        called: names the path in errors.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the files are too large, or not in a form that can be read.
    """
    if path.suffix.lower() in (".xlsx", ".xls"):
        raise ValueError(f"{called} is a spreadsheet; save its data as CSV in UTF-8 and give that file.")
    if path.is_dir():
        there = [found.name for found in sorted(path.iterdir()) if found.is_file()]
        yield plain({name: path / the_one(there, name, f"the folder {called}") for name in files}, megabytes, called)
    elif not path.is_file():
        raise FileNotFoundError(f"no file {called!r}; give the path of {' and '.join(files)}.")
    elif is_archive(path):
        with archive_of(path, called) as archive:
            yield unpacked(archive, {name: packed(archive, name, called) for name in files}, megabytes, called)
    elif len(files) > 1:
        raise ValueError(f"{called} is one file; give the folder or the .zip file that has {' and '.join(files)}.")
    else:
        yield plain({files[0]: path}, megabytes, called)


def plain(files: Mapping[str, Path], megabytes: int, called: str) -> Found:
    check_size([path.stat().st_size for path in files.values()], megabytes, called)
    for name, path in files.items():
        with path.open("rb") as file:
            yield name, file


def unpacked(archive: ZipFile, files: Mapping[str, ZipInfo], megabytes: int, called: str) -> Found:
    check_size([entry.file_size for entry in files.values()], megabytes, called)  # no more than that is ever unpacked
    for name, entry in files.items():
        with archive.open(entry) as file:
            yield name, file


def check_size(sizes: Sequence[int], megabytes: int, called: str) -> None:
    """Raise ValueError if files are larger together than a data set can be."""
    if (size := sum(sizes)) > megabytes * 10**6:
        raise ValueError(
            f"{called} has {size / 10**6:,.0f} MB of data and this data set has at most {megabytes:,} MB; give the "
            "original file."
        )


def parsed(file: IO[bytes], name: str, where: str, header: Sequence[str]) -> tuple[list[str], Iterator[Row], bool]:
    """Return the names of the columns, the rows below them with their lines, and whether a comment marks a sample."""
    lines = text_lines(file, where)
    if name.endswith(".arff") and not where.casefold().endswith(".csv"):
        return arff(lines, where)
    rows = csv_rows(lines, where, spaces=True)
    if not header:
        _, names = next(rows, (1, []))
        if len(names) < 2:
            raise ValueError(f"{where}: the first line must name the columns; got {shown(','.join(names))}.")
        return names, rows, False
    first = list(islice(rows, 1))
    marked = any(cells[0].startswith("|") and GENERATED in cells[0] for _, cells in first)
    return list(header), (row for row in chain(first, rows) if not row[1][0].startswith("|")), marked


def arff(lines: Iterator[str], where: str) -> tuple[list[str], Iterator[Row], bool]:
    """Read the header of an ARFF file with attributes, and rows as in a CSV file.

    Raises:
        ValueError: the header has another line than ``@relation``, ``@attribute``, ``@data``, comments and empty ones.
    """
    names: list[str] = []
    marked = False
    for number, line in enumerate(lines, 1):
        words = line.split(maxsplit=1)
        keyword = words[0].casefold() if words else "%"
        if keyword == "@data" and names:
            rows = csv_rows(lines, where, number + 1, spaces=True)
            return names, (row for row in rows if not row[1][0].startswith("%")), marked
        if keyword == "@attribute" and len(words) > 1:
            names.append(attribute(words[1], f"{where}, line {number}"))
        elif keyword[0] == "%":
            marked |= number == 1 and GENERATED in line
        elif keyword != "@relation":
            raise ValueError(f"{where}, line {number}: not a line of an ARFF file's header; got {shown(line.strip())}.")
    raise ValueError(f"{where}: not an ARFF file, since it has no @attribute or no @data; get it again.")


def attribute(text: str, where: str) -> str:
    """Return the name at the beginning of the text, quoted or not."""
    lexer = shlex.shlex(text[:1000], posix=True)  # characters of an attribute
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", ""
    try:
        name = lexer.get_token()
    except ValueError as error:
        raise ValueError(f"{where}: a quote is not closed; got {shown(text.strip())}.") from error
    assert name is not None
    return name


def blocks(rows: Iterator[Row], width: int, where: str) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Yield blocks of rows, all of the header's width, and the line where each of them begins."""
    while block := list(islice(rows, 2**14)):
        for line, cells in block:
            check_width(cells, width, where, line)
        yield [line for line, _ in block], [cells for _, cells in block]
