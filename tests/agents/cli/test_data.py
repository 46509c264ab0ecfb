"""``privbandit data``: what the commands print, write and refuse."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from commanding import Ended
from commanding import invoke as run

from privbandit_envs.datasets import store
from privbandit_envs.datasets.hotels import data as prepared
from privbandit_envs.datasets.hotels import sample as expedia_sample
from privbandit_envs.datasets.tables import SOURCES


def invoke(*arguments: str) -> Ended:
    return run("data", *arguments)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    expedia_sample.write(tmp_path / "train.csv", 60)
    return tmp_path / "train.csv"


def test_the_file_is_prepared_once_and_the_printed_line_plays_it(csv: Path) -> None:
    shown = invoke("expedia", str(csv))
    assert shown.exit_code == 0, shown.stderr
    bookings = expedia_sample.prepared(60).facts.bookings
    assert shown.stdout.splitlines()[:4] == [
        "train.csv: 78 searches of 4 destinations",
        f"destination 8192: 60 searches ({bookings} end in a booking), 40 hotels",
        "10 hotel features, 18 user features",
        "This is a generated sample, not real data.",
    ]
    env = eval(shown.stdout.splitlines()[-1], {"gym": gym})
    assert env.observation_space.shape == (40, 181) and str(csv.with_suffix(".npz")) in shown.stdout
    assert sorted(path.name for path in csv.parent.iterdir()) == ["train.csv", "train.npz"]


def test_options_reach_the_preparation(csv: Path, tmp_path: Path) -> None:
    out = tmp_path / "small"
    options = ["--max-hotels", "20", "--min-items", "3", "--ridge", "50", "--out", str(out)]
    assert invoke("expedia", str(csv), *options).exit_code == 0
    small, usual = prepared.load(out), expedia_sample.prepared(60)
    assert len(small.hotels) == 20 and np.linalg.norm(small.theta["full"]) < np.linalg.norm(usual.theta["full"])


def test_columns_left_out_are_named(csv: Path) -> None:
    lines = [line.split(",") for line in csv.read_text().splitlines()]
    for cells in lines[1:]:
        cells[4] = "NULL"
    csv.write_text("".join(",".join(cells) + "\n" for cells in lines))
    assert "left out, mostly missing: visitor_hist_starrating\n" in invoke("expedia", str(csv)).stdout


def test_a_malformed_row_is_one_sentence_and_writes_nothing(csv: Path) -> None:
    lines = csv.read_text().splitlines()
    lines[700] = lines[700].replace(",", ";", 1)
    csv.write_text("\n".join(lines))
    shown = invoke("expedia", str(csv))
    assert shown.exit_code == 2 and shown.stdout == ""
    assert shown.stderr == f"data expedia: {csv}, line 701: 54 columns expected; got 53.\n"
    assert list(csv.parent.iterdir()) == [csv]


@pytest.mark.wide_at("arguments9-*", "arguments[457]-*", "arguments0-*")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["expedia", "{0}/no.csv"], "data expedia: no file '{0}/no.csv'; give the path of Kaggle's train.csv."),
        (["expedia", "{0}/train.csv", "--out", "{0}/train.csv"], "--out must not be the file that is read"),
        (["expedia", "{0}/train.csv", "--out", "{0}"], "'{0}' is a folder; give the name of a file in it."),
        (["expedia", "{0}/train.csv", "--out", "{0}/x/y"], "there is no folder '{0}/x'; make it first."),
        (["expedia", "{0}/train.csv", "--max-hotels", "0"], "max_hotels must be an integer >= 1; got 0."),
        (["expedia", "{0}/train.csv", "--ridge", "-1"], "ridge must be > 0; got -1.0."),
        (["expedia", "{0}/train.csv", "--min-items", "41"], "0 searches and 0 hotels are left"),
        (["expedia-sample", "{0}/train.csv"], "{0}/train.csv exists; choose the name of a new file."),
        (["expedia-sample", "{0}/x/y"], "there is no folder '{0}/x'; make it first."),
        (["expedia-sample", "{0}/y", "--searches", "0"], "n_searches must be an integer >= 1; got 0."),
        (["expedai", "x"], "expedia"),
    ],
)
def test_bad_usage_is_one_sentence_and_writes_nothing(csv: Path, arguments: list[str], expected: str) -> None:
    before = csv.read_bytes()
    shown = invoke(*(argument.format(csv.parent) for argument in arguments))
    assert shown.exit_code == 2 and expected.format(csv.parent) in shown.stderr, shown.stderr
    assert shown.stderr.count("\n") == 1 and shown.stdout == ""
    assert list(csv.parent.iterdir()) == [csv] and csv.read_bytes() == before


def test_the_sample_says_that_it_is_generated(tmp_path: Path) -> None:
    shown = invoke("expedia-sample", str(tmp_path / "a.csv"), "--searches", "20", "--seed", "3")
    assert shown.exit_code == 0 and "generated sample, not real data" in shown.stdout
    expedia_sample.write(tmp_path / "b.csv", 20, 3)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_only_what_was_prepared_before_is_replaced(csv: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    refused = invoke("expedia", str(csv), "--out", str(notes))
    assert refused.exit_code == 2 and "exists and is no file that was prepared before" in refused.stderr
    assert notes.read_text() == "mine"
    assert [invoke("expedia", str(csv)).exit_code for _ in range(2)] == [0, 0]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(store.FOLDER, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_data_set_is_prepared_once_and_the_printed_line_plays_it(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "Employee.csv"
    written = invoke("sample", "employee", str(path), "--rows", "70", "--seed", "3")
    assert written.exit_code == 0 and "70 rows. This is a generated sample, not real data." in written.stdout
    shown = invoke("employee", str(path))
    assert shown.exit_code == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("Employee.csv: 70 rows, 9 features, 1: ") and len(lines) == 5
    assert lines[1].startswith("public by the rule (joined up to 2012): ")
    assert lines[2:4] == ["This is a generated sample, not real data.", f"written: {cache / 'employee.npz'}"]
    with pytest.warns(UserWarning, match="generated sample"):
        env = eval(lines[-1], {"gym": gym})
    assert env.observation_space.shape == (9,)
    assert invoke("employee", str(path)).exit_code == 0
    elsewhere = invoke("employee", str(path), "--out", str(tmp_path / "other"))
    with pytest.warns(UserWarning, match="generated sample"):
        env = eval(elsewhere.stdout.splitlines()[-1], {"gym": gym})
    assert env.observation_space.shape == (9,) and (tmp_path / "other" / "employee.npz").is_file()


def test_rows_left_out_are_counted(tmp_path: Path, cache: Path) -> None:
    assert invoke("sample", "census", str(tmp_path / "a.zip"), "--rows", "56").exit_code == 0
    shown = invoke("census", str(tmp_path / "a.zip")).stdout
    left, gone = (int(line.split(" ")[at]) for line, at in zip(shown.splitlines()[::2], (1, 2), strict=False))
    assert left + gone == 112 and "rows with missing values, 0 of other kinds" in shown


def test_without_a_command_it_shows_the_data_sets(tmp_path: Path, cache: Path) -> None:
    invoke("sample", "taxi", str(tmp_path / "a.csv"))
    invoke("taxi", str(tmp_path / "a.csv"))
    shown = invoke()
    assert shown.exit_code == 0 and all(f"\n{name}\n" in shown.stdout for name in SOURCES)
    text = " ".join(shown.stdout.split())
    assert "public: native country United-States Table 1: n_P = 41,292, n_Q = 3,144, d = 46" in text
    assert "to get it: it is downloaded on first use" in text
    assert "to get it: privbandit data jobs PATH, with stackoverflow_full.csv of https://www.kaggle.com" in text
    assert "is there: from a.csv, a generated sample" in text
    listed = run("list", "datasets")
    assert listed.stdout.strip() == shown.stdout.strip()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["employee"],
            "get Employee.csv from https://www.kaggle.com/datasets/tawfikelmetwally/employee-dataset and run",
        ),
        (["employee", "{0}/no.csv"], "data employee: no file '{0}/no.csv'; give the path of Employee.csv."),
        (["rice", "{0}/notes.csv"], "data rice: {0}/notes.csv has no column 'Area'"),
        (["employee", "{0}/notes.csv", "--out", "{0}/mine"], "exists and is no file that was prepared before"),
        (["employee", "{0}/notes.csv", "--out", "{0}/notes.csv"], "--out must be a folder; got the file"),
        (["sample", "employe", "{0}/x.csv"], "did you mean 'employee'?"),
        (["sample", "employee", "{0}/notes.csv"], "{0}/notes.csv exists; choose the name of a new file."),
        (["sample", "employee", "{0}/x/y.csv"], "there is no folder '{0}/x'; make it first."),
        (["sample", "employee", "{0}/x.csv", "--rows", "3"], "rows must be >= 50; got 3."),
    ],
)
def test_bad_use_of_data_sets_is_one_sentence(tmp_path: Path, cache: Path, arguments: list[str], expected: str) -> None:
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "employee.npz").write_text("mine")
    shown = invoke(*(argument.format(tmp_path) for argument in arguments))
    assert shown.exit_code == 2 and expected.format(tmp_path) in shown.stderr, shown.stderr
    assert shown.stderr.count("\n") == 1 and shown.stdout == "" and not cache.exists()
    assert (tmp_path / "mine" / "employee.npz").read_text() == "mine"


def test_ctrl_c_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, cache: Path, csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoke("sample", "employee", str(tmp_path / "Employee.csv"))
    before = sorted(tmp_path.iterdir())

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for place, arguments in {
        "privbandit_envs.datasets.store.np.savez": ["employee", str(tmp_path / "Employee.csv")],
        "privbandit_envs.datasets.tables.web.urlopen": ["rice"],
        "privbandit_envs.datasets.hotels.read.rows_of": ["expedia", str(csv)],
        "privbandit_envs.datasets.tables.sample.table": ["sample", "employee", str(tmp_path / "new.csv")],
    }.items():
        with monkeypatch.context() as patch:
            patch.setattr(place, stopped)
            shown = invoke(*arguments)
        left = "interrupted, and nothing is left half-written; the same command starts again."
        assert (shown.exit_code, shown.stderr) == (130, f"data {arguments[0]}: {left}\n"), shown.stdout
        assert [path for path in sorted(tmp_path.iterdir()) if path != cache] == before
        assert not cache.exists() or list(cache.iterdir()) == []


def test_a_damaged_prepared_file_says_what_to_delete(tmp_path: Path, cache: Path) -> None:
    cache.mkdir()
    (cache / "rice.npz").write_bytes(b"PK")
    shown = invoke("rice")
    assert shown.exit_code == 2 and f"'{cache / 'rice.npz'}' exists and is no file" in shown.stderr
    assert "delete it or name another --out" in shown.stderr


@pytest.mark.parametrize("content", ["é".encode("latin-1"), b"\0", b'"' + b"z" * 140_000, b'"', b"\n" * 20_000])
def test_a_file_of_one_s_own_is_one_sentence(tmp_path: Path, cache: Path, content: bytes) -> None:
    path = tmp_path / "Employee.csv"
    invoke("sample", "employee", str(path))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:9], content, *lines[9:]]))
    shown = invoke("employee", str(path))
    assert shown.exit_code == 2 and shown.stderr.startswith(f"data employee: {path}, line 1"), shown.stderr
    assert shown.stderr.count("\n") == 1 and len(shown.stderr) < 400 and not cache.exists()
