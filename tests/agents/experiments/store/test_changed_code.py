"""Edit, run again: results of other code are noticed."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from privbandit_agents.experiments.store import provenance, results
from privbandit_agents.experiments.store.provenance import bare_code, commit, source_of

MINE = '''
"""An agent."""
from privbandit_agents import register_agent
from privbandit_agents.baselines.uniform import Uniform
import helper_of_mine

class Mine(Uniform):
    """Plays arm 0."""

    def select_action(self, context):
        return helper_of_mine.arm() * super().select_action(context)

register_agent("mine", "mine:Mine")
'''
WORLD = '''
import gymnasium as gym
from privbandit_envs.families.linear import LinearProblem

class Own(LinearProblem):
    """A world."""
    SCALE = 1

gym.register("own/World-v0", entry_point="privbandit_envs.env:BanditEnv", kwargs={"problem": Own})
'''
RUN = ["run", "--agent", "mine:mine", "--horizon", "60", "--seeds", "2", "--out", "out"]


@pytest.fixture
def played(tmp_path: Path) -> Callable[..., str]:
    """A folder with an agent and a world; call it to run them and get what was said."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "world.py").write_text(WORLD)
    (tmp_path / "helper_of_mine.py").write_text("def arm():\n    return 1\n")

    def play(*more: str, env: str = "privbandit/Linear-v0") -> str:
        command = [sys.executable, "-m", "privbandit", *RUN, "--env", env, *more]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    return play


def regrets(folder: Path) -> list[float]:
    paths = sorted((folder / "out" / "trials").glob("*.json"))
    return [float(results.read_result(path).arrays["regret"][-1]) for path in paths]


def stale(folder: Path) -> int:
    return len(list((folder / "out" / "trials").glob("*.stale*")))


@pytest.mark.wide
def test_an_edited_agent_plays_again_and_nothing_is_deleted(played: Callable[..., str], tmp_path: Path) -> None:
    played()
    before = regrets(tmp_path)
    for name in ("mine", "helper_of_mine"):
        path = tmp_path / f"{name}.py"
        path.write_text('"""What it is."""\n\n\n' + path.read_text().replace("):", "):  # of mine", 1))
    assert "code" not in played() and regrets(tmp_path) == before and not stale(tmp_path)
    (tmp_path / "helper_of_mine.py").write_text("def arm():\n    return 0\n")
    kept = played("--keep")
    assert kept.count("the code of mine:mine has changed") == 1 and "--keep uses them" in kept
    assert regrets(tmp_path) == before and not stale(tmp_path)
    said = played()
    assert said.count("the code of mine:mine has changed") == 1 and "set aside as .stale" in said
    assert regrets(tmp_path) != before and stale(tmp_path) == 2
    (tmp_path / "mine.py").write_text(MINE.replace("super()", "1 * super()"))
    assert "has changed" in played() and stale(tmp_path) == 4
    assert "has changed" not in played() and stale(tmp_path) == 4


@pytest.mark.wide
def test_an_edited_world_is_played_again(played: Callable[..., str], tmp_path: Path) -> None:
    played(env="world:own/World-v0")
    (tmp_path / "world.py").write_text(WORLD.replace("SCALE = 1", "SCALE = 2"))
    assert "the code of world:own/World-v0 has changed" in played(env="world:own/World-v0")
    assert stale(tmp_path) == 2


def test_what_is_ours_has_no_source_of_its_own() -> None:
    from privbandit_agents.baselines.linucb import LinUCB

    assert source_of(LinUCB) is None and source_of(dict) is None
    assert source_of(type("Own", (LinUCB,), {"__module__": __name__})) is not None


def test_comments_docstrings_and_layout_are_no_code() -> None:
    one = 'def f(x):\n    """Return x."""\n    return x  # as it is\n\n\nclass A:\n    """Nothing."""\n'
    other = "def f( x ):\n    return (x)\nclass A: pass\n"
    assert bare_code(one) == bare_code(other) != bare_code(other.replace("(x)\n", "(x + 1)\n"))


@pytest.mark.wide
def test_a_dirty_checkout_of_the_package_only_warns(
    played: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played()
    (path, *_) = sorted((tmp_path / "out" / "trials").glob("*.json"))
    found = results.read_result(path)
    for old, new, noted in (
        ("a" * 40, "b" * 40, False),
        ("a" * 40, "a" * 40 + "-dirty-12", True),
        ("a-dirty-12", "a-dirty-34", True),
        ("a-dirty-12", "a-dirty-12", False),
        (None, "a-dirty-12", False),
    ):
        dirty = results.Finished(
            found.kind, found.job, found.settings, found.arrays, found.notes, {**found.provenance, "commit": old}
        )
        results.write_result(tmp_path / "out", dirty)
        now = {**provenance.code(), "commit": new}
        monkeypatch.setattr(results, "code", lambda now=now: now)
        if noted:
            with pytest.warns(UserWarning, match="another state of this package"):
                known = results.known_result(tmp_path / "out", found.name, found.settings)
        else:
            known = results.known_result(tmp_path / "out", found.name, found.settings)
        assert known is not None and not stale(tmp_path)


def test_the_commit_of_an_edited_checkout_names_the_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    changes, edited = "+x = 1", " M x"

    def git(folder: Path, command: str, *_: str) -> str | None:
        return {"ls-files": "x", "describe": "abc", "status": edited, "diff": changes}[command]

    monkeypatch.setattr(provenance, "git", git)
    first, changes = commit(), "+x = 2"
    assert first is not None and first.startswith("abc-dirty-") and commit() != first
    changes = ""
    assert commit() == "abc-dirty"
    edited = ""
    assert commit() == "abc"
