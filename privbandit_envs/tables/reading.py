"""Any table as a lazy frame of polars: files by their content, frames by narwhals, arrays by name."""

import codecs
import io
import os
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import IO, Any, TypeAlias

import numpy as np
import polars as pl

from privbandit_envs.datasets.lines import table_rows, text_lines
from privbandit_envs.files import regular
from privbandit_envs.validate import cut, is_number, listed, shown

Table: TypeAlias = "str | Path | Mapping[str, Any] | Any"
"""The path of a file, a frame of any library that narwhals knows, or arrays by name."""
SEPARATORS = ",;\t|"
PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
HELD = Lock()
"""Held by whoever has this process's stderr turned aside."""
MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def scan(table: Table, numbers: Collection[str] | None = None, missing: Collection[str] = ()) -> pl.LazyFrame:
    """Return a table; the columns of text files are texts, as they are written, except those of ``numbers``.

    If a cell of these is no number and not ``missing``, all columns are texts. Rows are checked unless it is None.

    A file is CSV with any of ``SEPARATORS``, lines of JSON, parquet or Arrow, told by its content; text may be
    compressed by gzip or zstd, and is UTF-8, UTF-16 with a mark, or else Windows-1252, which a warning says.

    Raises:
        ValueError: it is no table, has no two columns or no row, or two columns have one name.
        FileNotFoundError: no such file.
    """
    frame = of_file(Path(table).expanduser(), numbers, missing) if isinstance(table, str | Path) else of_frame(table)
    with told(str(table) if isinstance(table, str | Path) else "the table"):
        names = frame.collect_schema().names()
        if len(names) < 2:
            raise ValueError(f"a table needs two columns or more; got {listed(names) or 'none'}.")
        if numbers is not None and frame.head(1).collect().is_empty():
            raise ValueError("a table needs a row or more; it has none.")
    return frame


def of_frame(table: Any) -> pl.LazyFrame:
    """Return a frame of any library, or arrays by name."""
    if isinstance(table, pl.LazyFrame | pl.DataFrame):
        return table.lazy()
    if isinstance(table, Mapping):
        columns = {str(name): np.asarray(values) for name, values in table.items()}
        if len(columns) < len(table):
            raise ValueError(f"every column must have a name of its own; got {listed(map(str, table))}.")
        if len(shapes := {values.shape for values in columns.values()}) > 1 or any(len(shape) != 1 for shape in shapes):
            raise ValueError(f"columns must be rows of one length; got shapes {shown(sorted(shapes))}.")
        own = "biufUM"  # kinds of arrays that polars has as they are
        typed = {
            name: pl.Series(name, values) if values.dtype.kind in own else series(name, values.tolist())
            for name, values in columns.items()
        }
        return pl.LazyFrame(typed)
    import narwhals

    try:
        frame = narwhals.from_native(table)
    except TypeError:
        kinds = "a file, a frame of pandas, polars, pyarrow or DuckDB, or arrays by name"
        raise ValueError(f"a table must be {kinds}; got {shown(table)}.") from None
    if isinstance(frame, narwhals.LazyFrame):
        collected: pl.DataFrame = frame.collect("polars").to_native()
        return collected.lazy()
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise ValueError(f"every column must have a name of its own; got {listed(names)}.")
    try:
        whole: pl.DataFrame = frame.to_polars()
        return whole.lazy()
    except Exception:  # a column of objects of several types
        return pl.LazyFrame({str(name): series(str(name), frame[name].to_list()) for name in frame.columns})


def series(name: str, values: list[Any]) -> pl.Series:
    """Return a column; one of several types, or of numbers beyond 64 bits, is a column of texts."""
    there = [value for value in values if value is not None and value == value]
    kinds = {type(value) for value in there}
    try:
        if kinds == {int, float}:
            return pl.Series(name, [None if value is None else float(value) for value in values], pl.Float64)
        if len(kinds) < 2:
            return pl.Series(name, [value if value == value else None for value in values])
    except (OverflowError, TypeError, pl.exceptions.PolarsError):
        pass
    return pl.Series(name, [None if value is None or value != value else str(value) for value in values], pl.String)


def of_file(path: Path, numbers: Collection[str] | None, missing: Collection[str]) -> pl.LazyFrame:
    """Return a file's table, by its content."""
    try:
        there = path.is_file()
    except OSError:  # a name that is too long for a file
        there = False
    if not there:
        raise FileNotFoundError(f"no file {shown(str(path))}; a table must be a file, a data frame, or arrays by name.")
    with regular(path) as file:
        first = file.read(16)
    if first.startswith(b"PK"):
        raise ValueError(f"{path} is a zip archive, or a sheet of Excel: unpack it, or save the sheet as CSV.")
    with told(str(path)):
        if first.startswith(b"PAR1"):
            try:
                return parquet(path).lazy()
            except ValueError as error:
                raise ValueError(f"{path} is no parquet file: {cut(str(error)).rstrip('.')}.") from None
        if first.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
            arrow = io.BytesIO(path.read_bytes())
            return (pl.read_ipc if first.startswith(b"ARROW1") else pl.read_ipc_stream)(arrow).lazy()
        content = text_of(path, first)
        start = next(blocks(content), b"")[:64].lstrip()
        if start.startswith(b"{"):
            return pl.scan_ndjson(content, infer_schema_length=None)
        return of_csv(content, str(path), numbers, missing)


def parquet(path: Path) -> pl.DataFrame:
    """Return a parquet file as a frame of polars, read by pyarrow: damage to a file can abort a process in polars.

    Raises:
        ImportError: polars or pyarrow is not installed.
        OSError: the file cannot be read.
        ValueError: it is damaged; of some damage pyarrow and polars have errors of their own.
    """
    from pyarrow.parquet import ParquetFile  # polars names no extra of ours if it is missing

    with regular(path) as file:
        content = io.BytesIO(file.read())
    with HELD, open(os.devnull, "wb") as nowhere:
        stderr = os.dup(2)
        os.dup2(nowhere.fileno(), 2)  # a panic writes its backtrace there by itself
        try:
            found = ParquetFile(content).metadata
            if found.num_rows * found.num_columns > max(2**27, 100 * len(content.getvalue())):
                raise ValueError(f"it says it has {found.num_rows:,} rows, a hundred times its size")
            content.seek(0)
            return pl.read_parquet(content, use_pyarrow=True, pyarrow_options={"page_checksum_verification": True})
        except (OSError, pl.exceptions.PanicException) as error:  # a panic is no Exception, and ends a program
            raise ValueError(str(error)) from None
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def text_of(path: Path, first: bytes) -> Path | bytes:
    """Return a text in UTF-8: the file itself if it is one, or its content, unpacked or read as what it is."""
    packing = next((name for magic, name in PACKED.items() if first.startswith(magic)), "")
    if packing:
        import pyarrow

        most = max(2**30, 200 * path.stat().st_size)
        with pyarrow.input_stream(str(path), compression=packing) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise ValueError(f"it unpacks to more than {most:,} bytes")
    mark = next((name for mark, name in MARKS.items() if (content if packing else first).startswith(mark)), "")
    if not packing and mark != "utf-16" and is_utf8(path):
        return path
    whole = content if packing else path.read_bytes()
    try:
        return whole.decode(mark or "utf-8").encode()
    except UnicodeDecodeError as error:
        if mark == "utf-16":
            raise ValueError("a damaged text in UTF-16") from None
        line = whole[: error.start].count(b"\n") + 1
        byte = f"byte {whole[error.start]:#04x} in line {line}"
        warnings.warn(f"{path} is no UTF-8 ({byte}): it is read as Windows-1252.", stacklevel=2)
        return whole.decode("cp1252", errors="replace").encode()


def is_utf8(path: Path) -> bool:
    """Return whether a file is UTF-8 from beginning to end, a block at a time."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for block in blocks(path):
            if not block.isascii() or decoder.getstate()[0]:
                decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def opened(content: Path | bytes) -> IO[bytes]:
    return io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")


def blocks(content: Path | bytes) -> Iterator[bytes]:
    """Yield a file's content in parts of a few million bytes."""
    with opened(content) as file:
        while block := file.read(2**22):
            yield block


def of_csv(
    content: Path | bytes, where: str, numbers: Collection[str] | None, missing: Collection[str]
) -> pl.LazyFrame:
    """Return a CSV file's table, all columns as texts; blank lines are left out.

    polars reads quotes and short rows with indulgence. So the rows of a file that has a quote, a zero byte, or a row
    without a last cell are first checked one by one. A carriage return on its own ends a line.

    Raises:
        ValueError: a row has more or fewer cells than the header, a quote is not closed, or two columns have one name.
    """
    if alone := sum(block.count(b"\r") for block in blocks(content)):
        alone -= sum(block.count(b"\r\n") + (block[-1:] == b"\r") for block in blocks(content))
    if alone > 0:
        whole = content if isinstance(content, bytes) else content.read_bytes()
        content = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    odd = any(b'"' in block or b"\0" in block for block in blocks(content))
    with opened(content) as file:
        header = next((line for line in text_lines(file, where) if line.strip()), "")
    mark = max(SEPARATORS, key=header.count)

    def check() -> list[str]:
        """Return the header's cells; with rows that are not as many, or no text, raise."""
        with opened(content) as file:
            rows = table_rows(file, where, delimiter=mark)
            _, cells = next(rows, (1, []))
            for _ in rows if odd else ():
                pass
        return [cell.strip() for cell in cells]

    names = check()
    if len(names) < 2:
        raise ValueError(f"a table needs two columns or more; got {listed(filter(None, names)) or 'none'}.")
    if len(set(names)) < len(names):
        raise ValueError(f"{where}: every column must have a name of its own; got {listed(names)}.")
    if all(map(is_number, names)):
        raise ValueError(f"{where}: the first line must name the columns; got {listed(names)}.")

    def read(**options: Any) -> pl.LazyFrame:
        return pl.scan_csv(content, separator=mark, infer_schema=False, with_column_names=lambda _: names, **options)

    if numbers is None:
        return read()
    # numbers as numbers, else texts
    kinds = {name: pl.Float64 for name in names if name in numbers}
    for options in ({"schema_overrides": kinds, "null_values": list(missing)}, {}):
        frame = read(**options)
        with suppress(pl.exceptions.PolarsError):
            blank = frame.select(pl.all().null_count()).collect(engine="streaming").item(0, -1)
            break
    else:
        blank = True
    if blank and not odd:
        odd = True
        check()
    return frame.filter(~pl.all_horizontal(pl.all().is_null())) if odd else frame


@contextmanager
def told(where: str) -> Iterator[None]:
    """Say in one sentence, with the name of the table, why it cannot be read."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) or (isinstance(error, ValueError) and str(error).endswith(".")):
            raise  # a sentence already
        lines = str(error).splitlines() or [type(error).__name__]
        raise ValueError(f"{where}: {cut(lines[0]).rstrip('.')}.") from None
