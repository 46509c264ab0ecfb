"""Fixtures that tests of several folders use."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


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
