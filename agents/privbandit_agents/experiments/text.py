"""Tables, pages and sentences as plain lines, for a terminal or a file, by the standard library alone."""

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TextIO

from privbandit_agents.experiments.usage import on_one_line

GAP = "  "
Pad = Callable[[str, int], str]


def warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning as one line: the command's ``warnings.showwarning``."""
    print(said(f"{'note' if category.__name__ == 'LeftOut' else 'warning'}: {message}"), file=sys.stderr)


def said(text: str) -> str:
    """Return a sentence for stderr: on one line, or folded where the width of a terminal is known."""
    line = on_one_line(text)
    if not (sys.stderr.isatty() or "COLUMNS" in os.environ):
        return line
    wide = shutil.get_terminal_size((80, 24)).columns
    return "\n".join(textwrap.wrap(line, wide, break_on_hyphens=False)) or line


def width() -> int:
    """Return how wide lines may be: as the terminal, or 120 characters in a file."""
    return shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() or "COLUMNS" in os.environ else 120


def strong(text: str, code: str = "1") -> str:
    """Return a text in bold type, or by another code of ANSI such as 31 for red, where that can be shown."""
    return f"\033[{code}m{text}\033[0m" if sys.stdout.isatty() and "NO_COLOR" not in os.environ else text


def table(
    rows: Sequence[Sequence[str]],
    heads: Sequence[str] = (),
    right: Collection[int] = (),
    colors: Mapping[int, str] | None = None,
    wide: int | None = None,
) -> Iterator[str]:
    """Yield the lines of a table that is never wider than the terminal, and has all its columns.

    Long cells go on below. Columns that do not fit beside the others follow in a further table, after the first column.

    Args:
        rows: of cells, the same number in each.
        heads: of the columns; none: no head.
        right: places of the columns that are aligned to the right: numbers, which are not broken.
        colors: codes of ANSI for the first cells of rows, by their places; bold otherwise.
        wide: characters of a line; default: of the terminal.
    """
    everything = [*([heads] if heads else []), *rows]
    columns = list(zip(*everything, strict=True))
    wide = wide or width()
    kept = fitting(columns, right, wide)
    sizes = shrunk([columns[place] for place in kept], [place in right for place in kept], wide)
    pads = [str.rjust if place in right else str.ljust for place in kept]
    if heads:
        yield from cells_below([heads[place] for place in kept], sizes, pads)
        yield GAP.join("-" * size for size in sizes)
    for number, row in enumerate(rows):
        yield from cells_below([row[place] for place in kept], sizes, pads, (colors or {}).get(number, "1"))
    if others := [place for place in range(len(columns)) if place not in kept]:
        yield ""
        chosen = [0, *others]
        aligned = {new for new, place in enumerate(chosen) if place in right}
        further = [[row[place] for place in chosen] for row in rows]
        yield from table(further, [heads[place] for place in chosen] if heads else (), aligned, colors, wide)


def fitting(columns: Sequence[Sequence[str]], right: Collection[int], wide: int) -> list[int]:
    """Return the places of the columns that fit beside each other, the first one and one more at least."""
    total, kept = 0, list[int]()
    for place, column in enumerate(columns):
        total += least_width(column, place in right) + len(GAP) * bool(kept)
        if len(kept) > 1 and total > wide:
            break
        kept.append(place)
    return kept


def least_width(column: Sequence[str], number: bool) -> int:
    """Return how narrow a column can be: words of up to 18 characters are not broken, nor are numbers."""
    longest = max(map(len, column))
    words = (min(len(word), 18) for cell in column for word in cell.split())
    return longest if number else min(longest, max([*words, 6]))


def shrunk(columns: Sequence[Sequence[str]], numbers: Sequence[bool], wide: int) -> list[int]:
    """Return widths of columns that fit into a line: the widest ones give way."""
    sizes = [max(map(len, column)) for column in columns]
    least = [least_width(*pair) for pair in zip(columns, numbers, strict=True)]
    while sum(sizes) + len(GAP) * (len(sizes) - 1) > wide:
        able = [place for place in range(len(sizes)) if sizes[place] > least[place]]
        if not able:  # two columns of long words: the line breaks them
            widest = max(range(len(sizes)), key=sizes.__getitem__)
            sizes[widest] = max(1, sizes[widest] - 1)
            if sizes[widest] == 1:
                break
            continue
        sizes[max(able, key=sizes.__getitem__)] -= 1
    return sizes


def cells_below(cells: Sequence[str], sizes: Sequence[int], pads: Sequence[Pad], color: str = "") -> Iterator[str]:
    """Yield the lines of one row, each cell within its width; the first cell may have a color."""
    wrapped = [
        textwrap.wrap(cell, size, break_on_hyphens=False) or [""] for cell, size in zip(cells, sizes, strict=True)
    ]
    for i in range(max(map(len, wrapped))):
        columns = zip(wrapped, sizes, pads, strict=True)
        parts = [pad(lines[i] if i < len(lines) else "", size) for lines, size, pad in columns]
        first = strong(parts[0], color) if color and parts[0].strip() else parts[0]
        yield GAP.join([first, *parts[1:]]).rstrip()


def paragraph(text: str, indent: int = 0) -> Iterator[str]:
    """Yield a text in lines that fit."""
    margin = " " * indent
    yield from textwrap.wrap(" ".join(text.split()), width(), initial_indent=margin, subsequent_indent=margin)
