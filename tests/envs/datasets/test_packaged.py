"""Data sets that packages ship: pip is asked, nothing unknown is kept, and choices become arms."""

import csv
import gzip
import hashlib
import io
import shutil
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from privbandit_envs import from_table
from privbandit_envs.datasets import load, packaged
from privbandit_envs.datasets.packaged import Sheet

pytest.importorskip("polars")
from privbandit_envs.tables.proposing import propose

ROWS = {
    "long": "case,alt,choice,cost\n"
    + "".join(
        f"{case},{alt},{int(alt == 'bc'[case % 2])},{case + cost}\n"
        for case in range(80)
        for cost, alt in enumerate("abc")
    ),
    "wide": "rownames,pick,kind1,kind2,price1,price2,free2\n"
    + "".join(
        f"{i},{'yes' if i % 3 else 'no'},{'van' if i % 2 else 'bus'},van,{i % 7},{i % 5},{i % 4}\n" for i in range(90)
    ),
    "flags": "x,z,y\n" + "".join(f"{i},{i % 4},{i % 2}\n" for i in range(100)),
}
COMMON: dict[str, Any] = {
    "archive": "tiny",
    "rows": 80,
    "row": "",
    "collected": "",
    "flaws": "none",
    "licence": "",
    "citation": "",
}


@pytest.fixture
def wheelhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a wheel that has three data files, which pip is told to look at alone."""
    house = tmp_path / "house"
    house.mkdir()
    wheel = house / "tiny_data-1.0-py3-none-any.whl"
    files = {f"tiny_data/{name}.csv.gz": gzip.compress(text.encode(), mtime=0) for name, text in ROWS.items()}
    info = "tiny_data-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-data\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: none\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")

    def digest(content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()

    def sheet(name: str, kind: str, **given: Any) -> Sheet:
        member = f"tiny_data/{name}.csv.gz"
        return Sheet(title=name, kind=kind, files={name: (member, digest(files[member]))}, **COMMON | given)

    sheets = {
        "long": sheet(
            "long", "choices", person="case", alternative="alt", chosen="choice", attributes=("cost",), named=True
        ),
        "wide": sheet(
            "wide",
            "choices",
            alternatives=("1", "2"),
            choice="pick",
            choices=("yes", "no"),
            attributes=("kind{}", "price{}"),
        ),
        "shuttle": sheet("flags", "labels", label="y"),
    }
    monkeypatch.setattr(packaged, "ARCHIVES", {"tiny": {"file": wheel.name, "sha256": digest(wheel.read_bytes())}})
    monkeypatch.setattr(packaged, "SHEETS", sheets)
    packaged.labels.cache_clear()
    packaged.choices.cache_clear()
    for name, value in {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(house),
        "PRIVBANDIT_DATA": str(tmp_path / "kept"),
    }.items():
        monkeypatch.setenv(name, value)
    return house


@pytest.fixture
def without_pip(wheelhouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel is copied from its folder, since pip takes a second."""

    def downloaded(archive: str, folder: Path, tell: Any) -> Path:
        return Path(shutil.copy(wheelhouse / packaged.ARCHIVES[archive]["file"], folder))

    monkeypatch.setattr(packaged, "downloaded", downloaded)


def test_a_wheelhouse_is_enough_and_pip_is_asked_once(wheelhouse: Path) -> None:
    with pytest.raises(FileNotFoundError, match="privbandit data get long"):
        packaged.choices("long")
    packaged.get("long")
    for file in wheelhouse.iterdir():
        file.unlink()
    told: list[str] = []
    packaged.get("long", told.append)
    assert not told
    arms = packaged.choices("long")
    assert arms.features.shape == (80, 3, 4)
    assert (arms.rewards[np.arange(80), 1 + np.arange(80) % 2] == 1).all() and arms.rewards.sum() == 80
    assert (arms.features[:, :, 0] == np.arange(80)[:, None] + np.arange(3)).all()
    assert (arms.features[:, :, 1:] == np.eye(3)).all()


@pytest.mark.usefixtures("without_pip")
def test_words_become_indicators() -> None:
    packaged.get("wide")
    arms = packaged.choices("wide")
    assert arms.features.shape == (90, 2, 3)  # bus, van, price
    assert (arms.features[:, 0, 1] == np.arange(90) % 2).all() and (arms.features[:, 1, 1] == 1).all()
    assert (arms.rewards[:, 0] == (np.arange(90) % 3 > 0)).all()


@pytest.mark.usefixtures("without_pip")
def test_worlds_are_made_of_it_when_asked() -> None:
    with pytest.raises(FileNotFoundError, match="download=True"):
        gym.make("privbandit/Table-v0", source="wide")
    env = gym.make("privbandit/Table-v0", source="wide", download=True, n_public=20)
    context, _ = env.reset(seed=0)
    assert context.shape == (2, 3)
    assert load("shuttle", download=True).X.shape == (100, 2)
    with pytest.raises(ValueError, match=r"did you mean 'wide'\?"):
        gym.make("privbandit/Table-v0", source="wid")


@pytest.mark.usefixtures("without_pip")
def test_a_file_through_from_table_is_the_world_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels from the kept file, choices from its columns; by a schema, features are scaled by all rows' ends.

    A table's people are numbered by their names as texts, so that these have three digits.
    """
    monkeypatch.setitem(packaged.SHEETS, "long", replace(packaged.SHEETS["long"], named=False))
    for name in ("shuttle", "long"):
        packaged.get(name)

    def contexts(env: Any) -> Any:
        env.reset(seed=3)
        return env.unwrapped.upcoming(60)

    given: dict[str, Any] = {"n_public": 20, "horizon": 60}
    named = contexts(gym.make("privbandit/Classification-v0", source="shuttle", **given))
    assert np.array_equal(named, contexts(from_table(packaged.place("shuttle"), label="y", **given)))
    frame = packaged.there("long").sort("case", "alt").with_columns(case=packaged.there("long")["case"].sort() + 100)
    choices = contexts(gym.make("privbandit/Table-v0", source="long", **given))
    assert np.array_equal(choices, contexts(from_table(frame.drop("alt"), user="case", reward="choice", **given)))
    kept = packaged.place("shuttle")
    by_schema = contexts(from_table(kept, label="y", schema=propose(kept, label="y"), **given))
    x = load("shuttle").X
    scaled = ((x - x.min(axis=0)) / np.ptp(x, axis=0)).astype(np.float32)
    assert {*map(tuple, by_schema.round(5).tolist())} <= {*map(tuple, scaled.round(5).tolist())}


@pytest.mark.usefixtures("without_pip")
def test_users_come_in_the_order_of_the_rows() -> None:
    for name in ("shuttle", "wide"):
        packaged.get(name)
    given: dict[str, Any] = {"n_public": 20, "horizon": 60, "population": "in-order"}
    for env_id, source, column in (("Classification-v0", "shuttle", 0), ("Table-v0", "wide", None)):
        env: Any = gym.make(f"privbandit/{env_id}", source=source, **given).unwrapped
        env.reset(seed=5)
        seen = env.upcoming(60)
        if column is not None:
            assert (np.diff(seen[:, column]) > 0).all()
        else:
            assert (np.diff(env.upcoming_people(60)) > 0).all()
        with pytest.raises(ValueError, match="in-order"):
            gym.make(f"privbandit/{env_id}", source=source, **given | {"horizon": 200})


@pytest.mark.wide_at("file")
@pytest.mark.parametrize("where", ["wheel", "file"])
def test_a_flipped_byte_is_refused_by_name(wheelhouse: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    if where == "wheel":
        (wheel,) = wheelhouse.iterdir()
        with zipfile.ZipFile(wheel, "a") as archive:
            archive.writestr("tiny_data/more.txt", "x")
    else:
        other = {"long": ("tiny_data/long.csv.gz", "0" * 64)}
        monkeypatch.setitem(packaged.SHEETS, "long", Sheet(**vars(packaged.SHEETS["long"]) | {"files": other}))
    named = r"tiny_data-1\.0.*SHA-256" if where == "wheel" else r"tiny_data/long\.csv\.gz in tiny_data-1\.0.*SHA-256"
    with pytest.raises(ValueError, match=named):
        packaged.get("long")
    assert not packaged.is_there("long")


def test_without_a_network_the_way_out_is_named(wheelhouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheelhouse / "nowhere"))
    with pytest.raises(ConnectionError, match=r"tiny_data==1\.0.*PIP_FIND_LINKS"):
        packaged.get("long")


def test_every_sheet_is_whole() -> None:
    for name, sheet in packaged.SHEETS.items():
        assert sheet.archive in packaged.ARCHIVES and sheet.kind in packaged.KINDS, name
        assert all(sheet.facts.values()) and "?" in sheet.title, name
        assert all(len(digest) == 64 for _, digest in sheet.files.values()), name


FACTS = {
    "electricity": (4308, 4, [978, 1137, 1026, 1167], -4958.65),
    "heating": (900, 5, [573, 129, 64, 84, 50], -1008.23),
    "train": (2929, 2, [1474, 1455], -1724.15),
}
"""People, alternatives, who chose each, and the log-likelihood of the logit with these attributes.

It is published with the R package mlogit (electricity, train), and with Train's exercises (heating)."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FACTS)
def test_downloaded_choices_are_the_published_ones(name: str) -> None:
    import scipy

    packaged.get(name)
    people, arms, chosen, published = FACTS[name]
    table = packaged.choices(name)
    assert table.rewards.shape == (people, arms) and table.rewards.sum(axis=0).tolist() == chosen
    x = table.features / np.abs(table.features).max(axis=(0, 1))

    def loss(theta: Any) -> Any:
        return -(scipy.special.log_softmax(x @ theta, axis=1) * table.rewards).sum()

    found = scipy.optimize.minimize(loss, np.zeros(x.shape[2]), method="BFGS")
    assert -found.fun == pytest.approx(published, rel=1e-3)


@pytest.mark.slow
def test_facts_of_the_visitors_and_of_the_sun_are_those_of_the_raw_files(tmp_path: Path) -> None:
    """By the csv module: rows, clicks, levels of each feature, items; and flares."""
    wheel = packaged.downloaded("obp", tmp_path, lambda line: None)
    for name in ("open-bandit", "solar-flare"):
        packaged.get(name)
    for campaign, items in (("men", 34), ("women", 46), ("all", 80)):
        member = packaged.SHEETS["open-bandit"].files[f"random-{campaign}"][0]
        rows = list(csv.DictReader(io.StringIO(zipfile.ZipFile(wheel).read(member).decode())))
        x, arms, rate = packaged.visitors(campaign)
        counts = [Counter(row[f"user_feature_{place}"] for row in rows) for place in range(4)]
        assert x.shape == (10_000, sum(map(len, counts))) and arms == items == len({row["item_id"] for row in rows})
        assert rate * 10_000 == pytest.approx(sum(int(row["click"]) for row in rows))
        assert x.sum(axis=0).tolist() == [count[level] for count in counts for level in sorted(count)]
    river = packaged.downloaded("river", tmp_path, lambda line: None)
    content = zipfile.ZipFile(river).read(packaged.SHEETS["solar-flare"].files["solar-flare"][0])
    with zipfile.ZipFile(io.BytesIO(content)) as inner:
        flares = list(csv.DictReader(io.StringIO(inner.read(inner.namelist()[0]).decode())))
    with pytest.warns(UserWarning, match="different ones"):
        data = load("solar-flare")
    names = Counter(row["c-class-flares"] for row in flares)
    assert len(data.y) == len(flares) == 1066 and dict(zip(data.label_names, np.bincount(data.y), strict=True)) == names
