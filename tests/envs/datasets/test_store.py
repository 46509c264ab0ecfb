import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privbandit_envs.datasets.hotels import data as prepared
from privbandit_envs.datasets.hotels import sample as expedia_sample
from privbandit_envs.datasets.hotels.data import JOINS, HotelData, free


@pytest.fixture(scope="module")
def sample() -> HotelData:
    return expedia_sample.prepared(60)


def test_a_file_brings_back_what_was_saved(sample: HotelData, tmp_path: Path) -> None:
    prepared.save(sample, tmp_path / "a.npz")
    loaded = prepared.load(tmp_path / "a.npz")
    assert loaded.facts == sample.facts and loaded.facts.generated
    assert all(np.array_equal(getattr(loaded, name), getattr(sample, name)) for name in prepared.ARRAYS)
    assert all(np.array_equal(loaded.theta[join], sample.theta[join]) for join in JOINS)
    with pytest.raises(ValueError, match="read-only"):
        loaded.hotels[0, 0] = 1
    assert {field.name for field in fields(HotelData)} == {*prepared.ARRAYS, "theta", "facts"}


def test_a_file_is_read_again_only_if_it_has_changed(sample: HotelData, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    prepared.save(sample, path)
    first = prepared.load(path)
    assert prepared.load(path) is first
    prepared.save(replace(sample, prices=sample.prices * 2), path)
    os.utime(path, ns=(1, 1))
    assert np.array_equal(prepared.load(path).prices, sample.prices * 2)


def test_a_failing_save_leaves_nothing_and_the_old_file_stays(
    sample: HotelData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(file: Any, **_: Any) -> None:
        file.write(b"PK")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", half)
    for before in (None, b"old"):
        path = tmp_path / "a.npz"
        if before:
            path.write_bytes(before)
        with pytest.raises(OSError, match="disk full"):
            prepared.save(sample, path)
        assert [file.read_bytes() for file in tmp_path.iterdir()] == ([before] if before else [])


def damaged(path: Path, sample: HotelData, kind: str) -> None:
    """Write a file that is wrong in one way."""
    prepared.save(sample, path)
    with np.load(path) as saved:
        arrays = dict(saved)
    if kind == "cut off":
        path.write_bytes(path.read_bytes()[:5000])
    elif kind == "text":
        path.write_text("srch_id,date_time\n1,2\n")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "one array":
        with path.open("wb") as file:
            np.save(file, np.ones(3))
    elif kind == "pickle":
        np.savez(path, facts=np.array({"a": 1}, dtype=object))
    else:
        changes: dict[str, Any] = {
            "array gone": {"prices": None},
            "wrong shape": {"users": arrays["users"][:, 1:]},
            "not finite": {"theta-outer": arrays["theta-outer"] * np.nan},
            "not JSON": {"facts": np.array("{")},
            "other version": {"facts": np.array(str(arrays["facts"]).replace('"format": 1', '"format": 2'))},
            "facts gone": {"facts": np.array('{"format": 1}')},
            "JSON list": {"facts": np.array("[1]")},
        }[kind]
        np.savez(path, **{name: array for name, array in (arrays | changes).items() if array is not None})


KINDS = (
    "cut off,text,empty,one array,pickle,array gone,wrong shape,not finite,not JSON,other version,facts gone,JSON list"
)


@pytest.mark.parametrize("kind", KINDS.split(","))
def test_other_files_are_refused_in_one_sentence(sample: HotelData, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.npz"
    damaged(path, sample, kind)
    with pytest.raises(ValueError) as error:
        prepared.load(path)
    assert str(error.value).startswith(f"{path} is no prepared file of hotels (") and "\n" not in str(error.value)
    assert str(error.value).endswith("make one with privbandit data expedia.")


def test_a_csv_file_is_no_reason_to_load_pickles(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text("srch_id,date_time\n1,2\n")
    with pytest.raises(ValueError, match=r"no prepared file of hotels \(it is no \.npz archive\); make one"):
        prepared.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file '.*a\.npz'; make one with privbandit data expedia"):
        prepared.load(tmp_path / "a.npz")


@pytest.mark.parametrize(("join", "size"), [("outer", 180), ("concatenated", 28), ("full", 209)])
def test_joins_have_the_stated_dimension(join: str, size: int) -> None:
    assert free(join, 10, 18).sum() == size
    assert free("full", 10, 18).sum() == 1 + free("outer", 10, 18).sum() + free("concatenated", 10, 18).sum()
    assert not (free("outer", 10, 18) & free("concatenated", 10, 18)).any()
