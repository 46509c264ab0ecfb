"""Delays, changes and masks as plain settings of an environment: by YAML, by --set and by Python alike."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.experiments.results.frame import as_frame
from privbandit_agents.experiments.running.engine import Engine, run_jobs
from privbandit_agents.experiments.schema.sweep import override, parse_sweep, read_sweep
from privbandit_agents.experiments.schema.yaml_text import from_yaml
from privbandit_agents.experiments.store.results import known_result
from privbandit_agents.experiments.usage import UsageError

from privbandit_envs import Delay, DelayFeedback
from privbandit_envs.wrappers import even_checkpoints

PLAN = """
envs:
  - id: Linear-v0
    n_arms: 3
    dim: 2
    jumps: [100, 150]
    drift: 0.001
    shifts: {120: {design: ill}}
    grid:
      feedback: [7, {mean: 20, law: geometric, missing: 0.1}]
  - {id: Linear-v0, dim: 2, n_arms: 3, available: 0.5, feedback: 3}
  - {id: Linear-v0, dim: 2, n_arms: 3}
agents: [linucb, {name: sw-jdp-linucb, epsilon: 2, window: 60}]
horizon: 200
seeds: [4]
checkpoints: 10
"""
CHANGES: dict[str, Any] = {"jumps": [100, 150], "drift": 0.001, "shifts": {120: {"design": "ill"}}}
WORLDS: list[tuple[dict[str, Any], Delay | None]] = [
    (CHANGES, Delay(7, "fixed")),
    (CHANGES, Delay(20, "geometric", 0.1)),
    ({"available": 0.5}, Delay(3, "fixed")),
    ({}, None),
]


@pytest.mark.wide
def test_a_run_by_yaml_is_the_run_by_python(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    trials = read_sweep(tmp_path / "plan.yaml").trials()
    results, failures = run_jobs(trials, tmp_path / "runs", Engine(jobs=1, alone=True))
    assert len(trials) == 8 and not failures
    assert all(known_result(tmp_path / "runs", job.name, job.settings) for job in trials), "it is found again"
    players: list[dict[str, Any]] = [{"name": "linucb"}, {"name": "sw-jdp-linucb", "epsilon": 2, "window": 60}]
    pairs = [(world, law, agent) for world, law in WORLDS for agent in players]
    for trial, (world, law, agent) in zip(trials, pairs, strict=True):
        env: Any = gym.make("privbandit/Linear-v0", n_arms=3, dim=2, horizon=200, **world)
        env = env if law is None else DelayFeedback(env, law)
        own = play(env, make(env=env, seed=4, **agent), 200, seed=4, checkpoints=even_checkpoints(200, 10))
        found = results[trial.name].arrays
        assert np.array_equal(found["regret"], own.regret) and np.array_equal(found["reward"], own.reward)
        assert ("static" in found) == (own.static is not None) == ("jumps" in world)
        assert own.static is None or np.array_equal(found["static"], own.static)
    frame = as_frame(list(results.values()), final=True)
    assert frame["static"].is_null().sum() == 4 and "env.feedback" in frame.columns and "env.shifts" in frame.columns


@pytest.mark.parametrize(
    ("said", "key", "value"),
    [
        ("env.feedback=20", "feedback", 20),
        ("env.feedback={mean: 3, law: heavy}", "feedback", {"mean": 3, "law": "heavy"}),
        ("env.jumps=[5, 9]", "jumps", [5, 9]),
        ("env.shifts={7: {design: ill}}", "shifts", {"7": {"design": "ill"}}),
        ("env.available=0.5", "available", 0.5),
        ("env.features={kind: fourier, n: 8}", "features", {"kind": "fourier", "n": 8}),
    ],
)
def test_the_command_line_takes_them_too(said: str, key: str, value: Any) -> None:
    sweep = override(parse_sweep({"envs": ["Linear-v0"], "agents": ["uniform"], "horizon": 20}), [said])
    assert sweep.trials()[0].env_kwargs == {key: value}


WRONG = {
    "feedback: -1": "delay must be >= 0; got -1",
    "feedback: soon": "a number of users, or a table",
    "feedback: true": "a number of users, or a table",
    "feedback: {mean: 5, lag: 2}": "a delay has no 'lag'",
    "feedback: {mean: 5, law: slow}": "law must be one of fixed, geometric",
    "feedback: {missing: 2}": "missing must lie in",
    "feedback: [1, 2]": r"grid: \{feedback: \[1, 2\]\}",
    "delay: 3": "no argument 'delay'",
    "jumps: 5": "jumps must be a list of numbers of users; got 5",
    "jumps: [5, 5]": "jumps must be different numbers",
    "jumps: [0.5]": "jumps must be an integer >= 1",
    "jumps: [10], dim: -1": "dim must be an integer >= 1; got -1",
    "drift: fast": "drift must be a finite number",
    "shifts: [3]": "shifts must be a table",
    "shifts: {a: {noise: normal}}": "shifts must be an integer >= 1",
    "shifts: {4: {dim: 9}}": "changes the spaces",
    "shifts: {4: {desing: ill}}": r"no argument 'desing' \(did you mean 'design'\?\)",
    "available: 0": "available must be > 0",
}


@pytest.mark.parametrize("said", WRONG)
def test_wrong_values_are_one_sentence_with_their_place(said: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(f"envs: [{{id: Linear-v0, {said}}}]\nagents: [uniform]\nhorizon: 20\n")
    with pytest.raises(UsageError, match=WRONG[said]) as told:
        read_sweep(path).trials("plan.yaml")
    assert str(told.value).startswith("plan.yaml: envs[0]: ") and len(str(told.value)) < 500


def test_who_owns_the_loop_is_left_out_where_reports_are_late() -> None:
    envs = [{"id": "Linear-v0", "feedback": 3}]
    with pytest.raises(UsageError, match=r"cannot play .* with late feedback; it owns its loop"):
        parse_sweep({"envs": envs, "agents": ["ppo"], "horizon": 20}).trials()


def test_saying_a_default_is_the_same_trial_and_no_other() -> None:
    """Of masks and of changes; a delay of 0 is served one by one, and so another run."""
    plain = "envs: [{id: Linear-v0, dim: 2%s}]\nagents: [uniform]\nhorizon: 20\n"
    said = ("", ", drift: 0", ", drift: 0.0", ", jumps: []", ", shifts: {}", ", available: null")
    names = {
        one: parse_sweep(from_yaml(plain % one)).trials()[0].name for one in (*said, ", drift: 0.1", ", feedback: 0")
    }
    assert len({names[one] for one in said}) == 1 and len(set(names.values())) == 3


def test_an_agent_that_owns_its_loop_has_no_static_regret() -> None:
    """It plays a vector of environments, so the single one has served nobody whose gaps could be told."""
    env = gym.make("privbandit/Linear-v0", n_arms=3, dim=2, jumps=[20], horizon=40)
    assert play(env, make("uniform", env, seed=4), seed=4).static is not None
    assert play(env, make("a2c", env, seed=4), seed=4).static is None
