import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from privbandit_envs.datasets.hotels import read as expedia
from privbandit_envs.datasets.hotels import sample as expedia_sample

NAMES = list(expedia.COLUMNS)
HEADER = ",".join(NAMES)
CELLS = (
    "1,2013-04-04 08:32:15,12,187,NULL,NULL,219,893,3,3.5,1,2.83,0.0438,4.95,27,104.77,0,23246,1,0,4,0,1,1,NULL,NULL,1,"
    + "0,0,NULL," * 8
    + "0,NULL,0"
).split(",")


def line(**changes: str) -> str:
    return ",".join(changes.get(name, cell) for name, cell in zip(NAMES, CELLS, strict=True))


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "train.csv"
    path.write_text("\n".join([HEADER, *lines, ""]), encoding="utf-8")
    return path


def naive(path: Path) -> dict[str, list[str]]:
    """All rows of the destination with the most searches, in one go."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    searches: dict[int, set[str]] = {}
    for row in rows:
        searches.setdefault(int(row["srch_destination_id"]), set()).add(row["srch_id"])
    top = max(sorted(searches), key=lambda destination: len(searches[destination]))
    return {name: [row[name] for row in rows if int(row["srch_destination_id"]) == top] for name in NAMES}


def test_the_streaming_reader_finds_what_a_naive_one_finds(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    expedia_sample.write(path, 60, seed=4)
    read, expected = expedia.read(path), naive(path)
    assert read.destination == int(expected["srch_destination_id"][0]) == expedia_sample.TOP
    assert (read.n_searches, read.n_destinations) == (60 + 3 * 6, 4)
    for name in set(NAMES) - {"date_time"}:
        numbers = [np.nan if cell == "NULL" else float(cell) for cell in expected[name]]
        assert np.array_equal(read.columns[name], numbers, equal_nan=True), name


def test_dates_are_seconds_and_missing_values_are_nan(tmp_path: Path) -> None:
    read = expedia.read(written(tmp_path, line(), line(prop_id="5", date_time="1970-01-02 00:00:01", comp1_rate="")))
    assert read.columns["date_time"][1] == 86401
    assert np.isnan(read.columns["visitor_hist_starrating"]).all() and np.isnan(read.columns["comp1_rate"][1])


def test_the_busiest_destination_has_most_searches_not_most_rows_and_ties_go_to_the_smallest(tmp_path: Path) -> None:
    rows = [line(srch_destination_id="9", prop_id=str(i)) for i in range(5)]
    rows += [line(srch_id=str(2 + i), srch_destination_id=d) for i, d in enumerate(["80", "7", "80", "7"])]
    assert expedia.read(written(tmp_path, *rows)).destination == 7


def test_columns_may_come_in_any_order_with_others_between_them(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    turned = [*NAMES[::-1], "note"]
    path.write_text(f"\ufeff{','.join(turned)}\n\n{','.join([*CELLS[::-1], 'hello'])}\n", encoding="utf-8")
    assert expedia.read(path).columns["price_usd"].tolist() == [104.77]


@pytest.mark.wide
def test_progress_goes_through_the_file_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.csv"
    expedia_sample.write(path, 300)
    told: list[tuple[int, int]] = []
    expedia.read(path, lambda done, total: told.append((done, total)))
    done = [one for one, _ in told]
    assert len(told) > 10 and done == sorted(done) and done[-1] == 2 * path.stat().st_size
    assert {total for _, total in told} == {2 * path.stat().st_size}


@pytest.mark.parametrize(
    ("changes", "column", "expected"),
    [
        ({"srch_id": "x"}, "srch_id", "an integer >= 0 expected; got 'x'"),
        ({"srch_id": ""}, "srch_id", "an integer >= 0 expected; got ''"),
        ({"srch_destination_id": "1.5"}, "srch_destination_id", "an integer >= 0 expected; got '1.5'"),
        ({"srch_destination_id": "-3"}, "srch_destination_id", "an integer >= 0 expected; got '-3'"),
        ({"prop_id": "NULL"}, "prop_id", "an integer >= 0 expected; got 'NULL'"),
        ({"site_id": "9" * 400}, "site_id", "an integer >= 0 expected; got '999"),
        ({"date_time": "2013-02-30 08:00:00"}, "date_time", "such as 2013-04-04 08:32:15 expected; got '2013-02-30"),
        ({"date_time": "yesterday"}, "date_time", "got 'yesterday'"),
        ({"price_usd": "cheap"}, "price_usd", "a number >= 0 expected; got 'cheap'"),
        ({"price_usd": "-1"}, "price_usd", "a number >= 0 expected; got '-1'"),
        ({"price_usd": "NULL"}, "price_usd", "a number >= 0 expected; got 'NULL'"),
        ({"price_usd": "1e999"}, "price_usd", "got '1e999'"),
        ({"price_usd": "1_0"}, "price_usd", "got '1_0'"),
        ({"prop_starrating": "6"}, "prop_starrating", "a number from 0 to 5 expected; got '6'"),
        ({"visitor_hist_starrating": "nan"}, "visitor_hist_starrating", "from 0 to 5 or NULL expected; got 'nan'"),
        ({"srch_query_affinity_score": "low"}, "srch_query_affinity_score", "a finite number or NULL expected"),
        ({"comp3_inv": "2"}, "comp3_inv", "-1, 0 or 1 or NULL expected; got '2'"),
        ({"promotion_flag": "yes"}, "promotion_flag", "0 or 1 expected; got 'yes'"),
        ({"booking_bool": "2"}, "booking_bool", "0 or 1 expected; got '2'"),
        ({"click_bool": ""}, "click_bool", "0 or 1 expected; got ''"),
    ],
)
def test_a_malformed_cell_is_named(tmp_path: Path, changes: dict[str, str], column: str, expected: str) -> None:
    path = written(tmp_path, line(), line(**{"prop_id": "5"} | changes))
    with pytest.raises(ValueError) as error:
        expedia.read(path)
    message = str(error.value)
    assert message.startswith(f"{path}, line 3, column {column!r}: ") and expected in message
    assert message.endswith(".") and "\n" not in message


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ("1,2,3", "line 3: 54 columns expected; got 3."),
        (line() + ",7", "line 3: 54 columns expected; got 55."),
        (line(), "line 3, column 'prop_id': search 1 shows it twice; got '893'."),
        (line(srch_destination_id="7"), "column 'srch_destination_id': search 1 is for destination 23246; got '7'."),
    ],
)
def test_a_malformed_row_is_named(tmp_path: Path, bad: str, expected: str) -> None:
    path = written(tmp_path, line(), bad)
    with pytest.raises(ValueError) as error:
        expedia.read(path)
    assert expected in str(error.value) and str(path) in str(error.value)


def test_rows_of_other_destinations_need_only_their_numbers(tmp_path: Path) -> None:
    others = line(srch_id="7", srch_destination_id="8", price_usd="cheap")
    assert len(expedia.read(written(tmp_path, line(), line(srch_id="2"), others)).columns["srch_id"]) == 2


def without_booking(path: Path) -> None:
    path.write_text(HEADER.replace("booking_bool", "bookng_bool"))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (without_booking, "no column 'booking_bool' (did you mean 'bookng_bool'?); give Kaggle's train.csv."),
        (lambda path: path.write_text(f"{HEADER},prop_id"), "more than one column 'prop_id'"),
        (lambda path: path.write_text(""), "no column 'srch_id'"),
        (lambda path: path.write_text(HEADER), "has a header and no rows"),
        (lambda path: path.write_bytes(HEADER.encode() + b"\n\xff\xfe"), "line 2: not text in UTF-8 (the byte 0xff)"),
        (lambda path: path.write_bytes(b"PK\x03\x04\xd7"), "give Kaggle's train.csv, unpacked."),
        (
            lambda path: path.write_text(f'{HEADER}\n"{"x" * 200_000}'),
            "line 2: a malformed row, a cell of more than 131,072 characters",
        ),
    ],
)
def test_other_files_are_refused(tmp_path: Path, make: Callable[[Path], object], expected: str) -> None:
    path = tmp_path / "train.csv"
    make(path)
    with pytest.raises(ValueError) as error:
        expedia.read(path)
    assert expected in str(error.value) and "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file '.*train\.csv'; give the path of Kaggle's"):
        expedia.read(tmp_path / "train.csv")


def test_a_folder_is_called_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"is a folder; give the path of Kaggle's train\.csv"):
        expedia.read(tmp_path)
