"""The programs and commands of docs/reinforcement-learning.md run; those of packages that are not here are skipped."""

import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import polars as pl
import pytest

from privbandit_envs import ENV_IDS

TEXT = (Path(__file__).parents[1] / "docs" / "reinforcement-learning.md").read_text()
BLOCKS = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", TEXT, flags=re.DOTALL))
COMMANDS = re.findall(r"```\n(python .*?)\n```", TEXT)
FIXED = [
    (id, id.replace("-fixed", "")) for id in gym.registry if re.fullmatch(r"privbandit/(?!Bandit)\w+-fixed-v0", id)
]
"""All but that of Bandit-v0, whose users show nothing."""


def test_every_block_is_a_program_with_a_name() -> None:
    assert len(BLOCKS) == TEXT.count("```python") == 2 and len(COMMANDS) == 1


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.wide
def test_a_program_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / name
    program.write_text(BLOCKS[name])
    made = runpy.run_path(str(program))
    if name == "train.py":
        regret = float(re.findall(r"regret a user: (\S+)", capsys.readouterr().out)[0])
        assert regret < 0.2  # uniform play has 0.27
    if name == "figure.py":
        frame, figure = (made[key] for key in ("frame", "figure"))
        ends = frame.filter(checkpoint=500).group_by("label").agg(pl.col("regret").mean())
        regrets = dict(ends.iter_rows())
        assert {"jdp-linucb", "linucb", "uniform", "my PPO"} == regrets.keys()
        assert regrets["my PPO"] != regrets["uniform"]
        assert "my PPO" in [text.get_text() for text in figure.axes[0].texts]


@pytest.mark.slow  # the library loads for half a minute
@pytest.mark.skipif(importlib.util.find_spec("rl_zoo3") is None, reason="rl_zoo3 is not installed")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs(command: str, tmp_path: Path) -> None:
    words = [sys.executable if word == "python" else word for word in command.split()]
    short = ["--n-timesteps", "300", "-params", "n_steps:64", "batch_size:32", "-f", str(tmp_path)]
    done = subprocess.run(words + short, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("fixed", "plain"), FIXED)
def test_a_fixed_id_has_one_world_and_other_users_for_other_seeds(fixed: str, plain: str) -> None:
    assert plain in ENV_IDS and fixed not in ENV_IDS and len(FIXED) >= 6
    envs: list[Any] = [
        gym.make(fixed),
        gym.make(fixed),
        gym.make(plain, instance_seed=0),
        gym.make(fixed, instance_seed=1),
    ]
    shown = [env.reset(seed=seed)[0] for env, seed in zip(envs, (1, 2, 1, 1), strict=True)]
    truths = [
        np.asarray(
            env.unwrapped.problem.expected_reward(shown[0][None], np.asarray(env.action_space.sample())[None] * 0)
        )
        for env in envs
    ]
    assert np.array_equal(shown[0], shown[2]) and not np.array_equal(shown[0], shown[1])
    assert np.array_equal(truths[0], truths[1]) and np.array_equal(truths[0], truths[2])


@pytest.mark.parametrize("vector", [False, True])
def test_too_large_a_set_is_cut_or_refused(vector: bool) -> None:
    everything = np.ones(6, np.int8)
    kwargs: dict[str, Any] = {"n_items": 6, "capacity": 2}
    plain = "privbandit/Assortment-v0"

    def offered(action: Any, **more: Any) -> Any:
        env: Any = gym.make_vec(plain, 1, **kwargs, **more) if vector else gym.make(plain, **kwargs, **more)
        env.reset(seed=3)
        step = env.step(action[None] if vector else action)
        return [float(np.squeeze(step[4][name])) for name in ("expected_reward", "regret", "feedback")]

    with pytest.raises(ValueError, match=r"at most 2 items; got 6\. With oversized='cut' its first 2 count\."):
        offered(everything)
    first = np.array([1, 1, 0, 0, 0, 0], np.int8)
    assert offered(everything, oversized="cut") == offered(first, oversized="cut") == offered(first)
    ends = np.array([0, 0, 1, 0, 1, 1], np.int8)
    assert offered(ends, oversized="cut") == offered(np.array([0, 0, 1, 0, 1, 0], np.int8))
