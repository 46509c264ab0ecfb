"""The campaign of faults counts what it tries, and its exit code says whether something went wrong."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "faults"


@pytest.fixture
def campaign(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("run")


def survived(rng: Any, folder: Path, seconds: float) -> Iterator[str]:
    assert folder.is_dir() and seconds <= 3
    yield from [""] * 4


def broken(rng: Any, folder: Path, seconds: float) -> Iterator[str]:
    yield from ("", f"{rng.integers(100)} was lost")


def test_the_table_and_the_exit_code(
    campaign: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaign, "campaigns", lambda: {"kills": survived, "floods": broken})
    monkeypatch.setattr(campaign, "LEAST", {"kills": 4, "floods": 2})
    for arguments, code, rows in (
        ("--seconds 6", 1, ["kills 4 4 4 0", "floods 2 2 1 1"]),
        ("--only kills --seconds 3", 0, ["kills 4 4 4 0"]),
    ):
        monkeypatch.setattr(sys, "argv", ["run.py", *arguments.split()])
        assert campaign.main() == code
        printed = capsys.readouterr().out
        lines = [" ".join(line.replace("│", " ").split()) for line in printed.splitlines()]
        assert all(any(line.startswith(row) for line in lines) for row in rows)
        assert ("was lost" in printed) == bool(code)


def test_the_kinds_of_faults_are_found(campaign: Any) -> None:
    kinds = campaign.campaigns()
    assert {"hostile records", "servers that misbehave", "damaged folders", "full disks"} <= set(kinds)
    assert set(campaign.LEAST) | set(campaign.SLOW) <= set(kinds)


def test_a_slow_kind_is_tried_as_often_as_is_asked(campaign: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def slow(rng: Any, folder: Path, seconds: float) -> Iterator[str]:
        seen.append(seconds)
        yield from [""] * 3

    monkeypatch.setattr(campaign, "campaigns", lambda: {"slow": slow})
    monkeypatch.setattr(campaign, "LEAST", {"slow": 10})
    monkeypatch.setattr(sys, "argv", ["run.py", "--seconds", "1"])
    assert campaign.main() == 0 and len(seen) == 4 and max(seen) <= 1
