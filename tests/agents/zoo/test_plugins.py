"""Packages whose plug-ins fail, or take what is not theirs."""

import warnings
from importlib.metadata import EntryPoint
from pathlib import Path

import gymnasium as gym
import pytest
from privbandit_agents.zoo.plugins import wrong_with

import privbandit_envs  # noqa: F401  (registers the environments)

CODES = {
    "an environment of ours": "import gymnasium as gym\ngym.register('privbandit/Linear-v0', entry_point='os:getcwd')",
    "one of ours taken away": "import gymnasium as gym\ndel gym.registry['privbandit/Linear-v0']",
    "an agent of ours": "from privbandit_agents import register_agent\nregister_agent('linucb', 'os:getcwd')",
    "no exception": "class Own(BaseException): pass\nraise Own('stop')",
    "the end": "raise SystemExit(3)",
    "a generator's end": "raise GeneratorExit",
}


@pytest.mark.parametrize("what", CODES)
def test_a_plug_in_that_takes_what_is_ours_is_undone(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"plugin_{list(CODES).index(what)}"
    (tmp_path / f"{module}.py").write_text(CODES[what])
    monkeypatch.syspath_prepend(str(tmp_path))
    before = gym.registry["privbandit/Linear-v0"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium says that an id is taken
        problem = wrong_with(EntryPoint("own", module, "privbandit.envs"))
    assert problem and "\n" not in problem
    assert gym.registry["privbandit/Linear-v0"] is before
    if "of ours" in what:
        assert "of its own" in problem


def test_ctrl_c_in_a_plug_in_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugin_stopped.py").write_text("raise KeyboardInterrupt")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        wrong_with(EntryPoint("own", "plugin_stopped", "privbandit.envs"))
