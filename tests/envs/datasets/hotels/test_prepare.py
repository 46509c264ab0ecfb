import sys
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from privbandit_envs.datasets.hotels import prepare as hotels
from privbandit_envs.datasets.hotels import sample as expedia_sample
from privbandit_envs.datasets.hotels.prepare import HOTELS, USERS, features, prepare, select, standardised
from privbandit_envs.datasets.hotels.read import Searches


def sample(n: int = 200, seed: int = 1, **changes: Any) -> Searches:
    searches = expedia_sample.top(expedia_sample.table(n, seed))
    return Searches(searches.destination, searches.columns | changes, searches.n_searches, searches.n_destinations)


def rows(**columns: list[float]) -> dict[str, np.ndarray]:
    return {name: np.array(column, dtype=float) for name, column in columns.items()}


def test_the_sample_has_the_features_of_table_1() -> None:
    prepared = prepare(sample(), "x")
    assert prepared.hotels.shape == (40, 10) and prepared.users.shape == (200, 18)
    assert len(prepared.facts.hotel_features) == 10 and len(prepared.facts.user_features) == 18
    for table in (prepared.hotels, prepared.users):
        assert np.allclose(table.mean(axis=0), 0, atol=1e-12) and np.allclose(table.var(axis=0), 1)
    assert prepared.facts.generated and prepared.facts.dropped == ()


@pytest.mark.parametrize(
    ("column", "cuts", "cells", "levels"),
    [
        ("prop_starrating", HOTELS, [0, 2, 2.49, 3, 3.5, 4, 4.6, 5], [0, 0, 0, 1, 2, 2, 3, 3]),
        ("prop_review_score", HOTELS, [0, 3, 3.5, 4, 4.5, 5], [0, 0, 1, 1, 2, 2]),
        ("srch_length_of_stay", USERS, [1, 2, 3, 4, 5, 40], [0, 1, 2, 2, 3, 3]),
        ("srch_booking_window", USERS, [0, 6, 7, 29, 30, 89, 90, 400], [0, 0, 1, 1, 2, 2, 3, 3]),
        ("srch_adults_count", USERS, [1, 2, 3, 9], [0, 1, 2, 2]),
        ("srch_children_count", USERS, [0, 1, 2, 5], [0, 1, 2, 2]),
        ("srch_room_count", USERS, [1, 2, 8], [0, 1, 1]),
        ("visitor_hist_starrating", USERS, [1, 2.9, 3, 3.9, 4, 5], [0, 0, 1, 1, 2, 2]),
        ("visitor_hist_adr_usd", USERS, [0, 99, 100, 150, 199, 200], [0, 0, 1, 2, 2, 3]),
    ],
)
def test_levels(column: str, cuts: dict[str, tuple[float, ...]], cells: list[float], levels: list[int]) -> None:
    table, names = features(rows(**{column: cells}), cuts)
    expected = np.equal.outer(levels, np.arange(1, len(cuts[column]) + 1)).astype(float)
    assert np.allclose(table, standardised(expected)) and len(names) == len(cuts[column]) == max(levels)


def test_a_column_without_levels_is_its_own_feature_and_a_constant_is_zero() -> None:
    table, names = features(rows(price_usd=[1, 2, 6], promotion_flag=[0.1, 0.1, 0.1]), HOTELS)
    assert names == ("price_usd", "promotion_flag")
    assert np.allclose(table[:, 0], np.array([-2, -1, 3]) / np.std([1, 2, 6])) and (table[:, 1] == 0).all()


@pytest.mark.wide
def test_columns_missing_in_more_than_ninety_percent_are_left_out() -> None:
    searches = sample(300)
    first = np.unique(searches.columns["srch_id"], return_index=True, return_inverse=True)
    for known, kept in ((30, True), (29, False)):  # of 300 searches
        column = np.where(first[2] < known, 4.0 - first[2] % 3, np.nan)
        prepared = prepare(sample(300, visitor_hist_starrating=column), "x")
        assert (prepared.facts.dropped == ()) == kept
        assert prepared.users.shape[1] == (18 if kept else 16)
    assert prepared.facts.dropped == ("visitor_hist_starrating",)
    reviews = np.full(len(first[2]), np.nan)
    assert prepare(sample(300, prop_review_score=reviews), "x").hotels.shape == (40, 8)


def test_histories_are_imputed_by_a_regression_tree_on_the_complete_columns() -> None:
    adults = np.repeat([1.0, 2.0], 50)
    history = np.where(np.arange(100) % 2, np.nan, 2 * adults)
    filled = hotels.impute({"srch_adults_count": adults, "visitor_hist_starrating": history})
    assert np.array_equal(filled["visitor_hist_starrating"], 2 * adults)
    assert np.isnan(history).sum() == 50, "the caller's column was changed"
    noise = np.random.default_rng(0).standard_normal((100, 2))
    column = np.where(np.arange(100) < 30, np.nan, noise @ [1, 2])
    tree = DecisionTreeRegressor(max_depth=5, random_state=0).fit(noise[30:], column[30:])
    assert np.allclose(hotels.imputed(column, noise)[:30], tree.predict(noise[:30]))


def test_hotels_are_means_over_searches_and_unknown_ones_have_the_median() -> None:
    columns = rows(
        price_usd=[np.e - 1, np.e**3 - 1, 0, 0],
        prop_log_historical_price=[5, 0, 0, 0],
        prop_review_score=[3, np.nan, np.nan, 4],
    )
    means = hotels.means(columns, np.array([0, 0, 1, 2]))
    assert np.allclose(means["price_usd"], [2, 0, 0])
    assert means["prop_log_historical_price"].tolist() == [5, 5, 5]
    assert means["prop_review_score"].tolist() == [3, 3.5, 4]


def test_selection_keeps_the_hotels_shown_most_and_searches_that_show_enough_of_them() -> None:
    columns = rows(
        srch_id=[1, 1, 1, 2, 2, 3, 3, 3, 4],
        prop_id=[7, 8, 9, 7, 8, 7, 8, 5, 7],
        booking_bool=[0, 1, 0, 0, 0, 0, 0, 1, 1],
    )
    chosen = select(columns, max_hotels=2, min_items=2)  # search 3 ended in hotel 5, search 4 shows one hotel
    assert chosen.columns["srch_id"].tolist() == [1, 1, 2, 2] and chosen.search.tolist() == [0, 0, 1, 1]
    assert chosen.columns["prop_id"].tolist() == [7, 8, 7, 8] and chosen.hotel.tolist() == [0, 1, 0, 1]
    assert hotels.bookings(chosen).tolist() == [1, -1]


def test_of_several_bookings_the_first_row_counts() -> None:
    chosen = select(rows(srch_id=[1, 1, 1], prop_id=[3, 2, 1], booking_bool=[0, 1, 1]), 9, 1)
    assert hotels.bookings(chosen).tolist() == [1]


def test_website_domain_is_whether_it_is_the_busiest_site() -> None:
    assert hotels.busiest_site(rows(site_id=[5, 14, 14, 5, 14]))["site_id"].tolist() == [0, 1, 1, 0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_items": 41}, "0 searches and 0 hotels are left of destination 8192"),
        ({"max_hotels": 1, "min_items": 1}, "1 hotels are left"),
        ({"max_hotels": 0}, "max_hotels must be an integer >= 1; got 0."),
        ({"min_items": 0}, "min_items must be an integer >= 1; got 0."),
        ({"max_missing": 1.5}, "max_missing must lie in"),
        ({"ridge": 0.0}, "ridge must be > 0; got 0.0."),
    ],
)
def test_what_cannot_be_prepared_is_said_in_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        prepare(sample(50), "x", **options)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_without_a_booking_there_is_nothing_to_fit() -> None:
    searches = sample(50)
    with pytest.raises(ValueError, match="no search of destination 8192 ends in a booking"):
        prepare(sample(50, booking_bool=np.zeros(len(searches.columns["srch_id"]))), "x")


def test_real_hotels_are_not_called_generated() -> None:
    searches = sample(50)
    country = searches.columns["prop_country_id"].copy()
    country[0] = 219
    assert not prepare(sample(50, prop_country_id=country), "x").facts.generated


def test_missing_scikit_learn_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.tree", None)
    with pytest.raises(ImportError, match=r"pip install 'privbandit\[data\]'"):
        prepare(sample(50), "x")
