"""Tables of yours: CSV and parquet files, data frames of pandas and polars, or arrays by name."""

import math
import os
import re
from array import array
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from io import BytesIO
from itertools import islice
from pathlib import Path
from string import whitespace
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privbandit_envs.datasets.dataset import Dataset, encode
from privbandit_envs.datasets.lines import LONGEST_LINE, table_rows
from privbandit_envs.files import regular
from privbandit_envs.validate import as_number, did_you_mean, listed, shown

if TYPE_CHECKING:
    import polars

Columns = dict[str, NDArray[Any]]
Table: TypeAlias = "str | Path | Mapping[str, Any] | Any"
"""The path of a CSV or parquet file, a data frame, or arrays by name."""
HELD = Lock()
"""Held by whoever has this process's stderr turned aside."""
FORMATS = {
    b"\x1f\x8b": "compressed by gzip: unpack it with gunzip",
    b"PK": "a zip archive, or a sheet of Excel: unpack it, or save the sheet as CSV",
}
"""What files that are no table begin with, and what to do with them."""
YES, NO = {"1", "1.0", "true", "yes"}, {"0", "0.0", "false", "no"}


@dataclass(frozen=True, eq=False)
class ArmTable:
    """People who each have K arms, with the features and the reward of every arm; the arrays are read-only.

    Attributes:
        features: finite, shape (n, K, d).
        rewards: in [-1, 1], shape (n, K).
        public: people with public rows, shape (n,); None: there is no such rule.
    """

    features: NDArray[np.float64]
    rewards: NDArray[np.float64]
    public: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        for part in (self.features, self.rewards):
            part.flags.writeable = False

    def __deepcopy__(self, memo: object) -> "ArmTable":
        return self  # nothing in it can change


def labelled(table: Table, label: str, public: str | None = None) -> Dataset:
    """Return a table as a data set for classification: one row a person, one column the label, the others features."""
    columns = columns_of(table, label)
    names = feature_names(columns, {"label": label, "public": public})
    labels = columns[label]
    if len(gone := np.flatnonzero(nothing(labels))):
        raise ValueError(f"column {shown(label)} has no label in row {gone[0]}; fill it in or leave the row out.")
    y, label_names = numbered(columns, label)
    if len(label_names) < 2:
        raise ValueError(f"column {shown(label)} must have at least two different labels; got {shown(label_names)}.")
    return Dataset(matrix(columns, names), y, label_names, tuple(names), flags(columns, public))


def armed(table: Table, user: str, reward: str, public: str | None = None) -> ArmTable:
    """Return a table with one row for each arm of each person; arms are in the order of their rows."""
    columns = columns_of(table, user)
    names = feature_names(columns, {"user": user, "reward": reward, "public": public})
    who, people = numbered(columns, user)
    sizes = np.bincount(who)
    if len(other := np.flatnonzero(sizes != sizes[0])):
        found = f"{shown(people[0])} has {sizes[0]} and {shown(people[other[0]])} has {sizes[other[0]]}"
        raise ValueError(f"every person must have one row for each arm; in column {shown(user)} {found}.")
    order = np.argsort(who, kind="stable").reshape(len(people), sizes[0])
    features, rewards = matrix(columns, names)[order], matrix(columns, [reward])[order][..., 0]
    if not (np.abs(rewards) <= 1).all():
        wild = rewards[np.abs(rewards) > 1][0]
        raise ValueError(f"column {shown(reward)} must hold rewards in [-1, 1]; got {wild:g}: scale them.")
    known = flags(columns, public)
    if known is not None:
        known = np.asarray(known[order].all(axis=1), dtype=bool)  # who has a private row is private
        if known.all() or not known.any():
            raise ValueError(f"column {shown(public)} must make some people public and leave some private.")
    return ArmTable(features, rewards, known)


def columns_of(table: Table, *texts: str | None) -> Columns:
    """Return the columns of a table as arrays, in order; of a CSV file, ``texts`` are as they are written.

    Raises:
        ValueError: no table of at least two columns and one row, columns of different lengths or of one name.
        ImportError: a parquet file, and neither polars nor pandas is installed.
    """
    frame = read(Path(table).expanduser(), texts) if isinstance(table, str | Path) else table
    for whole in ("collect", "to_pydict"):  # of a LazyFrame of polars, and of a table of pyarrow
        frame = method() if callable(method := getattr(frame, whole, None)) else frame
    names = list(getattr(frame, "columns", frame if isinstance(frame, Mapping) else ()))
    if len(names) < 2:
        raise ValueError(
            f"a table must be a file, a data frame or arrays by name, of two columns or more; got {shown(table)}."
        )
    if len(set(map(str, names))) < len(names):
        raise ValueError(f"every column must have a name of its own; got {listed(map(str, names))}.")
    columns = {str(name): np.asarray(frame[name]) for name in names}
    lengths = {array.shape for array in columns.values()}
    if len(lengths) > 1 or any(len(shape) != 1 or not shape[0] for shape in lengths):
        raise ValueError(f"columns must be rows of one length, at least 1; got shapes {shown(sorted(lengths))}.")
    for name in [name for name in columns if not name or re.fullmatch(r"Unnamed: \d+", name)]:
        entries = set(numbers_of(columns[name]))
        if len(entries) < next(iter(lengths))[0] or not all(entry.is_integer() for entry in entries):
            raise ValueError(f"column {shown(name)} has no name and is no index of the rows: name it, or leave it out.")
        del columns[name]  # the index that pandas writes
    return columns


def read(path: Path, texts: Collection[str | None]) -> Any:
    """Return a file as a data frame, or as arrays by name."""
    try:
        there = path.is_file()
    except OSError:  # a name that is too long for a file
        there = False
    if not there:
        raise FileNotFoundError(
            f"no file {shown(str(path))}; a table must be a CSV or a parquet file, or a data frame."
        )
    with path.open("rb") as file:
        first = file.read(4)
    if format := next((format for magic, format in FORMATS.items() if first.startswith(magic)), ""):
        raise ValueError(f"{path} is {format}.")
    if path.suffix.lower() not in (".parquet", ".pq") and first != b"PAR1":
        return csv_columns(path, texts)
    try:
        return parquet(path)
    except ImportError:
        pass
    except Exception as error:
        raise ValueError(f"{path} is no parquet file: {shown(str(error))}.") from None
    try:
        import pandas
    except ImportError as error:
        raise ImportError("a parquet file needs polars; run pip install 'privbandit[bench]'.") from error
    return pandas.read_parquet(path)


def parquet(path: Path) -> "polars.DataFrame":
    """Return a parquet file as a frame of polars, read by pyarrow: damage to a file can abort a process in polars.

    Raises:
        ImportError: polars or pyarrow is not installed.
        OSError: the file cannot be read.
        ValueError: it is damaged; of some damage pyarrow and polars have errors of their own.
    """
    import polars
    from pyarrow.parquet import ParquetFile  # polars names no extra of ours if it is missing

    with regular(path) as file:
        content = BytesIO(file.read())
    with HELD, open(os.devnull, "wb") as nowhere:
        stderr = os.dup(2)
        os.dup2(nowhere.fileno(), 2)  # a panic writes its backtrace there by itself
        try:
            found = ParquetFile(content).metadata
            if found.num_rows * found.num_columns > max(2**27, 100 * len(content.getvalue())):
                raise ValueError(f"it says it has {found.num_rows:,} rows, a hundred times its size")
            content.seek(0)
            return polars.read_parquet(content, use_pyarrow=True, pyarrow_options={"page_checksum_verification": True})
        except (OSError, polars.exceptions.PanicException) as error:  # a panic is no Exception, and ends a program
            raise ValueError(str(error)) from None
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def csv_columns(path: Path, texts: Collection[str | None]) -> Columns:
    """Return the columns of a CSV file: of finite numbers, unless among ``texts``, or of what is written."""
    where = str(path)
    with path.open("rb") as file:
        rows = table_rows(file, where)
        _, header = next(rows, (1, [""]))
        names = [name.strip() for name in header]
        if len(names) == 1 and (apart := next((mark for mark in ";\t|" if mark in names[0]), None)):
            raise ValueError(f"{where}: columns are separated by {apart!r}; save the file with commas between them.")
        if len(set(names)) < len(names):
            raise ValueError(f"{where}: every column must have a name of its own; got {listed(names)}.")
        found = (
            plain_columns(path, names, texts) if path.stat().st_size > LONGEST_LINE else None
        )  # polars starts slowly
        if found is None:
            found = {name: [] if name in texts else array("d") for name in names}
            while block := [cells for _, cells in islice(rows, 200)]:
                for name, cells in zip(names, zip(*block, strict=True), strict=True):
                    found[name] = grown(found[name], cells)
    return {name: np.asarray(column) for name, column in found.items()}


def plain_columns(path: Path, names: list[str], texts: Collection[str | None]) -> dict[str, Any] | None:
    """Return the columns of a CSV file of numbers and plain texts, read by polars a block of lines at a time.

    Returns:
        Numbers (an array each) and texts (a list each) by name, the same that ``grown`` makes of each cell; None if
        polars is not installed, a cell is quoted, empty, no UTF-8 or no finite number, or a row has more or fewer.
    """
    try:
        import polars
    except ImportError:
        return None
    kinds = {name: polars.String if name in texts else polars.Float64 for name in names}
    found: dict[str, Any] = {name: [] if name in texts else array("d") for name in names}
    with path.open("rb") as file:
        block = file.readline()
        while not (b'"' in block or b"\0" in block or block.count(b"\r") > block.count(b"\r\n")):
            block = file.read(LONGEST_LINE) + file.readline(LONGEST_LINE)
            if not block:
                return found
            if len(block) == 2 * LONGEST_LINE:  # within a line that is too long
                return None
            try:
                frame = polars.read_csv(block, has_header=False, schema=kinds)
            except (polars.exceptions.PolarsError, polars.exceptions.PanicException):
                return None
            if frame.height != block.count(b"\n", 0, -1) + 1 or any(cells.null_count() for cells in frame):
                return None
            for name, column in found.items():
                cells = frame[name]
                if name in texts:
                    column.extend(cell.strip(whitespace) for cell in cells)
                elif cells.is_finite().all():
                    column.frombytes(cells.to_numpy().tobytes())
                else:
                    return None
    return None


def grown(column: "array[float] | list[str]", cells: tuple[str, ...]) -> "array[float] | list[str]":
    """Return a column with further cells: numbers while all are finite ones, else texts without spaces around."""
    if isinstance(column, array):
        plain = "".join(cells)
        with suppress(ValueError):
            number = float if plain.isascii() and "_" not in plain else as_number
            numbers = np.fromiter(map(number, cells), np.float64, len(cells))
            if np.isfinite(numbers).all():
                column.frombytes(numbers.tobytes())
                return column
        column = list(map(str, column))
    column.extend(cell.strip(whitespace) for cell in cells)
    return column


def feature_names(columns: Columns, roles: dict[str, str | None]) -> list[str]:
    """Return the columns that are features; raise ValueError if one with a role is not there, or none is left."""
    for role, name in roles.items():
        if name is not None and name not in columns:
            near = did_you_mean(name, columns)
            raise ValueError(f"{role} must be a column of the table: {listed(columns)}; got {shown(name)}{near}.")
    taken = [name for name in roles.values() if name is not None]
    if len(set(taken)) < len(taken):
        raise ValueError(f"{', '.join(roles)} must be different columns; got {shown(taken)}.")
    if not (names := [name for name in columns if name not in taken]):
        raise ValueError(f"a table needs a column of features; it has {listed(columns)}, which are {listed(roles)}.")
    return names


def matrix(columns: Columns, names: list[str]) -> NDArray[np.float64]:
    """Return columns of finite numbers or booleans as a matrix, shape (n, d); the error names all that are not."""
    found, faults = np.empty((len(columns[names[0]]), len(names))), dict[str, str]()
    for place, name in enumerate(names):
        found[:, place] = numbers = numbers_of(columns[name])
        if len(bad := np.flatnonzero(~np.isfinite(numbers))):
            faults[name] = fault(columns[name][bad[0]], int(bad[0]))
    if faults:
        (name, wrong), *others = faults.items()
        also = f" (and so must {listed(name for name, _ in others)})" if others else ""
        raise ValueError(f"column {shown(name)} must hold finite numbers{also}; got {wrong}.")
    return found


def numbers_of(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return entries as numbers, shape (n,): 1 and 0 for a column of booleans, NaN for whatever is no number."""
    if array.dtype.kind in "cmM":
        return np.full(len(array), math.nan)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    entries = array.tolist()
    words = [str(value).lower() for value in entries]
    if set(words) <= YES | NO:
        return np.array([float(word in YES) for word in words])
    return np.array([number_of(value) for value in entries])


def number_of(value: Any) -> float:
    try:
        return as_number(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def fault(value: object, row: int) -> str:
    """Return an entry that is no finite number, its row, and the way out, in words."""
    if nothing(np.array([value], object))[0]:
        return f"nothing in row {row}: fill it in, or leave the row or the column out"
    if isinstance(value, str) and re.fullmatch(r"[-+]?\d+,\d+", value):
        return f"{shown(value)} in row {row}: write decimals with a point"
    if isinstance(value, float | int):
        number = float(value) if isinstance(value, np.floating) else value
        return f"{shown(number)} in row {row}: fill it in, or leave the row out"
    way_out = "write a column of 0 and 1 for each text, dates as days since one of them, or leave the column out"
    return f"{shown(str(value))} in row {row}: {way_out}"


def numbered(columns: Columns, name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return a column's entries as numbers 0, ..., K - 1, and their names, as ``encode`` does.

    Raises:
        ValueError: one number is written in two ways, such as 1 and 1.0.
    """
    codes, names = encode(columns[name].tolist())
    written: dict[Decimal, str] = {}
    for text in names:
        if re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)", text) and (twin := written.setdefault(Decimal(text), text)) != text:
            raise ValueError(
                f"column {shown(name)} has one number in two ways, {shown(twin)} and {shown(text)}: choose one."
            )
    return codes, names


def flags(columns: Columns, public: str | None) -> NDArray[np.bool_] | None:
    """Return which rows a column of 0 and 1 makes public."""
    if public is None:
        return None
    words = [str(value).lower() for value in columns[public].tolist()]
    if strange := set(words) - YES - NO:
        raise ValueError(
            f"column {shown(public)} must be 1 for public rows and 0 for others; got {shown(min(strange))}."
        )
    found = np.array([word in YES for word in words])
    if found.all() or not found.any():
        raise ValueError(f"column {shown(public)} must make some rows public and leave some private.")
    return found


def nothing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which entries are missing: None, NaN, NA or an empty text."""
    return np.array([value is None or str(value) in ("", "<NA>", "nan", "NaN", "NaT") for value in values.tolist()])
