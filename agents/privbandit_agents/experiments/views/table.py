"""One table for the terminal, Markdown, CSV, LaTeX and pages."""

import html
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from privbandit_agents.experiments.names import rounded
from privbandit_agents.experiments.results.frame import inert
from privbandit_agents.experiments.text import paragraph, table
from privbandit_envs.files import atomic

Row = Mapping[str, Any]
PLAIN = str.maketrans({"|": "&#124;", "&": "&amp;", "<": "&lt;", "[": "&#91;", "*": r"\*", "\n": " "})
"""Letters that mean something in a cell of Markdown, as they are written when they mean nothing."""
LATEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"},
    **{"[": "{[}", "\n": " "},  # a bracket that begins a row is an option of the row before
}


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        title: its heading.
        said: the key of its values, or a function of a row; numbers have three digits, or all that integers have.
        left: whether it is text, which is aligned to the left and may be broken.
        markup: whether its values are HTML.
    """

    title: str
    said: str | Callable[[Row], Any]
    left: bool = False
    markup: bool = False

    def cell(self, row: Row) -> str:
        value = self.said(row) if callable(self.said) else row.get(self.said)
        return "" if value is None else rounded(value) if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Table:
    """Rows, and how they are written.

    Attributes:
        rows: of values, as a frame or one by one; CSV has a frame's with all digits.
        columns: from left to right.
        title: above it.
        note: below it, in Markdown: the meaning of marks, and missing cells.
        red: places of rows that the terminal shows in red.
        numbers: the content of CSV in place of ``rows``, such as a row for each printed cell.
    """

    rows: pl.DataFrame | Sequence[Row]
    columns: Sequence[Column]
    title: str = ""
    note: str = ""
    red: Collection[int] = ()
    numbers: pl.DataFrame | None = None

    @property
    def cells(self) -> list[list[str]]:
        rows = self.rows.iter_rows(named=True) if isinstance(self.rows, pl.DataFrame) else self.rows
        return [[column.cell(row) for column in self.columns] for row in rows]

    @property
    def heads(self) -> list[str]:
        return [column.title for column in self.columns]

    @property
    def markdown(self) -> str:
        rule = ["---" if column.left else "---:" for column in self.columns]
        texts = [[cell.translate(PLAIN) for cell in line] for line in (self.heads, *self.cells)]
        rows = "".join(f"| {' | '.join(line)} |\n" for line in (texts[0], rule, *texts[1:]))
        return (f"{self.title.translate(PLAIN)}\n\n" if self.title else "") + rows + self.note

    @property
    def latex(self) -> str:
        """A tabular of the package booktabs."""
        kinds = "".join("l" if column.left else "r" for column in self.columns)
        head, *rows = (f"    {' & '.join(map(latex_text, row))} \\\\\n" for row in (self.heads, *self.cells))
        body = f"    \\toprule\n{head}    \\midrule\n{''.join(rows)}    \\bottomrule\n"
        return f"\\begin{{tabular}}{{{kinds}}}\n{body}\\end{{tabular}}\n"

    @property
    def csv(self) -> str:
        return inert(pl.DataFrame(self.rows) if self.numbers is None else self.numbers).write_csv()

    def lines(self) -> Iterator[str]:
        """Yield the table for the terminal."""
        right = {place for place, column in enumerate(self.columns) if not column.left}
        yield from paragraph(self.title)
        yield from table(self.cells, self.heads, right, dict.fromkeys(self.red, "31"))

    def html(self, name: str, data: Sequence[Mapping[str, str]] = ()) -> str:
        """Return a table for a page, which can be scrolled by keys where it is wider; screen readers know its parts.

        Args:
            name: of the region that scrolls.
            data: ``data-`` attributes of each row; default: none.
        """
        classes = [" class=text" * column.left for column in self.columns]
        heads = zip(classes, self.heads, strict=True)
        head = "".join(f'<th scope="col"{kind}>{html.escape(title)}</th>' for kind, title in heads)
        body = ""
        for row, own in zip(self.cells, data or [{}] * len(self.rows), strict=True):
            marks = "".join(f' data-{key}="{html.escape(value)}"' for key, value in own.items())
            parts = zip(self.columns, row, strict=True)
            body += f"<tr{marks}>{''.join(html_cell(column, said) for column, said in parts)}</tr>\n"
        titled = f"<caption><span>{html.escape(self.title)}</span></caption><thead><tr>{head}</tr></thead>"
        inner = f"<table>{titled}<tbody>\n{body}</tbody></table>"
        return f'<div class="wide" tabindex="0" role="region" aria-label="{html.escape(name)}, table">{inner}</div>'


def html_cell(column: Column, said: str) -> str:
    kind = " class=refuted" if said == "REFUTED" else ' class="text"' if column.left or column.markup else ""
    return f"<td{kind}>{said if column.markup else html.escape(said)}</td>"


def latex_text(text: str) -> str:
    """Return a text as LaTeX writes it."""
    return "".join(LATEX.get(letter, letter) for letter in text)


def write_tables(tables: Sequence[Table], folder: Path, name: str) -> None:
    """Write ``name.csv``, of the first one, and ``name.md`` and ``name.tex``, one table below the other."""
    texts = {"csv": tables[0].csv, "md": "\n".join(table.markdown for table in tables)}
    texts["tex"] = "\n".join(table.latex for table in tables)
    for suffix, text in texts.items():
        with atomic(folder / f"{name}.{suffix}") as file:
            file.write(text)
