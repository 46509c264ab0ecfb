"""The benchmarks' harness, and that every benchmark starts."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
USES = "from harness import"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if USES in path.read_text() and path.stem != "quick")


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("harness")


@pytest.mark.parametrize(
    ("settings", "row"),
    [
        ({"measured": 0.7234, "unit": "of the floor", "at_least": 0.7}, "0.723 of the floor | at least 0.7 | yes |"),
        ({"measured": 0.69, "at_least": 0.7}, "0.69 | at least 0.7 | NO |"),
        ({"measured": 2, "at_most": 2}, "2 | at most 2 | yes |"),
        ({"measured": 2.01, "at_least": 1, "at_most": 2}, "2.01 | at least 1 and at most 2 | NO |"),
        ({"measured": 4219.4, "unit": "us"}, "4219 us |  |  |"),
        ({"measured": float("nan"), "at_most": 2}, "nan | at most 2 | NO |"),
    ],
)
def test_a_row_says_whether_its_target_is_met(harness: Any, settings: dict[str, Any], row: str) -> None:
    assert " | ".join([*harness.Row("it", **settings).line.values(), ""])[5:-1] == row


def test_sections_are_chosen_and_a_missed_target_is_the_exit_code(
    harness: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def good(options: Any) -> Iterator[Any]:
        yield harness.Row("good", options.jobs, at_least=1)

    def bad(options: Any) -> Iterator[Any]:
        yield harness.Row("bad", options.quick, at_least=2)

    sections = {"good": good, "bad": bad}
    for arguments, code, shown in (
        ("", 1, ["good | 2", "bad | 0"]),
        ("--only good --jobs 3", 0, ["good | 3"]),
        ("--only bad --quick", 1, ["bad | 1"]),
    ):
        monkeypatch.setattr(sys, "argv", ["it", *arguments.split()])
        assert harness.main("about", sections) == code
        rows = capsys.readouterr().out.splitlines()[2:]
        assert [row.startswith(f"| {start} |") for row, start in zip(rows, shown, strict=True)] == [True] * len(rows)


def test_timings_take_turns_and_the_best_of_each_counts(harness: Any) -> None:
    turns, times = [], iter([9.0, 9.0, 3.0, 1.0, 2.0, 4.0])

    def timing(name: str) -> float:
        turns.append(name)
        return next(times)

    assert harness.best_of(lambda: timing("a"), lambda: timing("b"), repeats=2) == [2.0, 1.0]
    assert turns == ["a", "b"] * 3


@pytest.mark.wide_at("2")
@pytest.mark.parametrize("jobs", [1, 2])
def test_lines_come_in_the_order_of_cases_as_csv_or_markdown(
    harness: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], jobs: int
) -> None:
    for markdown in ("", "--markdown"):
        out = tmp_path / "lines.csv"
        given = harness.options("about", seeds=3).parse_args([f"--jobs={jobs}", f"--out={out}", *markdown.split()])
        found = harness.results(given, pow, [(2, given.seeds), (3, 2)])
        assert len(harness.written(given, ({"power": one, "seeds": 3} for one in found))) == 2
        shown = "power,seeds\n8,3\n9,3\n"
        assert out.read_text() == shown and harness.read_csv(out)[1] == {"power": "9", "seeds": "3"}
        table = "| power | seeds |\n| --- | --- |\n| 8 | 3 |\n| 9 | 3 |\n"
        assert capsys.readouterr().out == (table if markdown else shown)


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.wide
def test_a_benchmark_starts_and_knows_its_arguments(script: str) -> None:
    command = [sys.executable, "-W", "error", str(FOLDER / f"{script}.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "--jobs" in done.stdout and not done.stderr


@pytest.mark.parametrize(("script", "section"), [("speed", "assortments"), ("privacy", "reports")])
@pytest.mark.wide
def test_a_section_prints_its_table(script: str, section: str) -> None:
    command = [sys.executable, "-W", "error", str(FOLDER / f"{script}.py"), "--only", section, "--quick"]
    done = subprocess.run(command, capture_output=True, text=True)
    head, _, *rows = done.stdout.splitlines()
    assert done.returncode in (0, 1) and not done.stderr and head == "| what | measured | target | met |"
    assert rows and all(row.count("|") == 5 for row in rows)
