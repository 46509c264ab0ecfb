from pathlib import Path

import numpy as np
import pytest

from privbandit_envs.datasets.hotels import prepare as hotels
from privbandit_envs.datasets.hotels import read as expedia
from privbandit_envs.datasets.hotels.sample import HISTORY, TOP, preferences, prepared, table, top, write


def test_the_file_is_the_table(tmp_path: Path) -> None:
    rows = write(tmp_path / "a.csv", 40, seed=3)
    columns = table(40, 3)
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert lines[0].split(",") == list(expedia.COLUMNS) and len(lines) == 1 + rows == 1 + len(columns["srch_id"])
    read = expedia.read(tmp_path / "a.csv").columns
    assert all(np.array_equal(read[name], top(columns).columns[name], equal_nan=True) for name in expedia.COLUMNS)


def test_the_seed_decides_and_every_row_says_that_it_is_generated() -> None:
    first, again, other = table(30, 1), table(30, 1), table(30, 2)
    assert all(np.array_equal(first[name], again[name], equal_nan=True) for name in first)
    assert not np.array_equal(first["price_usd"], other["price_usd"])
    assert (first["prop_country_id"] == hotels.SAMPLE_COUNTRY).all()
    assert prepared(30).facts.generated and prepared(30) is prepared(30)


def test_values_are_missing_about_as_often_as_in_the_real_file() -> None:
    columns = table(1000, 0)
    share = {name: np.isnan(column).mean() for name, column in columns.items()}
    assert share["srch_query_affinity_score"] > 0.88 and 0.25 < share["orig_destination_distance"] < 0.4
    assert 0.5 < share["visitor_hist_starrating"] < 0.7 and share["comp8_rate_percent_diff"] > 0.9
    assert all(share[name] == 0 for name, kind in expedia.COLUMNS.items() if not kind.nullable)


def test_a_search_is_one_block_of_rows_with_at_most_one_booking() -> None:
    columns = table(100, 5)
    search = columns["srch_id"]
    assert (np.diff(search) >= 0).all() and len(np.unique(search)) == 100 + 3 * 10
    booked = np.bincount(search.astype(int), columns["booking_bool"])
    assert booked.max() == 1 and 60 < booked.sum() < 130
    assert (columns["click_bool"] >= columns["booking_bool"]).all()
    paid = np.isfinite(columns["gross_bookings_usd"])
    assert np.array_equal(paid, columns["booking_bool"] == 1)
    assert (columns["srch_destination_id"] == TOP).sum() > 1000


@pytest.mark.wide
def test_the_preferences_of_a_large_sample_are_recovered() -> None:
    theta, truth = prepared(4000).theta["full"].reshape(11, 19), preferences()
    seen = np.s_[:, :-HISTORY]
    assert np.corrcoef(theta[seen].ravel()[1:], truth[seen].ravel()[1:])[0, 1] > 0.92
    assert np.abs(theta[:, -HISTORY:]).mean() < 0.08
    assert np.sqrt(np.mean((theta - truth) ** 2)) < 0.08 < 0.2 < truth[seen].std()
