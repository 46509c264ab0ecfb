"""Tables as HTML, with captions and headings that screen readers know."""

import html
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from privbandit_agents.experiments.analysis.tables import rounded


class Column(NamedTuple):
    """A heading, the key of its values, whether they are text, and whether they are pictures, which are markup."""

    title: str
    key: str
    text: bool = False
    picture: bool = False


def table(
    name: str,
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    data: Sequence[Mapping[str, str]] = (),
) -> str:
    """Return a table that can be scrolled by keys where it is wider than the page.

    Args:
        name: of the region that scrolls.
        caption: the table's content.
        columns: from left to right.
        rows: values by the keys of the columns; None is left empty.
        data: ``data-`` attributes of each row; default: none.
    """
    head = "".join(
        f'<th scope="col"{" class=text" * column.text}>{html.escape(column.title)}</th>' for column in columns
    )
    attributes = data or [{}] * len(rows)
    body = "".join(
        f"<tr{''.join(f' data-{key}={chr(34)}{html.escape(value)}{chr(34)}' for key, value in own.items())}>"
        + "".join(cell(column, row.get(column.key)) for column in columns)
        + "</tr>\n"
        for row, own in zip(rows, attributes, strict=True)
    )
    titled = f"<caption><span>{html.escape(caption)}</span></caption><thead><tr>{head}</tr></thead>"
    inner = f"<table>{titled}<tbody>\n{body}</tbody></table>"
    return f'<div class="wide" tabindex="0" role="region" aria-label="{html.escape(name)}, table">{inner}</div>'


def cell(column: Column, value: object) -> str:
    """Return a cell; numbers have three digits, or all that integers have."""
    if column.picture:
        return f'<td class="text">{value or ""}</td>'
    said = "" if value is None else rounded(value) if isinstance(value, float) else str(value)
    kind = ' class="text"' if column.text else ""
    return f"<td{' class=refuted' if said == 'REFUTED' else kind}>{html.escape(said)}</td>"
