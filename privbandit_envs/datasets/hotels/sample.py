"""A generated sample with the columns of Kaggle's Expedia file, for tests and examples: it is not real data.

Hotels, searches and prices are drawn from simple laws, and bookings from an MNL model with known parameters.
Shares of missing values are those of the real file, except for users' histories: 60 % instead of 95 % are missing, so
that all columns of Table 1 stay. ``prop_country_id`` is 999 in every row and in no real row, so a file with the sample
is known as generated.
"""

from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from privbandit_envs.datasets.hotels import prepare as hotels
from privbandit_envs.datasets.hotels.data import SAMPLE, HotelData, extended
from privbandit_envs.datasets.hotels.prepare import Integers
from privbandit_envs.datasets.hotels.read import COLUMNS, COUNT, FLAG, MOMENT, SIGN, Searches
from privbandit_envs.files import atomic
from privbandit_envs.validate import count
from privbandit_envs.validate import seed as checked_seed

Floats = NDArray[np.float64]
Columns = dict[str, Floats]
TOP = 8192
N_HOTELS = 40
HISTORY = 5  # the last user features: they come from columns with missing values and influence no choice
START = datetime(2012, 11, 1, tzinfo=UTC).timestamp()


def preferences() -> Floats:
    """Return the parameters of the sample's choices: of (1, hotel) times (1, user), shape (11, 19)."""
    phi = default_rng(2013).normal(0, 0.2, (11, 19))
    phi[0, 0] = -1.5
    phi[:, -HISTORY:] = 0
    return phi


@lru_cache(maxsize=4)
def prepared(n_searches: int = 1000, seed: int = 0) -> HotelData:
    """Return the sample, prepared; asking again is free."""
    return hotels.prepare(top(table(n_searches, seed)), SAMPLE)


def top(columns: Columns) -> Searches:
    """Return what ``hotels.read.read`` finds in a file with these columns."""
    rows = columns["srch_destination_id"] == TOP
    chosen = {name: column[rows] for name, column in columns.items()}
    return Searches(TOP, chosen, len(np.unique(columns["srch_id"])), len(np.unique(columns["srch_destination_id"])))


def write(path: Path, n_searches: int = 1000, seed: int = 0) -> int:
    """Write the sample as a CSV file, whole or not at all; return the number of its rows.

    Args:
        path: the file.
        n_searches: searches for the top destination; every other destination has a tenth of them.
        seed: seed of the sample.

    Raises:
        OSError: it cannot be written.
    """
    columns = table(n_searches, seed)
    cells = [as_text(name, column) for name, column in columns.items()]
    with atomic(path, "wb", follow=True) as file:
        file.write((",".join(columns) + "\n").encode())
        file.writelines((",".join(row) + "\n").encode() for row in zip(*cells, strict=True))
    return len(columns["srch_id"])


def as_text(name: str, column: Floats) -> list[str]:
    kind = COLUMNS[name]._replace(nullable=False)
    if kind == MOMENT:
        return [datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S") for value in column.tolist()]
    if kind in (COUNT, FLAG, SIGN):
        return ["NULL" if np.isnan(value) else str(int(value)) for value in column]
    return ["NULL" if np.isnan(value) else repr(value) for value in column.tolist()]


def table(n_searches: int, seed: int) -> Columns:
    """Return the columns of the sample, rows of a search together, destinations mixed."""
    rng = default_rng([2013, checked_seed(seed=seed) or 0])
    sizes = {TOP: count(n_searches=n_searches), **dict.fromkeys((42, 117, 2300), max(1, n_searches // 10))}
    parts = [destination(number, size, rng) for number, size in sizes.items()]
    order = rng.permutation(sum(sizes.values()))
    first = 0
    for part, size in zip(parts, sizes.values(), strict=True):
        part["srch_id"] = 1 + order[first + part["srch_id"].astype(int)].astype(np.float64)
        first += size
    joined = {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}
    rows = np.argsort(joined["srch_id"], kind="stable")
    return {name: column[rows] for name, column in joined.items()}


def destination(number: int, n_searches: int, rng: Generator) -> Columns:
    """Return the rows of one destination's searches, numbered from 0."""
    n_shown = np.minimum(rng.integers(8, 31, n_searches), N_HOTELS)
    search = np.repeat(np.arange(n_searches), n_shown)
    hotel = np.concatenate([rng.permutation(N_HOTELS)[:n] for n in n_shown])
    of_hotels, of_users = draw_hotels(number, rng), draw_users(n_searches, rng)
    columns = {name: column[hotel] for name, column in of_hotels.items()}
    columns |= {name: column[search] for name, column in of_users.items()}
    columns |= {"srch_id": search.astype(np.float64), "srch_destination_id": np.full(len(search), float(number))}
    columns["price_usd"] = np.round(columns.pop("usual_price") * rng.lognormal(0, 0.2, len(search)), 2)
    columns["promotion_flag"] = (rng.random(len(search)) < columns.pop("promotions")).astype(np.float64)
    columns["position"] = np.concatenate([np.arange(1.0, n + 1) for n in n_shown])
    columns |= draw_choices(columns, hotel, search, rng)
    return {name: hide(columns, name, hotel, search, rng) for name in COLUMNS}


def draw_hotels(number: int, rng: Generator) -> Columns:
    """Return the features of a destination's hotels, one entry a hotel."""
    stars = rng.choice([2.0, 3, 4, 5], N_HOTELS, p=[0.2, 0.4, 0.3, 0.1])
    usual = np.exp(3.6 + 0.35 * stars + rng.normal(0, 0.25, N_HOTELS))
    history = np.round(np.log(usual) + rng.normal(0, 0.1, N_HOTELS), 2)
    review = np.clip(np.round(2 * (2 + 0.45 * stars + rng.normal(0, 0.6, N_HOTELS))) / 2, 0, 5)
    return {
        "prop_country_id": np.full(N_HOTELS, float(hotels.SAMPLE_COUNTRY)),
        "prop_id": 1 + rng.permutation(1000)[:N_HOTELS] + 1000.0 * (number % 100),
        "prop_starrating": stars,
        "prop_review_score": review,
        "prop_brand_bool": (rng.random(N_HOTELS) < 0.6).astype(np.float64),
        "prop_location_score1": np.round(rng.gamma(6, 0.5, N_HOTELS), 2),
        "prop_location_score2": np.round(rng.beta(1, 6, N_HOTELS), 4),
        "prop_log_historical_price": np.where(rng.random(N_HOTELS) < 0.1, 0.0, history),
        "usual_price": usual,
        "promotions": rng.beta(1, 3, N_HOTELS),
    }


def draw_users(n: int, rng: Generator) -> Columns:
    """Return the features of the searches, one entry a search, nothing missing."""
    return {
        "date_time": START + rng.integers(0, 240 * 86400, n),
        "site_id": rng.choice([5.0, 12, 14, 24, 32], n, p=[0.6, 0.15, 0.12, 0.08, 0.05]),
        "visitor_location_country_id": rng.choice([219.0, 100, 129, 55], n, p=[0.7, 0.12, 0.1, 0.08]),
        "visitor_hist_starrating": np.round(np.clip(rng.normal(3.4, 0.7, n), 1, 5), 2),
        "visitor_hist_adr_usd": np.round(rng.lognormal(5, 0.4, n), 2),
        "srch_length_of_stay": 1.0 + rng.poisson(1.4, n),
        "srch_booking_window": np.floor(rng.exponential(37, n)),
        "srch_adults_count": rng.choice([1.0, 2, 3, 4], n, p=[0.22, 0.62, 0.08, 0.08]),
        "srch_children_count": rng.choice([0.0, 1, 2], n, p=[0.78, 0.1, 0.12]),
        "srch_room_count": rng.choice([1.0, 2, 3], n, p=[0.9, 0.08, 0.02]),
        "srch_saturday_night_bool": (rng.random(n) < 0.5).astype(np.float64),
        "srch_query_affinity_score": np.round(-rng.gamma(4, 6, n), 4),
        "orig_destination_distance": np.round(rng.exponential(1300, n), 2),
        "random_bool": (rng.random(n) < 0.3).astype(np.float64),
    }


def draw_choices(columns: Columns, hotel: Integers, search: Integers, rng: Generator) -> Columns:
    """Draw what each search booked and clicked, from the MNL model of ``preferences``."""
    first = hotels.first_rows(search)
    _, hotel = np.unique(hotel, return_inverse=True)
    of_hotels = hotels.means({name: columns[name] for name in hotels.HOTELS}, hotel)
    of_users = hotels.busiest_site({name: columns[name][first] for name in hotels.USERS})
    h, u = hotels.features(of_hotels, hotels.HOTELS)[0], hotels.features(of_users, hotels.USERS)[0]
    utility = (extended(u) @ preferences().T @ extended(h).T)[search, hotel]
    gumbel = utility + rng.gumbel(size=len(search))
    outside = rng.gumbel(size=len(first))
    best = np.full(len(first), -np.inf)
    np.maximum.at(best, search, gumbel)
    booked = (gumbel == best[search]) & (gumbel > outside[search])
    clicked = booked | (rng.random(len(search)) < 0.03)
    paid = np.round(columns["price_usd"] * columns["srch_length_of_stay"], 2)
    return {
        "click_bool": clicked.astype(np.float64),
        "gross_bookings_usd": np.where(booked, paid, np.nan),
        "booking_bool": booked.astype(np.float64),
    }


def hide(columns: Columns, name: str, hotel: Integers, search: Integers, rng: Generator) -> Floats:
    """Return a column with the real file's share of missing values, in the same pattern."""
    if name.startswith("comp"):
        return competitor(name, len(hotel), rng)
    share = {"prop_review_score": 0.02, "prop_location_score2": 0.22}.get(name)
    if share is not None:
        return np.where((rng.random(N_HOTELS) < share)[hotel], np.nan, columns[name])
    shares = {"srch_query_affinity_score": 0.93, "orig_destination_distance": 0.32}
    shares |= dict.fromkeys(("visitor_hist_starrating", "visitor_hist_adr_usd"), 0.6)
    if name in shares:
        return np.where((rng.random(search.max() + 1) < shares[name])[search], np.nan, columns[name])
    return columns[name]


def competitor(name: str, n: int, rng: Generator) -> Floats:
    """Return a column about a competitor's offers; most of them are missing."""
    if name.endswith("diff"):
        values, share = np.ceil(rng.exponential(15, n)), 0.95
    else:
        values, share = rng.choice([-1.0, 0.0, 1.0], n, p=[0.1, 0.8, 0.1]), 0.6 + 0.05 * int(name[4])
    return np.where(rng.random(n) < share, np.nan, values)
