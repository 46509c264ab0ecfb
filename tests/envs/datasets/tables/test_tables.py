"""The data sets of Ma and Yang's Table 1, through generated files with the columns of the real ones."""

import hashlib
import io
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import URLError
from zipfile import ZipFile

import numpy as np
import pytest

from privbandit_envs.datasets import Dataset, load, store, tables
from privbandit_envs.datasets.tables import SOURCES, prepare, sample, web
from privbandit_envs.datasets.tables.files import GENERATED
from privbandit_envs.families.classification import ClassificationProblem, Split

KAGGLE = [name for name, source in SOURCES.items() if source.url is None]
RULES = [name for name, source in SOURCES.items() if source.rule is not None]
PRINTED_D = [name for name in SOURCES if name != "taxi"]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.FOLDER, str(tmp_path / "cache"))
    monkeypatch.setattr(web, "urlopen", no_network)


def no_network(url: str, timeout: float) -> Any:
    raise URLError("no network in tests")


def written(name: str, folder: Path, rows: int = 200) -> Path:
    files = SOURCES[name].files
    path = folder / ("archive.zip" if len(files) > 1 else files[0])
    sample.write(name, path, rows)
    return path


def changed(path: Path, *pairs: tuple[str, str]) -> Path:
    text = path.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


def columns_of(path: Path) -> dict[str, list[str]]:
    header, *rows = [line.split(",") for line in path.read_text().splitlines()]
    return {name: [row[at] for row in rows] for at, name in enumerate(header)}


@pytest.mark.wide_at("email")
@pytest.mark.parametrize("name", PRINTED_D)
def test_there_are_as_many_features_as_in_table_1(name: str, tmp_path: Path) -> None:
    found = prepare(name, written(name, tmp_path))
    data = found.data
    assert data.X.shape == (len(data.y), SOURCES[name].sizes.d) and data.X.dtype == np.float32
    assert len(data.feature_names) == len(set(data.feature_names)) and set(data.y.tolist()) == {0, 1}
    assert found.facts.generated and found.facts.name == name
    files = len(SOURCES[name].files)
    assert len(data.y) + found.facts.incomplete + found.facts.others == 200 * files


def test_the_features_of_taxi_are_those_that_sources_names(tmp_path: Path) -> None:
    data = prepare("taxi", written("taxi", tmp_path)).data
    assert data.X.shape[1] == 28 and data.feature_names[:2] == ("shift=0", "shift=1")
    assert data.feature_names[-1] == "trip_miles" and data.X[:, :21].sum(axis=1).tolist() == [1] * len(data.y)


@pytest.mark.wide_at("email")
@pytest.mark.parametrize("name", SOURCES)
def test_public_rows_are_given_where_the_paper_has_a_rule(name: str, tmp_path: Path) -> None:
    data = prepare(name, written(name, tmp_path)).data
    assert (data.public is None) == (name not in RULES) == (SOURCES[name].n_public is not None)


@pytest.mark.parametrize(
    ("name", "column", "public", "width"),
    [
        ("election", "state", ["TX"], 200),
        ("employee", "JoiningYear", ["2012"], 200),
        ("jobs", "Country", ["United States of America"], 134),
        ("taxi", "company_id", ["1"], 146),
    ],
)
def test_the_rule_of_a_column(name: str, column: str, public: list[str], width: int, tmp_path: Path) -> None:
    path = written(name, tmp_path)
    cells = columns_of(path)
    data = prepare(name, path).data
    left = [
        at
        for at in range(200)
        if (name != "jobs" or cells["Gender"][at] != "NonBinary")
        and (name != "taxi" or cells["payment_type"][at] != "-1")
    ]
    assert data.public is not None and len(left) == len(data.y)
    assert data.public.tolist() == [cells[column][at] in public for at in left] and 0 < data.public.sum() < len(left)


def test_census_is_public_for_the_united_states_and_leaves_out_missing_values(tmp_path: Path) -> None:
    path = written("census", tmp_path)
    with ZipFile(path) as archive:
        lines = [line for name in SOURCES["census"].files for line in archive.read(name).decode().splitlines()]
    rows = [line.split(",") for line in lines if not line.startswith("|")]
    complete = [row for row in rows if "?" not in row]
    found = prepare("census", path)
    assert found.data.public is not None and found.facts.incomplete == len(rows) - len(complete) > 0
    assert found.data.public.tolist() == [row[13] == "United-States" for row in complete]
    assert found.data.y.tolist() == [int(row[14].startswith(">50K")) for row in complete]
    assert found.data.X[:, found.data.feature_names.index("age")].tolist() == [float(row[0]) for row in complete]


def test_landcover_is_public_where_experts_labelled_and_has_farm_and_forest_alone(tmp_path: Path) -> None:
    path = written("landcover", tmp_path)
    with ZipFile(path) as archive:
        labels = [
            [line.split(",")[0] for line in archive.read(name).decode().splitlines()[1:]]
            for name in ("training.csv", "testing.csv")
        ]
        archive.extractall(tmp_path / "folder")
    by_file = [[label for label in found if label in ("farm", "forest")] for found in labels]
    data = prepare("landcover", path).data
    assert data.public is not None and data.public.tolist() == [False] * len(by_file[0]) + [True] * len(by_file[1])
    assert [data.label_names[code] for code in data.y] == by_file[0] + by_file[1]
    assert np.array_equal(prepare("landcover", tmp_path / "folder").data.X, data.X)


def test_one_company_is_public_the_one_of_the_size_in_table_1() -> None:
    rule = SOURCES["taxi"].rule
    assert rule is not None
    assert rule.values({"a": 10**6, "b": 117_000, "c": 118_000, "d": 5}) == {"b"}


def test_the_year_of_employee_is_a_number() -> None:
    rule = SOURCES["employee"].rule
    assert rule is not None and rule.values({"2011": 1, "2012": 3, "2013": 4, "soon": 1}) == {"2011", "2012"}


def test_categories_become_codes_or_indicators(tmp_path: Path) -> None:
    path = written("employee", tmp_path)
    cells, data = columns_of(path), prepare("employee", path).data
    feature = dict(zip(data.feature_names, data.X.T.tolist(), strict=True))
    assert feature["Education"] == [["Bachelors", "Masters", "PHD"].index(cell) for cell in cells["Education"]]
    assert feature["EverBenched"] == [float(cell == "Yes") for cell in cells["EverBenched"]]
    assert feature["City=Pune"] == [float(cell == "Pune") for cell in cells["City"]]
    assert feature["Age"] == [float(cell) for cell in cells["Age"]]


def test_names_of_columns_are_found_whatever_their_case_and_punctuation(tmp_path: Path) -> None:
    expected = prepare("taxi", written("taxi", tmp_path)).data
    short = changed(
        tmp_path / "ground_truth.csv", ("pickup_community_area", "PCA"), ("dropoff_community_area", "dca"),
        ("company_id", "Company"), ("trip_seconds", "Seconds"), ("payment_type", "Payment Type")
    )  # fmt: skip
    assert np.array_equal(prepare("taxi", short).data.X, expected.X)


@pytest.mark.parametrize("name", [name for name in KAGGLE if name != "email"])
def test_a_missing_column_is_named(name: str, tmp_path: Path) -> None:
    label = SOURCES[name].label.partition("|")[0]
    path = written(name, tmp_path, 50)
    text = path.read_text().replace(label, "Answer", 1)
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"has no column '{label}'.*; it has .*Answer") as raised:
        prepare(name, path)
    assert "\n" not in str(raised.value)


def test_a_row_with_too_many_cells_is_named(tmp_path: Path) -> None:
    path = written("diabetes", tmp_path)
    path.write_text(path.read_text() + "1,2\n")
    with pytest.raises(ValueError, match="line 202: 11 columns expected; got 2"):
        prepare("diabetes", path)


def test_a_cell_that_is_no_number_is_named(tmp_path: Path) -> None:
    path = written("diabetes", tmp_path)
    lines = path.read_text().splitlines()
    cells = lines[3].split(",")
    for cell, left_out in (("?", 1), ("NA", 1), ("", 1)):
        lines[3] = ",".join([cells[0], cell, *cells[2:]])
        path.write_text("\n".join(lines))
        assert prepare("diabetes", path).facts.incomplete == left_out
    for cell in ("two", "inf"):
        lines[3] = ",".join([cells[0], cell, *cells[2:]])
        path.write_text("\n".join(lines))
        with pytest.raises(ValueError, match=f"column 'Pregnancies': a finite number expected; got '{cell}'"):
            prepare("diabetes", path)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file '.*no\.csv'; give the path of Employee\.csv"):
        prepare("employee", tmp_path / "no.csv")
    with pytest.raises(FileNotFoundError, match=r"no file 'training\.csv' in the folder"):
        prepare("landcover", tmp_path)
    empty = tmp_path / "empty.csv"
    empty.touch()
    with pytest.raises(ValueError, match="the first line must name the columns"):
        prepare("employee", empty)
    with pytest.raises(ValueError, match=r"is one file; give the folder or the \.zip file that has training\.csv and"):
        prepare("landcover", empty)
    (tmp_path / "a.xlsx").touch()
    with pytest.raises(ValueError, match="is a spreadsheet; save its data as CSV"):
        prepare("employ", tmp_path / "a.xlsx")
    header = tmp_path / "header.csv"
    header.write_text(",".join(sample.COLUMNS["employee"]) + "\n")
    with pytest.raises(ValueError, match="has no rows"):
        prepare("employee", header)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(header.read_bytes() + b"\xff\xfe,1\n")
    with pytest.raises(ValueError, match=r"line 2: not text in UTF-8 \(the byte 0xff\)"):
        prepare("employee", binary)
    (tmp_path / "a.arff").write_text("no attributes")
    with pytest.raises(ValueError, match=r"line 1: not a line of an ARFF file's header"):
        prepare("rice", tmp_path / "a.arff")


def test_both_labels_and_both_kinds_of_rows_are_needed(tmp_path: Path) -> None:
    election = changed(written("election", tmp_path), (",TX,", ",NM,"))
    with pytest.raises(ValueError, match=r"no row is public by the rule \(state TX\)"):
        prepare("election", election)
    one = changed(election, (",TRUE,", ",FALSE,"))
    with pytest.raises(ValueError, match="rows with both labels False and True are needed"):
        prepare("election", one)


def test_a_kaggle_file_may_stay_in_its_archive(tmp_path: Path) -> None:
    path = written("employee", tmp_path)
    with ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.write(path, "folder/Employee.csv")
    assert np.array_equal(prepare("employee", tmp_path / "archive.zip").data.X, prepare("employee", path).data.X)
    with pytest.raises(FileNotFoundError, match=r"no file 'emails\.csv' in .*; it has Employee\.csv"):
        prepare("email", tmp_path / "archive.zip")


def test_prepared_once_a_set_is_read_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"get Employee\.csv from https://www\.kaggle.* run privbandit data"):
        load("employee")
    assert "employee PATH" in tables.state("employee")["to get it"]
    made = tables.get("employee", written("employee", tmp_path)).data
    with pytest.warns(UserWarning, match="is a generated sample of employee, not real data"):
        found = load("employee")
    assert found.public is not None and made.public is not None
    assert all(np.array_equal(a, b) for a, b in [(found.X, made.X), (found.y, made.y), (found.public, made.public)])
    assert found.label_names == made.label_names and found.feature_names == made.feature_names
    with pytest.warns(UserWarning, match="generated"):
        assert load("employee") is found and load(str(tmp_path / "cache" / "employee.npz")) is found
    assert tables.state("employee") == {"is there": "from Employee.csv, a generated sample"}
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["employee.npz"]


def real(name: str, folder: Path) -> Path:
    """Write a sample without its mark, so that it passes for real."""
    path = written(name, folder)
    return changed(path, (f",{GENERATED}", ",more"))


def test_what_is_no_sample_is_read_without_a_warning(tmp_path: Path) -> None:
    tables.get("election", real("election", tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load("election").X.shape == (200, 9)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"text"])
def test_a_damaged_prepared_file_is_one_sentence(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"is no prepared data set .*privbandit data NAME PATH") as raised:
        load(str(path))
    assert "\n" not in str(raised.value) and tables.data.facts_of(path) is None
    np.savez(path, facts=np.array('{"kind": "other"}'))
    with pytest.raises(ValueError, match="of another kind"):
        load(str(path))
    with pytest.raises(FileNotFoundError, match="make one with privbandit data NAME PATH"):
        load(str(tmp_path / "y.npz"))


def test_the_folder_of_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(store.FOLDER, "~/x")
    assert store.folder() == Path.home() / "x"
    monkeypatch.delenv(store.FOLDER)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tables.place("rice") == tmp_path / "privbandit" / "rice.npz"


def serve(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[str]:
    """Answer every download with the content; return the list of addresses asked."""
    asked: list[str] = []

    def urlopen(url: str, timeout: float) -> io.BytesIO:
        asked.append(url)
        return io.BytesIO(content)

    monkeypatch.setattr(web, "urlopen", urlopen)
    return asked


def archive_of(name: str, folder: Path, **sizes: int) -> bytes:
    """Return a sample as the repository packs it."""
    path = written(name, folder, **sizes)
    if path.suffix == ".zip":
        return path.read_bytes()
    packed = io.BytesIO()
    with ZipFile(packed, "w") as archive:
        archive.write(path, f"folder/{path.name}")
    return packed.getvalue()


@pytest.mark.parametrize("name", ["rice", "landcover"])
def test_what_is_downloaded_first_is_trusted_and_then_checked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = archive_of(name, tmp_path)
    asked = serve(monkeypatch, first)
    with pytest.warns(UserWarning, match="generated"):
        data = load(name)
    with pytest.warns(UserWarning, match="generated"):
        assert load(name) is data
    assert asked == [SOURCES[name].url]
    cache = tmp_path / "cache"
    (cache / f"{name}.npz").unlink()
    kept = (cache / f"{name}.zip").read_bytes()
    serve(monkeypatch, archive_of(name, tmp_path, rows=60))
    with pytest.raises(ValueError, match=r"has the SHA-256 checksum \w{64} and not \w{64}; if it was") as raised:
        load(name)
    assert f"delete {cache / name}.sha256.json; else get it by hand" in str(raised.value)
    assert "\n" not in str(raised.value) and f"privbandit data {name} PATH" in str(raised.value)
    assert (cache / f"{name}.zip").read_bytes() == kept == first
    assert sorted(path.name for path in cache.iterdir()) == [f"{name}.sha256.json", f"{name}.zip"]
    serve(monkeypatch, first)
    with pytest.warns(UserWarning, match="generated"):
        assert np.array_equal(load(name).X, data.X)


def test_a_known_checksum_is_checked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = archive_of("census", tmp_path)
    serve(monkeypatch, content)
    with pytest.raises(ValueError, match=r"adult\.data of https.* and not 5b00264637db"):
        load("census")
    assert list((tmp_path / "cache").iterdir()) == []
    with ZipFile(io.BytesIO(content)) as archive:
        digests = {name: hashlib.sha256(archive.read(name)).hexdigest() for name in SOURCES["census"].files}
    monkeypatch.setitem(SOURCES, "census", replace(SOURCES["census"], sha256=digests))
    with pytest.warns(UserWarning, match="generated"):
        assert load("census").X.shape[1] == 46
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["census.npz", "census.zip"]


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>"])
def test_a_broken_download_is_not_kept(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = archive_of("rice", tmp_path)
    for answer in (content, whole[: len(whole) // 2], whole.replace(b"numeric", b"NUMERIC")):
        serve(monkeypatch, answer)
        with pytest.raises(ValueError, match=r"rice\S*\.zip is (no|a damaged) \.zip file .*; get it by hand"):
            load("rice")
        assert list((tmp_path / "cache").iterdir()) == []


def test_no_network_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        ConnectionError, match=r"rice.* could not be downloaded \(no network in tests\); get it by hand"
    ):
        load("rice")
    assert not (tmp_path / "cache").exists()


def test_files_of_uci_are_taken_by_path_without_a_checksum(tmp_path: Path) -> None:
    assert tables.get("census", written("census", tmp_path), tmp_path / "other").data.X.shape[1] == 46
    assert os.listdir(tmp_path / "other") == ["census.npz"]


def test_labels_are_not_for_choice() -> None:
    with pytest.raises(ValueError, match="label is for CSV files and OpenML; taxi has its own, got 'fare'"):
        load("taxi", "fare")
    with pytest.raises(ValueError, match=r"got 'cencus' \(did you mean 'census'\?\)"):
        load("cencus")


@pytest.mark.wide_at("email")
@pytest.mark.parametrize("name", SOURCES)
def test_samples_are_reproducible_and_differ_by_seed(name: str, tmp_path: Path) -> None:
    for file, seed in (("a", 1), ("b", 1), ("c", 2)):
        sample.write(name, tmp_path / file, 50, seed)
    a, b, c = (prepare_content(tmp_path / file) for file in "abc")
    assert a == b != c


def prepare_content(path: Path) -> list[bytes]:
    if path.read_bytes()[:2] != b"PK":
        return [path.read_bytes()]
    with ZipFile(path) as archive:
        return [archive.read(name) for name in archive.namelist()]


def test_samples_refuse_bad_arguments(tmp_path: Path) -> None:
    for arguments, message in [
        (("taxis", 50, 0), "did you mean 'taxi'"),
        (("taxi", 49, 0), "rows must be >= 50; got 49"),
        (("taxi", 50, -1), "seed must be an integer >= 0; got -1"),
    ]:
        with pytest.raises(ValueError, match=message):
            sample.write(arguments[0], tmp_path / "a", *arguments[1:])
    assert list(tmp_path.iterdir()) == []


def ruled(n: int = 40) -> Dataset:
    rng = np.random.default_rng(0)
    public = np.arange(n) % 4 == 1
    return Dataset(rng.random((n, 3), np.float32), rng.integers(0, 2, n), ("a", "b"), ("x", "y", "z"), public)


@pytest.mark.parametrize("n_public", [1, 7, 10, None])
def test_public_rows_come_from_the_rule_and_users_from_the_others(n_public: int | None) -> None:
    data = ruled()
    assert data.public is not None
    split = Split(data, n_public, np.random.default_rng(3), np.dtype(np.float64))
    assert len(set(split.public_rows.tolist())) == (n_public or 10) and data.public[split.public_rows].all()
    assert split.private_rows.tolist() == np.flatnonzero(~data.public).tolist()
    reference = data.X[split.public_rows].astype(np.float64)
    span = reference.max(axis=0) - reference.min(axis=0)
    if (span > 0).all():
        expected = np.clip((data.X[split.private_rows] - reference.min(axis=0)) / span, 0, 1)
        assert np.array_equal(split.records[:, :-1], expected)
    assert np.array_equal(split.records[:, -1], data.y[split.private_rows])


def test_public_rows_of_a_rule_are_nested_and_depend_on_the_seed() -> None:
    few, many, other = (
        Split(ruled(), n, np.random.default_rng(seed), np.dtype(np.float32)).public_rows.tolist()
        for n, seed in [(4, 3), (8, 3), (8, 4)]
    )
    assert many[:4] == few and other != many


def test_more_public_rows_than_the_rule_gives_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="n_public must be <= 10, or None for all public rows there are; got 11"):
        Split(ruled(), 11, np.random.default_rng(0), np.dtype(np.float32))
    with pytest.raises(ValueError, match="n_public must be a number for a data set without a rule"):
        ClassificationProblem(np.random.default_rng(0), source="wine", n_public=None)
    with pytest.raises(ValueError, match="n_public must be a number for lpct-synthetic"):
        ClassificationProblem(np.random.default_rng(0), n_public=None)


@pytest.mark.parametrize("public", [np.zeros(40, bool), np.ones(40, bool), np.arange(39) < 5])
def test_a_rule_must_leave_both_kinds_of_rows(public: Any) -> None:
    data = ruled()
    with pytest.raises(ValueError, match="public must be true or false"):
        Dataset(data.X.copy(), data.y.copy(), data.label_names, data.feature_names, public)


def test_a_prepared_set_is_a_world(tmp_path: Path) -> None:
    made = tables.get("election", real("election", tmp_path)).data
    problem = ClassificationProblem(np.random.default_rng(0), source="election", n_public=None)
    assert made.public is not None and isinstance(problem.data, Split)
    x, y = problem.public_data
    assert len(y) == made.public.sum() == 40 and sorted(y) == sorted(made.y[made.public])
    users = problem.users(0, 160, np.random.default_rng(1))
    assert sorted(users[:, -1]) == sorted(made.y[~made.public]) and x.min() == 0 and x.max() == 1
