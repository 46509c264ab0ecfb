"""The programs of examples/clients run as they stand, each where its library is installed."""

import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import ForeignAgent, make, play, save

import privbandit_envs  # noqa: F401  (registers the environments)

ROOT = Path(__file__).parents[2]
FILES = {path.name: path.read_text() for path in sorted((ROOT / "examples" / "clients").glob("*.py"))}
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_page_names_every_file() -> None:
    named = re.findall(r"`(with_\w+\.py)`", (ROOT / "docs" / "clients.md").read_text())
    assert sorted(named) == [*FILES] and len(FILES) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_client_works(name: str, tmp_path: Path, python: Run) -> None:
    imported = re.findall(r"^(?:import|from) (\w+)", FILES[name], flags=re.MULTILINE)
    needed = [*imported, "pyarrow"] if "to_pandas" in FILES[name] else imported
    if absent := [module for module in needed if find_spec(module) is None]:
        pytest.skip(f"{', '.join(absent)} is not installed")
    if "source=" in FILES[name] and find_spec("sklearn") is None:
        pytest.skip("scikit-learn is not installed")
    (tmp_path / name).write_text(FILES[name] + check_of(FILES[name]))
    done = python(tmp_path, name)
    assert done.returncode == 0, done.stderr


def check_of(text: str) -> str:
    """Return what a block must have shown: an agent of another library does better than play at random."""
    if "at_random =" in text:
        return "\nassert regret < 0.5 * at_random, (regret, at_random)\n"
    if "ForeignAgent" not in text:
        return ""
    at_random = "play(env, make('uniform', env, seed=0), seed=0).regret[-1]"
    return f"\nfrom privbandit_agents import make\nassert regret < {at_random}\n"


def counting(env: gym.Env[Any, Any]) -> tuple[ForeignAgent, list[Any]]:
    """Return a small agent of another library, epsilon-first with a mean for each arm, and what it was told."""
    told: list[Any] = []

    def choose(context: Any) -> int:
        return len(told) % 3

    return ForeignAgent(env, choose, lambda *record: told.append(record), "counting"), told


@pytest.mark.parametrize("world", ["privbandit/Linear-v0", "privbandit/Classification-v0"])
def test_a_foreign_agent_is_told_every_user_once_and_plays_the_same_by_steps(world: str) -> None:
    regrets = []
    for wrapped in (False, True):
        env: Any = gym.make(
            world, horizon=30, **({"n_arms": 3, "dim": 2} if "Linear" in world else {"source": "wine", "n_public": 20})
        )
        agent, told = counting(env)
        result = play(gym.wrappers.TimeLimit(env, 100) if wrapped else env, agent, 30, seed=1)
        assert len(told) == 30 and all(record[0].shape == env.observation_space.shape for record in told)
        assert [int(record[1]) for record in told] == [user % 3 for user in range(30)]
        assert sum(float(record[2]) for record in told) == pytest.approx(result.reward[-1])
        regrets.append(result.regret[-1])
    assert regrets[0] == regrets[1]


def test_a_foreign_agent_takes_groups_respects_masks_and_promises_nothing() -> None:
    env = gym.make("privbandit/Linear-v0", n_arms=3, dim=2, horizon=200, available=0.4)
    agent, told = counting(env)
    assert play(env, agent, seed=0).checkpoints[-1] == 200 and len(told) == 200
    contexts = np.zeros((4, 3, 2))
    assert np.asarray(agent.select_action(contexts)).shape == (4,)
    agent.update(contexts, np.arange(4) % 3, np.zeros(4))
    assert len(told) == 204 and agent.guarantee.words == "none"


def test_what_a_foreign_agent_cannot_do_is_one_sentence(tmp_path: Path) -> None:
    env: Any = gym.make("privbandit/Linear-v0", n_arms=3, dim=2, horizon=20)
    agent, _ = counting(env)
    with pytest.raises(TypeError, match="counting is an agent of another library: save it"):
        save(agent, tmp_path / "agent.npz")
    with pytest.raises(TypeError, match="choose must be a function; got 7"):
        ForeignAgent(env, 7, print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="learn must be a function; got None"):
        ForeignAgent(env, print, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"action must be an arm 0, \.\.\., 2; got 'left'"):
        play(env, ForeignAgent(env, lambda context: "left", print), seed=0)
    assert make("uniform", env).guarantee.notion == agent.guarantee.notion
    assert sys.getsizeof(repr(agent)) < 500
