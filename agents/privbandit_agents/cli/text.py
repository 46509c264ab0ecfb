"""Tables and pages as plain lines, for a terminal or a file; nothing but the standard library is needed."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import TextIO

GAP = "  "


def warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning as one line: the command's ``warnings.showwarning``."""
    print(f"{'note' if category.__name__ == 'LeftOut' else 'warning'}: {message}", file=sys.stderr)


def width() -> int:
    """Return how wide lines may be: as the terminal, or 120 characters in a file."""
    return shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() or "COLUMNS" in os.environ else 120


def strong(text: str) -> str:
    """Return a text in bold type where that can be shown."""
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() and "NO_COLOR" not in os.environ else text


def table(rows: Sequence[Sequence[str]], heads: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of a table: the first column stands out, long cells go on below, the last one is the widest.

    Args:
        rows: of cells, the same number in each.
        heads: of the columns; none: no head.
    """
    everything = [*([heads] if heads else []), *rows]
    sizes = [max(map(len, column)) for column in zip(*everything, strict=True)]
    sizes = [sizes[0], *(min(size, 40) for size in sizes[1:-1]), sizes[-1]]  # characters
    sizes[-1] = min(sizes[-1], max(24, width() - sum(sizes[:-1]) - len(GAP) * (len(sizes) - 1)))
    if heads:
        yield GAP.join(head.ljust(size) for head, size in zip(heads, sizes, strict=True)).rstrip()
        yield GAP.join("-" * size for size in sizes)
    for row in rows:
        cells = [
            textwrap.wrap(cell, size, break_on_hyphens=False) or [""] for cell, size in zip(row, sizes, strict=True)
        ]
        for i in range(max(map(len, cells))):
            parts = [(lines[i] if i < len(lines) else "").ljust(size) for lines, size in zip(cells, sizes, strict=True)]
            first = strong(parts[0]) if parts[0].strip() else parts[0]
            yield GAP.join([first, *parts[1:]]).rstrip()


def paragraph(text: str, indent: int = 0) -> Iterator[str]:
    """Yield a text in lines that fit."""
    margin = " " * indent
    yield from textwrap.wrap(" ".join(text.split()), width(), initial_indent=margin, subsequent_indent=margin)
