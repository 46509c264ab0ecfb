"""What YAML files may not do: fill the memory, or depend on the locale."""

import subprocess
import sys
from pathlib import Path

import pytest
from privbandit_agents.experiments.schema.yaml_text import from_yaml

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(97 + depth)}: &{chr(97 + depth)} [{', '.join([f'*{chr(96 + depth)}'] * 9)}]\n" for depth in range(1, 11)
)


def test_aliases_that_stand_for_billions_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="aliases stand for more than"):
        from_yaml(f"{BOMB}envs: *k\n")
    few = from_yaml("a: &a [1, 2]\nb: [*a, *a]\n")
    assert few == {"a": [1, 2], "b": [[1, 2], [1, 2]]}
    with pytest.raises(ValueError, match="in itself"):
        from_yaml("a: &a [*a]")


@pytest.mark.wide
def test_a_bomb_is_a_sentence_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "bomb.yaml").write_text(f"{BOMB}envs: *k\n")
    command = [sys.executable, "-m", "privbandit", "sweep", "bomb.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "aliases" in done.stderr


@pytest.mark.wide
def test_files_are_read_as_utf_8_in_every_locale(tmp_path: Path) -> None:
    text = "# é\nenvs: [{id: privbandit/Linear-v0}]\nagents: [{name: uniform}]\nseeds: 1\nhorizon: 20\n"
    (tmp_path / "plan.yaml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-X", "utf8=0", "-m", "privbandit", "sweep", "plan.yaml"]
    env = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=env, encoding="utf-8")
    assert done.returncode == 0, done.stderr
