"""Turn the searches of one destination into hotels, users and a choice model.

Cho and Sun, "Privacy-Preserving Dynamic Assortment Selection", sections 5.2.1 and S.3.4 and Table 1.

Deviations (where the paper is silent or refers to others):
    Selection: the N = 124 hotels shown in most searches; the searches that show at least ``min_items`` of them. A
        search that ended in the booking of another hotel is left out; under the MNL model what remains follows the
        same model.
    Choice: the booked hotel (the first one of a search), else none. Clicks are not used, nor the position on the page.
    Missing values: a column is left out if more than 90 % of it is missing: a user's column over the searches, a
        hotel's over the rows. A mean over searches skips missing values, a hotel without any has the median of the
        hotels. A historical price of 0 ("not sold") counts as missing. Users' histories are imputed by regression
        trees on their other features (depth 5, leaves of at least 1 % of the searches).
    Levels: cut points are fixed, see ``HOTELS`` and ``USERS``; c levels make c - 1 columns of 0 and 1, the lowest level
        being the reference. So the 7 hotel columns of Table 1 make 10 features and the 9 user columns 18.
    Outliers: the price enters as log(1 + price). Location score is ``prop_location_score1``, which is never missing.
        Website domain is whether the search was made at the destination's most frequent site.
    A feature that is the same everywhere has no variance; it is 0.
    Choice model: penalised maximum likelihood on the bookings (ridge 1), once for each way to join the features;
        parameters are rounded to six decimals, so that they do not depend on the machine.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit_envs.datasets.hotels.data import JOINS, HotelData, HotelFacts, extended, free
from privbandit_envs.datasets.hotels.read import Searches
from privbandit_envs.datasets.logit import Logit, bilinear
from privbandit_envs.validate import count, fraction, positive

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
SAMPLE_COUNTRY = 999  # `prop_country_id` of generated hotels; those of the real file are below 250
HOTELS: dict[str, tuple[float, ...]] = {
    "prop_starrating": (2.5, 3.5, 4.5),
    "prop_review_score": (3.25, 4.25),
    "prop_brand_bool": (),
    "prop_location_score1": (),
    "prop_log_historical_price": (),
    "price_usd": (),
    "promotion_flag": (),
}
"""Hotel columns and the cut points of their levels; without any the number itself is the feature."""
USERS: dict[str, tuple[float, ...]] = {
    "srch_length_of_stay": (2, 3, 5),
    "srch_booking_window": (7, 30, 90),
    "srch_adults_count": (2, 3),
    "srch_children_count": (1, 2),
    "srch_room_count": (2,),
    "srch_saturday_night_bool": (),
    "site_id": (),
    "visitor_hist_starrating": (3, 4),
    "visitor_hist_adr_usd": (100, 150, 200),
}
"""User columns and their cut points."""


class Selection(NamedTuple):
    """The rows that are used, with hotels and searches numbered from 0.

    Attributes:
        columns: of the rows, each of length m.
        hotel: of each row, in 0, ..., N - 1.
        search: of each row, in 0, ..., n - 1.
    """

    columns: dict[str, Floats]
    hotel: Integers
    search: Integers


def prepare(
    searches: Searches,
    origin: str,
    *,
    max_hotels: int = 124,
    min_items: int = 5,
    max_missing: float = 0.9,
    ridge: float = 1.0,
) -> HotelData:
    """Prepare the searches of a destination.

    Args:
        searches: what ``hotels.read.read`` returns.
        origin: names their source, for people.
        max_hotels: how many hotels are kept: the ones shown most.
        min_items: a search is kept if it shows at least this many of these hotels.
        max_missing: a column is left out if a larger share of it is missing.
        ridge: penalty of the choice model.

    Raises:
        ValueError: an argument out of range, or too few searches, hotels or bookings.
        ImportError: values must be imputed and scikit-learn is missing.
    """
    count(max_hotels=max_hotels)
    count(min_items=min_items)
    fraction(max_missing=max_missing)
    positive(ridge=ridge)
    chosen = select(searches.columns, max_hotels, min_items)
    by_hotel, by_search = first_rows(chosen.hotel), first_rows(chosen.search)
    if len(by_search) < 2 or len(by_hotel) < 2:
        raise ValueError(
            f"{len(by_search)} searches and {len(by_hotel)} hotels are left of destination {searches.destination}; "
            f"at least two of each are needed; choose more max_hotels or fewer min_items than {min_items}."
        )
    hotels, dropped = present({name: chosen.columns[name] for name in HOTELS}, max_missing)
    users, also_dropped = present({name: chosen.columns[name][by_search] for name in USERS}, max_missing)
    hotel_table, hotel_names = features(means(hotels, chosen.hotel), HOTELS)
    user_table, user_names = features(impute(busiest_site(users)), USERS)
    taken = bookings(chosen)
    if not (taken >= 0).any():
        raise ValueError(f"no search of destination {searches.destination} ends in a booking; there is nothing to fit.")
    generated, booked = bool((chosen.columns["prop_country_id"] == SAMPLE_COUNTRY).all()), int((taken >= 0).sum())
    names = hotel_names, user_names, dropped + also_dropped
    facts = HotelFacts(origin, generated, searches.destination, booked, *names)
    theta = fit(hotel_table, user_table, chosen, taken, ridge)
    prices = group_means(chosen.columns["price_usd"], chosen.hotel)
    return HotelData(hotel_table, user_table, prices, theta, facts)


def select(columns: Mapping[str, Floats], max_hotels: int, min_items: int) -> Selection:
    """Keep the hotels shown most, and the searches that show enough of them and did not end in another hotel."""
    ids, hotel, shown = np.unique(columns["prop_id"], return_inverse=True, return_counts=True)
    kept_hotels = np.isin(hotel, np.lexsort((ids, -shown))[:max_hotels])
    searches, search = np.unique(columns["srch_id"], return_inverse=True)
    items = np.bincount(search[kept_hotels], minlength=len(searches))
    booked = np.bincount(search[columns["booking_bool"] == 1], minlength=len(searches))
    booked_here = np.bincount(search[(columns["booking_bool"] == 1) & kept_hotels], minlength=len(searches))
    kept_searches = (items >= min_items) & ((booked == 0) | (booked_here > 0))
    rows = kept_hotels & kept_searches[search]
    renumbered = (np.unique(part[rows], return_inverse=True)[1].astype(np.int64) for part in (hotel, search))
    return Selection({name: column[rows] for name, column in columns.items()}, *renumbered)


def first_rows(group: Integers) -> Integers:
    return np.unique(group, return_index=True)[1].astype(np.int64)


def present(columns: Mapping[str, Floats], max_missing: float) -> tuple[dict[str, Floats], tuple[str, ...]]:
    """Return the columns that are kept, and the names of those left out because too many values are missing."""
    kept = {name: column for name, column in columns.items() if np.isnan(column).mean() <= max_missing}
    return kept, tuple(name for name in columns if name not in kept)


def means(columns: Mapping[str, Floats], hotel: Integers) -> dict[str, Floats]:
    """Return each hotel's means over the searches that show it; a hotel without values has the hotels' median."""
    shown: dict[str, Floats] = {**columns, "price_usd": np.log1p(columns["price_usd"])}
    history = columns["prop_log_historical_price"]
    shown["prop_log_historical_price"] = np.where(history == 0, np.nan, history)
    filled = {}
    for name, column in shown.items():
        mean = group_means(column, hotel)
        known = mean[~np.isnan(mean)]
        filled[name] = np.where(np.isnan(mean), np.median(known) if len(known) else 0.0, mean)
    return filled


def group_means(column: Floats, group: Integers) -> Floats:
    """Return the mean of each group, NaN for a group without a value."""
    known = ~np.isnan(column)
    size = group.max() + 1
    number = np.bincount(group[known], minlength=size)
    total = np.bincount(group[known], column[known], minlength=size)
    return np.divide(total, number, out=np.full(size, np.nan), where=number > 0)


def impute(users: Mapping[str, Floats]) -> dict[str, Floats]:
    """Fill missing values by a regression tree on the columns that are complete."""
    complete = [column for column in users.values() if not np.isnan(column).any()]
    return {
        name: column if not np.isnan(column).any() else imputed(column, np.column_stack(complete))
        for name, column in users.items()
    }


def imputed(column: Floats, others: Floats) -> Floats:
    """Return a column with its missing values predicted from others."""
    known = ~np.isnan(column)
    try:
        from sklearn.tree import DecisionTreeRegressor
    except ImportError as error:
        raise ImportError("imputation needs scikit-learn; run pip install 'privbandit[data]'.") from error
    tree = DecisionTreeRegressor(max_depth=5, min_samples_leaf=max(1, len(column) // 100), random_state=0)
    tree.fit(others[known], column[known])
    filled = column.copy()
    filled[~known] = tree.predict(others[~known])
    return filled


def busiest_site(users: Mapping[str, Floats]) -> dict[str, Floats]:
    """Replace the website by whether it is the most frequent one."""
    sites, numbers = np.unique(users["site_id"], return_counts=True)
    return {**users, "site_id": (users["site_id"] == sites[numbers.argmax()]).astype(np.float64)}


def features(columns: Mapping[str, Floats], cuts: Mapping[str, tuple[float, ...]]) -> tuple[Floats, tuple[str, ...]]:
    """Return standardised features, shape (n, number of features), and their names."""
    parts: list[Floats] = []
    names: list[str] = []
    for name, column in columns.items():
        level = np.digitize(column, cuts[name])
        parts += [(level == one).astype(np.float64) for one in range(1, len(cuts[name]) + 1)] or [column]
        middle = [f"{name} in [{low:g}, {high:g})" for low, high in pairwise(cuts[name])]
        names += [*middle, f"{name} >= {cuts[name][-1]:g}"] if cuts[name] else [name]
    return standardised(np.column_stack(parts)), tuple(names)


def standardised(table: Floats) -> Floats:
    """Return columns of mean 0 and variance 1; a constant column becomes 0."""
    centred = table - table.mean(axis=0)
    scale = centred.std(axis=0)
    constant = np.ptp(table, axis=0) == 0
    return np.where(constant, 0.0, centred / np.where(constant, 1.0, scale))


def bookings(chosen: Selection) -> Integers:
    """Return the hotel that each search ended in, or -1, shape (n,)."""
    taken = np.full(chosen.search.max() + 1, -1)
    rows = np.flatnonzero(chosen.columns["booking_bool"] == 1)[::-1]
    taken[chosen.search[rows]] = chosen.hotel[rows]  # of several the first row is written last
    return taken


def fit(hotels: Floats, users: Floats, chosen: Selection, taken: Integers, ridge: float) -> dict[str, Floats]:
    """Return the parameters of the choice model for each way to join the features."""
    offered = np.zeros((len(users), len(hotels)), dtype=bool)
    offered[chosen.search, chosen.hotel] = True
    theta = {}
    for join in JOINS:
        parameters = free(join, hotels.shape[1], users.shape[1])
        maps = bilinear(extended(hotels), extended(users), parameters)
        theta[join] = np.round(Logit(*maps, offered, taken, int(parameters.sum()), ridge).fit(), 6)
    return theta
