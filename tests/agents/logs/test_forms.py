"""The forms in which tables come: each is read aright, or refused in a sentence with the row and the way out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from privbandit_agents import Log, make, to_obp

from privbandit_envs import from_table

PLAIN: dict[str, list[Any]] = {
    "seen": [True, False, True, True],
    "arm": ["a", "b", "a", "b"],
    "click": [False, True, True, False],
    "p": [0.5, 0.5, 1.0, 0.5],
}
CSV = "seen,arm,click,p\n1,a,0,.5\n0,b,1,.5\n1,a,1,1\n1,b,0,.5\n"
Made = Callable[[Path], Any]


def saved(text: str | bytes, name: str = "t.csv") -> Made:
    """Return what writes a file into a folder and returns its path."""

    def write(folder: Path) -> Path:
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return folder / name

    return write


def with_pandas(index: bool) -> Made:
    def write(folder: Path) -> Path:
        pandas.DataFrame(PLAIN).to_csv(folder / "t.csv", index=index)
        return folder / "t.csv"

    return write


def parquet(name: str) -> Made:
    def write(folder: Path) -> Path:
        polars.DataFrame(PLAIN).write_parquet(folder / name)
        return folder / name

    return write


RIGHT: dict[str, Made] = {
    "plain": saved(CSV),
    "booleans in a CSV": with_pandas(index=False),
    "an index in a CSV": with_pandas(index=True),
    "an index that pandas has read": lambda folder: pandas.read_csv(with_pandas(index=True)(folder)),
    "an index of a sample": lambda folder: {"": [7, 2, 9, 4], **PLAIN},
    "yes and no": saved(
        CSV.replace("1,a,0", "yes,a,no").replace("0,b,1", "no,b,yes").replace("1,a,1,1", "yes,a,yes,1")
    ),
    "numpy booleans": lambda folder: {name: np.array(column) for name, column in PLAIN.items()},
    "pandas": lambda folder: pandas.DataFrame(PLAIN),
    "nullable types of pandas": lambda folder: pandas.DataFrame(PLAIN).convert_dtypes(),
    "polars": lambda folder: polars.DataFrame(PLAIN),
    "a LazyFrame": lambda folder: polars.DataFrame(PLAIN).lazy(),
    "pyarrow": lambda folder: pyarrow.table(PLAIN),
    "capital letters": parquet("A.PARQUET"),
    "parquet by another name": parquet("table.dat"),
    "a propensity of 1 and a rounding": lambda folder: {**PLAIN, "p": [0.5, 0.5, 1 + 1e-12, 0.5]},
    "single precision": lambda folder: {**PLAIN, "p": np.array([0.5, 0.5, 1.0000001, 0.5], np.float32)},
}


@pytest.mark.parametrize("form", RIGHT)
def test_a_table_is_read_aright(form: str, tmp_path: Path) -> None:
    log = Log.from_table(RIGHT[form](tmp_path), action="arm", reward="click", propensity="p")
    assert log.about["features"] == ["seen"] and log.about["arms"] == ["a", "b"]
    assert log.contexts.tolist() == [[1.0], [0.0], [1.0], [1.0]] and log.rewards.tolist() == [0.0, 1.0, 1.0, 0.0]
    assert log.propensities.tolist() == [0.5, 0.5, 1.0, 0.5]


def missing(column: str) -> Made:
    """Return what makes a frame of pandas with NA in row 2 of a column."""

    def frame(folder: Path) -> Any:
        table = pandas.DataFrame(PLAIN).convert_dtypes()
        table.loc[2, column] = pandas.NA
        return table

    return frame


def other(**columns: Any) -> Made:
    return lambda folder: {**PLAIN, **columns}


REFUSED: dict[str, tuple[Made, str]] = {
    "Excel": (saved(b"PK\x03\x04 and so on", "t.xlsx"), "save the sheet as CSV."),
    "spaces": (saved(CSV.replace(",", " ")), "a table needs two columns or more; got"),
    "NA as a reward": (missing("click"), "column 'click', row 2: nothing; fill it in, leave the row out"),
    "NA as an arm": (missing("arm"), "column 'arm', row 2: nothing; fill it in, leave the row out"),
    "one arm in two ways": (other(arm=["1", "1.0", "2", "2"]), "one number in two ways, '1' and '1.0': choose one."),
    "one person in two ways": (other(who=["7", "7.0", "8", "9"]), "one number in two ways, '7' and '7.0': choose one."),
    "a propensity above 1": (other(p=[0.5, 1.00001, 1, 1]), "column 'p' must lie .* got 1.00001 in row 1."),
    "text as a reward": (other(click=["0", "1", "won", "1"]), "column 'click', row 2: 'won' is no finite number; name"),
    "text among numbers": (
        lambda folder: (
            {name: [*column * 9, column[0]] for name, column in {**PLAIN, "seen": [1, 2, 3, 4]}.items()}
            | {"seen": [*range(36), "old"]}
        ),
        "column 'seen', row 36: 'old' is no finite integer; name it in `missingValues`, or give the column the role",
    ),
    "infinity": (other(seen=[1.0, 2.0, np.inf, 3.0]), "column 'seen', row 2: inf is no finite integer; name"),
    "features without a value": (other(seen=[None] * 4), "a table needs a column of features; it has seen .ignore."),
    "lists": (other(seen=[[1], [2], [3], [4]]), "columns must be rows of one length|needs a column of features"),
}


@pytest.mark.parametrize("form", REFUSED)
def test_a_table_is_refused_in_one_sentence(form: str, tmp_path: Path) -> None:
    made, sentence = REFUSED[form]
    table = made(tmp_path)
    person = "who" if isinstance(table, dict) and "who" in table else None
    with pytest.raises(ValueError, match=sentence) as refused:
        Log.from_table(table, action="arm", reward="click", propensity="p", person=person)
    text = str(refused.value).replace(str(tmp_path), "")
    assert "\n" not in text and len(text) < 250 and text.endswith(".") and "np." not in text


def test_labels_and_people_of_worlds_are_read_in_the_same_way() -> None:
    with pytest.raises(ValueError, match="'arm' has one number in two ways, '01' and '1': choose"):
        from_table({**PLAIN, "arm": ["1", "01", "2", "2"]}, label="arm")
    env: Any = from_table({name: PLAIN[name] for name in ("seen", "p", "click")}, label="click", n_public=2, horizon=2)
    assert env.action_space.n == 2 and env.observation_space.shape == (2,)


def logged(arms: list[int], **about: Any) -> Log:
    n = len(arms)
    return Log(np.zeros((n, 1)), np.array(arms), np.ones(n), np.full(n, 0.5), np.ones(n), np.zeros(n), about)


def test_arms_between_those_of_the_rows_are_none() -> None:
    with pytest.raises(ValueError, match="no row has arm 0, and one has arm 7: number the arms that there are from 0"):
        to_obp(logged([3, 7]))
    assert to_obp(logged([1, 0]))["n_actions"] == 2 and to_obp(logged([3, 7], uniform=0.1))["n_actions"] == 10


def test_settings_may_be_numbers_of_numpy(tmp_path: Path) -> None:
    """A saved agent and its ledger hold numbers of Python."""
    env = gym.make("privbandit/Linear-v0", n_arms=3, dim=2, horizon=50)
    agent = make("jdp-linucb", env, epsilon=np.int64(1), horizon=np.int32(50), shift=np.float32(0.5), seed=0)
    assert [type(agent.config.epsilon), type(agent.config.horizon), type(agent.config.shift)] == [int, int, float]
    assert agent.guarantee.words == make("jdp-linucb", env, epsilon=1, seed=0).guarantee.words
    with pytest.raises(ValueError, match=r"alpha must be >= 0; got -1\."):
        make("linucb", env, alpha=np.int64(-1))
