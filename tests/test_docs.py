"""The examples of the documentation run as they stand; blocks that begin with a name are files in one folder."""

import csv
import math
import re
import runpy
import shlex
from pathlib import Path

import pytest
from privbandit_agents.audits.registry import TARGETS
from privbandit_agents.cli.commands import app
from privbandit_agents.cli.grammar import VERBS, parsed
from privbandit_agents.experiments.names import short
from privbandit_agents.experiments.shelf import library
from privbandit_agents.zoo.entries import AGENTS

from privbandit_envs import ENV_IDS

OWN = {"first_moment:first-moment", "first_moment_game:watched-moment", "follow_leader:follow-leader"}

DOCS = Path(__file__).parents[1] / "docs"
NAMED = ("tutorials/private-agents.md", "tutorials/environment.md", "howto/add.md")
TEXT = "".join((DOCS / page).read_text() for page in NAMED)
SHOWN = dict(re.findall(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", TEXT, flags=re.DOTALL))
FILES = SHOWN | {path.name: path.read_text() for path in sorted((DOCS.parent / "examples" / "additions").glob("*.py"))}
SCRIPTS = [name for name in FILES if name.endswith(".py")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("named")
    for name, text in FILES.items():
        (made / name).write_text(text)
    return made


def test_every_block_is_a_file_with_a_name() -> None:
    assert len(SHOWN) == len(re.findall(r"```(?:python|yaml)\n", TEXT)) > 5


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch, forgotten: None) -> None:
    """This process is in the folder, and runs all jobs itself: other processes take seconds to start."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr("privbandit_agents.experiments.running.engine.LIGHT", math.inf)


@pytest.mark.wide_at("one_sign.py", "coupons.py", "try_batched_moment.py", "counted_moment.py")
@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_runs(inside: None, name: str) -> None:
    """With warnings as errors, as in all tests."""
    runpy.run_path(name, run_name="__main__")


def run(arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that ends well; return what it prints."""
    with pytest.raises(SystemExit) as ended:
        app(arguments.split())
    printed = capsys.readouterr()
    assert ended.value.code == 0, printed.err
    return printed.out


@pytest.mark.wide
def test_an_outsider_s_agent_is_audited_by_its_own_game(inside: None, capsys: pytest.CaptureFixture[str]) -> None:
    printed = run("audit first_moment_game:watched-moment --epsilon 1 --runs 400 --out audit", capsys)
    assert "reward 1 or -1 at x = (1, 1)" in printed


@pytest.mark.wide
def test_the_experiment_runs(inside: None, capsys: pytest.CaptureFixture[str]) -> None:
    printed = run("reproduce moments.yaml --scale smoke --jobs 1 --out runs", capsys)
    assert "1 statement, 1 figure" in printed and "With a curator" in Path("runs/verdicts.md").read_text()


PAGES = sorted(page for room in ("tutorials", "howto", "explanation") for page in (DOCS / room).glob("*.md"))
PAGES += [DOCS / name for name in ("index.md", "which-agent.md")]
INCLUDED = re.compile(r'^--8<-- "(.*)"$', re.MULTILINE)


def blocks(page: Path, kind: str) -> list[str]:
    """Return the code blocks of a page, files that it includes in place."""
    found = re.findall(rf"^```(?:{kind}|{{\.{kind}}})\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    shown = [INCLUDED.sub(lambda match: (DOCS.parent / match[1]).read_text(), block) for block in found]
    return [block for block in shown if not re.match(r"# \S+\.py\n", block)]  # those are files of a folder


@pytest.fixture
def third_party(monkeypatch: pytest.MonkeyPatch, forgotten: None) -> None:
    """The example package can be imported, nothing of it stays behind, and jobs run in this process."""
    monkeypatch.setattr("privbandit_agents.experiments.running.engine.LIGHT", math.inf)
    monkeypatch.syspath_prepend(str(DOCS.parent / "examples" / "third_party"))


@pytest.mark.wide_at("deploy", "bounds")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run_one_after_the_other(page: Path, third_party: None) -> None:
    here: dict[str, object] = {"__name__": "page"}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), here)


def commands() -> list[tuple[str, str]]:
    """Return (page, command) of every command of ours in README and docs."""
    pages = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
    fence = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    fenced = [(page, block) for page in pages for kind, block in fence.findall(page.read_text()) if not kind]
    lines = [(page, line) for page, block in fenced for line in block.replace("\\\n", " ").splitlines()]
    return [(page.name, line.partition("#")[0].strip()) for page, line in lines if line.startswith("privbandit ")]


@pytest.mark.parametrize(("page", "command"), commands())
def test_every_command_of_the_documentation_is_understood(page: str, command: str) -> None:
    """Its options exist and take such values, and what it names is there; that it works is tested with smaller ones."""
    _, verb, *arguments = shlex.split(command.replace("$SLURM_ARRAY_TASK_ID", "1"))
    assert verb in VERBS
    if verb == "data":
        return
    given = parsed(verb, arguments)
    here = {*AGENTS, *TARGETS, "mine:mine", "acme-local", "acme-counts", "acme-joint", *OWN}
    agents = given.get("agent") or ()
    assert {agents} <= here if isinstance(agents, str) else {*agents} <= here
    if verb in ("audit", "show"):
        assert given["name"] in here | {"NAME"} | {short(id) for id in ENV_IDS}
    if verb in ("sweep", "reproduce"):
        name = str(given.get("file") or given.get("name"))
        ours = (DOCS.parent / name).is_file() if "/" in name else name in library()
        assert ours or name in {"linear.yaml", "mine.yaml", "moments.yaml", "NAME"}


def test_links_between_pages_lead_somewhere() -> None:
    for page in DOCS.rglob("*.md"):
        text = re.sub(r"\$[^$]*\$", "", page.read_text())  # a formula may look like a link
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            made = ("api/", "cards/", "leaderboard.html")  # by the documentation generator
            if not target.removeprefix("../").startswith(made):
                assert (page.parent / target).exists(), f"{page.relative_to(DOCS)}: {target}"


def test_every_table_in_a_file_is_drawn_beside_its_command() -> None:
    drawn = set()
    for page in DOCS.rglob("*.md"):
        for caption, place in re.findall(r"^\[(.+)\]\(([\w./-]+\.csv)\)$", page.read_text(), flags=re.MULTILINE):
            assert "`" in caption, f"{page.name}: the caption of {place} names no command"
            with (page.parent / place).open(encoding="utf-8", newline="") as file:
                head, *rows = csv.reader(file)
            assert rows and all(len(row) == len(head) for row in rows), place
            drawn.add((page.parent / place).resolve())
    linked = " ".join(page.read_text() for page in DOCS.rglob("*.md"))
    assert [path.name for path in DOCS.rglob("*.csv") if path not in drawn and f"({path.name})" not in linked] == []


def tables() -> list[tuple[Path, Path]]:
    """Return (page, file) of every table in a file that a page draws."""
    found = [
        (page, re.findall(r"^\[.+\]\(([\w./-]+\.csv)\)$", page.read_text(), flags=re.MULTILINE))
        for page in sorted(DOCS.rglob("*.md"))
    ]
    return [(page, (page.parent / place).resolve()) for page, places in found for place in places]


def rows_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_every_table_has_the_columns_that_its_page_expects() -> None:
    """``tables_of_docs.csv`` says which; a table that takes another's place has others."""
    _, *expected = rows_of(Path(__file__).parent / "tables_of_docs.csv")
    found = [[page.relative_to(DOCS).as_posix(), path.name, " | ".join(rows_of(path)[0])] for page, path in tables()]
    assert found == expected


def test_no_table_has_the_rows_of_another_or_a_row_as_its_head() -> None:
    bodies: dict[tuple[str, ...], Path] = {}
    paths = list(dict.fromkeys(path for _, path in tables()))
    for path in paths:
        for row in rows_of(path)[1:]:
            assert bodies.setdefault(tuple(row), path) == path, f"{path.name} and {bodies[tuple(row)].name}: {row}"
    assert [path.name for path in paths if tuple(rows_of(path)[0]) in bodies] == []


PARTS = ("**Setting.**", "## Claim", "## Proof", "## Reference")
SOME = ("## Edge cases", "## Audit")
"""Parts of pages that have something of their own to say: the index has what is true of all."""
GENERAL = {"index", "definitions", "arithmetic", "auditing", "keys", "published-calibrations"}


def test_every_proof_has_its_parts_in_order() -> None:
    pages = [page for page in (DOCS / "privacy").glob("*.md") if page.stem not in GENERAL]
    assert len(pages) >= 17
    for page in pages:
        text = page.read_text()
        parts = [*PARTS[:3], *(part for part in SOME if f"\n{part}\n" in text), PARTS[3]]
        places = [text.find(f"\n{part}") for part in parts]
        assert -1 not in places and places == sorted(places), f"{page.name}: {dict(zip(parts, places, strict=True))}"


def test_every_row_of_a_table_of_proofs_has_as_many_cells_as_its_head() -> None:
    for page in (DOCS / "privacy").glob("*.md"):
        for table in re.findall(r"(?:^\|.*\n)+", page.read_text(), flags=re.MULTILINE):
            cells = {len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", row))) for row in table.splitlines()}
            assert len(cells) == 1, f"{page.name}: {table.splitlines()[0]}"
