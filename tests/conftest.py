"""Fixtures that tests of several folders use."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")  # pytest --hypothesis-profile=default looks for new examples

ROOT = Path(__file__).parents[1]
Run = Callable[..., "subprocess.CompletedProcess[str]"]
LONG = ("test_notebooks", "test_engine", "test_comparison", "test_study", "test_docs", "test_readme")
"""Modules with tests that take long: they start first, so that no core waits for one at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in LONG)


def pytest_collection_finish() -> None:
    gc.freeze()  # thousands of tests and their modules stay: nobody need look through them for garbage


@pytest.fixture(scope="session")
def python() -> Run:
    """Run Python in a folder whose modules can be imported: ``python(folder, "-m", "privbandit_agents.cli", ...)``."""

    def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
        places = (folder, ROOT, ROOT / "agents")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)

    return run


@pytest.fixture(scope="session")
def privbandit(python: Run) -> Run:
    """Run a command in a folder whose modules can be imported: ``privbandit(folder, "list", "agents")``."""
    return lambda folder, *arguments: python(folder, "-m", "privbandit_agents.cli", *arguments)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let games with local agents choose among their scenes by fewer pilot runs."""
    from privbandit_agents.audits.games.local import LocalGame

    monkeypatch.setattr(LocalGame, "pilots", 200)
    monkeypatch.setattr(LocalGame, "finals", 2000)
