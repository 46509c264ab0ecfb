import os
import sys
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets
from scipy.sparse import csr_array
from sklearn.utils import Bunch

from privbandit_envs.datasets import Dataset, bundled, lines, load, openml
from privbandit_envs.datasets.dataset import encode


@pytest.fixture(autouse=True)
def _fresh_openml() -> None:
    openml.fetch.cache_clear()


def bunch(**changes: Any) -> Bunch:
    """What fetch_openml(as_frame=False, parser="liac-arff") returns: category codes, and NaN where data are missing."""
    data = np.array([[1.5, 0], [2.5, 2], [np.nan, 1], [4.5, 1], [5.5, np.nan]])
    fields = {
        "data": data,
        "target": np.array(["good", "bad", "good", "bad", "good"], dtype=object),
        "feature_names": ["length", "colour"],
        "categories": {"colour": ["red", "green", "blue"]},
        "frame": None,
    }
    return Bunch(**{**fields, **changes})


def offline(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[dict[str, Any]]:
    """Replace fetch_openml; return the list of calls to it."""
    calls: list[dict[str, Any]] = []

    def fetch_openml(**kwargs: Any) -> Any:
        calls.append(kwargs)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    return calls


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("name", "shape", "labels"),
    [
        ("breast_cancer", (569, 30), 2),
        ("digits", (1797, 64), 10),
        ("digits-binary", (1797, 64), 2),
        ("wine", (178, 13), 3),
    ],
)
def test_bundled_data(name: str, shape: tuple[int, int], labels: int) -> None:
    data = load(name)
    assert data.X.shape == shape and data.X.dtype == np.float64
    assert len(data.label_names) == labels and set(data.y.tolist()) == set(range(labels))
    assert len(data.feature_names) == shape[1] and load(name) is data
    with pytest.raises(ValueError, match="read-only"):
        data.X[0, 0] = 1


def test_binary_digits_ask_whether_the_digit_is_at_least_five() -> None:
    assert np.array_equal(load("digits-binary").y, load("digits").y >= 5)


@pytest.mark.parametrize("source", ["wine", "openml:31"])
def test_missing_scikit_learn_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    bundled.read.cache_clear()
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match=r"pip install 'privbandit\[data\]'"):
        load(source)


def test_openml_rows_with_missing_values_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = offline(monkeypatch, bunch())
    with pytest.warns(UserWarning, match="openml:credit-g: 2 rows with missing values are left out"):
        data = load("openml:credit-g")
    assert data.X.tolist() == [[1.5, 0], [2.5, 2], [4.5, 1]]
    assert data.label_names == ("bad", "good") and data.y.tolist() == [1, 0, 0]
    assert load("openml:credit-g") is data and len(calls) == 1
    assert calls[0] == {
        "name": "credit-g", "target_column": "default-target", "as_frame": False, "parser": "liac-arff",
    }  # fmt: skip


def test_openml_by_number_with_a_target_of_choice_and_sparse_features(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = offline(monkeypatch, bunch(data=csr_array(np.eye(5)[:, :2]), target=np.arange(5.0) // 2))
    with pytest.warns(UserWarning, match="openml:31: 5 rows are 4 different ones"):
        data = load("openml:31", "kind")
    assert calls[0]["data_id"] == 31 and calls[0]["target_column"] == "kind" and "name" not in calls[0]
    assert data.X[:2].tolist() == [[1, 0], [0, 1]] and data.label_names == ("0.0", "1.0", "2.0")


def test_copies_of_rows_are_told_and_left_out_if_asked_for(tmp_path: Path) -> None:
    """Equal features with another label are another row, and -0 is 0."""
    path = tmp_path / "copies.csv"
    path.write_text("a,b,kind\n1,0,x\n2,5,y\n1,-0,x\n1,0,y\n2,5,y\n")
    with pytest.warns(UserWarning, match="5 rows are 3 different ones, .* deduplicate=True keeps one of each"):
        copies = load(str(path))
    alone = load(str(path), deduplicate=True)
    assert copies.different.tolist() == [0, 1, 3] and len(copies.y) == 5
    assert alone.X.tolist() == [[1, 0], [2, 5], [1, 0]] and alone.y.tolist() == [0, 1, 1]
    assert len(alone.different) == 3 and load(str(path), deduplicate=True) is alone


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (URLError("no route to host"), ConnectionError, "openml:31 could not be downloaded .*no route to host"),
        (ValueError("Dataset is deactivated."), ValueError, "openml:31 could not be read: Dataset is deactivated."),
        (bunch(target=None), ValueError, "openml:31 has no single target"),
        (bunch(data=np.full((5, 2), np.nan)), ValueError, "openml:31 has no row without missing values"),
    ],
)
def test_openml_failures_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, answer: Any, error: type[Exception], message: str
) -> None:
    offline(monkeypatch, answer)
    with pytest.raises(error, match=message) as raised:
        load("openml:31")
    assert "\n" not in str(raised.value)


def test_csv_takes_the_last_column_or_the_named_one(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", '\ufeffage,kind,size\n1,"x, y",3\n\n2,z,4\n')
    data = load(path, "kind")
    assert data.X.tolist() == [[1, 3], [2, 4]] and data.feature_names == ("age", "size")
    assert data.label_names == ("x, y", "z") and data.y.tolist() == [0, 1]
    numeric = load(write(tmp_path / "b.csv", "a,b\n0.5,10\n1.5,9\n2.5,10\n"))
    assert numeric.label_names == ("9", "10") and numeric.y.tolist() == [1, 0, 1]


def test_csv_is_kept_until_the_file_changes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "a,b\n1,x\n2,y\n")
    first = load(path)
    assert load(path) is first
    write(tmp_path / "a.csv", "a,b\n1,x\n3,y\n")
    os.utime(path, ns=(1, 1))
    assert load(path).X.tolist() == [[1], [3]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,x\n2\n", r"bad\.csv, line 3: 2 columns expected; got 1"),
        ("1,2\n3,4\n", r"bad\.csv: the first line must name the columns; got 1, 2"),
        ("", r"a table needs two columns or more; got none"),
        ("a,b\n1,x\n2,x\n", r"column 'b' must have at least two different labels; got \['x'\]"),
        ("a,b\n", r"a table needs a row or more; it has none"),
    ],
)
def test_malformed_csv_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(write(tmp_path / "bad.csv", text))


@pytest.mark.parametrize("number", ["1_0", "\u0661", "Infinity", "0x1", "1e999", "two"])
def test_what_only_looks_like_a_number_is_named(tmp_path: Path, number: str) -> None:
    path = write(tmp_path / "a.csv", "a,b\n" + "1.5,x\n2,y\n" * 9 + f"{number},y\n")
    with pytest.raises(ValueError, match=r"column 'a', row 18: .* is no finite number; name it in `missingValues`"):
        load(path)


LONG = "z" * 140_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,x\n".encode("utf-16-le"), "line 1: not text in UTF-8 (a zero byte, as in UTF-16); save"),
        ("a,b\n1,x\n".encode("utf-16-be"), "line 1: not text in UTF-8 (a zero byte, as in UTF-16); save"),
        (b"a,b\n1,x\n2,\0\n", "line 3: not text in UTF-8 (a zero byte, as in UTF-16); save"),
        (b'a,b\n1,"x\n2,y\n', "line 2: a malformed row, a quote is not closed."),
        (b'a,b\n1,"x\n2,"y"\n3,z\n', "line 2: a malformed row, a quote stands amid a cell"),
        (f'a,b\n1,"x\n{LONG}'.encode(), "line 2: a malformed row, a cell of more than 131,072 characters, or a quote"),
        (b"a,b\n1,x\r2,y,z\n", "line 3: 2 columns expected; got 3."),
        (b"a,b\n" + b"\n" * 20_000 + b"1,x\n", "line 10002: more than 10,000 empty lines"),
        (bytes(10**6), "line 1: not text in UTF-8 (a zero byte, as in UTF-16); save"),
    ],
)
def test_a_csv_file_of_any_kind_is_one_short_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError) as raised:
        load(str(path))
    assert str(raised.value).startswith(str(path)) and message in str(raised.value), str(raised.value)
    assert str(raised.value).isprintable() and len(str(raised.value)) < len(str(path)) + 200


def test_a_line_without_end_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    with pytest.raises(ValueError, match=r"a\.csv, line 2: longer than 1,000 characters"):
        load(write(tmp_path / "a.csv", "a,b\n" + "1," * 600 + "\n"))


@pytest.mark.wide
def test_a_table_of_many_columns_names_the_nearest_one_alone(tmp_path: Path) -> None:
    names = [f"column{number}" for number in range(100_000)]
    path = write(tmp_path / "wide.csv", ",".join(names) + "\n" + ",".join("1" * len(names)) + "\n")
    with pytest.raises(ValueError) as raised:
        load(path, "colunm77")
    expected = "label must be a column of the table: 100,000 others; got 'colunm77' (did you mean 'column77'?)."
    assert str(raised.value) == expected


def test_a_label_that_two_columns_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.csv: every column must have a name of its own; got kind, kind, b"):
        load(write(tmp_path / "a.csv", "kind,kind,b\n1,2,x\n2,3,y\n"), "kind")


def test_unknown_columns_files_and_sources(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "height,kind\n1,x\n2,y\n")
    with pytest.raises(ValueError, match=r"height, kind; got 'kin' \(did you mean 'kind'\?\)"):
        load(path, "kin")
    with pytest.raises(FileNotFoundError, match=r"no file 'nowhere\.csv'"):
        load("nowhere.csv")
    with pytest.raises(ValueError, match=r"got 'digit' \(did you mean 'digits'\?\)"):
        load("digit")


def test_large_numbers_whose_sum_overflows_are_fine(tmp_path: Path) -> None:
    data = load(write(tmp_path / "a.csv", "a,b,c\n1e308,1e308,x\n1,2,y\n"))
    assert data.X[0].tolist() == [1e308, 1e308]


def test_labels_of_any_type_are_numbered_in_order() -> None:
    codes, names = encode([True, "b", 3, "b"])
    assert names == ("3", "True", "b") and codes.tolist() == [1, 2, 0, 2]
    assert encode([10, 9.5, -1])[1] == ("-1", "9.5", "10")


@pytest.mark.parametrize(
    ("X", "message"), [(np.ones((3, 2)), "one row a label"), (np.array([[1.0], [np.nan]]), "X must be finite")]
)
def test_a_dataset_checks_itself(X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Dataset(X, np.array([0, 1]), ("a", "b"), ("x",))
