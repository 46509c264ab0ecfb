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
    assert (
        "1 statements, 1 figures" in done.stdout and "With a curator" in (folder / "runs" / "verdicts.md").read_text()
    )


def test_links_between_pages_lead_somewhere() -> None:
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            if not target.startswith("api/"):  # made by the documentation generator
                assert (page.parent / target).exists(), f"{page.relative_to(DOCS)}: {target}"


PARTS = (
    "**Setting.**",
    "## Claim",
    "## Proof",
    "## Edge cases",
    "## What the audit sees, and does not",
    "## Reference",
)
GENERAL = {"index", "definitions", "arithmetic", "auditing", "keys", "published-calibrations"}


def test_every_proof_has_its_parts_in_order() -> None:
    pages = [page for page in (DOCS / "privacy").glob("*.md") if page.stem not in GENERAL]
    assert len(pages) >= 17
    for page in pages:
        text = page.read_text()
        places = [text.find(f"\n{part}") for part in PARTS]
        assert -1 not in places and places == sorted(places), f"{page.name}: {dict(zip(PARTS, places, strict=True))}"


def test_every_row_of_a_table_of_proofs_has_as_many_cells_as_its_head() -> None:
    for page in (DOCS / "privacy").glob("*.md"):
        for table in re.findall(r"(?:^\|.*\n)+", page.read_text(), flags=re.MULTILINE):
            cells = {len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", row))) for row in table.splitlines()}
            assert len(cells) == 1, f"{page.name}: {table.splitlines()[0]}"
