"""Any table is the same rows of numbers as the same table prepared by hand, in every form and whoever else is in it."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas
import polars as pl
import pyarrow
import pyarrow.ipc
import pytest
from privbandit_agents import Log

from privbandit_envs import from_table
from privbandit_envs.tables import Schema
from privbandit_envs.tables.encoding import Encoding, bucket
from privbandit_envs.tables.proposing import propose

N = 60
ROLES: dict[str, Any] = {"action": "arm", "reward": "paid", "propensity": "p"}
ROWS: dict[str, list[Any]] = {
    "age": [20 + row % 40 for row in range(N)],
    "channel": [["mail", "app", "call"][row % 3] for row in range(N)],
    "member": [row % 2 == 0 for row in range(N)],
    "income": [row * 0.25 for row in range(N)],
    "arm": [["gold", "17", "control"][row % 3] for row in range(N)],
    "paid": [float(row % 5) for row in range(N)],
    "p": [0.25 if row % 2 else 0.5 for row in range(N)],
}
NAMES = ["age", "channel=app", "channel=call", "channel=mail", "channel=other", "member", "income"]
EXPECTED = np.column_stack(
    [ROWS["age"]]
    + [[float(level == one) for level in ROWS["channel"]] for one in ("app", "call", "mail", "other")]
    + [ROWS["member"], ROWS["income"]]
).astype(float)
Made = Callable[[Path], Any]


def text(separator: str = ",", decimal: str = ".", end: str = "\n", quote: str = "", rows: Any = ROWS) -> str:
    """Return the rows as CSV, written by hand."""

    def cell(value: Any) -> str:
        return quote + (str(value).replace(".", decimal) if isinstance(value, float) else str(value)) + quote

    lines = [rows, *zip(*rows.values(), strict=True)]
    return end.join(separator.join(map(cell, line)) for line in lines) + end


def saved(content: str | bytes, name: str = "t.csv") -> Made:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder / name

    return write


def written(method: str, name: str, **options: Any) -> Made:
    def write(folder: Path) -> Path:
        getattr(pl.DataFrame(ROWS), method)(folder / name, **options)
        return folder / name

    return write


def streamed(folder: Path) -> Path:
    table = pyarrow.table(ROWS)
    with pyarrow.ipc.new_stream(folder / "t", table.schema) as file:
        file.write_table(table)
    return folder / "t"


def with_(**columns: Any) -> dict[str, Any]:
    return {**columns, **ROWS}


FORMS: dict[str, Made] = {
    "arrays": lambda folder: {name: np.array(column) for name, column in ROWS.items()},
    "lists": lambda folder: ROWS,
    "polars": lambda folder: pl.DataFrame(ROWS),
    "a LazyFrame": lambda folder: pl.LazyFrame(ROWS),
    "categories of polars": lambda folder: pl.DataFrame(ROWS).with_columns(pl.col("channel").cast(pl.Categorical)),
    "an Enum of polars": lambda folder: pl.DataFrame(ROWS).with_columns(
        pl.col("channel").cast(pl.Enum(["mail", "call", "app"]))
    ),
    "pandas": lambda folder: pandas.DataFrame(ROWS),
    "nullable types of pandas": lambda folder: pandas.DataFrame(ROWS).convert_dtypes(),
    "categories of pandas": lambda folder: pandas.DataFrame(ROWS).astype({"channel": "category"}),
    "objects of pandas": lambda folder: pandas.DataFrame(ROWS).astype(object),
    "single precision": lambda folder: pandas.DataFrame(ROWS).astype({"income": np.float32, "age": np.int8}),
    "pyarrow": lambda folder: pyarrow.table(ROWS),
    "CSV": saved(text()),
    "semicolons and commas": saved(text(";", ",")),
    "tabs": saved(text("\t")),
    "bars": saved(text("|")),
    "CRLF": saved(text(end="\r\n")),
    "CR": saved(text(end="\r")),
    "quotes": saved(text(quote='"')),
    "blank lines": saved(text().replace("\n", "\n\n")),
    "spaces": saved(text(" , ")),
    "a mark of UTF-8": saved(b"\xef\xbb\xbf" + text().encode()),
    "UTF-16": saved(text().encode("utf-16")),
    "gzip": saved(gzip.compress(text().encode()), "t.csv.gz"),
    "zstd": saved(pyarrow.compress(text().encode(), "zstd", asbytes=True), "t.csv.zst"),
    "another name": saved(text(), "table.dat"),
    "yes and no": saved(text(rows={**ROWS, "member": ["yes" if one else "no" for one in ROWS["member"]]})),
    "lines of JSON": written("write_ndjson", "t.jsonl"),
    "parquet": written("write_parquet", "T.PARQUET"),
    "Arrow": written("write_ipc", "t.arrow"),
    "packed Arrow": written("write_ipc", "t.arrow", compression="zstd"),
    "a stream of Arrow": streamed,
    "an index of pandas": lambda folder: pandas.DataFrame(ROWS).to_csv(folder / "i.csv") or folder / "i.csv",
    "an index that was read": lambda folder: with_(**{"Unnamed: 0": list(range(N))}),
    "identities": lambda folder: with_(who=[f"u{row}-x" for row in range(N)] * 1) | {},
    "columns without a value": lambda folder: with_(empty=[None] * N),
}


@pytest.mark.wide_but("*rr*", "*ar*", "C*", "*UTF*", "zstd", "lists", "*olars", "pandas", "yes*", "l*", "ident*")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_rows(form: str, tmp_path: Path) -> None:
    table = FORMS[form](tmp_path)
    if form == "identities":
        table = {name: column * 3 for name, column in table.items()}
        table["who"] = [f"u{row}" for row in range(3 * N)]
    log = Log.from_table(table, **ROLES)
    times = len(log) // N
    assert log.about["features"] == NAMES and log.about["arms"] == ["17", "control", "gold"]
    assert np.array_equal(log.contexts, np.tile(EXPECTED, (times, 1)))
    assert [log.about["arms"][arm] for arm in log.actions] == ROWS["arm"] * times
    assert log.rewards.tolist() == ROWS["paid"] * times and log.propensities.tolist() == ROWS["p"] * times
    assert log.about["from_people"] == ["age", "channel", "income", "arm", "paid"]


def test_text_that_is_no_utf8_is_read_and_told(tmp_path: Path) -> None:
    path = saved(text().replace("mail", "poßt").encode("cp1252"))(tmp_path)
    with pytest.warns(UserWarning, match="is no UTF-8 .byte 0xdf in line 2.: it is read as Windows-1252"):
        assert "channel=poßt" in Log.from_table(path, **ROLES).about["features"]


SCHEMA: dict[str, Any] = {
    "fields": [
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 100}},
        {"name": "channel", "constraints": {"enum": ["mail", "app"]}},
        {"name": "town", "privbandit": {"columns": 4}},
        {"name": "member", "type": "boolean", "constraints": {"required": True}},
        {
            "name": "joined",
            "type": "date",
            "format": "%d.%m.%Y",
            "constraints": {"minimum": "01.01.2024", "maximum": "31.12.2024"},
        },
    ],
    "missingValues": ["", "?"],
}
PEOPLE: dict[str, list[Any]] = {
    "age": ["31", "?", "250", "-4"],
    "channel": ["mail", "app", "phone", ""],
    "town": ["Rome", "Bonn", "", "Rome"],
    "member": ["yes", "no", "1", "0"],
    "joined": ["01.01.2024", "31.12.2024", "", "02.07.2024"],
    "extra": ["a", "b", "c", "d"],
}


def test_a_schema_decides_alone() -> None:
    encoding = Encoding(Schema.of(SCHEMA))
    rows, _ = encoding.encoded(PEOPLE)
    cells = dict(zip(encoding.names, rows.T.tolist(), strict=True))
    assert cells["age"] == [0.31, 0.5, 1, 0] and cells["age=missing"] == [0, 1, 0, 0]
    assert cells["channel=other"] == [0, 0, 1, 0] and cells["channel=missing"] == [0, 0, 0, 1]
    assert cells[f"town#{bucket('Rome', 4)}"][0] == cells[f"town#{bucket('Rome', 4)}"][3] == 1
    assert cells["member"] == [1, 0, 1, 0] and "member=missing" not in cells
    assert cells["joined days"][:3] == [0, 1, 0] and cells["joined days"][3] == pytest.approx(183 / 365)
    assert cells["joined weekday cos"][0] == 1  # a Monday
    assert np.linalg.norm(rows, axis=1).max() <= encoding.bound and rows.min() >= 0 and rows.max() <= 1
    assert encoding.explained(rows[0]) == {
        "age": 31.0, "channel": "mail", "town": f"town#{bucket('Rome', 4)}", "member": 1.0, "joined": 0.0,
    }  # fmt: skip
    assert encoding.explained(rows[2])["channel"] == "other" and encoding.explained(rows[1])["age"] is None


def test_numbers_and_their_texts_are_the_same_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    field = {"name": "x", "type": "number", "constraints": {"minimum": -0.7, "maximum": 7.3}}
    encoding, x = Encoding(Schema.of({"fields": [field]})), (8 * rng.normal(size=500)).tolist()
    texts: dict[str, Any] = {"x": [repr(value) for value in x], "y": ["a"] * 500}
    one = encoding.encoded({"x": x, "y": ["a"] * 500})[0]
    path = saved(text(rows=texts))(tmp_path)
    odd = saved(text(rows=texts) + "none,a\n", "odd.csv")(tmp_path)  # so that all cells are texts
    for other in (texts, path, odd):
        found = Encoding(encoding.schema, lenient=True).encoded(other)[0][:500]
        assert found.tobytes() == one.tobytes()
    assert all(encoding.row({"x": value}).tobytes() == row.tobytes() for value, row in zip(x[:20], one, strict=False))


@pytest.mark.parametrize("form", ["memory", "a file"])
def test_whoever_else_is_there_changes_no_bit(form: str, tmp_path: Path) -> None:
    encoding, other = Encoding(Schema.of(SCHEMA)), {**PEOPLE, "age": ["31", "?", "250", "99"]}
    other |= {"channel": ["mail", "app", "phone", "only they have it"], "town": ["Rome", "Bonn", "", "Atlantis"]}
    tables: list[Any] = [PEOPLE, other]
    if form == "a file":
        tables = [saved(text(rows=table), f"{place}.csv")(tmp_path) for place, table in enumerate(tables)]
    one, two = (encoding.encoded(table)[0] for table in tables)
    assert np.array_equal(one[:3], two[:3]) and not np.array_equal(one[3], two[3])
    # blocks of any size
    parts = [contexts for contexts, _ in encoding.blocks(pl.DataFrame(PEOPLE), rows=1)]
    assert np.array_equal(np.concatenate(parts), one)
    assert all(
        np.array_equal(encoding.encoded({n: c[k : k + 1] for n, c in PEOPLE.items()})[0][0], one[k]) for k in range(4)
    )


def test_a_schema_goes_to_json_and_back(tmp_path: Path) -> None:
    for schema in (Schema.of(SCHEMA), propose(ROWS, **ROLES)):
        schema.write(tmp_path / "s.json")
        assert Schema.of(tmp_path / "s.json") == schema
    kept = json.loads((tmp_path / "s.json").read_text())
    assert kept["fields"][1] == {
        "name": "channel",
        "constraints": {"enum": ["app", "call", "mail"], "required": True},
        "privbandit": {"public": False},
    }
    one, two = (Encoding(found).encoded(ROWS)[0] for found in (schema, Schema.of(tmp_path / "s.json")))
    assert one.tobytes() == two.tobytes()


def test_a_proposed_schema_fits_its_own_table(tmp_path: Path) -> None:
    rows: dict[str, Any] = {
        "flag": ["0.0", "1.0", "NA"] * 120,
        "late": ["1"] * 310 + ["x"] * 50,
        "blank at first": [""] * 340 + ["2.5"] * 20,
        "day": ["2024-03-01", "", "2024-05-07"] * 120,
        "count": ["1", "2", "03"] * 120,
    }
    path = saved(text(rows=rows))(tmp_path)
    schema = propose(path)
    assert [field.type for field in schema.fields] == ["boolean", "string", "number", "date", "integer"]
    schema.write(tmp_path / "s.json")
    one, two = (Encoding(found).encoded(path)[0] for found in (schema, Schema.of(tmp_path / "s.json")))
    assert one.tobytes() == two.tobytes() and one[:2, 0].tolist() == [0, 1]


@pytest.mark.parametrize("columns", [3000, pytest.param(100_000, marks=pytest.mark.wide)])
def test_a_table_may_be_wide(columns: int, tmp_path: Path) -> None:
    rows = {f"c{place}": [0.5 * place, 1.0] for place in range(columns)} | {"kind": ["a", "b"]}
    log = Log.from_table(saved(text(rows=rows))(tmp_path), action="kind", reward="c2", propensity="c1")
    assert log.contexts.shape == (2, columns - 2) and log.contexts[0, -1] == (columns - 1) / 2


def test_a_table_of_too_many_texts_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privbandit_envs.tables.encoding.WIDEST", 1000)
    with pytest.raises(ValueError, match="may have 1,000 columns that are no numbers; it has 1,001: leave some out"):
        propose({f"c{place}": ["a"] for place in range(1001)})


def test_bounds_of_people_are_told_and_refused_for_service() -> None:
    proposed = propose(ROWS, **ROLES)
    assert proposed.private == ["age", "channel", "income", "arm", "paid"]
    with pytest.raises(ValueError, match="bounds or levels of age, channel, income, arm, paid come from people's data"):
        proposed.check_public()
    fields = [field.with_use(public=True) for field in proposed.fields]
    proposed.model_copy(update={"fields": fields}).check_public()
    unbounded = [field.model_copy(update={"constraints": type(field.constraints)()}) for field in fields]
    with pytest.raises(ValueError, match="age, channel, income"):
        proposed.model_copy(update={"fields": unbounded}).check_public()


def test_a_world_of_a_table_says_whose_levels_it_has() -> None:
    columns = {"age": np.linspace(0, 1, 60), "channel": ["mail", "app", "shop"] * 20, "ill": [0, 1] * 30}
    with pytest.warns(UserWarning, match="levels or bounds of channel come from people's rows"):
        from_table(columns, label="ill", n_public=20, horizon=20)
    from_table({name: columns[name] for name in ("age", "ill")}, label="ill", n_public=20, horizon=20)  # no warning


def test_a_world_with_public_bounds_needs_no_rows_for_its_scale() -> None:
    levels = {"name": "plan", "constraints": {"enum": ["gold", "17", "control", "silver"]}}
    schema = {"fields": [*SCHEMA["fields"][:2], {**levels, "privbandit": {"role": "label"}}]}
    env: Any = from_table({**ROWS, "plan": ROWS["arm"]}, label="plan", schema=schema, n_public=2, horizon=20)
    assert env.action_space.n == 4  # an arm that nobody was given is one
    env.reset(seed=0)
    assert set(np.round(env.unwrapped.upcoming(20)[:, 0] * 100, 3)) <= set(ROWS["age"])


def test_an_environment_reads_a_file_by_a_schema(tmp_path: Path) -> None:
    levels = {"name": "arm", "constraints": {"enum": ["gold", "17", "control", "silver"]}}
    schema = Schema.of({"fields": [*SCHEMA["fields"][:2], {**levels, "privbandit": {"role": "label"}}]})
    schema.write(tmp_path / "s.json")
    asked: dict[str, Any] = {"source": str(saved(text())(tmp_path)), "n_public": 2, "horizon": 20}
    env: Any = gym.make("privbandit/Classification-v0", schema=str(tmp_path / "s.json"), **asked)
    env.reset(seed=0)
    assert env.action_space.n == 4 and env.observation_space.shape == (6,)
    assert set(np.round(env.unwrapped.upcoming(20)[:, 0] * 100, 3)) <= set(ROWS["age"])
    with pytest.raises(ValueError, match="schema is for files of tables; wine has its own"):
        gym.make("privbandit/Classification-v0", source="wine", schema=str(tmp_path / "s.json"))


REFUSED: dict[str, tuple[Any, str]] = {
    "no date": (
        {**PEOPLE, "joined": ["31.02.2024"] * 4},
        r"column 'joined', row 0: '31.02.2024' is no date in %d.%m.%Y",
    ),
    "no number": (
        {**PEOPLE, "age": ["1", "2", "x", "y"]},
        "column 'age', row 2: 'x' is no finite integer; .* .and 1 rows",
    ),
    "nothing": ({**PEOPLE, "member": ["yes", "?", "", "no"]}, "column 'member', row 1: nothing; fill it in"),
    "no column": (
        {name: PEOPLE[name] for name in ("age", "town")},
        "the table has no column 'channel'; it has age, town",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_cells_are_refused_by_column_row_and_value(case: str) -> None:
    table, sentence = REFUSED[case]
    with pytest.raises(ValueError, match=sentence):
        Encoding(Schema.of(SCHEMA)).encoded(table)


def test_all_problems_are_listed_at_once() -> None:
    names = [f"c{place}" for place in range(25)]
    schema = Schema.of({"fields": [{"name": name, "type": "number"} for name in names]})
    with pytest.raises(ValueError) as refused:
        Encoding(schema).encoded({name: ["1", "x"] for name in names})
    lines = str(refused.value).splitlines()
    assert len(lines) == 21 and lines[-1] == "And 5 columns more." and all(line.endswith(".") for line in lines)


BAD: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "is no JSON"),
    "another type": ({"fields": [{"name": "a", "type": "geopoint"}]}, "fields.0.type: Input should be 'number'"),
    "an unknown use": (
        {"fields": [{"name": "a", "privbandit": {"rol": "action"}}]},
        "fields.0.privbandit.rol: Extra inputs",
    ),
    "bounds in disorder": (
        {"fields": [{"name": "a", "type": "number", "constraints": {"minimum": 2, "maximum": 1}}]},
        "must be numbers in order",
    ),
    "two of one name": ({"fields": [{"name": "a"}, {"name": "a"}]}, "a name of its own"),
    "two actions": (
        {"fields": [{"name": n, "privbandit": {"role": "action"}} for n in "ab"]},
        "one column has the role",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_schema_that_is_none_is_one_sentence(case: str, tmp_path: Path) -> None:
    content, sentence = BAD[case]
    (tmp_path / "s.json").write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ValueError, match=sentence) as refused:
        Schema.of(tmp_path / "s.json")
    assert "\n" not in str(refused.value) and str(refused.value).endswith(".")


def test_what_a_table_does_not_tell_is_asked() -> None:
    with pytest.warns(UserWarning, match="column 'day': day or month may come first; day is taken"):
        schema = propose({"day": ["01/02/2024", "03/04/2024"], "x": [1, 2]})
    assert schema["day"].format == "%d/%m/%Y"
    assert propose({"day": ["01/02/2024", "03/14/2024"], "x": [1, 2]})["day"].format == "%m/%d/%Y"
    with pytest.raises(ValueError, match="action must be a column of the table: day, x; got 'arm'"):
        propose({"day": ["a", "b"], "x": [1, 2]}, action="arm")


def cut_csv(rng: np.random.Generator) -> bytes:
    """Return a CSV with damage: cut, bytes changed, quotes, separators, zero bytes, other encodings."""
    content = bytearray(text(quote='"' if rng.random() < 0.3 else "").encode(rng.choice(["utf-8", "utf-16", "cp1252"])))
    for _ in range(rng.integers(1, 3)):
        place, kind = int(rng.integers(len(content))), rng.integers(6)
        if kind == 0:
            del content[place:]
            content += b" " if not content else b""
        elif kind == 1:
            content[place] = int(rng.integers(256))
        else:
            content[place:place] = [b'"', b"\0", b",;\t|"[: int(rng.integers(1, 5))], b"\r"][kind - 2]
    return bytes(content)


@pytest.mark.parametrize("cases", [60, pytest.param(2000, marks=pytest.mark.wide)])
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_csv_is_a_result_or_a_sentence(cases: int, tmp_path: Path) -> None:
    rng, read = np.random.default_rng(cases), 0
    for _ in range(cases):
        path = saved(cut_csv(rng))(tmp_path)
        try:
            read += len(Log.from_table(path, **ROLES)) > 0
        except ValueError as error:
            assert str(error).isprintable() or "\n" in str(error)
            assert str(error).endswith(".") and len(str(error)) < 4000
    assert 0 < read < cases
