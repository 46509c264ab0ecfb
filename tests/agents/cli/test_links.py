"""Folders of others: links in them lead no output elsewhere, whatever a command writes."""

import shutil
from pathlib import Path

import pytest
from commanding import invoke
from privbandit_agents.experiments.names import FOLDERS

SMALL = ["--env", "privbandit/Linear-v0", "--set", "env.dim=2", "--set", "env.n_arms=2"]
PLAN = """
{env: privbandit/Linear-v0, agent: linucb, horizon: 40, trials: 2, tuning: 1, final: 1, checkpoints: 2,
 env_kwargs: {dim: 2, n_arms: 2}, search: {alpha: [1.0, 2.0]}}
"""
EXPERIMENT = """
title: Small
about: it is made up
sweep: {envs: [{id: privbandit/Linear-v0, dim: 2}], agents: [{name: uniform}, {name: linucb}], horizon: 40, seeds: 2}
scales: {smoke: {seeds: 1}}
figures: [{name: curve}]
statements: [{says: It learns., where: here, measure: {mean: {agent: linucb, y: ratio}}, at_most: 2}]
"""
COMMANDS: dict[str, list[str]] = {
    "run": ["run", *SMALL, "--agent", "uniform", "--agent", "jdp-linucb", "--users", "40", "--out", "out"],
    "report": ["report", "out"],
    "frontier": ["frontier", "out"],
    "reproduce": ["reproduce", "small.yaml", "--out", "out"],
    "tune": ["tune", "plan.yaml", "--out", "out"],
    "cost": ["cost", "log.csv", "--action", "action", "--reward", "reward", "--propensity", "propensity", "--out",
             "out", "--seeds", "2", "--epsilon", "1", "--notions", "joint", "--always", "--users", "60"],
    "audit": ["audit", "laplace", "--epsilon", "1", "--runs", "2000", "--out", "out", "--format", "pdf"],
    "score": ["score", "uniform", "--quick", "--out", "out"],
}  # fmt: skip
QUICK = ("run", "report")


def prepared(folder: Path) -> None:
    """Write the inputs of the commands."""
    (folder / "plan.yaml").write_text(PLAN)
    (folder / "small.yaml").write_text(EXPERIMENT)
    made = invoke("log", *SMALL, "--agent", "uniform", "-n", "200", "--out", "log.csv")
    assert made.exit_code == 0, made.stderr


@pytest.mark.wide_at("report-True")
@pytest.mark.filterwarnings("ignore:.*was set aside as")
@pytest.mark.parametrize("there", [True, pytest.param(False, marks=pytest.mark.wide)])
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.wide]) for n in COMMANDS])
def test_links_at_every_name_that_a_command_writes_are_replaced(
    name: str, there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Write once, put links in place of all that was written, and write again: what they lead to stays as it is."""
    work, home, out = tmp_path / "work", tmp_path / "home", tmp_path / "work" / "out"
    work.mkdir()
    home.mkdir()
    monkeypatch.chdir(work)
    prepared(work)
    if name in ("report", "frontier"):
        assert invoke(*COMMANDS["run"]).exit_code == 0
        (out / "trials").rename("trials")
        shutil.rmtree(out)
        out.mkdir()
        Path("trials").rename(out / "trials")
    first = invoke(*COMMANDS[name])
    assert first.exit_code == 0, first.stderr
    written = [path for path in out.rglob("*") if path.is_file() and (path.parent.name != "trials" or name == "run")]
    locks = [out / "unfinished" / f"{path.stem}.{end}" for path in out.glob("trials/*") for end in ("lock", "npz")]
    assert written
    for number, path in enumerate([*written, *locks, out / "unfinished" / "tuned.lock"]):
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(home / str(number))
        if there:
            (home / str(number)).write_text("mine")
    before = {path.name: path.read_text() for path in home.iterdir()}
    again = invoke(*COMMANDS[name])
    assert again.exit_code in (0, 4), again.stderr
    assert {path.name: path.read_text() for path in home.iterdir()} == before
    fixed = [path for path in written if "tfevents" not in path.name]
    assert fixed and not any(path.is_symlink() for path in fixed), again.stderr


@pytest.mark.wide_at("tensorboard-trials-True")
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("inner", [FOLDERS[-1], *(pytest.param(name, marks=pytest.mark.wide) for name in FOLDERS[:-1])])
def test_folders_inside_that_are_links_are_refused_by_name(
    inner: str, deep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke(*COMMANDS["run"]).exit_code == 0
    shutil.copytree("out", "home")
    place, target = Path("out") / inner, tmp_path / "home" / inner
    target.mkdir(exist_ok=True)
    if deep:
        place.mkdir(exist_ok=True)
        place /= "deep"
    elif place.exists():
        shutil.rmtree(place)
    place.symlink_to(target)
    before = sorted(tmp_path.joinpath("home").rglob("*"))
    for command in ("run", "report", "frontier"):
        told = invoke(*COMMANDS[command])
        assert told.exit_code == 2 and f"{place} must be a folder of its own" in told.stderr, told.stderr
    assert sorted(tmp_path.joinpath("home").rglob("*")) == before


def test_a_log_or_a_page_that_the_user_names_may_be_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link.npz").symlink_to("real.npz")
    assert invoke("log", *SMALL, "--agent", "uniform", "-n", "20", "--out", "link.npz").exit_code == 0
    assert Path("link.npz").is_symlink() and Path("real.npz").is_file()
    Path("mine.py").symlink_to("gone.py")
    told = invoke("new", "agent", "mine")
    assert told.exit_code == 2 and "mine.py is there" in told.stderr and not Path("gone.py").exists()
