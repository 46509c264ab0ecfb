"""Tables of yours as bandits, in one line; a table that is none is one sentence."""

import copy
import pickle
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from privbandit_agents import make, play

from privbandit_envs import from_table
from privbandit_envs.datasets.frames import armed, labelled
from privbandit_envs.testing import CHECKS

RNG = np.random.default_rng(7)
N, ARMS = 300, 3
X = RNG.normal(size=(N, 2)) * [10, 0.1]
ROWS = {"age": X[:, 0], "dose": X[:, 1], "ill": np.where(X[:, 0] > 1, "yes", "no"), "open": (np.arange(N) < 60) * 1}
FEATURES = RNG.normal(size=(N, ARMS, 2))
REWARDS = np.tanh(FEATURES @ [1.0, -0.5])
LONG = {
    "who": np.repeat(np.arange(N), ARMS),
    "f": FEATURES[..., 0].ravel(),
    "g": FEATURES[..., 1].ravel(),
    "gain": REWARDS.ravel(),
}


def as_kind(table: dict[str, Any], kind: str, folder: Path) -> Any:
    if kind == "arrays":
        return table
    if kind == "csv":
        lines = [",".join(table), *(",".join(map(repr_of, row)) for row in zip(*table.values(), strict=True))]
        (folder / "t.csv").write_text("\n".join(lines) + "\n")
        return str(folder / "t.csv")
    frame = pytest.importorskip("pandas" if kind == "pandas" else "polars").DataFrame(table)
    if kind != "parquet":
        return frame
    frame.write_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def repr_of(value: Any) -> str:
    return value if isinstance(value, str) else repr(value.item())


kinds = pytest.mark.parametrize("kind", ["arrays", "csv", "pandas", "polars", "parquet"])


@pytest.mark.wide_at("arrays", "parquet", "csv")
@kinds
def test_rows_with_labels_are_classification(kind: str, tmp_path: Path) -> None:
    env = from_table(as_kind(ROWS, kind, tmp_path), label="ill", public="open", horizon=200)
    features, labels = env.unwrapped.public_data  # type: ignore[attr-defined]
    assert features.shape == (60, 2) and features.min() == 0 and features.max() == 1
    assert sorted(labels.tolist()) == sorted((X[:60, 0] > 1).astype(int).tolist())
    context, _ = env.reset(seed=0)
    assert context.shape == (2,) and env.action_space.n == 2  # type: ignore[attr-defined]
    result = play(env, make("lpct", env, seed=0, epsilon=8.0), seed=0)
    assert result.regret[-1] < 100


@kinds
def test_rows_of_arms_are_arms_with_features(kind: str, tmp_path: Path) -> None:
    env = from_table(as_kind(LONG, kind, tmp_path), user="who", reward="gain", n_public=40, horizon=260)
    env.reset(seed=1)
    contexts = env.unwrapped.upcoming(260)  # type: ignore[attr-defined]
    assert contexts.shape == (260, ARMS, 2) and (np.linalg.norm(contexts, axis=-1) <= 1 + 1e-6).all()
    served = env.unwrapped.serve(np.zeros(260, int))  # type: ignore[attr-defined]
    rows = {round(row[0], 12): row for row in REWARDS}
    people = [rows[round(reward, 12)] for reward in served.reward]  # each reward is of somebody's first arm
    assert len({row[0] for row in people}) == 260, "everybody comes once first"
    assert np.allclose(served.regret, [row.max() - row[0] for row in people])
    known, gains = env.unwrapped.problem.public_rows  # type: ignore[attr-defined]
    assert known.shape == (40, ARMS, 2) and gains.shape == (40, ARMS)
    assert not {round(row[0], 12) for row in gains} & {round(row[0], 12) for row in people}
    uniform, learnt = (play(env, make(name, env, seed=0), seed=1).regret[-1] for name in ("uniform", "linucb"))
    assert learnt < 0.5 * uniform


def test_private_rows_do_not_change_how_features_are_scaled() -> None:
    wild = {**ROWS, "age": np.where(ROWS["open"] == 1, ROWS["age"], 1e6)}
    one, other = (from_table(table, label="ill", public="open") for table in (ROWS, wild))
    assert np.array_equal(one.unwrapped.public_data[0], other.unwrapped.public_data[0])  # type: ignore[attr-defined]
    shown, known = (np.array(LONG["f"]), np.arange(N) < 30)
    tables = [
        {**LONG, "f": np.where(np.repeat(known, ARMS), shown, scale * shown), "p": np.repeat(known, ARMS)}
        for scale in (1, 50)
    ]
    pair = [from_table(table, user="who", reward="gain", public="p") for table in tables]
    for env in pair:
        env.reset(seed=0)
    assert np.array_equal(*(env.unwrapped.problem.public_rows[0] for env in pair))  # type: ignore[attr-defined]


@pytest.mark.wide_at("check_groups")
@pytest.mark.parametrize(
    "check",
    [check for check in CHECKS if check.__name__ not in ("check_spec", "check_actions")],
    ids=lambda check: check.__name__,
)
def test_a_table_of_arms_conforms(check: Any) -> None:
    check("privbandit/Table-v0", source=armed(LONG, "who", "gain"), n_public=20)


def test_tables_are_copied_and_pickled() -> None:
    env: Any = from_table(LONG, user="who", reward="gain", n_public=20, horizon=30, available=0.5)
    env.reset(seed=0)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert np.array_equal(twin.unwrapped.upcoming(30), env.unwrapped.upcoming(30))
        assert np.array_equal(twin.unwrapped.action_masks(30), env.unwrapped.action_masks(30))
    data = labelled(ROWS, "ill")
    assert copy.deepcopy(data) is data
    check_env(from_table(ROWS, label="ill", horizon=30).unwrapped, skip_render_check=True)


def changed(table: dict[str, Any], **columns: Any) -> dict[str, Any]:
    return {**table, **{name: np.array(column, dtype=object) for name, column in columns.items()}}


def spoilt(column: Any, value: Any, row: int = 5) -> list[Any]:
    cells = list(column)
    cells[row] = value
    return cells


ILL, GAIN = {"label": "ill"}, {"user": "who", "reward": "gain"}
HOSTILE: list[tuple[Any, dict[str, Any], str]] = [
    (ROWS, {}, "name the column label, or the columns user and reward"),
    (ROWS, {"label": "ill", "user": "age"}, "name the column label, or the columns user and reward"),
    (ROWS, {"label": "il"}, "label must be a column of the table: .*; got 'il' .did you mean 'ill'"),
    (ROWS, {"label": "ill", "public": "ill"}, "must be different columns"),
    (ROWS, {"label": "ill", "n_public": 300}, "n_public must be below the 300 rows"),
    (ROWS, {"label": "ill", "n_public": 0}, "n_public must be an integer >= 1"),
    (ROWS, {"label": "ill", "public": "age"}, "column 'age' must be 1 for public rows and 0 for others"),
    (changed(ROWS, open=[1] * N), {"label": "ill", "public": "open"}, "make some rows public and leave some private"),
    (changed(ROWS, age=spoilt(X[:, 0], "old")), ILL, "column 'age', row 5: 'old' is no finite number; name it in"),
    (changed(ROWS, age=spoilt(X[:, 0], np.inf)), ILL, "column 'age', row 5: .?inf.? is no finite number"),
    (changed(ROWS, age=spoilt(X[:, 0], 10**400)), ILL, "column 'age', row 5: .* is no finite number"),
    (changed(ROWS, age=spoilt(X[:, 0], [1, 2])), ILL, "column 'age', row 5: .* is no finite number"),
    ({**ROWS, "age": X[:5, 0]}, ILL, "columns must be rows of one length"),
    ({**ROWS, "age": X}, ILL, "columns must be rows of one length"),
    (changed(ROWS, ill=spoilt(ROWS["ill"], None)), ILL, "column 'ill', row 5: nothing; fill it in, leave the row out"),
    (
        changed(ROWS, ill=spoilt(ROWS["ill"], np.nan)),
        ILL,
        "column 'ill', row 5: nothing; fill it in, leave the row out",
    ),
    (changed(ROWS, ill=["yes"] * N), ILL, "at least two different labels"),
    ({"ill": ROWS["ill"]}, ILL, "a table needs two columns or more; got ill"),
    ({"ill": [], "age": []}, ILL, "a table needs a row or more; it has none"),
    ({"ill": ROWS["ill"], "open": ROWS["open"]}, {"label": "ill", "public": "open"}, "needs a column of features"),
    ({1: X[:, 0], "1": X[:, 1]}, ILL, "every column must have a name of its own"),
    (None, ILL, "a table must be a file"),
    (7, ILL, "a table must be a file"),
    ("x" * 10**5, ILL, "no file|File name too long|a table must be"),
    (LONG, {"user": "who", "reward": "gian"}, "reward must be a column of the table"),
    ({**LONG, "gain": 3 * LONG["gain"]}, GAIN, r"rewards in \[-1, 1\]; got .*: scale them"),
    (
        {name: column[:-1] for name, column in LONG.items()},
        GAIN,
        "every person must have one row for each arm",
    ),
    (changed(LONG, gain=spoilt(LONG["gain"], np.nan)), GAIN, "column 'gain', row 5: nothing"),
    (LONG, {**GAIN, "n_public": 300}, "n_public must be a number below the 300 people"),
    (LONG, {**GAIN, "horizon": 300, "population": "without-replacement"}, "horizon must be at most 250"),
]


@pytest.mark.parametrize(("table", "arguments", "sentence"), HOSTILE)
def test_a_table_that_is_none_is_one_sentence(table: Any, arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=sentence) as caught:
        from_table(table, **arguments)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_files_that_are_none_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,ill\n1,yes\n2\n")
    (tmp_path / "b.csv").write_text("age,age\n1,yes\n")
    (tmp_path / "c.parquet").write_text("PAR1 nothing of the kind")
    for name, sentence in (
        ("a.csv", "line 3: 2 columns expected"),
        ("b.csv", "a name of its own"),
        ("z.csv", "no file"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=sentence):
            from_table(tmp_path / name, label="ill")
    with pytest.raises(ValueError, match=r"c\.parquet is no parquet file: "):
        from_table(tmp_path / "c.parquet", label="ill")


def test_the_environment_of_no_table_says_where_one_comes_from() -> None:
    with pytest.raises(ValueError, match=r"or an ArmTable, as privbandit_envs.from_table makes it; got None"):
        gym.make("privbandit/Table-v0")
