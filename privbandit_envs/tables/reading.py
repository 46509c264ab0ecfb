"""Any table as a lazy frame of polars: files by their content, frames by narwhals, arrays by name."""

import codecs
import io
import os
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from privbandit_envs.datasets.lines import LONGEST_LINE, table_rows, text_lines
from privbandit_envs.files import regular
from privbandit_envs.validate import cut, is_number, listed, shown

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

Table: TypeAlias = "str | Path | Mapping[str, Any] | Any"
"""The path of a file, a frame of any library that narwhals knows, or arrays by name."""
SEPARATORS = ",;\t|"
PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
HELD = Lock()
"""Held by whoever has this process's stderr turned aside."""
MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


@dataclass(frozen=True)
class Text:
    """A CSV file whose header was read.

    Attributes:
        content: in UTF-8, with lines that end in a line feed.
        where: names the file in errors.
        mark: the separator.
        names: of the columns.
        quoted: whether there is a quote or a zero byte.
    """

    content: Path | bytes
    where: str
    mark: str
    names: list[str]
    quoted: bool

    def texts(self, **options: Any) -> pl.LazyFrame:
        """Return the table, all columns as texts unless options of polars say otherwise."""
        own: Any = self.content
        return pl.scan_csv(
            own, separator=self.mark, infer_schema=False, with_column_names=lambda _: self.names, **options
        )

    def rows(self, numbers: Collection[str], missing: Collection[str]) -> pl.LazyFrame:
        """Return the rows that are not blank: some columns as numbers, or all as texts if a cell of these is none.

        Raises:
            ValueError: a row has more or fewer cells than the header, or a quote is not closed.
        """
        kinds: dict[str, pl.DataType] = dict.fromkeys(self.names, pl.String()) | dict.fromkeys(numbers, pl.Float64())
        kinds = {name: kinds[name] for name in self.names}
        if self.quoted:
            self.check()
        with suppress(pl.exceptions.PolarsError):
            if not self.quoted:
                return self.plain(kinds, list(missing)).lazy()
            frame = self.texts(schema_overrides=kinds, null_values=list(missing))
            frame.select(pl.all().null_count()).collect(engine="streaming")
            return without_blanks(frame)
        if not self.quoted:
            self.check()
        return without_blanks(self.texts())

    def plain(self, kinds: dict[str, pl.DataType], missing: list[str]) -> pl.DataFrame:
        """Return the rows of a file without quotes, read a block of lines at a time.

        Raises:
            PolarsError: a cell is not of its column's type, or a row has too many cells.
            ValueError: a row has too few, which polars fills up.
        """
        parts, last = [pl.DataFrame(schema=kinds)], self.names[-1]
        how: Any = {"has_header": False, "separator": self.mark, "schema": kinds}
        numbers = [text for text in missing if is_number(text)]  # each text makes polars slower
        with opened(self.content) as file:
            while not file.readline(LONGEST_LINE).strip():  # up to the header
                pass
            while block := file.read(LONGEST_LINE) + file.readline(LONGEST_LINE):
                if block.isspace():
                    continue
                try:
                    part = pl.read_csv(block, null_values=numbers, **how)
                except pl.exceptions.PolarsError:
                    part = pl.read_csv(block, null_values=missing, **how)
                if part[last].has_nulls():
                    part = without_blanks(part.lazy()).collect()
                    if block.count(self.mark.encode()) != (len(kinds) - 1) * len(part):
                        self.check()
                parts.append(part)
        return pl.concat(parts)

    def check(self) -> None:
        """Raise ValueError if a row has more or fewer cells than the header, or is no text."""
        with opened(self.content) as file:
            for _ in table_rows(file, self.where, delimiter=self.mark):
                pass

    def line(self, row: int) -> int:
        """Return the number of the line in which a row begins; the first row is 0."""
        with opened(self.content) as file:
            return next(islice(table_rows(file, self.where, delimiter=self.mark), row + 1, None))[0]


def without_blanks(frame: pl.LazyFrame) -> pl.LazyFrame:
    return frame.filter(~pl.all_horizontal(pl.all().is_null()))


def source(table: Table) -> pl.LazyFrame | Text:
    """Return a table as it is, its rows unchecked.

    A file is CSV with any of ``SEPARATORS``, lines of JSON, parquet or Arrow, told by its content; text may be
    compressed by gzip or zstd, and is UTF-8, UTF-16 with a mark, or else Windows-1252, which a warning says.

    Raises:
        ValueError: it is no table, has no two columns, or two columns have one name.
        FileNotFoundError: no such file.
    """
    found = of_file(Path(table).expanduser()) if isinstance(table, str | Path) else of_frame(table)
    with told(str(table) if isinstance(table, str | Path) else "the table"):
        names = found.names if isinstance(found, Text) else found.collect_schema().names()
        if len(names) < 2:
            raise ValueError(f"a table needs two columns or more; got {listed(filter(None, names)) or 'none'}.")
    return found


def scan(table: Table, numbers: Collection[str] = (), missing: Collection[str] = ()) -> pl.LazyFrame:
    """Return the rows of a table, or of a ``source``; columns of CSV files are texts, except those of ``numbers``.

    If a cell of these is no number and not ``missing``, all columns are texts.

    Raises:
        ValueError: it is no table, or has no row.
        FileNotFoundError: no such file.
    """
    found = table if isinstance(table, Text) else source(table)
    with told(found.where if isinstance(found, Text) else "the table"):
        frame = found.rows(numbers, missing) if isinstance(found, Text) else found
        if frame.head(1).collect().is_empty():
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
    whole = (int(one) if isinstance(one, float) and one.is_integer() else one for one in values)  # as texts of numbers
    return pl.Series(name, [None if one is None or one != one else str(one) for one in whole], pl.String)


def of_file(path: Path) -> pl.LazyFrame | Text:
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
                return lazy_parquet(path)
            except ValueError as error:
                raise ValueError(f"{path} is no parquet file: {cut(str(error)).rstrip('.')}.") from None
        if first.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
            arrow = io.BytesIO(path.read_bytes())
            return (pl.read_ipc if first.startswith(b"ARROW1") else pl.read_ipc_stream)(arrow).lazy()
        content = text_of(path, first)
        start = next(blocks(content), b"")[:64].lstrip()
        if start.startswith(b"{"):
            return pl.scan_ndjson(content, infer_schema_length=None)
        return of_csv(content, str(path))


def parquet(path: Path) -> pl.DataFrame:
    """Return a parquet file as a frame of polars, read by pyarrow: damage to a file can abort a process in polars.

    Raises:
        ImportError: polars or pyarrow is not installed.
        OSError: the file cannot be read.
        ValueError: it is damaged; of some damage pyarrow and polars have errors of their own.
    """
    with regular(path) as file:
        content = io.BytesIO(file.read())
    with HELD, open(os.devnull, "wb") as nowhere:
        stderr = os.dup(2)
        os.dup2(nowhere.fileno(), 2)  # a panic writes its backtrace there by itself
        try:
            parquet_file(content)
            content.seek(0)
            return pl.read_parquet(content, use_pyarrow=True, pyarrow_options={"page_checksum_verification": True})
        except (OSError, pl.exceptions.PanicException) as error:  # a panic is no Exception, and ends a program
            raise ValueError(str(error)) from None
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def parquet_file(content: Any) -> "ParquetFile":
    """Return an open parquet file; raise ValueError if it says that it has far more rows than bytes."""
    from pyarrow.parquet import ParquetFile  # polars names no extra of ours if it is missing

    size = content.seek(0, io.SEEK_END)
    opened = ParquetFile(content, page_checksum_verification=True)
    if opened.metadata.num_rows * opened.metadata.num_columns > max(2**27, 100 * size):
        raise ValueError(f"it says it has {opened.metadata.num_rows:,} rows, a hundred times its size")
    return opened


def lazy_parquet(path: Path) -> pl.LazyFrame:
    """Return a parquet file as a lazy frame, read by pyarrow a batch of rows at a time; errors are those of it."""
    with path.open("rb") as file:
        kinds: Any = pl.from_arrow(parquet_file(file).schema_arrow.empty_table())

    def batches(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, size: int | None
    ) -> Iterator[pl.DataFrame]:
        left, names = n_rows, kinds.columns if columns is None else columns or kinds.columns[:1]
        with path.open("rb") as file:
            opened = parquet_file(file)
            for group in range(opened.num_row_groups):  # one by one, since pyarrow keeps what it has read of several
                for batch in opened.iter_batches(size or 2**16, [group], names):
                    frame: Any = pl.from_arrow(batch)
                    frame = frame if left is None else frame.head(left)
                    left = None if left is None else left - len(frame)
                    yield frame if predicate is None else frame.filter(predicate)
                    if left == 0:
                        return

    return register_io_source(batches, schema=kinds.schema)


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


def of_csv(content: Path | bytes, where: str) -> Text:
    """Return a CSV file by its header; a carriage return on its own ends a line.

    polars reads quotes and short rows with indulgence, so ``Text`` checks the rows of such files itself.

    Raises:
        ValueError: two columns have one name, or the header is none.
    """
    quoted = alone = False
    for block in blocks(content):
        quoted = quoted or b'"' in block or b"\0" in block
        if b"\r" in block:
            alone = alone or block.count(b"\r") > block.count(b"\r\n") + (block[-1:] == b"\r")
    if alone:
        every = content if isinstance(content, bytes) else content.read_bytes()
        content = every.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    with opened(content) as file:
        header = next((line for line in text_lines(file, where) if line.strip()), "")
    mark = max(SEPARATORS, key=header.count)
    with opened(content) as file:
        _, cells = next(table_rows(file, where, delimiter=mark), (1, []))
    names = [cell.strip() for cell in cells]
    if len(set(names)) < len(names):
        raise ValueError(f"{where}: every column must have a name of its own; got {listed(names)}.")
    if len(names) > 1 and all(map(is_number, names)):
        raise ValueError(f"{where}: the first line must name the columns; got {listed(names)}.")
    return Text(content, where, mark, names, quoted)


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
