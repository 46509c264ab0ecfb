"""The command where numpy, scipy and gymnasium are all that is installed: no traceback anywhere."""

import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from privbandit_agents import AGENTS
from privbandit_agents.cli.listing import agent_lines
from privbandit_agents.zoo.entries import FAMILIES

Run = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).parents[3]
ALONE = """
import sys
from importlib.abc import MetaPathFinder

CORE = {"numpy", "scipy", "gymnasium", "cloudpickle", "farama_notifications", "typing_extensions"}
OURS = {"privbandit", "privbandit_agents", "privbandit_envs"}


class Alone(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        if package in sys.stdlib_module_names | CORE | OURS or package.startswith("_"):
            return None
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Alone())
import privbandit

for command in COMMANDS:
    sys.argv = ["privbandit", *command]
    try:
        privbandit.main()
    except SystemExit as end:
        print("code", end.code or 0, flush=True)
        print("code", end.code or 0, file=sys.stderr, flush=True)
"""
WORK = [
    [],
    ["--help"],
    *([verb, "--help"] for verb in ("run", "audit")),
    ["list", "all"],
    ["list", "envs"],
    ["list", "agents", "--notion", "local", "--plays", "labels"],
    *(["show", name] for name in ("linucb", "lplr", "Linear-v0", "rice", "tree")),
]
REFUSED = {
    "run demo": "privbandit run needs ",
    "audit laplace": "privbandit audit needs ",
    "data": "privbandit data needs ",
    "list evns": "list: what must be one of envs, agents, experiments, targets, datasets, all; got 'evns' (did you",
    "show linucp": "show: nothing is called 'linucp'; did you mean linucb? `privbandit list` shows all.",
    "lsit": "no command is called 'lsit' (did you mean list?); `privbandit --help` shows all.",
    "run --agnet x": "privbandit run has no option --agnet (did you mean --agent?);",
    "show lpct-fig4": "show: no module named 'pydantic' is installed; pip install 'privbandit[bench]' brings it.",
}


def alone(python: Run, folder: Path, commands: list[list[str]]) -> subprocess.CompletedProcess[str]:
    """Run commands one after the other where nothing but the core can be imported."""
    return python(folder, "-c", f"COMMANDS = {commands!r}\n{ALONE}")


def test_the_core_lists_and_shows(python: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = alone(python, tmp_path, WORK)
    said = done.stdout.split("code 0\n")
    del said[2:4]  # the helps of two commands
    assert len(said) == len(WORK) - 1 and set(done.stderr.split("\n")) == {"code 0", ""}, done.stderr
    assert all("usage: privbandit" in text and "show" in text for text in said[:2])
    for name in [name for name, entry in AGENTS.items() if not entry.notion]:
        monkeypatch.delitem(AGENTS, name)  # other tests have registered it
    own = [name for name, entry in AGENTS.items() if not entry.successor]
    assert all(name in said[2] for name in (*own, *FAMILIES.values()))
    assert "lpct" in said[4] and "linucb" not in said[4]
    lines = [line for line in agent_lines() if line.strip().startswith(tuple(own))]
    assert len(lines) >= len(own) and all(line in said[2] for line in lines), "not the list of the whole command"
    assert "optimism" in said[5] and "lplr" in said[6] and "n_arms" in said[7]


@pytest.mark.wide
def test_what_the_core_cannot_do_is_one_sentence(python: Run, tmp_path: Path) -> None:
    done = alone(python, tmp_path, [command.split() for command in REFUSED])
    said = done.stderr.split("code 2\n")
    assert len(said) == len(REFUSED) + 1, done.stderr
    assert all("run pip install 'privbandit[bench]'." in text for text in said[:3])
    for text, expected in zip(said, REFUSED.values(), strict=False):
        assert text.startswith(expected) and text.count("\n") == 1


@pytest.mark.slow
def test_a_real_environment_with_three_dependencies(tmp_path: Path) -> None:
    """Install the package as a newcomer does; the three dependencies and their own come from this environment."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    command = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    mine = Path(sysconfig.get_paths()["purelib"])
    core = ("numpy", "scipy", "gymnasium", "cloudpickle", "farama_notifications", "typing_extensions", "Farama")
    for path in mine.iterdir():
        if path.name.lower().startswith(tuple(name.lower() for name in core)):
            (site / path.name).symlink_to(path)
    (site / "privbandit.pth").write_text(f"{ROOT}\n{ROOT / 'agents'}\n")
    for arguments, code in ((["--help"], 0), (["list"], 0), (["show", "linucb"], 0), (["run", "demo"], 2)):
        done = subprocess.run([command, "-m", "privbandit", *arguments], capture_output=True, text=True, env={})
        assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
    played = subprocess.run([command, ROOT / ".ci" / "core.py"], capture_output=True, text=True, env={})
    assert played.returncode == 0, played.stderr
