"""Every Python block of the README runs as it stands, and the short modules of the pages pass the suites."""

import csv
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import pytest
from privbandit_agents.experiments.schema.experiment import parse_experiment
from privbandit_agents.experiments.schema.sweep import read_sweep
from privbandit_agents.experiments.schema.yaml_text import from_yaml
from privbandit_agents.experiments.study import prepare, prepared
from privbandit_agents.testing import check_agent
from privbandit_agents.zoo.entries import shelves

from privbandit_envs.testing import check_bandit_env

Run = Callable[..., subprocess.CompletedProcess[str]]
SWEEPS = (Path(__file__).parents[1] / "docs" / "sweeps.md").read_text()
TEXT = (Path(__file__).parents[1] / "README.md").read_text()
DOCS = Path(__file__).parents[1] / "docs"
ADDED = "".join((DOCS / page).read_text() for page in ("tutorials/environment.md", "howto/add.md"))
BLOCKS: list[str] = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


def module(name: str) -> str:
    block: str
    (block,) = (b for b in re.findall(r"```python\n(.*?)```", ADDED, flags=re.DOTALL) if b.startswith(f"# {name}.py\n"))
    return block


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modules")
    for name in ("dosage", "follow_leader"):
        (folder / f"{name}.py").write_text(module(name))
    return folder


def test_the_blocks_run_one_after_the_other() -> None:
    code = "\n".join(BLOCKS)
    printed = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    (shown,) = re.findall(r"```text\n(.*?)```", TEXT, flags=re.DOTALL)
    *played, deployed = printed.stdout.splitlines()
    assert played == shown.splitlines()
    assert deployed in code and "exact" in deployed


def test_the_readme_is_one_screen_and_a_half() -> None:
    assert len(TEXT.splitlines()) <= 100


def test_the_pages_name_every_agent_and_none_that_is_not_there() -> None:
    files = ("agents-to-take", "agents-of-papers", "agents-further")
    for (title, names), name in zip(shelves().items(), files, strict=True):
        with (DOCS / "measured" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            cells = " ".join(row["name"] for row in csv.DictReader(file))
        assert sorted(re.findall(r"`([\w-]+)`", cells)) == sorted(names), title
    table = TEXT.partition("## Who plays what")[2].partition("`auto-joint`")[0]
    assert set(re.findall(r"`([\w-]+)`", table)) <= {name for names in shelves().values() for name in names}


@pytest.mark.parametrize(("name", "lines"), [("dosage", 40), ("follow_leader", 30)])
def test_the_examples_are_short(name: str, lines: int) -> None:
    assert len(module(name).splitlines()) < lines


@pytest.mark.usefixtures("forgotten")
def test_the_environment_conforms(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(modules))
    assert gym.make("dosage:clinic/Dosage-v0", n_doses=3).reset(seed=0)[0].shape == (2,)
    check_bandit_env("clinic/Dosage-v0")


@pytest.mark.usefixtures("forgotten")
def test_the_agent_conforms(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(modules))
    gym.make("dosage:clinic/Dosage-v0")
    check_agent("follow_leader:follow-leader", "clinic/Dosage-v0")


@pytest.mark.wide
def test_the_examples_play_from_the_command_line(modules: Path, privbandit: Run) -> None:
    agents = ("--agent", "follow_leader:follow-leader", "--agent", "uniform")
    size = ("--horizon", "200", "--seeds", "2", "--jobs", "1", "--out", "out")
    done = privbandit(modules, "run", "--env", "dosage:clinic/Dosage-v0", *agents, *size)
    assert done.returncode == 0, done.stderr
    assert "follow-leader" in done.stdout and len(list((modules / "out" / "trials").iterdir())) == 4


def test_the_examples_of_sweeps_can_be_run(tmp_path: Path) -> None:
    plan, changing, including, experiment, *_, offline = re.findall(r"```yaml\n(.*?)```", SWEEPS, flags=re.DOTALL)
    texts = {"linear": plan, "changing": changing, "more": including, "mine": experiment, "offline": offline}
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    assert len(read_sweep(tmp_path / "linear.yaml").trials("linear.yaml")) == 7 * 20
    assert len(read_sweep(tmp_path / "changing.yaml").trials("changing.yaml")) == (1 + 3) * 2
    assert len(read_sweep(tmp_path / "more.yaml").trials("more.yaml")) == 7 * 5 + 2
    study, compared = (prepare(str(tmp_path / f"{name}.yaml")) for name in ("mine", "offline"))
    assert len(compared.jobs) == 3 * 20 * (3 + 3 + 1)
    assert len(study.jobs) == 6 * 30 and len(study.measures) == 1 and len(study.figures) == 2


CASES = (
    (4000, "as published, epsilon = 1."),
    (4000, "as published, epsilon = 2."),
    (8000, "correct, epsilon = 2."),
)


@pytest.mark.filterwarnings("ignore:fliphat")
def test_the_example_of_variants_can_be_drawn() -> None:
    found = {text.partition(":")[0]: text for text in re.findall(r"```yaml\n(.*?)```", SWEEPS, flags=re.DOTALL)}
    variants, statements = found["variants"], found["statements"]
    content = from_yaml(variants) | from_yaml(statements)
    fliphat = {"name": "fliphat", "grid": {"calibration": ["published", "correct"], "epsilon": [1, 2]}}
    sweep = {"envs": [{"id": "privbandit/SparseLinear-v0"}], "agents": [{"name": "uniform"}, fliphat]}
    content |= {"title": "t", "about": "a", "sweep": sweep, "scales": {"smoke": {}}}
    study = prepared(parse_experiment(content, "x.yaml"), "x", "smoke")
    panels = study.figures[0][1]
    assert [panel.title for panel in panels] == ["as published", "correct"]
    assert all(len(panel.series) == 3 for panel in panels) and len(panels[1].references) == 1
    told = [statement.says for statement in study.experiment.statements]
    assert told == [f"The regret is at most {most}. ({who})" for most, who in CASES]
