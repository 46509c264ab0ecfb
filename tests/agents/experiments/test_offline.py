"""Offline comparisons: rows, what is picked and marked on made-up results with known answers, runs and resumes."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from joblib.externals.loky import get_reusable_executor
from numpy.testing import assert_array_equal
from privbandit_agents.experiments.engine import Engine
from privbandit_agents.experiments.offline import scores
from privbandit_agents.experiments.offline.contest import Contest, as_markdown, as_words, contest, rich_table
from privbandit_agents.experiments.offline.file import OfflineExperiment, TableSpec, Worlds, parse_offline
from privbandit_agents.experiments.offline.method import Method
from privbandit_agents.experiments.offline.reading import Reading, Values, picks
from privbandit_agents.experiments.offline.runner import Results, run_tasks
from privbandit_agents.experiments.offline.study import OfflineStudy, carry_out, prepared, summarise, verdicts_of
from privbandit_agents.experiments.offline.task import Task, evaluate, run
from privbandit_agents.experiments.offline.world import World, draw
from privbandit_agents.experiments.reproduce import prepare
from privbandit_agents.experiments.store import path_of
from privbandit_agents.experiments.usage import UsageError
from rich.console import Console

from privbandit_envs.datasets import load

Accuracy = Callable[[Task, dict[str, Any]], float | None]
LPCT = {"name": "LPCT", "agent": "lpct", "grid": {"depth": [1, 2, 3], "weight": [1, 10]}}
OTHERS = [{"name": "prune", "agent": "lpct-prune"}, {"name": "public", "agent": "lpct-q"}]
KNOWN = """
import copy, os, pathlib
import numpy as np

class Known:
    '''Says 0 for weight 1 and 1 for others, and counts its fits; some depths are too much for it, one kills.'''
    def __init__(self, agent, settings=None, *, classes=None, random_state=None, **own):
        self.settings = dict(settings)
    def fit(self, X, y, X_public, y_public):
        depth = self.settings.get("depth", 1)
        with (pathlib.Path(__file__).parent / "fits").open("a") as file: file.write(f"{depth}\\n")
        if depth == 2: raise MemoryError("no room")
        if depth == 16: os.kill(os.getpid(), 9)
        return self
    def reprocessed(self, **settings):
        other = copy.copy(self)
        other.settings = self.settings | settings
        return other
    def predict(self, X):
        return np.full(len(X), 0 if self.settings.get("weight") == 1 else 1)
"""


def parsed(statements: list[dict[str, Any]] | None = None, **more: Any) -> OfflineExperiment:
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
    return parse_offline(content | more, "made-up.yaml")


def study(statements: list[dict[str, Any]] | None = None, scale: str = "paper", **more: Any) -> OfflineStudy:
    return prepared(parsed(statements, **more), "made-up", scale)


def made_up(made: OfflineStudy, accuracy: Accuracy) -> Results:
    results = {}
    for task in made.tasks:
        found = [accuracy(task, point) for point in task.method.points]
        errors = ["too large." if value is None else None for value in found]
        seconds = [None if value is None else 0.5 for value in found]
        results[task.name] = scores.Scores(task.spec, task.settings, found, seconds, errors, {})
    return results


def law(task: Task, point: dict[str, Any]) -> float:
    """The grid is best at depth 2 and weight 10; budgets and public rows help; the others are .1 and .2 behind."""
    behind = {"LPCT": 0.0, "prune": 0.1, "public": 0.2}[task.method.name]
    grid = -0.02 * abs(point.get("depth", 2) - 2) - 0.01 * (point.get("weight") == 1)
    assert task.world.n_public is not None
    return float(0.7 + 0.01 * (task.epsilon or 0) + 0.001 * task.world.n_public + grid - behind)


def value(measure: dict[str, Any], accuracy: Accuracy = law) -> float:
    made = study([{"measure": measure, "at_least": 0}])
    (verdict,) = verdicts_of(made, made_up(made, accuracy))
    assert verdict.measured.low == pytest.approx(verdict.measured.high)
    return verdict.measured.value


# worlds


def test_replications_are_draws_of_the_laws_and_worlds_of_a_source_share_them() -> None:
    small, large = World(n_public=10, n_private=300), World(n_public=20, n_private=500, gamma=5)
    a, b, again = draw(small, 3), draw(large, 3), draw(small, 3)
    assert_array_equal(a.private[0], again.private[0])
    assert_array_equal(a.private[0], b.private[0][:300])
    assert_array_equal(a.private[1], b.private[1][:300])
    assert_array_equal(a.public[0], b.public[0][:10])
    assert not np.array_equal(a.private[0], draw(small, 4).private[0])
    assert [len(part[1]) for part in (a.private, a.public, a.test)] == [300, 10, 5000] and a.n_labels == 2
    x, y = draw(World(n_private=100_000), 0).private
    right = (y == ((x[:, 0] > 1 / 3) == (x[:, 1] > 1 / 3))).mean()
    assert right == pytest.approx(0.786, abs=0.005)  # the Bayes classifier, 4 standard errors


def test_a_stretch_multiplies_all_features_by_one_factor_a_replication() -> None:
    plain, stretched = World(n_private=50), World(n_private=50, stretch=(1, 5))
    factors = []
    for replication in range(20):
        a, b = draw(plain, replication), draw(stretched, replication)
        factor = b.private[0] / a.private[0]
        np.testing.assert_allclose(factor, factor[0, 0])
        np.testing.assert_allclose(b.test[0], factor[0, 0] * a.test[0])
        factors.append(factor[0, 0])
    assert min(factors) >= 1 and max(factors) <= 5 and np.ptp(factors) > 2


def test_a_data_set_is_cut_into_public_rows_training_and_test() -> None:
    world = World(source="breast_cancer", n_public=100)
    sample, rows = draw(world, 0), load("breast_cancer")
    assert [len(part[1]) for part in (sample.public, sample.private, sample.test)] == [100, 375, 94]  # .8 (569 - 100)
    together = np.concatenate([sample.public[0], sample.private[0], sample.test[0]])
    assert_array_equal(np.sort(together, axis=0), np.sort(rows.X, axis=0))
    assert not np.array_equal(sample.public[0], draw(world, 1).public[0])
    assert len(draw(world.model_copy(update={"n_private": 60}), 0).private[1]) == 60
    with pytest.raises(ValueError, match="n_public must be at most 568 for breast_cancer; got 569"):
        draw(World(source="breast_cancer", n_public=569), 0)
    with pytest.raises(ValueError, match="n_private must be at most 375"):
        draw(World(source="breast_cancer", n_public=100, n_private=400), 0)
    with pytest.raises(ValueError, match="n_public must be given"):
        draw(World(source="wine"), 0)


def test_public_rows_by_a_rule_are_taken_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ruled:
        X, y = np.arange(100.0)[:, None], np.arange(100) % 2
        label_names, public = ("a", "b"), np.arange(100) >= 70

    monkeypatch.setattr("privbandit_agents.experiments.offline.world.load", lambda source: Ruled)
    sample = draw(World(source="census"), 0)
    assert set(sample.public[0].ravel()) == set(range(70, 100)) and len(sample.private[1]) == 56
    assert max(sample.private[0].max(), sample.test[0].max()) < 70
    fewer = draw(World(source="census", n_public=5), 0)
    assert len(fewer.public[1]) == 5 and fewer.public[0].min() >= 70 and len(fewer.private[1]) == 56


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
    def luck(task: Task, point: dict[str, Any]) -> float:
        seed = [task.replication, point.get("depth", 0), point.get("weight", 0)]
        return 0.5 + 0.1 * float(np.random.default_rng(seed).standard_normal())

    made = study()
    results = made_up(made, luck)
    best, honest = ([Reading(cell, pick).read(results).mean for cell in made.cells] for pick in ("best", "honest"))
    grid = [bool(cell.method.grid) for cell in made.cells]
    assert all(b >= h if has else b == h for b, h, has in zip(best, honest, grid, strict=True))
    assert max(best) > 0.53 and summarise(made.cells, results)["honest"].to_list() == pytest.approx(honest)


def test_points_that_cannot_run_are_not_picked() -> None:
    made = study()
    results = made_up(made, lambda task, point: None if point.get("depth") == 2 else law(task, point))
    lpct = next(cell for cell in made.cells if cell.settings["method"] == "LPCT")
    assert Reading(lpct).read(results).point == {"depth": 1, "weight": 10}
    assert Reading(lpct, fixed={"depth": 2}).read(results).why == "too large."
    assert Reading(lpct, fixed={"depth": 3}).read(results).point == {"depth": 3, "weight": 10}


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
    assert value({"difference": pair}, lambda task, point: law(task, point) + 0.01 * task.replication) == pytest.approx(
        0.1
    )
    few = study([{"measure": {"difference": pair}, "at_least": 0}], "smoke")
    (verdict,) = verdicts_of(few, made_up(few, law))
    assert verdict.decision == "undecided (too few seeds for an interval)"


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
        ([{"name": "a", "agent": "lptc"}], "agent must be one of"),
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
        ({"n_pubic": 3}, r"worlds\[0\]: n_pubic is not a known key .*did you mean 'n_public'.*gamma, stretch\.$"),
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
        ({"figures": [{"name": "f", "x": "report", "select": {"method": "words"}}]}, "x must be numbers; got report"),
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
    return [Values(np.arange(len(row)), np.array(row)) for row in rows]


def table(rows: list[list[Values]], competes: list[bool] | None = None) -> Contest:
    n = len(rows[0])
    names = [f"m{i}" for i in range(n)]
    return Contest("t", [f"w{i}" for i in range(len(rows))], names, rows, np.array(competes or [True] * n), True)


def test_marks_are_those_of_a_one_sided_wilcoxon_test() -> None:
    """Five pairs in which the leader always wins have p = 1/32, four have 1/16; one lost pair of eight is not much."""
    leader = [0.9, 0.8, 0.7, 0.6, 0.5]
    behind = [0.8, 0.69, 0.58, 0.47, 0.36]
    barely = [0.89, 0.82, 0.65, 0.61, 0.5]
    found = table([columns(leader, behind, barely), columns(behind, leader, barely)])
    assert_array_equal(found.best, [[True, False, False], [False, True, False]])
    assert_array_equal(found.close, [[False, False, True], [False, False, True]])
    four = table([columns(leader[:4], behind[:4])])
    assert_array_equal(four.close, [[False, True]])
    words = as_words(found)
    assert words["m0"][0] == "0.7000*" and words["m1"][0] == "0.5800" and words["m2"][0] == "0.6940'"


def test_ranks_and_wins_by_hand() -> None:
    none = Values(np.array([], np.int64), np.array([]), why="too large.")
    rows = [columns([0.9], [0.8], [0.7]), columns([0.5], [0.6], [0.6]), [*columns([0.7], [0.9]), none]]
    found = table(rows)
    assert_array_equal(found.rank_sums, [1 + 3 + 2, 2 + 1.5 + 1, 3 + 1.5 + 3])
    assert_array_equal(found.wins, [1, 2, 1])
    assert found.reasons == ["m2 on w2: too large."] and as_words(found)["m2"][2] == "-"
    reference = table(rows, [False, True, True])
    assert_array_equal(reference.rank_sums[1:], [1 + 1.5 + 1, 2 + 1.5 + 2])
    assert np.isnan(reference.rank_sums[0]) and reference.wins[0] == 0 and not reference.best[:, 0].any()
    assert as_words(reference)["m0"].to_list() == ["0.9000", "0.5000", "0.7000", "", ""]
    text = as_markdown([found])
    assert r"| w0 | 0.9000\* | 0.8000" in text and "- m2 on w2: too large." in text and rich_table(found).row_count == 5


def test_a_table_of_a_study_has_methods_without_a_budget_at_every_budget() -> None:
    made = study()
    results = made_up(made, law)
    spec = TableSpec(name="t", reference=["prune"])
    low, high = (contest(spec, made.cells, results, epsilon) for epsilon in (1, 4))
    assert low.methods == ["LPCT", "prune", "public"] and low.worlds == ["n_public=10", "n_public=20"]
    assert low.means[0].tolist() == pytest.approx([0.72, 0.62, 0.51])
    assert high.means[0].tolist() == pytest.approx([0.75, 0.65, 0.51])
    assert_array_equal(low.competes, [True, False, True])


# runs


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a module with a stand-in estimator, and of its list of fits."""
    (tmp_path / "known_estimator.py").write_text(KNOWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    get_reusable_executor().shutdown(wait=True)  # workers of an earlier test do not know this folder
    yield tmp_path
    get_reusable_executor().shutdown(wait=True)
    sys.modules.pop("known_estimator", None)


def known_method(**more: Any) -> Method:
    return Method(**{**LPCT, "estimator": "known_estimator:Known", **more})


def test_a_grid_is_fitted_once_for_each_report_and_what_cannot_run_has_a_reason(known: Path) -> None:
    task = Task(World(n_private=100, n_test=200), known_method(), 1.0, 0)
    found = evaluate(task)
    zeros = float((draw(task.world, 0).test[1] == 0).mean())
    assert found.accuracy[2:4] == [None, None]
    assert found.accuracy[:2] + found.accuracy[4:] == pytest.approx([zeros, 1 - zeros, zeros, 1 - zeros])
    assert found.errors == [None, None, "MemoryError: no room", "MemoryError: no room", None, None]
    assert [second is None for second in found.seconds] == [False, False, True, True, False, False]
    assert (known / "fits").read_text().split() == ["1", "2", "3"]


def test_finished_tasks_are_not_run_again_and_damaged_ones_are(known: Path) -> None:
    tasks = [Task(World(n_private=100, n_test=200), known_method(), 1.0, replication) for replication in range(4)]
    folder, engine = known / "out", Engine(jobs=1)
    first, failures = run_tasks(tasks, folder, engine)
    assert len(first) == 4 and not failures and not (folder / "unfinished").exists()
    paths = [path_of(folder, task.name) for task in tasks]
    paths[0].unlink()
    paths[1].write_bytes(paths[1].read_bytes()[:-100])
    (known / "fits").unlink()
    with pytest.warns(UserWarning, match="set aside"):
        again, _ = run_tasks(tasks, folder, engine)
    assert len((known / "fits").read_text().split()) == 2 * 3
    assert {name: found.accuracy for name, found in again.items()} == {n: f.accuracy for n, f in first.items()}
    assert paths[1].with_name(f"{paths[1].name}.corrupt").exists()
    changed = Task(tasks[2].world, tasks[2].method, 2.0, 2)
    assert changed.name != tasks[2].name and scores.finished(folder, changed.name, changed.settings) is None
    with pytest.warns(UserWarning, match="other defaults"):
        assert scores.finished(folder, tasks[2].name, {"env": {}, "agent": {}}) is None


def test_a_task_that_kills_its_worker_is_recorded_and_the_others_go_on(known: Path) -> None:
    deadly = known_method(grid={"depth": [16]})
    tasks = [Task(World(n_private=100, n_test=200), known_method(), 1.0, replication) for replication in range(3)]
    tasks.insert(1, Task(World(n_private=100, n_test=200), deadly, 1.0, 0))
    results, failures = run_tasks(tasks, known / "out", Engine(jobs=1))
    assert not failures and len(results) == 4
    assert "worker process died" in str(results[tasks[1].name].errors[0])
    assert all(results[task.name].accuracy[0] is not None for task in tasks if task is not tasks[1])
    (known / "fits").unlink()
    run_tasks(tasks, known / "out", Engine(jobs=1))
    assert not (known / "fits").exists()


def test_a_run_in_which_no_method_could_run_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offline = {
        "worlds": [{"source": "wine", "n_public": 30}],
        "epsilons": [1],
        "replications": 1,
        "methods": [{"name": "prune", "agent": "lpct-prune"}],
    }
    quiet = Console(file=StringIO())
    assert carry_out(study(offline=offline), tmp_path, Engine(jobs=1), quiet) == 1
    assert "no method could run: lpct-prune needs classification with two labels" in capsys.readouterr().err


def test_a_missing_package_is_told_but_not_kept(known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(World(n_private=100, n_test=200), known_method(), 1.0, 0)

    def missing(*_: Any) -> None:
        raise ModuleNotFoundError("no sklearn", name="sklearn")

    with monkeypatch.context() as patch:
        patch.setattr("privbandit_agents.experiments.offline.task.evaluate", missing)
        assert "privbandit[data]" in str(run(task, known / "out").errors[0])
    assert run(task, known / "out").accuracy[0] is not None


def test_a_bug_is_a_failure_and_not_a_result(known: Path) -> None:
    task = Task(World(n_private=100, n_test=200), known_method(estimator="known_estimator:Nobody"), 1.0, 0)
    results, failures = run_tasks([task], known / "out", Engine(jobs=1))
    assert not results and len(failures) == 1 and "AttributeError" in failures[0]


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
        {"name": "epsilon", "axis": "log", "panels": "n_public"},
        {"name": "rows", "x": "n_public", "lines": ["method", "epsilon"], "pick": "honest"},
        {"name": "depth", "x": "depth", "axis": "categories", "panels": "method", "lines": "epsilon",
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


def test_missing_data_sets_have_a_line_and_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(source: str) -> str:
        return "" if source in ("breast_cancer", "digits", "digits-binary", "wine") else f"{source} is not here."

    def nothing(source: str) -> Any:
        raise FileNotFoundError(f"no file of {source}.")

    monkeypatch.setattr("privbandit_agents.experiments.offline.study.absent", absent)
    worlds = [{"sources": "present", "n_public": 60}]
    methods = [{"name": "CT-Q", "agent": "tree-public", "grid": {"max_depth": [1, 2]}}, OTHERS[0]]
    offline = {"worlds": worlds, "epsilons": [2], "replications": 1, "methods": methods}
    made = study(offline=offline, tables=[{"name": "contest"}], scale="smoke")
    out = Console(file=StringIO(), width=160)
    assert carry_out(made, tmp_path, Engine(jobs=1), out) == 0
    text = (tmp_path / "contest.md").read_text()
    assert "rice is left out: rice is not here." in text and "| breast_cancer | 0." in text
    assert "prune on digits: lpct-prune needs" in text  # ten labels are too many for it
    monkeypatch.setattr("privbandit_agents.experiments.offline.world.load", nothing)
    with pytest.raises(UsageError, match=r"none of its data sets is here\. rice is left out: no file of rice"):
        study(offline={**offline, "worlds": [{"source": "rice", "n_public": 3510}]})


def test_settings_of_a_sweep_are_refused() -> None:
    with pytest.raises(UsageError, match="--set is for sweeps"):
        prepare("lpct-fig9", "smoke", ["agent.epsilon=1"])


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
