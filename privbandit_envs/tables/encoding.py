"""Rows of numbers from a table and its schema, one row at a time as a million: the same bits, whoever else is there."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privbandit_envs.tables.reading import Table, scan, told
from privbandit_envs.tables.schema import Field, Schema, plain
from privbandit_envs.validate import did_you_mean, listed, shown

Floats = NDArray[np.float64]
OTHER, BLANK = "other", "missing"
"""What a level is called that a schema does not name, and a cell without a value."""
ROWS = 2**14
"""Rows of a block."""
MOST = 20
"""Problems of a table that are listed."""
TEXTS = pl.String()
CIRCLES = {"weekday": 7, "hour": 24}
"""Parts of a time that come round again, and how many there are."""


@dataclass(frozen=True)
class Cells:
    """A column as expressions of polars.

    Attributes:
        value: numbers, texts or dates; null if there is none.
        blank: whether the cell has no value.
        fault: whether it has one that is none of the type, or beyond what the schema allows.
    """

    value: pl.Expr
    blank: pl.Expr
    fault: pl.Expr


def cells(field: Field, dtype: pl.DataType, missing: Sequence[str]) -> Cells:
    """Return a column, by its schema and its type in the table."""
    column, texts = pl.col(field.name), dtype == pl.String
    if isinstance(dtype, pl.Categorical | pl.Enum):
        column, texts = column.cast(pl.String), True
    if texts:
        column = column.str.strip_chars()
        blank = column.is_null() | column.is_in(list(missing))
    else:
        blank = column.is_null() | column.is_nan() if dtype.is_float() else column.is_null()
    value: pl.Expr
    if field.type in ("number", "integer"):
        decimal = column.str.replace(field.decimal, ".", literal=True) if texts and field.decimal != "." else column
        value = decimal.cast(pl.Float64, strict=False)
        blank = blank | value.is_nan().fill_null(False)
        good = value.is_finite() & ((value == value.round()) if field.type == "integer" else True)
    elif field.type == "boolean":
        words = column if texts else column.cast(pl.Float64, strict=False)
        yes = words.is_in(field.true) if texts else words == 1
        no = words.is_in(field.false) if texts else words == 0
        value, good = pl.when(yes | no).then(yes.cast(pl.Float64)), yes | no
    elif field.type == "string":
        value = column if texts else text(column, dtype)
        closed = field.use.role in ("action", "label") or (field.use.unseen == "refuse" and not field.use.columns)
        known = closed and field.constraints.enum is not None
        good = value.is_in(field.levels) if known else pl.lit(True)
    else:
        value = column if not texts else moments(column, field)
        value = value.cast(pl.Datetime("us"), strict=False) if dtype != pl.Time else pl.lit(None, pl.Datetime("us"))
        good = value.is_not_null()
    fault = ~blank & ~good.fill_null(False)
    if field.constraints.required or field.use.role not in ("context", "person", "ignore"):
        fault = fault | blank
    return Cells(pl.when(~blank).then(value), blank, fault.fill_null(True))


def text(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return numbers, booleans or dates as texts; a whole number has no point."""
    if dtype.is_float():
        whole = (column == column.round()) & (column.abs() < 2**53)
        return (
            pl.when(whole).then(column.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(column.cast(pl.String))
        )
    return column.cast(pl.String)


def moments(column: pl.Expr, field: Field) -> pl.Expr:
    """Return texts as times, by the field's format; a zone is left aside once it was read."""
    if field.format != "default":
        return column.str.to_datetime(field.format, strict=False, time_unit="us")
    if field.type == "date":
        return column.str.to_datetime("%Y-%m-%d", strict=False, time_unit="us")
    zoned = column.str.replace(" ", "T", literal=True)
    plain = zoned.str.replace(r"(Z|[+-]\d\d:?\d\d)$", "")
    seconds = plain.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", strict=False, time_unit="us")
    return pl.coalesce(seconds, plain.str.to_datetime("%Y-%m-%dT%H:%M", strict=False, time_unit="us"))


def moment(bound: float | str, field: Field) -> Any:
    """Return a bound of a column of dates as polars has dates."""
    frame = pl.DataFrame({field.name: [str(bound)]})
    found = frame.select(cells(field, pl.String(), ()).value).item()
    if found is None:
        raise ValueError(f"{shown(bound)} is no {field.type} in the format {field.format} of {shown(field.name)}.")
    return found


def bucket(level: str, columns: int) -> int:
    """Return the column of a level that is hashed; it is the same everywhere."""
    return int.from_bytes(hashlib.blake2b(level.encode(), digest_size=8).digest()) % columns


@dataclass(frozen=True)
class Encoding:
    """A schema, applied to a table's columns.

    Attributes:
        schema: of the table.
        scaled: whether numbers are scaled by their bounds to [0, 1]; else they stay as they are.
    """

    schema: Schema
    scaled: bool = True

    def parts(self, field: Field, dtype: pl.DataType = TEXTS) -> dict[str, pl.Expr]:
        """Return the columns of numbers that a field becomes, by name."""
        found, name = cells(field, dtype, self.schema.missing), field.name
        blank = {} if field.constraints.required else {f"{name}={BLANK}": found.blank.cast(pl.Float64)}
        if field.type == "string":
            named = found.value.is_in(field.levels)
            if field.use.columns is not None:
                hashed = found.value.map_batches(lambda s: hashes(s, field.use.columns or 1), pl.Int64)
                return {f"{name}#{k}": at(hashed == k) for k in range(field.use.columns)} | blank
            other = {f"{name}={OTHER}": at(~named)} if field.use.unseen == OTHER else {}
            return {f"{name}={level}": at(found.value == level) for level in field.levels} | other | blank
        if field.type == "boolean":
            return {name: found.value.fill_null(0.0)} | blank
        ends = field.constraints.minimum, field.constraints.maximum
        if field.type in ("number", "integer"):
            fill = field.use.fill
            if fill is None:
                fill = (float(ends[0]) + float(ends[1])) / 2 if None not in ends else 0.0  # type: ignore[arg-type]
            return {name: self.within(found.value.fill_null(fill), ends)} | blank
        first, last = (None if end is None else days(moment(end, field)) for end in ends)
        told = {f"{name} days": self.within(since(found.value), (first, last)).fill_null(0.0)}
        for part, size in CIRCLES.items():
            if part == "hour" and field.type == "date":
                continue
            turn = found.value.dt.weekday() - 1 if part == "weekday" else hours(found.value)
            angle = turn.cast(pl.Float64) * (2 * math.pi / size)
            told |= {f"{name} {part} cos": (angle.cos() / 2 + 0.5).fill_null(0.5)}
            told |= {f"{name} {part} sin": (angle.sin() / 2 + 0.5).fill_null(0.5)}
        return told | blank

    def within(self, value: pl.Expr, ends: tuple[Any, Any]) -> pl.Expr:
        """Return numbers in [0, 1] by their bounds, 0.5 if the bounds are one; or as they are."""
        low, high = ends
        if not self.scaled or low is None or high is None:
            return value
        if low == high:
            return pl.when(value.is_not_null()).then(
                0.5 + (value > high).cast(pl.Float64) / 2 - (value < low).cast(pl.Float64) / 2
            )
        inside: pl.Expr = ((value.clip(low, high) - low) / (high - low)).clip(0.0, 1.0)
        return inside

    @property
    def fields(self) -> list[Field]:
        """The columns of contexts."""
        return self.schema.of_role("context")

    @property
    def others(self) -> list[Field]:
        """The columns with another role, whose values are kept."""
        return [field for field in self.schema.fields if field.use.role not in ("context", "ignore")]

    @property
    def names(self) -> list[str]:
        """The names of a context's coordinates, d of them, such as ``"age"`` and ``"channel=mail"``."""
        return [name for field in self.fields for name in self.parts(field)]

    @property
    def bound(self) -> float:
        """The largest norm of a context, if numbers are scaled."""
        squares = 0.0
        for field in self.fields:
            blank = 0 if field.constraints.required or field.type == "string" else 1
            circles = {"date": 1, "datetime": 2}.get(field.type, 0)  # of norm at most sqrt((1 + sqrt(2) / 2)^2 + ...)
            squares += 1 + blank + circles * (1.5 + math.sqrt(2))
        return math.sqrt(squares)

    def blocks(self, table: Table, rows: int = ROWS) -> Iterator[tuple[Floats, pl.DataFrame]]:
        """Yield contexts, shape (m, d), and the columns of ``others``, by blocks of at most ``rows`` rows.

        Raises:
            ValueError: a column is not there, or cells are faulty: up to twenty are listed, a line each.
        """
        frame = scan(table, plain([*self.fields, *self.others]), self.schema.missing)
        kinds = kinds_of(frame, [*self.fields, *self.others])
        numbers = [part for field in self.fields for part in self.parts(field, kinds[field.name]).values()]
        found = {
            field.name: cells(field, kinds[field.name], self.schema.missing) for field in (*self.fields, *self.others)
        }
        chosen = frame.select(
            *(part.cast(pl.Float64).alias(f"x{place}") for place, part in enumerate(numbers)),
            *(found[field.name].value.alias(f"o{place}") for place, field in enumerate(self.others)),
            pl.any_horizontal(pl.lit(False), *(one.fault for one in found.values())).alias("fault"),
        )
        with told("the table"):
            for block in chosen.collect_batches(chunk_size=rows, maintain_order=True, engine="streaming"):
                if block["fault"].any():
                    raise ValueError(self.problems(frame, kinds))
                contexts = block.select(pl.col("^x\\d+$")).to_numpy(order="c") if numbers else np.empty((len(block), 0))
                names = {f"o{place}": field.name for place, field in enumerate(self.others)}
                yield contexts, block.select(list(names)).rename(names)

    def encoded(self, table: Table) -> tuple[Floats, pl.DataFrame]:
        """Return all contexts, shape (n, d), and the columns of ``others``; errors are those of ``blocks``."""
        frame = scan(table, plain([*self.fields, *self.others]), self.schema.missing)
        contexts = np.empty((frame.select(pl.len()).collect(engine="streaming").item(), len(self.names)))
        others: list[pl.DataFrame] = []
        first = 0
        for rows, beside in self.blocks(frame):
            contexts[first : first + len(rows)] = rows
            first += len(rows)
            others.append(beside)
        return contexts, pl.concat(others)

    def problems(self, frame: pl.LazyFrame, kinds: dict[str, pl.DataType]) -> str:
        """Return what is wrong with a table: a line for each column, with its first row and value, and the way out."""
        lines = []
        for field in (*self.fields, *self.others):
            one = cells(field, kinds[field.name], self.schema.missing)
            bad = (
                frame.with_row_index("row")
                .filter(one.fault)
                .select("row", pl.col(field.name).alias("cell"), one.blank.alias("blank"), pl.len().alias("all"))
            )
            rows = bad.head(1).collect().rows()
            if rows:
                row, cell, blank, count = rows[0]
                more = f" (and {count - 1:,} rows more)" if count > 1 else ""
                lines.append(f"column {shown(field.name)}, row {row}: {wrong(field, cell, blank)}{more}.")
        rest = [f"And {len(lines) - MOST} columns more."] if len(lines) > MOST else []
        return "\n".join([*lines[:MOST], *rest])

    def explained(self, context: Floats) -> dict[str, Any]:
        """Return what a context says, by column: a number, a level, or None for a missing one; dates as days."""
        told: dict[str, Any] = {}
        place = 0
        for field in self.fields:
            names = list(self.parts(field))
            part = dict(zip(names, context[place : place + len(names)].tolist(), strict=True))
            place += len(names)
            if part.get(f"{field.name}={BLANK}"):
                told[field.name] = None
            elif field.type == "string":
                told[field.name] = next(
                    (name.removeprefix(f"{field.name}=") for name, one in part.items() if one), None
                )
            elif field.type in ("number", "integer") and self.scaled and field.bounded:
                low, high = float(field.constraints.minimum or 0), float(field.constraints.maximum or 0)
                told[field.name] = low + part[field.name] * (high - low)
            else:
                told[field.name] = part[names[0]]
        return told


def kinds_of(frame: pl.LazyFrame, fields: Sequence[Field]) -> dict[str, pl.DataType]:
    """Return the types of columns in a table, by name; raise ValueError if one is not there."""
    kinds = frame.collect_schema()
    if gone := [field.name for field in fields if field.name not in kinds]:
        near = did_you_mean(gone[0], kinds)
        raise ValueError(f"the table has no column {shown(gone[0])}{near}; it has {listed(kinds)}.")
    return dict(kinds)


def wrong(field: Field, cell: object, blank: bool) -> str:
    """Return why a cell is refused, and the way out, in words."""
    if blank:
        return "nothing; fill it in, leave the row out, or let `required` be false in the schema"
    if field.type == "string":
        return f'{shown(cell)} is no level of the schema; name it in `enum`, or let `unseen` be "other"'
    kind = {"boolean": "true or false", "date": "date", "datetime": "time"}.get(field.type, f"finite {field.type}")
    form = f" in {field.format}" if field.type in ("date", "datetime") and field.format != "default" else ""
    return f'{shown(cell)} is no {kind}{form}; name it in `missingValues`, or give the column the role "ignore"'


def hashes(column: pl.Series, columns: int) -> pl.Series:
    """Return the column of each level, null for none."""
    known = {level: bucket(level, columns) for level in column.unique().drop_nulls()}
    return column.replace_strict(known, default=None, return_dtype=pl.Int64)


def at(condition: pl.Expr) -> pl.Expr:
    return condition.fill_null(False).cast(pl.Float64)


def since(value: pl.Expr) -> pl.Expr:
    """Return times as days since 1970."""
    return value.dt.timestamp("us").cast(pl.Float64) / 86_400e6


def hours(value: pl.Expr) -> pl.Expr:
    return value.dt.hour().cast(pl.Float64) + value.dt.minute().cast(pl.Float64) / 60


def days(moment: Any) -> float:
    """Return a time without a zone as days since 1970."""
    return float((moment - datetime(1970, 1, 1)) / timedelta(days=1))
