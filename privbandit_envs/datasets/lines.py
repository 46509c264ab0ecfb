"""The lines of text files and the rows of CSV files; whatever is wrong with one is said with file and line."""

import csv
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from itertools import count
from typing import IO

from privbandit_envs.validate import cut

Row = tuple[int, list[str]]
"""The number of the line where a row begins, and its cells."""
LONGEST_LINE = 2**23
"""No line has more characters; a file without line breaks is not read to its end."""


def text_lines(file: IO[bytes], where: str, advice: str = "save the file as CSV in UTF-8") -> Iterator[str]:
    """Yield the lines of a text in UTF-8, with their ends.

    Args:
        file: its beginning may be marked as UTF-8.
        where: names the file in errors.
        advice: what to do about a file that is no text in UTF-8.

    Raises:
        ValueError: a line is no text in UTF-8, or longer than ``LONGEST_LINE``, or too many lines are empty.
    """
    empty = 0
    with TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="") as text:
        for number in count(1):
            line = text.readline(LONGEST_LINE)
            if not line:
                return
            if wrong := flaw(line):
                raise ValueError(f"{where}, line {number}: {wrong}; {advice}.")
            empty = 0 if line.strip() else empty + 1
            if empty > 10_000:
                raise ValueError(f"{where}, line {number}: more than 10,000 empty lines; get the file again.")
            yield line


def table_rows(
    file: IO[bytes], where: str, advice: str = "save the file as CSV in UTF-8", delimiter: str = ","
) -> Iterator[Row]:
    """Yield the rows of a CSV file that are not empty: its header, and rows of as many cells.

    Args and errors are those of ``text_lines`` and ``csv_rows``.

    Raises:
        ValueError: a row has more or fewer cells than the header.
    """
    width = 0
    for line, cells in csv_rows(text_lines(file, where, advice), where, delimiter=delimiter):
        width = width or len(cells)
        check_width(cells, width, where, line)
        yield line, cells


def flaw(line: str) -> str:
    """Return the error of a line that was read as UTF-8, or ``""``."""
    if "\0" in line:
        return "not text in UTF-8 (a zero byte, as in UTF-16)"
    if len(line) >= LONGEST_LINE:
        return f"longer than {LONGEST_LINE:,} characters"
    if not line.isascii():
        try:
            line.encode()
        except UnicodeEncodeError as error:
            byte = ord(line[error.start]) - 0xDC00
            return f"not text in UTF-8 (the byte 0x{byte:02x})"
    return ""


def csv_rows(
    lines: Iterable[str], where: str, start: int = 1, spaces: bool = False, delimiter: str = ","
) -> Iterator[Row]:
    """Yield the rows of a CSV file that are not empty.

    Args:
        lines: of the file.
        where: names the file in errors.
        start: number of the first line.
        spaces: whether spaces before a cell are left out.
        delimiter: between cells.

    Raises:
        ValueError: a quote is not closed or stands amid a cell, or a cell is too long.
    """
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=spaces, strict=True)
    while True:
        line = start + reader.line_num
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(f"{where}, line {line}: a malformed row, {problem(error)}.") from None
        if cells:
            yield line, cells


def problem(error: csv.Error) -> str:
    """Return the csv module's error, in words that help to find the mistake."""
    known = {
        "unexpected end of data": "a quote is not closed",
        "field larger": f"a cell of more than {csv.field_size_limit():,} characters, or a quote that is not closed",
        "expected after": "a quote stands amid a cell, or one before it is not closed",
        "new-line": "a line break amid a cell",
    }
    return next((words for part, words in known.items() if part in str(error)), cut(str(error)))


def check_width(cells: list[str], width: int, where: str, line: int) -> None:
    """Raise ValueError if a row has more or fewer cells than the header."""
    if len(cells) != width:
        raise ValueError(f"{where}, line {line}: {width} columns expected; got {len(cells)}.")
