"""Agents that nobody registered: classes, files, objects, functions and trained models."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from commanding import invoke
from privbandit_agents import ForeignAgent, compare, make, play
from privbandit_agents.baselines.uniform import Uniform
from privbandit_agents.zoo.entries import AGENTS
from privbandit_agents.zoo.reading import ForeignModule, import_named, reading
from privbandit_agents.zoo.registry import find

Run = Callable[..., subprocess.CompletedProcess[str]]
WORLD = {"id": "privbandit/Linear-v0", "n_arms": 3, "dim": 2}
FILE = '''"""An agent in a file."""

from privbandit_agents.baselines.uniform import Uniform
from privbandit_agents.local.linear.ldp_greedy import LDPGreedy


class Own(Uniform):
    """Chooses at random."""


class Private(LDPGreedy):
    """Reports noisy moments."""
'''


def world(horizon: int = 100) -> Any:
    return gym.make("privbandit/Linear-v0", n_arms=3, dim=2, horizon=horizon)


class Mine(Uniform):
    """Chooses at random."""


class Model:
    """A trained model, as stable-baselines3 has them: ``predict`` returns an action and a state."""

    def predict(self, context: Any, deterministic: bool = False) -> tuple[Any, None]:
        assert deterministic
        return int(np.asarray(context).sum(axis=1).argmax()), None


def test_a_class_is_made_without_registration() -> None:
    class Inner(Mine):
        pass

    for given in (Mine, Inner):
        agent = make(given, world(), seed=0)
        assert type(agent) is given and play(world(), agent, seed=0).regret[-1] > 0
    assert find(f"{Mine.__module__}:Mine").summary == "Chooses at random."
    assert not any("Mine" in name for name in AGENTS)
    with pytest.raises(TypeError, match="subclass of Agent"):
        make(dict, world())  # type: ignore[arg-type]


def test_compare_takes_names_tables_classes_objects_functions_and_models() -> None:
    known = set(AGENTS)
    object_ = make("linucb", world(), seed=3)
    before = repr(object_.state())
    players: list[Any] = [
        "uniform",
        {"name": "linucb", "alpha": 0.5},
        Mine,
        object_,
        lambda env, seed: make("lints", env, seed=seed),
        {"agent": Model(), "label": "my PPO"},
        {"agent": ForeignAgent(world(), lambda context: 0, lambda *_: None), "label": "first"},
    ]
    frame = compare(WORLD, players, seeds=2, horizon=100)
    labels = set(frame["label"].unique())
    assert labels == {"uniform", "linucb alpha=0.5", "Mine", "this linucb", "<lambda>", "my PPO", "first"}
    assert set(AGENTS) == known and frame.filter(label="Mine")["regret"].equals(frame.filter(label="uniform")["regret"])
    assert repr(object_.state()) == before, "a trial played the object itself"


@pytest.mark.parametrize(
    ("player", "said"),
    [
        ({"agent": 3, "label": "three"}, "an agent is a name, a class, an object"),
        ({"agent": Model(), "label": "linucb"}, "label must be a text that no other agent has"),
        ({"agent": Model(), "label": "m", "alpha": 1}, "takes no settings; got alpha"),
        (lambda env, seed: None, "must return an agent; got None"),
    ],
)
def test_what_is_no_agent_is_said(player: Any, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        compare(WORLD, [player], seeds=1, horizon=20)


def test_objects_need_no_folder_and_fitting_spaces(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="leave the folder out"):
        compare(WORLD, [{"agent": Model(), "label": "m"}], seeds=1, horizon=20, folder=tmp_path)
    with pytest.raises(ValueError, match="plays Box"):
        compare({**WORLD, "dim": 3}, [make("linucb", world(), seed=0)], seeds=1, horizon=20)


def test_a_class_in_a_file_is_run_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in_a_file.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    run = ["run", "--env", "Linear-v0", "--set", "dim=2", "--users", "50", "--jobs", "1", "--out", "x"]
    shown = invoke(*run, "--agent", "in_a_file.py:Own", "--agent", "in_a_file:Private", "--set", "Private.epsilon=2")
    assert shown.exit_code == 0 and "Private epsilon=2" in shown.stdout and "\nOwn" in shown.stdout, shown.stderr
    assert invoke("show", "in_a_file.py:Private").stdout.startswith("Private\nReports noisy moments.")
    missing = invoke("run", "--env", "Linear-v0", "--agent", "in_a_file.py:Owm")
    assert missing.exit_code == 2 and "no agent is called 'Owm'" in missing.stderr


def test_data_that_name_a_file_import_nothing(tmp_path: Path) -> None:
    (tmp_path / "untrusted.py").write_text("raise SystemExit('run')")
    with reading(), pytest.raises(ForeignModule, match="import it first if you trust it"):
        import_named(str(tmp_path / "untrusted.py"))
    with pytest.raises(ImportError, match="give the path of a Python file"):
        import_named(str(tmp_path / "nowhere.py"))


@pytest.mark.wide
def test_an_id_with_its_package_needs_no_import(python: Run, tmp_path: Path) -> None:
    made = "import gymnasium as gym; print(gym.make('privbandit_envs:privbandit/Linear-v0').spec.id)"
    assert python(tmp_path, "-c", made).stdout == "privbandit/Linear-v0\n"
