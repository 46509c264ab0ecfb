"""``privbandit score``: its sheet, its terminal lines, and its refusals."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commanding import invoke
from privbandit_agents import make
from privbandit_agents.cli import score
from privbandit_agents.experiments.suite import rows
from privbandit_agents.experiments.suite.records import as_json, from_json, references
from privbandit_agents.experiments.suite.tasks import load_suite

AGENT = '''
"""An agent of a stranger."""

from privbandit_agents.baselines.uniform import Uniform


class Mine(Uniform):
    """Play at random."""


class Wrong(Uniform):
    """Play an arm that there is not."""

    def select_action(self, context):
        return 99
'''


def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the suite have two of its tasks, so that a score takes a second."""
    suite = load_suite()
    tasks = {name: suite.tasks[name] for name in ("linear-small", "clicks-small")}
    monkeypatch.setattr(score, "load_suite", lambda version="v1": replace(suite, tasks=tasks))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch)


def without_times(path: Path) -> str:
    told = json.loads(path.read_text())
    return json.dumps({key: value for key, value in told.items() if key not in ("times", "made")})


@pytest.mark.wide
def test_a_score_has_a_sheet_and_is_the_same_again(tmp_path: Path) -> None:
    shown = [
        invoke("score", "ldp-greedy", "--quick", "--jobs", "1", "--out", str(tmp_path / one), columns=80)
        for one in "ab"
    ]
    assert [one.exit_code for one in shown] == [0, 0], shown[0].stderr
    assert max(map(len, shown[0].stdout.replace(str(tmp_path), "").splitlines())) <= 80
    assert "check_agent passes" in shown[0].stdout and "not refuted" in shown[0].stdout
    assert without_times(tmp_path / "a" / "score.json") == without_times(tmp_path / "b" / "score.json")
    told = json.loads((tmp_path / "a" / "score.json").read_text())
    assert told["passed"] and told["boards"][0]["board"] == "linear, local privacy a visit"
    kept = references()["ldp-greedy"].regrets["linear-small"]["1"]
    assert told["tasks"]["linear-small"]["1"]["regret"] == pytest.approx(kept[:2], rel=1e-5)
    page = (tmp_path / "a" / "score.html").read_text()
    assert "<h1>Score of ldp-greedy, suite v1</h1>" in page and "$" not in page.partition("<style>")[0]
    assert (tmp_path / "a" / "score.png").stat().st_size > 10_000


@pytest.mark.wide
@pytest.mark.usefixtures("own_worlds")
def test_an_agent_that_fails_its_check_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scored_agents.py").write_text(AGENT)
    monkeypatch.chdir(tmp_path)
    good = invoke("score", f"{tmp_path}/scored_agents.py:Mine", "--quick", "--jobs", "1", "--out", "good")
    assert good.exit_code == 0 and json.loads(Path("good/score.json").read_text())["passed"], good.stderr
    wrong = invoke("score", f"{tmp_path}/scored_agents.py:Wrong", "--quick", "--jobs", "1", "--out", "wrong")
    assert wrong.exit_code == 4 and "Not to be compared: check_agent" in wrong.stdout
    assert not json.loads(Path("wrong/score.json").read_text())["passed"]
    assert "class=warning>Not to be compared" in Path("wrong/score.html").read_text()


@pytest.mark.parametrize(
    "arguments, reason",
    [
        ([], "score needs an agent"),
        (["lincub"], "no agent is called 'lincub'"),
        (["linucb", "--epsilon", "2"], "--epsilon must be a budget of suite v1, 0.5, 1, 4; got 2."),
        (["ucb-mnl"], "ucb-mnl plays none of the suite's worlds"),
    ],
)
def test_a_bad_request_is_one_sentence(
    arguments: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = invoke("score", *arguments)
    assert shown.exit_code == 2 and reason in shown.stderr


def test_a_changed_world_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = load_suite()
    task = suite.tasks["linear-small"]
    tasks = {"linear-small": replace(task, world={**task.world, "theta_norm": 0.7})}
    other = replace(suite, tasks=tasks)
    monkeypatch.setattr(score, "load_suite", lambda version="v1": other)
    shown = invoke("score", "greedy", "--quick", "--out", str(tmp_path))
    assert shown.exit_code == 2 and "the world of linear-small has changed" in shown.stderr


@pytest.mark.wide
def test_references_of_one_agent_leave_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "references.json"
    known = references()
    kept = {"linear-small": known["uniform"].regrets["linear-small"]}
    monkeypatch.setattr(score, "reference_file", lambda version: path)
    found = {"uniform": replace(known["uniform"], regrets=kept)}
    monkeypatch.setattr(score, "own_references", lambda version: found)
    shown = invoke("score", "greedy", "--references", "--jobs", "1", "--out", str(tmp_path / "runs"))
    assert shown.exit_code == 0 and "12 runs, which took 0 CPU hours last time" in shown.stderr, shown.stderr
    told: dict[str, Any] = json.loads(path.read_text())["agents"]
    assert set(told) == {"greedy", "uniform"} and set(told["greedy"]["tasks"]) == {"linear-small", "clicks-small"}
    assert make("greedy", load_suite().tasks["linear-small"].env()).name == "greedy"


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a stranger made; the agent's module is not loaded any more."""
    folder = tmp_path_factory.mktemp("stranger")
    (folder / "row_of_tests.py").write_text(AGENT)
    with pytest.MonkeyPatch.context() as patch:
        few(patch)
        patch.setattr(sys, "path", [*sys.path])  # folders of agents' files are added to it
        patch.chdir(folder)
        arguments = ("row_of_tests.py:Mine", "--quick", "--jobs", "1", "--submit", "mine", "--out", "runs")
        shown = invoke("score", *arguments)
    assert shown.exit_code == 0 and "row: mine" in shown.stdout, shown.stderr
    return folder / "mine"


@pytest.fixture
def row(scored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, beside which commands are given."""
    sys.modules.pop("row_of_tests", None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(scored, tmp_path / "mine"))


def changed(row: Path, task: str, factor: float, keep_scores: bool = False) -> None:
    """Change the last regret of a task, and the score of it with it."""
    told = json.loads((row / "score.json").read_text())
    kept = json.dumps(told["tasks"][task]["none"]["score"])
    told["tasks"][task]["none"]["regret"][-1] *= factor
    record = from_json({**told, "users_a_second": told["times"]["users_a_second"]})
    told["tasks"] = as_json(record, load_suite())["tasks"]
    if keep_scores:
        told["tasks"][task]["none"]["score"] = json.loads(kept)
    (row / "score.json").write_text(json.dumps(told))


@pytest.mark.usefixtures("own_worlds")
def test_a_row_of_a_stranger_passes_its_check_and_a_changed_number_fails_by_its_cell(row: Path) -> None:
    assert {path.name for path in row.iterdir()} == {"score.json", "row_of_tests.py", "audit.txt"}
    told = json.loads((row / "score.json").read_text())
    assert {"system", "processor", "python", "numpy"} <= set(told["made"]) and len(told["source"]["sha256"]) == 64
    again = invoke("score", "--check", "mine", "--jobs", "1", "--out", "again")
    assert again.exit_code == 0 and "4 of 4 cells are equal" in again.stdout, again.stderr
    assert "does not take it: it was scored with --quick" in again.stdout
    changed(row, "clicks-small", 1.001)
    again = invoke("score", "--check", "mine", "--jobs", "1", "--out", "again")
    assert again.exit_code == 1 and "clicks-small, epsilon none, seed 480001: FAILS" in again.stdout
    assert "3 of 4 cells are equal" in again.stdout and again.stdout.count("FAILS") == 1


@pytest.mark.usefixtures("own_worlds")
def test_a_reference_is_checked_as_a_row_and_a_changed_number_fails_by_its_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(score, "CELLS", 3)
    few(monkeypatch)
    whole = references()["greedy"]
    short = {task: by for task, by in whole.regrets.items() if task == "linear-small"}
    wrong = {"linear-small": {"none": [1.001 * one for one in short["linear-small"]["none"]]}}
    for regrets, code, said in (
        (short, 0, "greedy: 3 of 3 cells are equal, of 6"),
        (wrong, 1, "0 of 3 cells are equal, of 6"),
    ):
        known = {"greedy": replace(whole, regrets=regrets)}
        monkeypatch.setattr(score, "references", lambda version, known=known: known)
        monkeypatch.setattr(rows, "references", lambda version, known=known: known)
        again = invoke("score", "--check", "greedy", "--jobs", "1", "--out", "again")
        assert again.exit_code == code and said in again.stdout, again.stdout


@pytest.mark.usefixtures("own_worlds")
def test_a_row_whose_parts_do_not_fit_fails_before_anything_runs(row: Path) -> None:
    changed(row, "linear-small", 1.5, keep_scores=True)
    shown = invoke("score", "--check", "mine")
    assert shown.exit_code == 1 and "linear-small, epsilon none: its score is not that of its regrets" in shown.stdout
    with (row / "row_of_tests.py").open("a") as file:
        file.write("# changed\n")
    shown = invoke("score", "--check", "mine")
    assert shown.exit_code == 1 and "row_of_tests.py:Mine is another one" in shown.stdout
    (row / "score.json").write_text("[]")
    assert invoke("score", "--check", "mine").exit_code == 2
    shown = invoke("score", "--check", "nothing")
    assert shown.exit_code == 2 and "score.json is missing; `privbandit score FILE:Class --submit DIR`" in shown.stderr


@pytest.mark.usefixtures("own_worlds")
def test_the_board_refuses_a_row_that_is_not_whole_and_other_suffixes(row: Path) -> None:
    shown = invoke("score", "mine", "--board", "board.html")
    assert shown.exit_code == 2 and "cannot be on the leaderboard: it was scored with --quick" in shown.stderr
    shown = invoke("score", "--board", "board.txt")
    assert shown.exit_code == 2 and "takes a page, .html, or a picture" in shown.stderr
    assert not list(row.parent.glob("board*"))
