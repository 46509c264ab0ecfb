"""An agent of a stranger in an experiment: ``privbandit reproduce NAME --agent FILE:Class``."""

import json
import sys
from pathlib import Path

import pytest
from commanding import invoke
from privbandit_agents.experiments.shelf import library
from privbandit_agents.experiments.study import prepare
from privbandit_agents.experiments.usage import UsageError

GUEST = '''
"""An agent of a stranger."""

from privbandit_agents.joint.linear.jdp_linucb import JDPLinUCB


class Mine(JDPLinUCB):
    """Jointly private, by the same steps."""
'''
EXPERIMENT = """
title: Two budgets
about: A made-up experiment.
sweep:
  envs: [{id: Linear-v0, n_arms: 2, dim: 2}]
  agents: [uniform, linucb, {name: ldp-greedy, delta: 0.001, grid: {epsilon: [1, 4]}}]
  horizon: 200
  seeds: 2
scales: {smoke: {seeds: 2}}
figures:
  - {name: by-epsilon, x: agent.epsilon, y: regret}
  - {name: at-one, select: [{agent: linucb}, {agent: ldp-greedy, agent.epsilon: 1}]}
  - {name: public, select: {agent: [uniform, linucb]}}
statements:
  - says: More budget, less regret.
    where: here
    measure: {ratio: [{agent.epsilon: 4}, {agent.epsilon: 1}]}
    at_most: 100
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    sys.modules.pop("guest_of_tests", None)  # another test's file
    monkeypatch.setattr(sys, "path", [*sys.path])  # folders of agents' files are added to it
    (tmp_path / "guest_of_tests.py").write_text(GUEST)
    (tmp_path / "own.yaml").write_text(EXPERIMENT.replace(", delta: 0.001", ""))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("own_worlds")
def test_a_guest_plays_at_the_budgets_of_the_others_and_is_drawn_beside_them(folder: Path) -> None:
    study = prepare("own.yaml", agent="guest_of_tests.py:Mine")
    own = [cell for cell in study.cells if cell.has("agent", "Mine")]
    assert [cell.settings["agent.epsilon"] for cell in own] == [1, 4] and own[0].replications == (0, 1)
    drawn = {spec.name: [line.label for panel in panels for line in panel.series] for spec, panels in study.figures}
    assert any("Mine" in label for label in drawn["by-epsilon"])
    assert sum("Mine" in label for label in drawn["at-one"]) == 1
    plain = prepare("own.yaml")
    assert study.measures == plain.measures  # statements are about the paper's agents, as without a guest


@pytest.mark.wide
@pytest.mark.usefixtures("own_worlds")
def test_the_command_runs_the_guest_and_keeps_the_paper_s_folder_apart(folder: Path) -> None:
    shown = invoke("reproduce", "own.yaml", "--agent", "guest_of_tests.py:Mine", "--jobs", "1")
    assert shown.exit_code == 0, shown.stderr
    (made,) = Path("runs").iterdir()
    assert made.name.startswith("own-") and "Mine" in made.name
    table = (made / "table.csv").read_text()
    assert "Mine" in table and "linucb" in table
    assert json.loads((made / "experiment.json").read_text())["agent"] == "guest_of_tests.py:Mine"
    assert invoke("report", str(made)).exit_code == 0


@pytest.mark.parametrize(
    "name, agent, reason",
    [
        ("own.yaml", "linucb", "plays in own.yaml already"),
        ("own.yaml", "ucb-mnl", "cannot play"),
        ("own.yaml", "lincub", "no agent is called 'lincub'"),
        ("lpct-fig9", "lpct", "--agent is for sweeps"),
    ],
)
def test_a_guest_that_has_no_place_is_refused(folder: Path, name: str, agent: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        prepare(name, "smoke", agent=agent)


@pytest.mark.wide
@pytest.mark.parametrize("name", library())
def test_every_sweep_of_the_library_takes_a_guest(name: str) -> None:
    """One of its agents' family: the first of these that does not play in it."""
    for agent in ("squarecb", "greedy-mnl"):
        try:
            study = prepare(name, "smoke", agent=agent)
        except UsageError as error:
            assert any(why in str(error) for why in ("cannot play", "already", "offline", "data set"))
        else:
            assert any(cell.has("agent", agent) for cell in study.cells)
