"""The examples of docs/extending.md run as they stand, each a file in one folder."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
TEXT = (DOCS / "extending.md").read_text()
FILES = dict(re.findall(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", TEXT, flags=re.DOTALL))
Run = Callable[..., subprocess.CompletedProcess[str]]
SCRIPTS = [name for name in FILES if name.endswith(".py")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("extending")
    for name, text in FILES.items():
        (made / name).write_text(text)
    return made


def test_every_block_is_a_file_with_a_name() -> None:
    assert len(FILES) == len(re.findall(r"```(?:python|yaml)\n", TEXT)) > 5


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_runs(folder: Path, name: str, python: Run) -> None:
    done = python(folder, "-W", "error", name)
    assert done.returncode == 0, done.stderr


def test_an_outsider_s_agent_is_audited_by_its_own_game(folder: Path, privbandit: Run) -> None:
    options = ("--epsilon", "1", "--runs", "400", "--out", "audit")
    done = privbandit(folder, "audit", "first_moment_game:watched-moment", *options)
    assert done.returncode == 0, done.stderr
    assert "reward 1 or -1 at x = (1, 1)" in done.stdout


def test_the_experiment_runs(folder: Path, privbandit: Run) -> None:
    done = privbandit(folder, "reproduce", "moments.yaml", "--scale", "smoke", "--jobs", "1", "--out", "runs")
    assert done.returncode == 0, done.stderr
    assert "With a curator" in done.stdout


def test_links_between_pages_lead_somewhere() -> None:
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            if not target.startswith("api/"):  # made by the documentation generator
                assert (page.parent / target).exists(), f"{page.relative_to(DOCS)}: {target}"
