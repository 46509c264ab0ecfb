"""Trials: identity, repeatability, resuming, and worlds of other packages."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from privbandit_agents import make, save
from privbandit_agents.experiments import Outcome, Trial, run_trial
from privbandit_agents.experiments.names import canonical, result_path
from privbandit_agents.experiments.running.engine import Engine, run_jobs
from privbandit_agents.experiments.store.results import decode, encode, read_result
from privbandit_agents.zoo.entries import AGENTS

LINUCB = Trial("privbandit/Linear-v0", "linucb", 400, 3, {"dim": 6, "n_arms": 3}, {"alpha": 0.5}, checkpoints=40)
OUTSIDE = """
import os
from dataclasses import dataclass
import gymnasium as gym
import numpy as np
from privbandit_agents.base.agent import Agent
from privbandit_agents.zoo.plugins import register_agent

class Coin(gym.Env):
    observation_space, action_space = gym.spaces.Box(0, 1, (1,)), gym.spaces.Discrete(2)
    def __init__(self, cost=1.0): self.cost = cost
    def reset(self, *, seed=None, options=None): return np.zeros(1, np.float32), {}
    def step(self, action):
        regret = self.cost * action
        return np.zeros(1, np.float32), -regret, False, False, {"feedback": -regret, "regret": regret}

@dataclass(frozen=True)
class Config:
    arm: int = 1

class Stubborn(Agent):
    Config = Config
    def select_action(self, context):
        if self.config.arm == 9: os._exit(1)
        if self.config.arm > 1: raise RuntimeError("there is no such arm")
        return self.config.arm
    def update(self, context, action, feedback): pass

gym.register("outside/Coin-v0", "OUTSIDE:Coin")
register_agent("stubborn", "OUTSIDE:Stubborn", "always the same arm")
"""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the name of a package that registers an environment and an agent when imported."""
    name = f"outside_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(OUTSIDE.replace("OUTSIDE", name))
    monkeypatch.syspath_prepend(str(tmp_path))
    gym.registry.pop("outside/Coin-v0", None)
    AGENTS.pop("stubborn", None)
    get_reusable_executor().shutdown(wait=True)  # workers of an earlier test do not know this folder
    yield name
    gym.registry.pop("outside/Coin-v0", None)
    AGENTS.pop("stubborn", None)


def without_circumstances(folder: Path, trial: Trial) -> str:
    finished = read_result(result_path(folder, trial.name))
    provenance = {key: value for key, value in finished.provenance.items() if key not in ("date", "host")}
    arrays = {name: array.tolist() for name, array in finished.arrays.items() if name != "seconds"}
    return canonical([finished.kind, finished.job, finished.settings, arrays, finished.notes, provenance])


def test_the_same_trial_gives_the_same_result_bit_for_bit(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        run_trial(LINUCB, tmp_path / folder)
    assert without_circumstances(tmp_path / "a", LINUCB) == without_circumstances(tmp_path / "b", LINUCB)


def test_another_seed_gives_another_result(tmp_path: Path) -> None:
    other = Trial(LINUCB.env, LINUCB.agent, 400, 4, LINUCB.env_kwargs, LINUCB.config, 40)
    ends = [run_trial(trial, tmp_path).result.regret[-1] for trial in (LINUCB, other)]
    assert ends[0] != ends[1]


def test_the_name_is_the_hash_of_the_canonical_spec() -> None:
    reordered = Trial("privbandit/Linear-v0", "linucb", 400, 3, {"n_arms": 3, "dim": 6.0}, {"alpha": 0.5}, 40)
    assert reordered.name == LINUCB.name and len(LINUCB.name) == 16 and int(LINUCB.name, 16) >= 0
    others: list[dict[str, Any]] = [{"seed": 4}, {"horizon": 401}, {"config": {"alpha": 0.6}}, {"checkpoints": 41}]
    assert len({Trial(**{**LINUCB.spec, **change}).name for change in others} | {LINUCB.name}) == 5


def test_numpy_settings_are_plain_json() -> None:
    trial = Trial("privbandit/Linear-v0", "linucb", 10, 0, {"theta": np.array([0.5, 0.0])}, {"alpha": np.float64(1)})
    assert trial.env_kwargs == {"theta": [0.5, 0]} and trial.config == {"alpha": 1}
    assert json.loads(canonical(trial.spec)) == trial.spec


def test_numpy_integers_name_the_same_trial() -> None:
    numbers = {name: np.int64(getattr(LINUCB, name)) for name in ("horizon", "seed", "checkpoints")}
    assert Trial(**{**LINUCB.spec, **numbers}).name == LINUCB.name


OUT_OF_RANGE: list[tuple[str, Any]] = [("horizon", 0), ("horizon", -1), ("horizon", 2.5), ("checkpoints", 0)]
OUT_OF_RANGE += [("seed", -1), ("seed", 1.5), ("seed", None), ("seed", "one"), ("seed", True)]


@pytest.mark.parametrize(("field", "value"), OUT_OF_RANGE)
def test_values_out_of_range_are_named(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{field} must be an integer >= [01]; got {value!r}\.$"):
        Trial(**{**LINUCB.spec, field: value})


def test_a_trials_agent_is_the_one_that_make_builds_with_its_seed() -> None:
    env = LINUCB.make_env()
    states = [LINUCB.make_agent(env).rng, make("linucb", env, seed=LINUCB.seed).rng]
    assert states[0].bit_generator.state == states[1].bit_generator.state


def test_the_environment_has_the_trials_horizon() -> None:
    assert LINUCB.make_env().unwrapped.horizon == 400  # type: ignore[attr-defined]


def test_run_names_say_what_is_not_default() -> None:
    folders = "Linear-v0-dim=6-n_arms=3-horizon=400/linucb-alpha=0.5"
    assert LINUCB.run_name == f"{folders}/seed-3-{LINUCB.name[:8]}"
    assert Trial("privbandit/Linear-v0", "uniform", 10_000).run_name.startswith("Linear-v0/uniform/seed-0-")
    path = Trial("privbandit/Classification-v0", "uniform", 10_000, 0, {"source": "/data/my file.csv"}).run_name
    assert path.startswith("Classification-v0-source=-data-my-file.csv/uniform/seed-0-")


def test_a_finished_trial_is_read_back_not_run(tmp_path: Path) -> None:
    first = run_trial(LINUCB, tmp_path)
    file = result_path(tmp_path, LINUCB.name)
    written = file.stat().st_mtime_ns
    seen: list[int] = []
    second = run_trial(LINUCB, tmp_path, on_checkpoint=lambda curve: seen.append(curve.users))
    assert second.trial == first.trial == LINUCB and second.provenance == first.provenance
    assert second.result.seconds == first.result.seconds and second.result.simulation == "users"
    np.testing.assert_array_equal(second.result.regret, first.result.regret)
    assert second.result.checkpoints.dtype == np.int64 and second.result.mad is None
    assert not seen and file.stat().st_mtime_ns == written


def test_a_corrupt_result_is_set_aside_and_the_trial_runs_again(tmp_path: Path) -> None:
    run_trial(LINUCB, tmp_path)
    expected = without_circumstances(tmp_path, LINUCB)
    file = result_path(tmp_path, LINUCB.name)
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.warns(UserWarning, match=r"is corrupt.*set aside as .*\.corrupt"):
        run_trial(LINUCB, tmp_path)
    assert without_circumstances(tmp_path, LINUCB) == expected
    assert file.with_name(f"{file.name}.corrupt").exists()


def test_checkpoints_are_reported_as_they_pass(tmp_path: Path) -> None:
    seen: list[float] = []
    outcome = run_trial(LINUCB, tmp_path, on_checkpoint=lambda curve: seen.append(curve.regret[curve.passed - 1]))
    assert seen == outcome.result.regret.tolist() and len(seen) == 40


def test_a_result_survives_its_file(tmp_path: Path) -> None:
    outcome = run_trial(LINUCB, tmp_path)
    finished = read_result(result_path(tmp_path, LINUCB.name))
    back = decode(encode(finished).splitlines()[1])
    assert back is not None and encode(back) == encode(finished) and Outcome.of(back).trial == LINUCB
    sources = {"agent_source": None, "env_source": None}
    assert sources.items() <= outcome.provenance.items()
    known = {"privbandit", "numpy", "gymnasium", "python", "commit", "host", "date"}
    assert set(outcome.provenance) == known | set(sources)


def test_environments_and_agents_of_other_packages(tmp_path: Path, outside: str) -> None:
    trial = Trial(f"{outside}:outside/Coin-v0", f"{outside}:stubborn", 50, env_kwargs={"cost": 2})
    outcome = run_trial(trial, tmp_path)
    assert outcome.result.regret[-1] == 100 and outcome.result.reward[-1] == -100
    assert trial.run_name.startswith("Coin-v0-cost=2-horizon=50/")


@pytest.mark.wide
def test_an_agent_of_another_package_is_saved_with_the_package(tmp_path: Path, outside: str) -> None:
    trial = Trial("privbandit/Linear-v0", f"{outside}:stubborn", 50)
    save(trial.make_agent(trial.make_env()), tmp_path / "agent.npz")
    load = f"load('agent.npz', gym.make('{trial.env}')).config.arm"
    code = f"import gymnasium as gym, {outside}; from privbandit_agents import load; print({load})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "1\n", done.stderr


@pytest.mark.wide
def test_trials_that_fail_do_not_stop_the_others(tmp_path: Path, outside: str) -> None:
    env = f"{outside}:outside/Coin-v0"
    bad = Trial(env, f"{outside}:stubborn", 20, 7, config={"arm": 5})
    good = [Trial(env, f"{outside}:stubborn", 20, seed, config={"arm": 0}) for seed in range(3)]
    results, failures = run_jobs([good[0], bad, *good[1:]], tmp_path, Engine(jobs=2))
    assert list(results) == [trial.name for trial in good]
    (failure,) = failures
    assert str(failure) == f"stubborn(arm=5) on {env}, seed 7, failed: RuntimeError: there is no such arm"
    assert not result_path(tmp_path, bad.name).exists()


@pytest.mark.wide
def test_a_worker_that_dies_is_reported(tmp_path: Path, outside: str) -> None:
    trials = [Trial(f"{outside}:outside/Coin-v0", f"{outside}:stubborn", 20, config={"arm": 9})]
    results, failures = run_jobs(trials, tmp_path, Engine(jobs=2))
    assert not results and [failure.job for failure in failures] == trials
    assert str(failures[0]).endswith("a worker process died, perhaps for lack of memory; run again with fewer jobs.")
