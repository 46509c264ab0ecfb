"""Data that name code: reading them imports only what is ours, what extends us, and what is imported already."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, load, load_results, make, save
from privbandit_agents.base import state
from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.store.results import Finished, write_result
from privbandit_agents.zoo.reading import ForeignModule, import_named, reading

BOMB = "from pathlib import Path\n(Path(__file__).parent / 'RAN').touch()\n"
LINEAR = "privbandit/Linear-v0"
AGENT = """
from privbandit_agents import register_agent
from privbandit_agents.joint.linear.jdp_linucb import JDPLinUCB
class Mine(JDPLinUCB):
    pass
register_agent("mine", "{module}:Mine")
"""


def crafted(folder: Path, agent: str, env: str = LINEAR) -> None:
    """Write a result of an agent and an environment by these names."""
    job = {**Trial(LINEAR, "uniform", 100, checkpoints=2).spec, "agent": agent, "env": env}
    arrays = {name: np.array([50.0, 100.0]) for name in ("checkpoints", "regret", "reward")}
    promise = {"notion": "joint", "epsilon": 1.0, "delta": 0.0, "rho": None}
    notes = {"simulation": "users", "guarantee": promise, "privacy": "none", "visits": 1}
    settings: dict[str, Any] = {"env": {}, "agent": {}}
    by = {"privbandit": "1", "commit": None}
    write_result(folder, Finished("trial", job, settings, {**arrays, "seconds": np.array([0.1])}, notes, by))


@pytest.mark.parametrize("how", ["privbandit", "python -m privbandit"])
@pytest.mark.parametrize("command", [["report", "."], ["report", ".", "-o", "page.html"], ["frontier", "."]])
@pytest.mark.wide
def test_a_downloaded_folder_of_results_runs_nothing(how: str, command: list[str], tmp_path: Path) -> None:
    for agent, env in (("bomb:mine", LINEAR), ("uniform", "bomb:mine/World-v0")):
        crafted(tmp_path, agent, env)
    (tmp_path / "bomb.py").write_text(BOMB)
    (tmp_path / "pyarrow.py").write_text(BOMB)  # what a library looks for, and is not installed
    start = "from privbandit import main; main()"
    call = ["-c", f"import sys; del sys.path[0]; {start}"] if how == "privbandit" else ["-m", "privbandit"]
    done = subprocess.run([sys.executable, *call, *command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert not (tmp_path / "RAN").exists()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which is on the path, as in an interactive Python."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    return tmp_path


def test_results_in_the_current_folder_import_nothing_of_it(here: Path) -> None:
    (here / "bomb.py").write_text(BOMB)
    (here / "bombs").mkdir()
    (here / "bombs" / "inner.py").write_text(BOMB)
    for module in ("bomb", "bombs.inner"):
        crafted(here, f"{module}:mine")
        crafted(here, "uniform", f"{module}:mine/World-v0")
    assert set(load_results(here)["agent"]) == {"mine", "uniform"}
    assert not list(here.rglob("RAN")) and sys.path[0] == ""


def test_a_crafted_snapshot_imports_nothing_of_the_current_folder(here: Path) -> None:
    (here / "bomb.py").write_text(BOMB)
    env = gym.make(LINEAR)
    save(make("linucb", env), "agent.npz")
    arrays, values = state.read("agent.npz")
    state.write("agent.npz", arrays, {**values, "header": {**values["header"], "agent": "bomb:mine"}})
    with pytest.raises(ValueError, match=r"'bomb', which .* import bomb first if you trust it"):
        load("agent.npz", env)
    assert not (here / "RAN").exists()


PROGRAMS = [
    "venv.__main__",
    "unittest.__main__",
    "test.__main__",
    "this",
    "antigravity",
    "idlelib.idle",
    "pip.__main__",
]
PROGRAMS += [
    "privbandit_agents.__main__",
    "privbandit_agents.nowhere",
    "privbandit_agents..cli",
    "bomb",
    "extending.__main__",
]


@pytest.mark.wide_at("antigravity", "this", "idlelib.*")
@pytest.mark.parametrize("module", PROGRAMS)
def test_data_import_no_program(module: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither results nor saved agents import what is neither ours nor of a package that extends us."""
    site = here / "site"
    (site / "extending").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(site))
    for name in ("__init__", "__main__"):
        (site / "extending" / f"{name}.py").write_text("" if name == "__init__" else BOMB)
    entry_point(site, "extending", "extending")
    entry_point(here, "bomb", "bomb")  # the folder pretends that its module is installed
    (here / "bomb.py").write_text(BOMB)
    monkeypatch.setattr("privbandit_agents.zoo.plugins.LOADED", set())
    before = set(sys.modules)
    crafted(here, f"{module}:x")
    crafted(here, "uniform", f"{module}:x/World-v0")
    assert set(load_results(here)["agent"]) == {"x", "uniform"}
    env = gym.make(LINEAR)
    save(make("linucb", env), "agent.npz")
    arrays, values = state.read("agent.npz")
    state.write("agent.npz", arrays, {**values, "header": {**values["header"], "agent": f"{module}:x"}})
    with pytest.raises(ValueError, match=r"agent.npz has no agent for this environment: the data name the module"):
        load("agent.npz", env)
    assert module not in set(sys.modules) - before and not list(here.rglob("RAN"))
    assert not [path for path in here.iterdir() if path.name.startswith("report")]


def entry_point(folder: Path, name: str, module: str) -> None:
    """Write what an installer leaves of a package that extends us."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[privbandit.agents]\n{name} = {module}\n")


@pytest.mark.parametrize("end", ["raise SystemExit(3)", "raise RuntimeError", "1 / 0", "import nowhere_at_all"])
def test_a_package_that_ends_the_program_does_not_end_it(end: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = here / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    (site / "ending.py").write_text(end)
    entry_point(site, "ending", "ending")
    with reading(), pytest.raises(ForeignModule, match="import ending first"):
        import_named("ending")


def test_an_agent_whose_module_is_imported_or_extends_us_is_loaded(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(AGENTS, "mine", AGENTS["uniform"])  # so that what the modules register goes with the test
    site = here / "site"
    site.mkdir()
    entry_point(site, "read_installed", "read_installed")
    env = gym.make(LINEAR)
    for folder, module in ((here, "read_own"), (site, "read_installed")):
        (folder / f"{module}.py").write_text(AGENT.format(module=module))
        monkeypatch.syspath_prepend(str(folder))
        save(make(f"{module}:mine", env), f"{module}.npz")
        assert load(f"{module}.npz", env).name == f"{module}:mine"
        monkeypatch.delitem(sys.modules, module)
    assert load("read_installed.npz", env).name == "read_installed:mine"
    with pytest.raises(ValueError, match="import read_own first"):
        load("read_own.npz", env)
    assert os.path.realpath(sys.path[0]) == os.path.realpath(site)


CRAFTS: list[Callable[[dict[str, Any], dict[str, Any]], Any]] = [
    lambda arrays, values: values.update(header=3),
    lambda arrays, values: values.update(header={}),
    lambda arrays, values: values.update(state=[1]),
    lambda arrays, values: values["header"].update(agent=None),
    lambda arrays, values: values["header"].update(agent=["linucb"]),
    lambda arrays, values: values["header"].update(agent="linuc"),
    lambda arrays, values: values["header"].update(agent="os.path:x"),
    lambda arrays, values: values["header"].update(agent=".x:y"),
    lambda arrays, values: values["header"].update(agent=":"),
    lambda arrays, values: values["header"].update(config=[1]),
    lambda arrays, values: values["header"].update(config={"epsilon": "x"}),
    lambda arrays, values: values["header"].update(config={"epsilon": [1]}),
    lambda arrays, values: values["header"].update(config={"nothing": 1}),
    lambda arrays, values: values["header"].update(config={"env": 1}),
    lambda arrays, values: values["header"].update(plays=3),
    lambda arrays, values: values["header"].update(plays="\n" * 1000),
    *(lambda arrays, values, key=key: values["state"].pop(key) for key in ("users", "release", "rng")),
    *(
        lambda arrays, values, change=change: arrays.update({key: change(array) for key, array in arrays.items()})
        for change in (
            lambda array: array * np.nan,
            lambda array: array + 1j,
            lambda array: array.astype(str),
            lambda array: np.zeros(0),
        )
    ),
    *(
        lambda arrays, values, new=new: values["state"].update(dict.fromkeys(values["state"], new))
        for new in (None, "x", [1], {}, {"state": 1}, float("nan"), 10**400)
    ),
]


@pytest.mark.wide_at("*[02468]-jdp-linucb", "*[13579]-ldp-greedy", "*-epsilon-greedy", "*-newton-mnl", "*-lpct")
@pytest.mark.parametrize("name", ["jdp-linucb", "ldp-greedy", "epsilon-greedy", "newton-mnl", "lpct"])
@pytest.mark.parametrize("craft", range(len(CRAFTS)))
def test_a_crafted_file_is_a_value_error_or_what_it_was(name: str, craft: int, tmp_path: Path) -> None:
    world = {"newton-mnl": "privbandit/Assortment-v0", "lpct": "privbandit/Classification-v0"}.get(name, LINEAR)
    env, path = gym.make(world), tmp_path / "agent.npz"
    save(make(name, env), path)
    arrays, values = state.read(path)
    before = str((arrays, values))
    try:
        CRAFTS[craft](arrays, values)
    except KeyError:
        pytest.skip("this agent has no such part")
    if str((arrays, values)) == before:
        pytest.skip("this agent has no such part")
    state.write(path, arrays, values)
    with pytest.raises(ValueError, match="agent") as told:
        load(path, env)
    assert "\n" not in str(told.value)
