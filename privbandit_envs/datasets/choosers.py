"""People who choose one of several items or none, with a choice model that is fitted to their choices.

They come from prepared hotel searches, or from real choices that ``packaged`` downloads.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privbandit_envs.datasets import packaged
from privbandit_envs.datasets.hotels import data as hotels
from privbandit_envs.datasets.logit import Logit, linear
from privbandit_envs.validate import did_you_mean, one_of, shown

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
SYNTHETIC = "synthetic"
NAMES = tuple(name for name, sheet in packaged.SHEETS.items() if sheet.outside)


@dataclass(frozen=True, eq=False)
class Choosers:
    """n people, N items and a choice model; the features of item i for person t are x_ti, or products x_i u_t.

    Attributes:
        items: shape (n, N, d), or (1, N, d) if all people see the same; zeros where somebody cannot have an item.
        users: u, shape (n, d); None: there are no products.
        theta: fitted parameters, shape (d,).
        prices: as shares of the highest, shape (N,) or (n, N).
        present: which items somebody can have, shape (n, N); None: all.
        log_likelihood: of the choices, at theta.
    """

    items: Floats
    users: Floats | None
    theta: Floats
    prices: Floats
    present: NDArray[np.bool_] | None = None
    log_likelihood: float = np.nan

    def __len__(self) -> int:
        return len(self.items if self.users is None else self.users)

    def bounds(self) -> Floats:
        """Return the largest absolute value of each feature (1 for one that is always 0), shape (d,)."""
        largest: Floats = np.abs(self.items).max(axis=(0, 1))
        if self.users is not None:
            largest = largest * np.abs(self.users).max(axis=0)
        return np.where(largest > 0, largest, np.ones_like(largest))

    def write(self, rows: NDArray[Any], features: NDArray[Any]) -> None:
        """Write the features of the people in these rows, shape (n, N, d)."""
        if self.users is None:
            features[:] = self.items[rows]
        else:
            np.multiply(self.items, self.users[rows][:, None], out=features)


def load(source: str, join: str, download: bool, dtype: Any) -> Choosers:
    """Return the people that ``source`` names: one of ``NAMES``, a prepared file of hotels, or the generated sample.

    Args:
        source: the name or path.
        join: of hotel and user features; other sources have one way.
        download: whether to download what ``privbandit data get`` would.
        dtype: of the features.

    Raises:
        ValueError: an unknown name, or a file of another kind.
        FileNotFoundError: choices that were not downloaded.
        ImportError: the sample needs scikit-learn, or choices need polars, and it is missing.
    """
    if source in NAMES:
        found = of_choices(source, download)
        return Choosers(found.items.astype(dtype), None, found.theta.copy(), found.prices, found.present)
    if source == hotels.SAMPLE:
        from privbandit_envs.datasets.hotels import sample

        data = sample.prepared()
    elif isinstance(source, str) and Path(source).expanduser().is_file():
        data = hotels.load(Path(source).expanduser())
    else:
        names = SYNTHETIC, hotels.SAMPLE, *NAMES
        raise ValueError(
            f"source must be one of {', '.join(names)}, or the path of a file made by privbandit data expedia; "
            f"got {shown(source)}{did_you_mean(source, names)}."
        )
    p, q = data.hotels.shape[1], data.users.shape[1]
    hotel, user = hotels.free(one_of(hotels.JOINS, join=join), p, q).nonzero()
    items, users = (hotels.extended(data.hotels)[:, hotel], hotels.extended(data.users)[:, user])
    prices = data.prices / data.prices.max()
    return Choosers(items[None].astype(dtype), users.astype(dtype), data.theta[join].copy(), prices)


@lru_cache(maxsize=4)
def of_choices(name: str, download: bool = False) -> Choosers:
    """Return the people of a downloaded data set; reading it again is free."""
    sheet, table = packaged.SHEETS[name], packaged.there(name, download)
    return receipts(table) if sheet.kind == "receipts" else travellers(sheet, table)


def travellers(sheet: packaged.Sheet, table: "pl.DataFrame") -> Choosers:
    """Return people whose choice among alternatives is known; one alternative is always there, and is no item.

    By the model, a choice from any set of items and this alternative is a choice from the items or none, with the
    differences of the features. Whoever could not choose it is left out. An attribute in ``own`` has a parameter for
    each alternative; if it is the same for all of them, such as an income, the outside one has none.
    """
    names = (*sheet.shared, *sheet.own, sheet.price)
    table = table.with_columns(one=np.ones(table.height))
    columns, chosen, present = packaged.laid_out(sheet, table, names)
    known = packaged.alternatives(sheet, table)
    out = known.index(sheet.outside)
    own = []
    for column in columns[len(sheet.shared) : -1]:
        each = column[..., None] * np.eye(len(known))
        same = ((column == column.max(axis=1, keepdims=True)) | ~present).all()
        own.append(np.delete(each, out, axis=2) if same else each)
    x = np.concatenate([np.stack(columns[: len(sheet.shared)], axis=2), *own], axis=2).astype(np.float64)
    here = present[:, out]
    items = np.delete(np.arange(len(known)), out)
    x, chosen = (x - x[:, [out]])[here][:, items], chosen[here]
    taken = np.where(chosen[:, out], -1, chosen[:, items].argmax(axis=1))
    return fitted(x, present[here][:, items], taken, columns[-1][here][:, items])


def receipts(table: "pl.DataFrame", subclass: int = 110401, n_items: int = 30) -> Choosers:
    """Return visits of a supermarket that bought one product of a subclass, in the order of days.

    Items are the products that most of these visits bought; whoever bought another product of the subclass took none. A
    product was on the shelf on days with a sale of it within three days. Its price is the median of a day's sales, or
    of the last day that had one. Features: a constant, the logarithms of a product's usual price (the median of its
    days) and of the day's price as a share of it, a product of the usual price and whether the customer is 45 or
    older, and indicators of the makers (the first seven digits of the product) that have three items or more.
    """
    import polars as pl

    day = pl.col("TRANSACTION_DT").str.to_date("%m/%d/%Y").to_physical().alias("day")
    lines = table.filter(pl.col("PRODUCT_SUBCLASS") == subclass).with_columns(
        day, (pl.col("SALES_PRICE") / pl.col("AMOUNT")).alias("price")
    )
    bought = lines.group_by("day", "CUSTOMER_ID").agg(
        pl.col("PRODUCT_ID").n_unique().alias("products"), pl.col("PRODUCT_ID", "AGE_GROUP").first()
    )
    visits = bought.filter(pl.col("products") == 1).sort("day", "CUSTOMER_ID")
    most = visits.group_by("PRODUCT_ID").len().sort(["len", "PRODUCT_ID"], descending=[True, False])
    products = most["PRODUCT_ID"].head(n_items).to_list()
    first, last = lines["day"].min(), lines["day"].max()
    assert isinstance(first, int) and isinstance(last, int)
    prices = np.full((last - first + 1, n_items), np.nan)
    daily = lines.filter(pl.col("PRODUCT_ID").is_in(products)).group_by("day", "PRODUCT_ID").agg(pl.median("price"))
    for at, product, price in daily.iter_rows():
        prices[at - first, products.index(product)] = price
    sold = ~np.isnan(prices)
    shelf = np.array([sold[max(at - 3, 0) : at + 4].any(axis=0) for at in range(len(sold))])
    usual = np.nanmedian(prices, axis=0)
    at = np.maximum.accumulate(np.where(sold, np.arange(len(sold))[:, None], -1), axis=0)
    at = np.where(at < 0, sold.argmax(axis=0), at)  # before the first sale: its price
    today = np.take_along_axis(prices, at, axis=0)[visits["day"].to_numpy() - first]
    older = (visits["AGE_GROUP"].str.extract(r"(\d+)").cast(pl.Int64).fill_null(0) >= 45).to_numpy()
    makers = np.array([str(product)[:7] for product in products])
    named, sizes = np.unique(makers, return_counts=True)
    level = np.broadcast_to(np.log(usual / usual.mean()), today.shape)
    parts = [np.ones(today.shape), level, np.log(today / usual), level * older[:, None]]
    parts += [np.broadcast_to(makers == maker, today.shape) for maker in named[sizes >= 3]]
    number = {product: item for item, product in enumerate(products)}
    taken = np.array([number.get(product, -1) for product in visits["PRODUCT_ID"]])
    present = shelf[visits["day"].to_numpy() - first]
    return fitted(np.stack(parts, axis=2).astype(np.float64), present, taken, today)


def fitted(x: Floats, present: NDArray[np.bool_], taken: NDArray[np.int64], prices: NDArray[Any]) -> Choosers:
    """Scale features to a mean square of 1 over the items that people can have, and fit the choice model.

    Parameters are rounded to six decimals, so that they do not depend on the machine.
    """
    x[~present] = 0.0
    x /= np.sqrt((x**2).sum(axis=(0, 1)) / present.sum())
    model = Logit(*linear(x), present, taken, x.shape[2], ridge=1e-6)
    theta = np.round(model.fit(), 6)
    prices = np.where(present, prices, 0.0)
    return Choosers(x, None, theta, prices / prices.max(), present, -model.loss(theta)[0])
