"""Rows of numbers from a table and its schema, one row at a time as a million: the same bits, whoever else is there."""

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privbandit_envs.tables.reading import Table, scan, series, told
from privbandit_envs.tables.schema import Field, Schema, plain
from privbandit_envs.validate import did_you_mean, listed, shown

Floats = NDArray[np.float64]
Meaning: TypeAlias = "Floats | Numeric | None"
"""Of a part: a table of rows by number, the reading of a number, or the coordinate itself."""
OTHER, BLANK = "other", "missing"
"""What a level is called that a schema does not name, and a cell without a value."""
ROWS, CELLS = 2**14, 2**20
"""Most rows and cells of a block."""
CACHED = 2**10
"""Rows of a block that are written at once."""
WIDEST = 10_000
"""Most columns that are no numbers: each takes a part of a query, and polars memory for it."""
QUERY = 256
"""Columns of a query."""
MOST = 20
"""Problems of a table that are listed."""


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


def cells(field: Field, dtype: pl.DataType, missing: Sequence[str], lenient: bool = False) -> Cells:
    """Return a column, by its schema and its type in the table; ``lenient``: a fault counts as a cell without value."""
    column, texts = pl.col(field.name), dtype == pl.String
    if isinstance(dtype, pl.Categorical | pl.Enum):
        column, texts = column.cast(pl.String), True
    if texts:
        column = column.str.strip_chars()
    elif dtype.is_float():
        column = column.fill_nan(None)
    blank = column.is_null() | column.is_in(list(missing)) if texts else column.is_null()
    value, good = column, pl.lit(True)
    if field.type in ("number", "integer"):
        decimal = column.str.replace(field.decimal, ".", literal=True) if texts and field.decimal != "." else column
        value = decimal.cast(pl.Float64, strict=False)
        if texts:
            blank = blank | value.is_nan().fill_null(False)
        if not dtype.is_integer():
            good = value.is_finite()
            good = good & (value == value.round()) if field.type == "integer" else good
    elif field.type == "boolean" and dtype == pl.Boolean:
        value = column.cast(pl.Float64)
    elif field.type == "boolean":
        number = column.cast(pl.Float64, strict=False)  # 1.0 is 1
        yes, no = (number == 1).fill_null(False), (number == 0).fill_null(False)
        if texts:
            yes = column.is_in(field.true) | (yes if "1" in field.true else pl.lit(False))
            no = column.is_in(field.false) | (no if "0" in field.false else pl.lit(False))
        value, good = pl.when(yes | no).then(yes.cast(pl.Float64)), yes | no
    elif field.type == "string":
        value = column if texts else text(column, dtype)
        closed = field.use.unseen == "refuse" and field.use.role == "context" and field.use.columns is None
        if closed or (field.use.role != "context" and coded_by(field)):
            good = value.is_in(field.levels)
    else:
        value = column if not texts else moments(column, field)
        value = value.cast(pl.Datetime("us"), strict=False) if dtype != pl.Time else pl.lit(None, pl.Datetime("us"))
        good = value.is_not_null()
    fault = ~blank & ~good.fill_null(False)
    if lenient:
        return Cells(pl.when(~(blank | fault)).then(value), blank | fault, pl.lit(False))
    if field.constraints.required or field.use.role not in ("context", "person", "ignore"):
        fault = fault | blank
    return Cells(pl.when(~blank).then(value) if texts else value, blank, fault.fill_null(True))


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


def named(field: Field) -> list[str]:
    """Return the names of the coordinates that a field becomes."""
    name, blank = field.name, [] if field.constraints.required else [f"{field.name}={BLANK}"]
    if field.type == "string" and field.use.columns is not None:
        return [*(f"{name}#{k}" for k in range(field.use.columns)), *blank]
    if field.type == "string":
        levels = [*field.levels, *([OTHER] if field.use.unseen == OTHER else [])]
        return [*(f"{name}={level}" for level in levels), *blank]
    if field.type in ("number", "integer", "boolean"):
        return [name, *blank]
    circles = [f"{name} {part} {way}" for part in turns(field) for way in ("cos", "sin")]
    return [f"{name} days", *circles, *blank]


@dataclass(frozen=True)
class Numeric:
    """A column of numbers as coordinates, a block at a time: a wide table has too many for expressions of polars.

    Attributes:
        field: of the column.
        ends: its bounds if it is scaled; None: numbers stay as they are.
        fill: stands for a number that is missing.
        lenient: whether a number that does not fit counts as one that is missing.
    """

    field: Field
    ends: tuple[float, float] | None
    fill: float
    lenient: bool

    def of(self, values: Floats) -> tuple[list[Floats], bool]:
        """Return the coordinates of numbers, NaN for a missing one, and whether one of them is refused."""
        blank, wrong = np.isnan(values), np.isinf(values)
        if self.field.type == "integer":
            wrong |= (values != np.round(values)) & ~blank
        fault = not self.lenient and bool(wrong.any() or (self.field.constraints.required and blank.any()))
        blank |= wrong
        values = np.where(blank, self.fill, values) if blank.any() else values
        if self.ends is not None:
            low, high = self.ends
            clipped = np.clip(values, low, high)
            values = (clipped - low) / (high - low) if low < high else 0.5 + np.sign(values - low) / 2
        return [values, *([] if self.field.constraints.required else [blank.astype(np.float64)])], fault


@dataclass(frozen=True)
class Encoding:
    """A schema, applied to a table's columns.

    Attributes:
        schema: of the table.
        scaled: whether numbers are scaled by their bounds to [0, 1]; else they stay as they are.
        lenient: whether a cell that does not fit counts as one without a value; else it is refused, which tells of it.
    """

    schema: Schema
    scaled: bool = True
    lenient: bool = False

    def parts(self, field: Field, dtype: pl.DataType) -> list[tuple[pl.Expr, Meaning]]:
        """Return a field's coordinates from left to right: numbers, or codes and the rows of a table that they mean."""
        ends = field.constraints.minimum, field.constraints.maximum
        if field.type in ("number", "integer"):
            value = pl.col(field.name).cast(pl.Float64) if numeric(field, dtype) else self.read(field, dtype).value
            whole = None if None in ends else (float(ends[0] or 0), float(ends[1] or 0))
            fill = sum(whole or (0.0, 0.0)) / 2 if field.use.fill is None else field.use.fill
            return [(value, Numeric(field, whole if self.scaled else None, fill, self.lenient))]
        found = self.read(field, dtype)
        if field.type == "string":
            levels = np.eye(len(named(field)) + 1)[:, :-1]  # the last row, of nothing, is that of a fault
            return [(code(field, self.schema.missing, self.lenient), levels)]
        blank: list[tuple[pl.Expr, Meaning]] = [] if field.constraints.required else [(found.blank, None)]
        if field.type == "boolean":
            return [(found.value.fill_null(0.0), None), *blank]
        first, last = (None if end is None else days(moment(end, field)) for end in ends)
        told: list[tuple[pl.Expr, Meaning]] = [(self.within(since(found.value), (first, last)).fill_null(0.0), None)]
        for part in turns(field):
            time, size = found.value.dt, len(CIRCLES[part]) - 1
            turn = time.weekday() - 1 if part == "weekday" else time.hour().cast(pl.Int32) * 60 + time.minute()
            told.append((turn.cast(pl.Int32).fill_null(size), CIRCLES[part]))
        return [*told, *blank]

    def read(self, field: Field, dtype: pl.DataType) -> Cells:
        return cells(field, dtype, self.schema.missing, self.lenient)

    def within(self, value: pl.Expr, ends: tuple[Any, Any]) -> pl.Expr:
        """Return days in [0, 1] by their bounds, 0.5 if the bounds are one; or as they are."""
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
        """The columns with another role: values, or places in ``levels`` of arms and labels."""
        return [field for field in self.schema.fields if field.use.role not in ("context", "ignore")]

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """The least and the largest reward by the schema, which rewards beyond count as; None if it has none."""
        found = self.schema.of_role("reward")
        if not (self.scaled and found and found[0].bounded and found[0].type in ("number", "integer", "boolean")):
            return None
        ends = found[0].constraints.minimum, found[0].constraints.maximum
        return (0.0, 1.0) if found[0].type == "boolean" else (float(ends[0] or 0), float(ends[1] or 0))

    @property
    def names(self) -> list[str]:
        """The names of a context's coordinates, d of them, such as ``"age"`` and ``"channel=mail"``."""
        return [name for field in self.fields for name in named(field)]

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
        check_width(sum(not numeric(field, kinds[field.name]) for field in self.fields))
        # coordinates; values of other columns; and a fault, which a number of a level below 0 says by itself
        parts = [part for field in self.fields for part in self.parts(field, kinds[field.name])]
        values, faults = [], [pl.lit(False)]
        for field in (*self.fields, *self.others):
            if field.use.role == "context" and numeric(field, kinds[field.name]):
                continue
            found, leveled = self.read(field, kinds[field.name]), coded_by(field)
            faults += [] if leveled else [found.fault]
            if field.use.role != "context":
                span = self.reward_range if field.use.role == "reward" else None
                value = found.value if span is None else found.value.clip(*span)
                values.append(code(field, self.schema.missing, self.lenient) if leveled else value)
        names = [field.name for field in self.others]
        chosen = frame.select(
            *(part.alias(f"\0{place}") for place, (part, _) in enumerate(parts)),
            *(value.alias(name) for value, name in zip(values, names, strict=True)),
            pl.any_horizontal(faults).alias("\0fault"),
        )
        numbered = [field.name for field in self.others if coded_by(field)]
        numbered += [f"\0{place}" for place, (_, meaning) in enumerate(parts) if isinstance(meaning, np.ndarray)]
        with told("the table"):
            d = len(self.names)
            rows = max(min(rows, CELLS // max(d, 1)), 1)
            for block in chosen.collect_batches(chunk_size=rows, maintain_order=True, engine="streaming"):
                below = not self.lenient and any((block[name] < 0).any() for name in numbered)
                refused = bool(below or block["\0fault"].any())
                columns: list[tuple[NDArray[Any], Floats | None]] = []
                for (_, meaning), column in zip(parts, block.iter_columns(), strict=False):
                    cells_of = column.to_numpy()
                    if isinstance(meaning, Numeric):
                        several, fault = meaning.of(cells_of)
                        refused = refused or fault
                        columns += [(one, None) for one in several]
                    else:
                        columns.append((cells_of, meaning))
                if refused:
                    raise ValueError(self.problems(frame, kinds))
                contexts = np.empty((len(block), d))
                for start in range(0, len(block), CACHED):
                    some, place = slice(start, start + CACHED), 0
                    for numbers, rows_of in columns:
                        width = 1 if rows_of is None else rows_of.shape[1]
                        cut = numbers[some]
                        one = cut[:, None] if rows_of is None else rows_of.take(cut, axis=0)
                        contexts[some, place : place + width] = one
                        place += width
                yield contexts, pl.DataFrame([block.get_column(name) for name in names])

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

    def row(self, cells: Mapping[str, Any]) -> Floats:
        """Return the context of somebody, shape (d,), by the cells of context columns; one that lacks has no value.

        Raises:
            ValueError: a column that is none, or a cell that does not fit; the sentence names it.
        """
        names = [field.name for field in self.fields]
        if strange := [name for name in cells if name not in names]:
            near = did_you_mean(strange[0], names)
            raise ValueError(f"a row has the columns {listed(names)}; got {shown(strange[0])}{near}.")
        alone = replace(self, schema=self.schema.model_copy(update={"fields": self.fields}))
        table = pl.DataFrame({name: series(name, [cells.get(name)]) for name in names} | {"\0": [0]})
        return np.asarray(alone.encoded(table)[0][0])

    def problems(self, frame: pl.LazyFrame, kinds: dict[str, pl.DataType]) -> str:
        """Return what is wrong with a table: a line for each column, with its first row and value, and the way out."""
        every = {field.name: field for field in (*self.fields, *self.others)}
        faulty: list[str] = []
        for some in batched(every):
            faults = (cells(every[name], kinds[name], self.schema.missing).fault.any().alias(name) for name in some)
            found = frame.select(*faults).collect(engine="streaming").row(0, named=True)
            faulty += [name for name, fault in found.items() if fault]
        lines = []
        for field in (every[name] for name in faulty[:MOST]):
            one = cells(field, kinds[field.name], self.schema.missing)
            bad = (
                frame.with_row_index("row")
                .filter(one.fault)
                .select("row", pl.col(field.name).alias("cell"), one.blank.alias("blank"), pl.len().alias("all"))
            )
            row, cell, blank, count = bad.head(1).collect().row(0)
            more = f" (and {count - 1:,} rows more)" if count > 1 else ""
            lines.append(f"column {shown(field.name)}, row {row}: {wrong(field, cell, blank)}{more}.")
        return "\n".join([*lines, *([f"And {len(faulty) - MOST} columns more."] if len(faulty) > MOST else [])])

    def explained(self, context: Floats) -> dict[str, Any]:
        """Return what a context says, by column: a number, a level, or None for a missing one; dates as days."""
        told: dict[str, Any] = {}
        place = 0
        for field in self.fields:
            names = named(field)
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


def batched(names: Collection[str]) -> Iterator[list[str]]:
    """Yield columns a few at a time: a query of thousands of expressions takes polars more memory than there is."""
    every = list(names)
    return (every[start : start + QUERY] for start in range(0, len(every), QUERY))


def check_width(others: int) -> None:
    """Raise ValueError if a table has too many columns that are no numbers."""
    if others > WIDEST:
        raise ValueError(f"a table may have {WIDEST:,} columns that are no numbers; it has {others:,}: leave some out.")


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


def code(field: Field, missing: Sequence[str], lenient: bool = False) -> pl.Expr:
    """Return a column of levels as their numbers, as ``coded`` does."""
    plain = field.use.columns is None and not {*field.levels} & {*missing}
    levels = pl.Enum(field.levels) if plain else None
    how: Any = {"return_dtype": pl.Int32, "is_elementwise": True}
    return pl.col(field.name).map_batches(lambda s: coded(s, field, missing, lenient, levels), **how)


def coded(column: pl.Series, field: Field, missing: Sequence[str], lenient: bool, levels: pl.Enum | None) -> pl.Series:
    """Return the number of each level, or of the coordinate of others or blanks; -1 for a fault."""
    codes = pl.Series(column.name, [None], pl.Int32).new_from_index(0, len(column))
    # most texts are levels as they are written
    if levels is not None and column.dtype in (pl.String, pl.Categorical, pl.Enum):
        codes = column.cast(pl.String).cast(levels, strict=False).to_physical().cast(pl.Int32)
    if not (odd := codes.is_null()).any():
        return codes
    rest = column.filter(odd).to_frame()
    distinct = rest.unique()
    found, context = cells(field, column.dtype, missing, lenient), field.use.role == "context"
    blank = -1 if field.constraints.required or not context else len(named(field)) - 1
    other = len(field.levels) if context and field.use.unseen == OTHER else -1
    places = {level: place for place, level in enumerate(field.levels)}

    def number(value: str | None) -> int:
        if value is None:
            return blank
        return bucket(value, field.use.columns) if field.use.columns is not None else places.get(value, other)

    numbers = map(number, distinct.select(found.value).to_series())
    known = distinct.with_columns(pl.Series("\0code", numbers, pl.Int32))
    joined = rest.join(known, on=column.name, how="left", nulls_equal=True, maintain_order="left")
    return codes.scatter(odd.arg_true(), joined["\0code"])


def numeric(field: Field, dtype: pl.DataType) -> bool:
    """Return whether a column holds numbers as such, rather than in texts."""
    return field.type in ("number", "integer") and dtype.is_numeric()


def coded_by(field: Field) -> bool:
    """Return whether a column is numbers of levels: it holds features, or arms or labels that its schema names."""
    named = field.use.role in ("action", "label") and bool(field.levels)
    return field.type == "string" and (field.use.role == "context" or named)


def turns(field: Field) -> list[str]:
    """Return the parts of a time that come round again."""
    return ["weekday"] if field.type == "date" else list(CIRCLES)


def on_circle(turn: Floats) -> Floats:
    """Return cosine and sine of turns, moved to [0, 1]; the middle for a time that is missing, in a last row."""
    angle = turn * (2 * math.pi)
    return np.vstack([np.column_stack([np.cos(angle), np.sin(angle)]) / 2 + 0.5, [[0.5, 0.5]]])


CIRCLES = {"weekday": on_circle(np.arange(7) / 7), "hour": on_circle(np.arange(1440) / 1440)}
"""Parts of a time that come round again, and their coordinates: of days, and of minutes."""


def since(value: pl.Expr) -> pl.Expr:
    """Return times as days since 1970."""
    return value.dt.timestamp("us").cast(pl.Float64) / 86_400e6


def hours(value: pl.Expr) -> pl.Expr:
    return value.dt.hour().cast(pl.Float64) + value.dt.minute().cast(pl.Float64) / 60


def days(moment: Any) -> float:
    """Return a time without a zone as days since 1970."""
    return float((moment - datetime(1970, 1, 1)) / timedelta(days=1))
