"""The file ``train.csv`` of Kaggle's "Personalize Expedia Hotel Searches - ICDM 2013".

It has one row for every hotel that was shown in a search.

The file (2.4 GB) is not distributed with the package; get it from https://kaggle.com/c/expedia-personalized-sort.
"""

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit_envs.datasets.lines import Row, table_rows
from privbandit_envs.validate import as_number, did_you_mean, is_number, shown

Floats = NDArray[np.float64]


class Cell(NamedTuple):
    """The rule for cells of a column."""

    expected: str
    parse: Callable[[str], float]
    nullable: bool = False


@dataclass(frozen=True, eq=False)
class Searches:
    """The searches for one destination, one row a hotel shown.

    Attributes:
        destination: its number.
        columns: one array a column of the file, each of length n; NaN where a value is missing, dates in seconds.
        n_searches: searches in the whole file.
        n_destinations: destinations in the whole file.
    """

    destination: int
    columns: dict[str, Floats]
    n_searches: int
    n_destinations: int


def read(path: Path, progress: Callable[[int, int], None] | None = None) -> Searches:
    """Read the rows of the destination with the most searches; among equals, the smallest number wins.

    Every line must have all columns, a search number and a destination; the lines of the destination itself are
    checked cell by cell.

    Args:
        path: the file.
        progress: called with the bytes read and the bytes to read; the file is read twice.

    Raises:
        FileNotFoundError: no such file, or a folder.
        ValueError: a column is missing or a row is malformed; the message names file, line and column.
    """
    if not path.is_file():
        found = f"{str(path)!r} is a folder" if path.is_dir() else f"no file {str(path)!r}"
        raise FileNotFoundError(f"{found}; give the path of Kaggle's train.csv.")
    size = path.stat().st_size
    tell = progress or (lambda done, total: None)
    destination_of = destinations(path, lambda done: tell(done, 2 * size))
    if not destination_of:
        raise ValueError(f"{path} has a header and no rows; give the path of Kaggle's train.csv.")
    searches = Counter(destination_of.values())
    top = min(searches, key=lambda destination: (-searches[destination], destination))
    columns = rows_of(path, top, lambda done: tell(size + done, 2 * size))
    tell(2 * size, 2 * size)
    return Searches(top, columns, len(destination_of), len(searches))


def destinations(path: Path, tick: Callable[[int], None]) -> dict[int, int]:
    """Return the destination of every search, by the number of the search."""
    lines, places = opened(path, tick)
    search_at, destination_at = places["srch_id"], places["srch_destination_id"]
    of: dict[int, int] = {}
    before: tuple[str, str] = "", ""
    for line, cells in lines:
        now = cells[search_at], cells[destination_at]
        if now == before:
            continue
        names = ("srch_id", "srch_destination_id")
        search, destination = (int(value(path, line, name, cell)) for name, cell in zip(names, now, strict=True))
        if of.setdefault(search, destination) != destination:
            raise ValueError(
                f"{path}, line {line}, column 'srch_destination_id': search {search} is for destination "
                f"{of[search]}; got {shown(now[1])}."
            )
        before = now
    return of


def rows_of(path: Path, destination: int, tick: Callable[[int], None]) -> dict[str, Floats]:
    lines, places = opened(path, tick)
    at = places["srch_destination_id"]
    numbers = array("d")
    seen: set[tuple[str, str]] = set()
    for line, cells in lines:
        if not cells[at].isdecimal() or int(cells[at]) != destination:
            continue
        pair = cells[places["srch_id"]], cells[places["prop_id"]]
        if pair in seen:
            raise ValueError(
                f"{path}, line {line}, column 'prop_id': search {pair[0]} shows it twice; got {shown(pair[1])}."
            )
        seen.add(pair)
        numbers.extend(value(path, line, name, cells[place]) for name, place in places.items())
    table = np.array(numbers).reshape(-1, len(COLUMNS))
    return dict(zip(COLUMNS, np.ascontiguousarray(table.T), strict=True))


def opened(path: Path, tick: Callable[[int], None]) -> tuple[Iterator[Row], dict[str, int]]:
    """Return the lines below the header, all of its width, and the places of the columns in them."""
    lines = lines_of(path, tick)
    _, header = next(lines, (1, [""]))
    header = [name.strip() for name in header]
    for name in COLUMNS:
        if header.count(name) != 1:
            often = "no column" if name not in header else "more than one column"
            raise ValueError(f"{path} has {often} {name!r}{did_you_mean(name, header)}; give Kaggle's train.csv.")
    return lines, {name: header.index(name) for name in COLUMNS}


def lines_of(path: Path, tick: Callable[[int], None]) -> Iterator[Row]:
    """Yield number and cells of every line that is not empty, all as wide as the first; at times report bytes read."""
    with path.open("rb") as file:
        for number, row in enumerate(table_rows(file, str(path), "give Kaggle's train.csv, unpacked")):
            if number % 1024 == 0:
                tick(file.tell())
            yield row


def value(path: Path, line: int, name: str, cell: str) -> float:
    """Return a cell as a number, NaN if it is missing; raise ValueError if it is neither."""
    kind = COLUMNS[name]
    if cell in ("NULL", "") and kind.nullable:
        return math.nan
    try:
        return kind.parse(cell)
    except ValueError:
        or_null = " or NULL" if kind.nullable else ""
        raise ValueError(
            f"{path}, line {line}, column {name!r}: {kind.expected}{or_null} expected; got {shown(cell)}."
        ) from None


def whole(cell: str) -> float:
    if not (cell.isascii() and cell.isdecimal() and len(cell) <= 15):
        raise ValueError(cell)
    return float(cell)


def number(cell: str) -> float:
    if not is_number(cell):
        raise ValueError(cell)
    return as_number(cell)


def between(low: float, high: float, cell: str) -> float:
    parsed = number(cell)
    if not low <= parsed <= high:
        raise ValueError(cell)
    return parsed


def among(allowed: tuple[str, ...], cell: str) -> float:
    if cell not in allowed:
        raise ValueError(cell)
    return float(cell)


def moment(cell: str) -> float:
    return datetime.fromisoformat(cell).replace(tzinfo=UTC).timestamp()


COUNT = Cell("an integer >= 0", whole)
FLAG = Cell("0 or 1", partial(among, ("0", "1")))
MOMENT = Cell("a date and time such as 2013-04-04 08:32:15", moment)
STARS = Cell("a number from 0 to 5", partial(between, 0, 5))
AMOUNT = Cell("a number >= 0", partial(between, 0, math.inf))
NUMBER = Cell("a finite number", number)
SIGN = Cell("-1, 0 or 1", partial(among, ("-1", "0", "1")))


def missing(kind: Cell) -> Cell:
    return kind._replace(nullable=True)


COMPETITOR = {"rate": missing(SIGN), "inv": missing(SIGN), "rate_percent_diff": missing(AMOUNT)}
COLUMNS: dict[str, Cell] = {
    "srch_id": COUNT,
    "date_time": MOMENT,
    "site_id": COUNT,
    "visitor_location_country_id": COUNT,
    "visitor_hist_starrating": missing(STARS),
    "visitor_hist_adr_usd": missing(AMOUNT),
    "prop_country_id": COUNT,
    "prop_id": COUNT,
    "prop_starrating": STARS,
    "prop_review_score": missing(STARS),
    "prop_brand_bool": FLAG,
    "prop_location_score1": AMOUNT,
    "prop_location_score2": missing(AMOUNT),
    "prop_log_historical_price": AMOUNT,
    "position": COUNT,
    "price_usd": AMOUNT,
    "promotion_flag": FLAG,
    "srch_destination_id": COUNT,
    "srch_length_of_stay": COUNT,
    "srch_booking_window": COUNT,
    "srch_adults_count": COUNT,
    "srch_children_count": COUNT,
    "srch_room_count": COUNT,
    "srch_saturday_night_bool": FLAG,
    "srch_query_affinity_score": missing(NUMBER),
    "orig_destination_distance": missing(AMOUNT),
    "random_bool": FLAG,
    **{f"comp{i}_{name}": kind for i in range(1, 9) for name, kind in COMPETITOR.items()},
    "click_bool": FLAG,
    "gross_bookings_usd": missing(AMOUNT),
    "booking_bool": FLAG,
}
"""The columns of the file, in its order."""
