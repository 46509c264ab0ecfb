"""A package of somebody else: its names stand in the lists, its tests pass, and a broken one is one sentence."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "third_party"
Run = Callable[..., subprocess.CompletedProcess[str]]


def installed(folder: Path, name: str, groups: dict[str, str]) -> None:
    """Write what an installer leaves of a package: its name, and where its entry points lead."""
    info = folder / f"{name}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    lines = [f"[{group}]\n{name} = {module}\n" for group, module in groups.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example as if it were installed, and three packages that do not work."""
    made = tmp_path_factory.mktemp("installed")
    shutil.copytree(EXAMPLE / "acme_bandits", made / "acme_bandits")
    modules = {"envs": "acme_bandits.reminders", "agents": "acme_bandits.agents", "audits": "acme_bandits.games"}
    installed(made, "acme", {f"privbandit.{group}": module for group, module in modules.items()})
    mine = "from privbandit_agents import register_agent\nregister_agent('half', 'half:Half', 'half an agent')\n"
    (made / "half.py").write_text(f"{mine}raise RuntimeError('the rest\\nis missing')\n")
    (made / "thief.py").write_text(mine.replace("half'", "linucb'", 1).replace("half an agent", "stolen"))
    (made / "hollow.py").write_text(mine.replace("'half'", "'hollow'").replace("half:Half", "hollow:Nothing"))
    for name in ("half", "thief", "hollow"):
        installed(made, name, {"privbandit.agents": name})
    installed(made, "gone", {"privbandit.agents": "gone.agents"})
    return made


@pytest.mark.wide
def test_a_list_shows_the_agents_of_installed_packages_and_names_the_broken_ones(folder: Path, python: Run) -> None:
    done = python(folder, "-m", "privbandit", "list", "agents")
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "local exact" in rows["acme-local"] and "joint real" in rows["acme-joint"] and "stolen" not in done.stdout
    assert not {"half", "hollow"} & set(rows) and "uniform" in rows
    assert sorted(done.stderr.splitlines()) == [
        f"warning: the plug-in {name!r} of the package {name} ({module}) is left out: {why}."
        for name, module, why in (
            ("gone", "gone.agents", "ModuleNotFoundError: No module named 'gone'"),
            ("half", "half", "RuntimeError: the rest is missing"),
            ("hollow", "hollow", "AttributeError: module 'hollow' has no attribute 'Nothing'"),
            ("thief", "thief", "ValueError: 'linucb' is the name of another agent, choose one of its own"),
        )
    ]


USE = """
import sys
import gymnasium as gym
import privbandit_agents
from privbandit_agents import AGENTS, make
assert "acme_bandits" not in str(list(sys.modules)) and "acme-local" not in AGENTS
make("uniform", gym.make("privbandit/Linear-v0"))
assert "acme_bandits" not in str(list(sys.modules))  # nothing was asked for that is not known
import warnings
warnings.simplefilter("ignore")
import privbandit_agents.experiments.jobs.catalogue as catalogue
env = gym.make(catalogue.env_spec("acme/Reminders-v0"))
print(make("acme-local", env, epsilon=2.0).guarantee.words, make("linucb", gym.make("privbandit/Linear-v0")).name)
"""


def test_an_unknown_name_is_looked_for_in_installed_packages(folder: Path, python: Run) -> None:
    done = python(folder, "-c", USE)
    assert done.stdout == "local 2 a visit, exact linucb\n", done.stderr


@pytest.mark.wide
def test_the_command_shows_what_a_package_brings(folder: Path, privbandit: Run) -> None:
    shown = privbandit(folder, "show", "acme-joint")
    assert shown.returncode == 0 and "factor between two changes of the policy" in shown.stdout, shown.stderr


@pytest.mark.slow
def test_the_command_plays_and_audits_what_a_package_brings(folder: Path, privbandit: Run) -> None:
    size = ("--horizon", "300", "--jobs", "2", "--out", "out")
    run = privbandit(folder, "run", "--env", "acme/Reminders-v0", "--agent", "acme-joint", *size)
    assert run.returncode == 0 and "acme-joint" in run.stdout, run.stderr
    for target in ("acme-counts", "acme-local"):
        audited = privbandit(folder, "audit", target, "--runs", "2000", "--out", "audit")
        assert audited.returncode == 0 and "not refuted" in audited.stdout, audited.stderr


@pytest.mark.slow
def test_the_example_is_installed_and_its_own_tests_pass(tmp_path: Path, python: Run) -> None:
    pytest.importorskip("setuptools")
    source, target = tmp_path / "source", tmp_path / "target"
    shutil.copytree(EXAMPLE, source)
    install = ("-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation")
    done = subprocess.run([sys.executable, *install, "--target", target, source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    listed = python(target, "-m", "privbandit", "list", "agents")
    assert "acme-local" in listed.stdout and not listed.stderr
    tested = python(target, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(source / "tests"))
    assert tested.returncode == 0, tested.stdout
