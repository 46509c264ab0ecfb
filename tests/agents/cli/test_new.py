"""``privbandit new``: what it writes passes at once, and each command that it prints works as printed."""

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from privbandit_agents.cli.new import KINDS, begin

Run = Callable[..., subprocess.CompletedProcess[str]]


def follow(python: Run, folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as it is printed, with this Python."""
    program, *arguments = shlex.split(command)
    return python(folder, *(["-W", "error"] if program == "python" else ["-m", program]), *arguments)


def commands(kind: str, name: str, folder: Path) -> list[str]:
    first, *others = begin(kind, name, folder)
    assert first.startswith("written: ")
    return [command.strip() for command in others]


@pytest.mark.parametrize("kind", KINDS)
def test_at_most_six_commands_lead_to_a_line_in_a_figure(kind: str, tmp_path: Path) -> None:
    printed = commands(kind, "mine", tmp_path)
    assert 2 <= len(printed) <= 5  # the first of six was `new` itself
    last = {"audit": " audit ", "experiment": " report "}.get(kind, " run ")
    assert last in printed[-1] and any("audit" in command for command in printed) == ("-" in kind or kind == "audit")
    written = ["mine.yaml"] if kind == "experiment" else ["mine.py", "test_mine.py"]
    assert sorted(path.name for path in tmp_path.iterdir()) == written


@pytest.mark.wide
def test_a_new_agent_passes_its_test_and_has_a_page(python: Run, privbandit: Run, tmp_path: Path) -> None:
    said = privbandit(tmp_path, "new", "local-agent", "my-own")
    assert said.returncode == 0, said.stderr
    test, page, *_ = (line.strip() for line in said.stdout.splitlines()[1:])
    for command, expected in ((test, "all checks passed"), (page, "local 1 a visit, real")):
        done = follow(python, tmp_path, command)
        assert done.returncode == 0 and expected in done.stdout and not done.stderr, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_command_works_as_printed(kind: str, python: Run, tmp_path: Path) -> None:
    for command in commands(kind, "mine", tmp_path):
        done = follow(python, tmp_path, command)
        assert done.returncode == 0 and "Traceback" not in done.stderr, f"{command}: {done.stderr}"
    picture = {"audit": "mine-correct.png", "experiment": "regret-by-epsilon.png"}.get(kind, "regret.png")
    assert (tmp_path / "runs" / "mine" / picture).stat().st_size > 10_000
    assert bool(list((tmp_path / "runs" / "mine").glob("*correct.png"))) == ("-" in kind or kind == "audit")


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        (
            "agnet",
            "mine",
            "kind must be one of env, agent, local-agent, joint-agent, audit, experiment; got 'agnet'",
        ),
        ("agent", "Mine", "the name must be small letters, digits and - or _, a letter first; got 'Mine'."),
        ("agent", "a/b", "the name must be small letters, digits and - or _, a letter first; got 'a/b'."),
        ("agent", "class", "the name must be small letters, digits and - or _, a letter first; got 'class'."),
        ("agent", "linucb", "there is something called 'linucb'; choose another name."),
        ("env", "numpy", "there is something called 'numpy'; choose another name."),
        ("env", "taken", "test_taken.py is there; choose another name, or move it."),
    ],
)
def test_what_cannot_be_begun_is_said_and_nothing_is_written(kind: str, name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "test_taken.py").touch()
    with pytest.raises(ValueError) as error:
        list(begin(kind, name, tmp_path))
    assert said in str(error.value) and [path.name for path in tmp_path.iterdir()] == ["test_taken.py"]
