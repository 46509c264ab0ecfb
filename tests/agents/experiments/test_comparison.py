"""Comparisons of classifiers: what is picked and marked on made-up results with known answers, and runs."""

import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from privbandit_agents.experiments.jobs.fit import Fit
from privbandit_agents.experiments.results.contests import compared, contest, rank_sums
from privbandit_agents.experiments.results.measures import estimate
from privbandit_agents.experiments.results.readings import Reading, Results, Values, by_cell, picks
from privbandit_agents.experiments.results.summary import summarise
from privbandit_agents.experiments.results.verdicts import decision
from privbandit_agents.experiments.running.engine import Engine
from privbandit_agents.experiments.schema.comparison import Worlds
from privbandit_agents.experiments.schema.experiment import Experiment, parse_experiment
from privbandit_agents.experiments.schema.figures import TableSpec
from privbandit_agents.experiments.schema.measures import Pick
from privbandit_agents.experiments.store.results import Finished
from privbandit_agents.experiments.study import Study, carry_out, frame_in, prepare, prepared, verdicts_of
from privbandit_agents.experiments.usage import UNFINISHED, UsageError
from privbandit_agents.experiments.views.tables import contest_lines, contest_table
from rich.console import Console

Accuracy = Callable[[Fit, dict[str, Any]], float | None]
LPCT = {"name": "LPCT", "agent": "lpct", "grid": {"depth": [1, 2, 3], "weight": [1, 10]}}
OTHERS = [{"name": "prune", "agent": "lpct-prune"}, {"name": "public", "agent": "lpct-q"}]


def parsed(statements: list[dict[str, Any]] | None = None, **more: Any) -> Experiment:
    told = [{"says": f"statement {i}", "where": "here", **given} for i, given in enumerate(statements or [])]
    content: dict[str, Any] = {
        "title": "made up",
        "about": "nothing is run",
        "offline": {
            "worlds": [{"n_private": 100, "n_test": 100, "grid": {"n_public": [10, 20]}}],
            "epsilons": [1, 2, 4],
            "replications": 8,
            "methods": [LPCT, *OTHERS],
        },
        "scales": {"smoke": {"replications": 2, "shrink": 2}},
        "statements": told,
    }
    return parse_experiment(content | more, "made-up.yaml")


def study(statements: list[dict[str, Any]] | None = None, scale: str = "paper", **more: Any) -> Study:
    return prepared(parsed(statements, **more), "made-up", scale)


def made_up(made: Study, accuracy: Accuracy) -> Results:
    results = {}
    for fit in made.jobs:
        assert isinstance(fit, Fit)
        found = [accuracy(fit, point) for point in fit.points]
        reasons = ["too large." if value is None else None for value in found]
        arrays = {
            "accuracy": np.array(found, float),
            "seconds": np.where(np.isnan(np.array(found, float)), np.nan, 0.5),
        }
        results[fit.name] = Finished("fit", fit.spec, fit.settings, arrays, {"reasons": reasons})
    return by_cell(frame_in(made.jobs, results))


def law(fit: Fit, point: dict[str, Any]) -> float:
    """The grid is best at depth 2 and weight 10; budgets and public rows help; the others are .1 and .2 behind."""
    behind = {"LPCT": 0.0, "prune": 0.1, "public": 0.2}[fit.method.name]
    grid = -0.02 * abs(point.get("depth", 2) - 2) - 0.01 * (point.get("weight") == 1)
    assert fit.world.n_public is not None
    return float(0.7 + 0.01 * (fit.epsilon or 0) + 0.001 * fit.world.n_public + grid - behind)


def value(measure: dict[str, Any], accuracy: Accuracy = law) -> float:
    made = study([{"measure": measure, "at_least": 0}])
    row = verdicts_of(made, made_up(made, accuracy)).row(0, named=True)
    assert row["low"] == pytest.approx(row["high"])
    return float(row["measured"])


# data sets that are here


def test_data_sets_that_are_present() -> None:
    worlds = {
        world.source: world.n_public
        for world in Worlds.model_validate({"sources": "present", "n_public": 100}).worlds()
    }
    assert worlds["breast_cancer"] == 100 and worlds["wine"] == 44 and worlds["rice"] == 300
    assert worlds["census"] is None and len(worlds) == 15


# what is picked


def test_best_is_chosen_on_all_replications_and_honest_on_the_other_half() -> None:
    accuracy = np.array([[0.9, 0.5], [0.4, 0.6], [0.9, 0.5], [0.4, 0.6]])  # the first point has the best mean
    assert_array_equal(picks(accuracy, "best"), [0, 0, 0, 0])
    # replications 0 and 2 are best with the first point, 1 and 3 with the second one: each half takes the other's
    assert_array_equal(picks(accuracy, "honest"), [1, 0, 1, 0])
    same = np.array([[0.7, 0.5], [0.8, 0.6], [0.6, 0.5]])
    assert_array_equal(picks(same, "honest"), picks(same, "best"))
    assert_array_equal(picks(same[:, :1], "honest"), [0, 0, 0])


def test_a_grid_of_pure_luck_is_best_above_the_truth_and_honest_at_it() -> None:
    def luck(fit: Fit, point: dict[str, Any]) -> float:
        seed = [fit.replication, point.get("depth", 0), point.get("weight", 0)]
        return 0.5 + 0.1 * float(np.random.default_rng(seed).standard_normal())

    made = study()
    results = made_up(made, luck)
    picking: list[Pick] = ["best", "honest"]
    best, honest = (
        [float(Reading(cell, "accuracy", pick=pick).read(results).mean[0]) for cell in made.cells] for pick in picking
    )
    grid = [len(cell.job.points) > 1 for cell in made.cells]
    assert all(b >= h if has else b == h for b, h, has in zip(best, honest, grid, strict=True))
    assert max(best) > 0.53 and summarise(made.cells, results)["honest"].to_list() == pytest.approx(honest)


def test_points_that_cannot_run_are_not_picked() -> None:
    made = study()
    results = made_up(made, lambda fit, point: None if point.get("depth") == 2 else law(fit, point))
    lpct = next(cell for cell in made.cells if cell.settings["method"] == "LPCT")
    assert Reading(lpct, "accuracy").read(results).point == {"depth": 1, "weight": 10}
    assert Reading(lpct, "accuracy", fixed={"depth": 2}).read(results).why == "too large."
    assert Reading(lpct, "accuracy", fixed={"depth": 3}).read(results).point == {"depth": 3, "weight": 10}


# statements


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ({"mean": {"method": "LPCT", "epsilon": 2, "n_public": 10}}, 0.73),
        ({"mean": {"method": "LPCT", "epsilon": 2, "n_public": 10, "fixed": {"depth": 1}}}, 0.71),
        ({"mean": {"method": "LPCT", "epsilon": 2, "n_public": 10, "y": "seconds"}}, 0.5),
        ({"difference": [{"method": m, "epsilon": 4, "n_public": 20} for m in ("LPCT", "prune")]}, 0.1),
        (
            {"lead": {"of": {"method": "LPCT", "n_public": 10}, "along": "epsilon",
                      "over": [{"method": "prune", "n_public": 10}, {"method": "public", "n_public": 10}]}},
            0.1,
        ),
        (
            {"lead": {"of": {"method": "public", "n_public": 10}, "along": "n_public",
                      "over": [{"method": "LPCT", "epsilon": 1}]}},
            -0.21,
        ),
        ({"least_step": {"of": {"method": "LPCT", "n_public": 10}, "along": "epsilon"}}, 0.01),
        ({"greatest_step": {"of": {"method": "LPCT", "n_public": 10}, "along": "epsilon"}}, 0.02),
        ({"greatest_step": {"of": {"method": "LPCT", "epsilon": 1, "n_public": 10}, "along": "depth"}}, 0.02),
        ({"least_step": {"of": {"method": "LPCT", "epsilon": 1, "n_public": 10}, "along": "depth"}}, -0.02),
        ({"peak": {"of": {"method": "LPCT", "epsilon": 1, "n_public": 10}, "along": "depth"}}, 2),
    ],
)  # fmt: skip
def test_a_measure_of_results_without_luck_is_exact(measure: dict[str, Any], expected: float) -> None:
    assert value(measure) == pytest.approx(expected)


def test_luck_that_methods_share_does_not_blur_their_comparison() -> None:
    pair = [{"method": m, "epsilon": 4, "n_public": 20} for m in ("LPCT", "prune")]
    assert value({"difference": pair}, lambda fit, point: law(fit, point) + 0.01 * fit.replication) == pytest.approx(
        0.1
    )
    few = study([{"measure": {"difference": pair}, "at_least": 0}], "smoke")
    measured = [estimate(resolved, made_up(few, law), np.random.default_rng(0)) for resolved in few.measures]
    assert decision(measured[0], 0, None) == "undecided (too few seeds for an interval)"
    assert verdicts_of(few, made_up(few, law))["verdict"].to_list() == ["not decided"]


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        ({"mean": {"method": "LPTC", "epsilon": 1}}, "did you mean 'LPCT'"),
        ({"mean": {"method": "LPCT", "epsilon": 1}}, "matches 2 .* differ in n_public"),
        ({"mean": {"method": "prune", "epsilon": 1, "n_public": 10, "fixed": {"depth": 1}}}, "prune has no grid of"),
        ({"mean": {"method": "LPCT", "epsilon": 1, "n_public": 10, "fixed": {"depth": 9}}}, "depth must be one of"),
        ({"peak": {"of": {"method": "LPCT", "epsilon": 1, "n_public": 10}, "along": "dept"}}, "did you mean 'depth'"),
        ({"mean": {"method": "LPCT"}, "peak": {"of": {}, "along": "depth"}}, "got mean and peak"),
        ({"lead": {"of": {"method": "public", "n_public": 10}, "over": [{"method": "LPCT"}], "along": "epsilon"}},
         "no epsilon"),
    ],
)  # fmt: skip
def test_mistakes_in_a_measure_are_named_before_anything_runs(measure: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        study([{"measure": measure, "at_least": 0}])


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ([{"name": "a", "agent": "lptc"}], "no agent is called"),
        ([{"name": "a", "agent": "lpct", "settings": {"dept": 3}}], "no setting 'dept' .*did you mean 'depth'"),
        ([{"name": "a", "agent": "lpct", "grid": {"depth": [3, 99]}}], "depth must be at most 16; got 99"),
        ([{"name": "a", "agent": "lpct", "settings": {"epsilon": 1}}], "epsilon is not a setting here"),
        (
            [{"name": "a", "agent": "lpct", "settings": {"depth": 1}, "grid": {"depth": [1]}}],
            "depth must be given once",
        ),
        ([{"name": "a", "agnt": "lpct"}], "agent is missing"),
        ([{"name": "a", "agent": "linucb"}], "agent must be one that predicts labels, such as lpct; got 'linucb'"),
        ([{"name": "a", "agent": "lpct", "settings": {"scale_by": "rnge"}}], "did you mean 'range'"),
        ([{"name": "a", "agent": "lpct", "settings": {"feature_range": 3}}], "feature_range must be .low, high."),
        ([{"name": "a", "agent": "lpct", "grid": {"aggregate": [True, "no"]}}], "aggregate must be true or false"),
        ([{"name": "a", "agent": "lpct", "estimator": "nowhere:Class"}], "no module named 'nowhere'"),
        ([{"name": "a", "agent": "lpct"}, {"name": "a", "agent": "phist"}], "method names must differ; 'a' is taken"),
    ],
)
def test_mistakes_in_a_method_are_named(methods: list[dict[str, Any]], message: str) -> None:
    offline = {"worlds": [{}], "epsilons": [1], "replications": 1, "methods": methods}
    with pytest.raises(UsageError, match=message):
        study(offline=offline)


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (
            {"n_pubic": 3},
            r"worlds\[0\]: n_pubic is not a known key .*did you mean 'n_public'.*gamma, stretch, deduplicate\.$",
        ),
        ({"grid": {"gamma": [1, -1]}}, r"worlds\[0\]: gamma: input should be greater than 0; got -1\.$"),
        ({"gamma": 1, "grid": {"gamma": [1, 2]}}, "gamma must be given once; got it in the grid and beside it"),
        ({"source": "wine", "n_public": 9, "gamma": 1}, "gamma is for lpct-synthetic; .* has no such setting"),
    ],
)
def test_mistakes_in_a_world_are_named_in_a_sentence(world: dict[str, Any], message: str) -> None:
    offline = {"worlds": [world], "epsilons": [1], "replications": 1, "methods": OTHERS}
    with pytest.raises(UsageError, match=message) as caught:
        study(offline=offline)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"figures": [{"name": "f", "x": "epsilonn"}]}, r"figures\[0\]: no trial has a setting 'epsilonn'"),
        (
            {"figures": [{"name": "f", "x": "report", "select": {"method": "words"}}]},
            "report: value must be a finite number; got 'auto'",
        ),
        ({"figures": [{"name": "f", "x": "depth", "select": {"method": "words"}}]}, "depth needs values that can be"),
        ({"figures": [{"name": "f"}, {"name": "f"}]}, "names of figures must differ; 'f' is taken twice"),
        ({"tables": [{"name": "verdicts"}]}, "names of tables must differ; 'verdicts' is taken twice"),
        (
            {"tables": [{"name": "t", "methods": ["word"]}]},
            r"tables\[0\]: method must be one of .*did you mean 'words'",
        ),
        ({"tables": [{"name": "t", "reference": ["CT"]}]}, r"tables\[0\]: method must be one of"),
    ],
)
def test_mistakes_in_figures_and_tables_are_named_before_anything_runs(more: dict[str, Any], message: str) -> None:
    words = {"name": "words", "agent": "lpct", "grid": {"report": ["auto", "grr"], "depth": [3, None]}}
    offline = {"worlds": [{}], "epsilons": [1], "replications": 1, "methods": [words]}
    with pytest.raises(UsageError, match=message):
        study(offline=offline, **more)


# tables


def columns(*rows: list[float]) -> list[Values]:
    return [Values(np.arange(len(row)), np.array(row)[:, None], np.ones((len(row), 1))) for row in rows]


def table(rows: list[list[Values]], reference: tuple[str, ...] = ()) -> pl.DataFrame:
    values = {f"w{i}": {f"m{j}": one for j, one in enumerate(row)} for i, row in enumerate(rows)}
    return compared("t", values, reference)


def marks(found: pl.DataFrame, key: str) -> list[list[bool]]:
    return [rows[key].to_list() for rows in found.partition_by("data", maintain_order=True)]


def test_marks_are_those_of_a_one_sided_wilcoxon_test() -> None:
    """Five pairs in which the leader always wins have p = 1/32, four have 1/16; one lost pair of eight is not much."""
    leader = [0.9, 0.8, 0.7, 0.6, 0.5]
    behind = [0.8, 0.69, 0.58, 0.47, 0.36]
    barely = [0.89, 0.82, 0.65, 0.61, 0.5]
    found = table([columns(leader, behind, barely), columns(behind, leader, barely)])
    assert marks(found, "best") == [[True, False, False], [False, True, False]]
    assert marks(found, "close") == [[False, False, True], [False, False, True]]
    four = table([columns(leader[:4], behind[:4])])
    assert marks(four, "close") == [[False, True]]
    assert contest_table(found, TableSpec(name="t")).cells[0] == ["w0", "0.7000*", "0.5800", "0.6940'"]


def test_ranks_and_wins_by_hand() -> None:
    none = Values.nothing("too large.")
    rows = [columns([0.9], [0.8], [0.7]), columns([0.5], [0.6], [0.6]), [*columns([0.7], [0.9]), none]]
    found, spec = table(rows), TableSpec(name="t")
    assert rank_sums(found) == {"m0": (1 + 3 + 2, 1), "m1": (2 + 1.5 + 1, 2), "m2": (3 + 1.5 + 3, 1)}
    assert contest_table(found, spec).cells[2] == ["w2", "0.7000'", "0.9000*", "-"]
    spec = TableSpec(name="t", reference=["m0"])
    reference = table(rows, ("m0",))
    assert rank_sums(reference, ("m0",)) == {"m1": (1 + 1.5 + 1, 3), "m2": (2 + 1.5 + 2, 1)}
    assert not any(row[0] for row in marks(reference, "best"))
    shown = contest_table(reference, spec)
    assert [row[1] for row in shown.cells] == ["0.9000", "0.5000", "0.7000", "", ""]
    text = contest_table(found, TableSpec(name="t")).markdown
    assert r"| w0 | 0.9000\* | 0.8000" in text and "- m2 on w2: too large." in text
    assert len(list(contest_lines([shown], spec))) > 7


def test_nothing_that_ran_has_no_rank() -> None:
    found = table([[Values.nothing("too large."), Values.nothing("too large.")]])
    assert rank_sums(found) == {"m0": (0, 0), "m1": (0, 0)}


def test_a_table_of_a_study_has_methods_without_a_budget_at_every_budget() -> None:
    made = study()
    results = made_up(made, law)
    spec = TableSpec(name="t", reference=["prune"])
    low, high = (contest(spec, made.cells, results, epsilon) for epsilon in (1, 4))
    assert low["method"].to_list() == 2 * ["LPCT", "prune", "public"] and low["data"][3] == "n_public=20"
    assert low["mean"].to_list()[:3] == pytest.approx([0.72, 0.62, 0.51])
    assert high["mean"].to_list()[:3] == pytest.approx([0.75, 0.65, 0.51])
    assert not low.filter(method="prune")["best"].any()


# runs


@pytest.mark.wide
def test_a_run_in_which_no_method_could_run_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offline = {
        "worlds": [{"source": "wine", "n_public": 30}],
        "epsilons": [1],
        "replications": 1,
        "methods": [{"name": "prune", "agent": "lpct-prune"}],
    }
    quiet = Console(file=StringIO())
    assert carry_out(study(offline=offline), tmp_path, Engine(jobs=1), quiet) == UNFINISHED
    assert "lpct-prune needs classification with two labels; got 3 labels." in capsys.readouterr().err


@pytest.mark.wide
def test_an_experiment_from_end_to_end(tmp_path: Path) -> None:
    """A tiny comparison of two agents: tables, figures against a world, a budget and the grid, verdicts, exit codes."""
    world = {"n_private": 400, "n_test": 200}
    offline = {
        "worlds": [{**world, "grid": {"n_public": [20, 40]}}],
        "epsilons": [1, 1000],
        "replications": 5,
        "methods": [{**LPCT, "settings": {"scale_by": "range", "aggregate": True, "report": "laplace"}}, OTHERS[1]],
    }
    figures = [
        {"name": "epsilon", "log": "x", "panels": "n_public"},
        {"name": "rows", "x": "n_public", "lines": ["method", "epsilon"], "pick": "honest"},
        {"name": "depth", "x": "depth", "even": True, "panels": "method", "lines": "epsilon",
         "select": {"n_public": 20}},
    ]  # fmt: skip
    of = {"method": "LPCT", "epsilon": 1000, "n_public": 40}
    for least, code in ((0.4, 0), (0.99, 1)):
        statements = [{"measure": {"mean": of}, "at_least": least}]
        made = study(statements, offline=offline, figures=figures, tables=[{"name": "contest"}])
        out = Console(file=StringIO(), width=160)
        assert carry_out(made, tmp_path, Engine(jobs=1), out) == code
    names = {path.name for path in tmp_path.iterdir()}
    assert {"epsilon.png", "rows.png", "depth.png", "contest.md", "contest.csv", "table.md", "verdicts.csv"} <= names
    summary = pl.read_csv(tmp_path / "table.csv")
    assert summary.height == 6 and summary["best"].min() > 0.3 and summary["replications"].unique().to_list() == [5]  # type: ignore[operator]
    assert "chosen on the test sets" in (tmp_path / "contest.md").read_text()
    assert "best over the grid" in (tmp_path / "table.md").read_text()
    assert "AGAINST EXPECTATION" in (tmp_path / "verdicts.md").read_text().upper()


@pytest.mark.wide
def test_missing_data_sets_have_a_line_and_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(source: str) -> str:
        return "" if source in ("breast_cancer", "digits", "digits-binary", "wine") else f"{source} is not here."

    def nothing(source: str, **options: Any) -> Any:
        raise FileNotFoundError(f"no file of {source}.")

    monkeypatch.setattr("privbandit_agents.experiments.schema.comparison.absent", absent)
    worlds = [{"sources": "present", "n_public": 60}]
    methods = [{"name": "CT-Q", "agent": "tree-public", "grid": {"max_depth": [1, 2]}}, OTHERS[0]]
    offline = {"worlds": worlds, "epsilons": [2], "replications": 1, "methods": methods}
    made = study(offline=offline, tables=[{"name": "contest"}], scale="smoke")
    out = Console(file=StringIO(), width=160)
    assert carry_out(made, tmp_path, Engine(jobs=1), out) == 0
    text = (tmp_path / "contest.md").read_text()
    assert "rice is left out: rice is not here." in text and "| breast_cancer | 0." in text
    assert "prune on digits: " in text and "lpct-prune needs" in text  # ten labels are too many for it
    monkeypatch.setattr("privbandit_agents.experiments.jobs.rows.load", nothing)
    with pytest.raises(UsageError, match=r"none of its data sets is here\. rice is left out: no file of rice"):
        study(offline={**offline, "worlds": [{"source": "rice", "n_public": 3510}]})


def test_settings_of_a_sweep_are_refused() -> None:
    with pytest.raises(UsageError, match="--set is for sweeps"):
        prepare("lpct-fig9", "smoke", ["agent.epsilon=1"])


@pytest.mark.slow
def test_the_command_runs_a_file_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(
        "{title: tiny, about: runs, scales: {smoke: {replications: 1}}, figures: [{name: f}], offline: {worlds: "
        "[{n_private: 100, n_test: 100}], epsilons: [1, 2], replications: 5, methods: [{name: LPCT, agent: lpct}]}}"
    )
    command = [sys.executable, "-m", "privbandit_agents.cli", "reproduce", "tiny.yaml", "--scale", "smoke"]
    written = []
    for _ in range(2):
        done = subprocess.run([*command, "--jobs", "1", "--out", "out"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0 and "decide nothing" in done.stdout, done.stderr
        written.append({path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "trials").iterdir()})
    assert written[0] == written[1] and len(written[0]) == 2 and (tmp_path / "out" / "f.png").exists()
