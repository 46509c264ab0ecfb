"""Files of rows: CSV or ARFF, by themselves, in a folder or in an archive."""

import csv
import io
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile, ZipInfo

from privbandit_envs.datasets.lines import text_lines
from privbandit_envs.datasets.tables.archive import archive_of, is_archive, packed, the_one
from privbandit_envs.tables.reading import Text, of_csv, opened
from privbandit_envs.validate import shown

GENERATED = "generated sample"
"""A column, or a word in a comment, by which a generated file is known."""
Found = Iterator[tuple[str, Path | bytes]]  # files by name, each where it is or what is in it


@contextmanager
def found_in(path: Path, files: Sequence[str], megabytes: int, called: str) -> Iterator[Found]:
    """Find files in a folder or an archive, or take the path itself if it is the only one.

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
    yield from files.items()


def unpacked(archive: ZipFile, files: Mapping[str, ZipInfo], megabytes: int, called: str) -> Found:
    check_size([entry.file_size for entry in files.values()], megabytes, called)  # no more than that is ever unpacked
    for name, entry in files.items():
        yield name, archive.read(entry)


def check_size(sizes: Sequence[int], megabytes: int, called: str) -> None:
    """Raise ValueError if files are larger together than a data set can be."""
    if (size := sum(sizes)) > megabytes * 10**6:
        raise ValueError(
            f"{called} has {size / 10**6:,.0f} MB of data and this data set has at most {megabytes:,} MB; give the "
            "original file."
        )


def parsed(content: Path | bytes, name: str, where: str, header: Sequence[str]) -> tuple[Text, bool]:
    """Return a file as a CSV file with a header, and whether it is marked as a sample."""
    names, mark, start = list(header), "|", 0
    if name.endswith(".arff") and not where.casefold().endswith(".csv"):
        with opened(content) as file:
            lines = list(text_lines(file, where))
        names, start = arff(lines, where)
        mark = "%"
    elif not header:
        text = of_csv(content, where)
        if len(text.names) < 2:
            raise ValueError(f"{where}: the first line must name the columns; got {shown(','.join(text.names))}.")
        return text, GENERATED in text.names
    else:
        with opened(content) as file:
            lines = list(text_lines(file, where))
    first = io.StringIO()
    csv.writer(first, lineterminator="\n").writerow(names)
    marked = bool(lines) and lines[0].startswith(mark) and GENERATED in lines[0]
    rows = (line for line in lines[start:] if not line.startswith(mark))
    return of_csv((first.getvalue() + "".join(rows)).encode(), where), marked


def arff(lines: Sequence[str], where: str) -> tuple[list[str], int]:
    """Return the names of the columns of an ARFF file, and at which line its rows start.

    Raises:
        ValueError: the header has another line than ``@relation``, ``@attribute``, ``@data``, comments and empty ones.
    """
    names: list[str] = []
    for number, line in enumerate(lines, 1):
        words = line.split(maxsplit=1)
        keyword = words[0].casefold() if words else "%"
        if keyword == "@data" and names:
            return names, number
        if keyword == "@attribute" and len(words) > 1:
            names.append(attribute(words[1], f"{where}, line {number}"))
        elif keyword[0] != "%" and keyword != "@relation":
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
