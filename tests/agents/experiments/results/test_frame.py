"""Results as data: every setting is a column, what was promised are numbers, and a second run adds to the first."""

import json
import math
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import privbandit_agents
import pytest
from made_up import sweep, written
from privbandit_agents import compare, load_results, make, play, ranks
from privbandit_agents.experiments.jobs.catalogue import agent_defaults, at_home
from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.results.files import plain, write_data
from privbandit_agents.experiments.results.frame import (
    COLUMNS,
    as_frame,
    frame_of,
    promise_of,
    public,
    settings_columns,
)
from privbandit_agents.experiments.results.ranks import interquartile_mean, ranked, wins
from privbandit_agents.experiments.results.statistics import Interval
from privbandit_agents.experiments.running.engine import Engine, run_jobs
from privbandit_agents.experiments.store.results import Finished
from privbandit_agents.experiments.study import show
from privbandit_agents.experiments.views.style import Look
from privbandit_agents.zoo.entries import AGENTS
from rich.console import Console

SWEEP = list(sweep(2))


def test_no_setting_that_an_agent_has_is_null() -> None:
    frame = as_frame(SWEEP, final=True)
    assert frame.height == len(SWEEP) and tuple(frame.columns[: len(COLUMNS)]) == COLUMNS
    for (agent,), rows in frame.group_by("agent"):
        own = [f"agent.{key}" for key in agent_defaults(str(agent))]
        assert set(own) <= set(frame.columns)
        assert {key: rows[key].null_count() for key in own if rows[key].null_count()} == {}
        others = {key for key in frame.columns if key.startswith("agent.")} - set(own)
        assert all(rows[key].null_count() == rows.height for key in others)


def test_a_swept_setting_is_told_also_where_it_is_the_default() -> None:
    rows = as_frame(SWEEP, final=True).filter(agent="jdp-linucb")
    assert sorted(rows["agent.epsilon"].unique()) == sorted(rows["epsilon"].unique()) == [0.5, 1, 4]
    assert set(rows["label"]) == {f"jdp-linucb epsilon={e}" for e in ("0.5", "1", "4")}
    assert set(rows["notion"]) == {"joint"} and set(as_frame(SWEEP).filter(agent="linucb")["label"]) == {"linucb"}


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, 2], pl.Int64, [1, 2]),
        ([1, 0.5], pl.Float64, [1.0, 0.5]),
        ([1, None], pl.Float64, [1.0, "nan"]),
        ([True, False], pl.Boolean, [True, False]),
        ([True, 1], pl.String, ["true", "1"]),
        (["a", None], pl.String, ["a", "None"]),
        ([None, None], pl.String, ["None", "None"]),
        ([[1, 2], "a"], pl.String, ["[1,2]", "a"]),
        ([2**70, 1], pl.Float64, [2.0**70, 1.0]),
    ],
)
def test_settings_of_any_kind_fit_a_column(values: list[Any], kind: Any, expected: list[Any]) -> None:
    (column,) = settings_columns([{"agent.x": value} for value in values])
    assert column.dtype == kind and ["nan" if one != one else one for one in column] == expected
    first, second = settings_columns([{"agent.x": values[0]}, {"agent.y": 1}])
    assert first.null_count() == second.null_count() == 1


@pytest.mark.parametrize(
    ("words", "promise"),
    [
        ("none", ("none", None, None, None)),
        ("local 1, exact", ("local", 1, 0, None)),
        ("local 1, 1e-05, real", ("local", 1, 1e-5, None)),
        ("joint 1, 0.01 (rho 0.103), real", ("joint", 1, 0.01, 0.103)),
        ("joint rho 1 (epsilon 7.08 at delta 1e-05), real", ("joint", None, None, 1)),
        ("joint rho 1e-05 (epsilon 0.01 at delta 1e-05), exact, unproven", ("joint", None, None, 1e-5)),
        (None, (None, None, None, None)),
    ],
)
def test_old_results_tell_their_promise_in_words(words: str | None, promise: tuple[Any, ...]) -> None:
    notes = {"simulation": "users"} | ({} if words is None else {"privacy": words})
    assert promise_of(replace(SWEEP[0], notes=notes)) == promise


def test_new_results_tell_it_in_numbers(tmp_path: Path) -> None:
    frame = compare("privbandit/Linear-v0", {"name": "jdp-linucb", "epsilon": 0.3}, 1, 20, folder=tmp_path)
    (row,) = frame.filter(checkpoint=20).to_dicts()
    assert (row["notion"], row["epsilon"], row["delta"]) == ("joint", 0.3, 1e-5) and row["rho"] == pytest.approx(
        0.004, abs=4e-4
    )
    assert load_results(tmp_path, final=True).to_dicts() == [{key: row[key] for key in row if key != "rank"}]


def test_the_files_hold_the_table(tmp_path: Path) -> None:
    frame = as_frame(SWEEP)
    write_data(frame, tmp_path)
    assert pl.read_parquet(tmp_path / "results.parquet").equals(frame)
    told = plain(frame)
    assert pl.read_csv(tmp_path / "results.csv", schema=told.schema).equals(told)


def test_a_setting_of_none_is_empty_as_csv(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "regret": [1.0, None],
            "env.cap": [None, None],
            "env.path": ["None", "a"],
            "agent.nothing": ["None", None],
            "agent.width": [float("nan"), 2.0],
        },
        schema_overrides={"env.cap": pl.Int64},
    )
    write_data(frame, tmp_path)
    assert (tmp_path / "results.csv").read_text() == "regret,env.path,agent.width\n1.0,,\n,a,2.0\n"
    assert pl.read_parquet(tmp_path / "results.parquet").equals(frame)


def test_pandas_reads_them_too(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = as_frame(SWEEP)
    write_data(frame, tmp_path)
    assert len(pandas.read_parquet(tmp_path / "results.parquet")) == len(frame.to_pandas()) == frame.height


def test_results_with_many_checkpoints_are_written_in_parts(tmp_path: Path) -> None:
    at = np.arange(1.0, 15_001)
    curves = {"checkpoints": at, "regret": at / 3, "reward": np.sqrt(at)}
    runs = [replace(run, job={**run.job, "horizon": 15_000}, arrays={**run.arrays, **curves}) for run in SWEEP[:3]]
    write_data(public(frame_of(runs)), tmp_path / "lists")
    write_data(as_frame(runs), tmp_path / "rows")
    lists, rows = ((tmp_path / name / "results.csv").read_text() for name in ("lists", "rows"))
    assert lists == rows and len(rows.splitlines()) == 45_001
    assert pl.read_parquet(tmp_path / "lists" / "results.parquet").equals(as_frame(runs))


def test_a_long_table_is_short_as_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privbandit_agents.experiments.results.files.MOST_ROWS", 100)
    write_data(as_frame(SWEEP), tmp_path)
    assert pl.read_csv(tmp_path / "results.csv", infer_schema_length=None).height == len(SWEEP)
    assert pl.read_parquet(tmp_path / "results.parquet").height == 20 * len(SWEEP)


def test_a_long_table_of_fits_has_the_best_points_as_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privbandit_agents.experiments.results.files.MOST_ROWS", 4)
    scored = [(0, 0.5), (0, 0.7), (0, 0.7), (1, 0.6), (1, float("nan"))]
    told = {"method": "LPCT", "epsilon": 1.0, "world.gamma": 0.5}
    write_data(
        pl.DataFrame([{**told, "replication": r, "accuracy": a, "point": k} for k, (r, a) in enumerate(scored)]),
        tmp_path,
    )
    assert pl.read_csv(tmp_path / "results.csv")["point"].to_list() == [1, 3]
    assert pl.read_parquet(tmp_path / "results.parquet").height == 5


@pytest.mark.wide
def test_a_second_run_adds_to_the_first(tmp_path: Path) -> None:
    out = Console(file=StringIO(), width=160)
    for agent in ("uniform", "greedy"):
        results, _ = run_jobs([Trial("privbandit/Linear-v0", agent, 50)], tmp_path, Engine(jobs=1))
        assert show(list(results.values()), tmp_path, out, out, Look(formats=("pdf",))) == 0
    assert set(pl.read_parquet(tmp_path / "results.parquet")["agent"]) == {"uniform", "greedy"}
    assert set(pl.read_csv(tmp_path / "table.csv")["agent"]) == {"uniform", "greedy"}
    assert {path.name for path in (tmp_path / "tensorboard").iterdir()} == {"uniform", "greedy", "overview"}
    assert (tmp_path / "regret.pdf").exists()


def test_a_result_is_a_frame_and_a_line() -> None:
    import gymnasium as gym

    env = gym.make("privbandit/Linear-v0", horizon=30)
    agent = make("jdp-linucb", env, seed=0, epsilon=0.5)
    result = play(env, agent, seed=0)
    assert result.to_frame()["regret"].to_list() == result.regret.tolist()
    assert repr(result).startswith("Result(users=30, regret=") and len(repr(result)) < 120
    assert repr(agent).startswith("<jdp-linucb(epsilon=0.5") and "joint 0.5, 1e-05" in repr(agent)
    assert repr(make("uniform", env, seed=0)) == "<uniform: none>" and len(repr(SWEEP[0])) < 150


def test_comparing_orders_agents_by_rank() -> None:
    frame = compare("privbandit/Linear-v0", ["uniform", "greedy", "ldp-greedy"], [3, 5], 60, checkpoints=4)
    assert frame.columns[0] == "rank" and frame.height == 3 * 2 * 4 and set(frame["seed"]) == {3, 5}
    table = ranks(frame)
    order = [row["label"] for row in table.filter(pl.col("horizon").is_not_null()).sort("group").to_dicts()]
    assert set(order[:2]) == {"uniform", "greedy"} and order[2] == "ldp-greedy"
    assert frame["label"].unique(maintain_order=True).to_list() == ["ldp-greedy", *order[:2]]
    with pytest.raises(ValueError, match="grredy"):
        compare("privbandit/Linear-v0", ["grredy"], 1, 10)


def test_comparing_calls_agents_by_labels_of_one_s_own() -> None:
    world = {"id": "Linear-v0", "dim": 3, "grid": {"horizon": [20, 30]}}
    wide = {"name": "linucb", "label": "wide", "alpha": 2.0}
    frame = compare(world, [wide, {"name": "linucb", "label": "as it is"}, "uniform"], [1], checkpoints=1)
    assert set(frame["label"]) == {"wide", "as it is", "uniform"} and set(frame["rank"]) == {1, 2, 3}
    assert set(frame.filter(label="wide")["agent.alpha"]) == {2.0} and set(frame["horizon"]) == {20, 30}


@pytest.mark.parametrize(
    "agents",
    [
        [{"name": "uniform", "label": "one"}, {"name": "greedy", "label": "one"}],
        [{"name": "uniform", "label": "one"}, {"name": "uniform", "label": "two"}],
        [{"name": "linucb", "label": "one", "grid": {"alpha": [1, 2]}}],
        [{"name": "uniform", "label": 3}],
        [{"name": "uniform", "label": ""}],
    ],
)
def test_a_label_stands_for_one_agent(agents: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match=r"^label (must be a text|'\w+' must stand)"):
        compare("Linear-v0", agents, 1, 10)


def test_what_the_program_itself_defines_plays_in_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = SWEEP[0].job
    assert not at_home(trial["env"], trial["agent"])
    monkeypatch.setitem(AGENTS, trial["agent"], replace(AGENTS[trial["agent"]], agent="__main__:Mine"))
    assert at_home(trial["env"], trial["agent"])


def test_interquartile_means_leave_a_quarter_out_at_either_end() -> None:
    assert interquartile_mean(np.array([1.0, 2, 3, 1000])) == 2.5
    assert interquartile_mean(np.array([1.0, 2, 30])) == 11  # a quarter of three is none
    assert interquartile_mean(np.arange(8.0)) == 3.5


def test_the_probability_of_being_better_is_over_common_seeds() -> None:
    share, _ = wins([{0: 1.0, 1: 5.0, 2: 1.0}, {0: 2.0, 1: 4.0}, {0: 2.0, 3: 9.0}])
    assert share[0].tolist()[:2] == [1.0, 0.0] and math.isnan(share[0][2])  # nobody else has seed 2
    assert share[1][0] == 0.25 and share[1][1] == 1.0  # a tie counts half
    found = ranked({"a": [{0: 1.0, 1: 1.0}], "b": [{0: 2.0, 1: 2.0}]}, np.random.default_rng(0))
    assert list(found) == ["a", "b"] and (found["a"][1].value, found["b"][1].value) == (1, 0)
    assert found["a"][0] == Interval(1, 1, 1)


def test_the_bootstrap_interval_holds_the_true_mean_about_as_often_as_it_says() -> None:
    """Of a normal law: 200 intervals over 30 seeds; 95 % would be 190, a percentile bootstrap is a little short."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        ((iqm, _),) = ranked({"a": [dict(enumerate(rng.standard_normal(30)))]}, rng).values()
        held += iqm.low <= 0 <= iqm.high
    assert 172 <= held <= 199


def test_agents_are_ranked_over_environments_only_with_those_that_played_the_same() -> None:
    table = ranks(as_frame(SWEEP, final=True))
    over = table.filter(pl.col("env").str.starts_with("all"))
    assert {(row["env"], row["label"]) for row in over.to_dicts()} == {
        ("all 4", "uniform"), ("all 2", "greedy"), ("all 2", "linucb")
    }  # fmt: skip
    assert over.filter(label="uniform")["iqm"].to_list() == pytest.approx([1], abs=0.2)
    private = table.filter(group="private")
    assert set(private["notion"]) == {"local", "joint"} and private["rank"].min() == 1


def test_the_top_level_has_what_a_notebook_needs() -> None:
    wanted = {"compare", "load_results", "plot_along", "plot_frontier", "plot_regret", "ranks"}
    assert wanted <= set(privbandit_agents.__all__) & set(dir(privbandit_agents))


def test_reading_a_folder_gives_what_was_written(tmp_path: Path) -> None:
    frame = load_results(written(tmp_path, 1))
    assert frame.height == 20 * len(SWEEP) / 2 and json.loads(frame.filter(agent="ppo")["config"][0]) == {}
    assert isinstance(SWEEP[0], Finished) and isinstance(Trial(**SWEEP[0].job), Trial)
