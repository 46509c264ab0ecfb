"""Agents that take users by counts play as if they came one by one; error rates below 1e-3 a check."""

from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.base.agent import LearningAgent
from privbandit_agents.experiments import Trial, run_trial
from privbandit_agents.experiments.jobs.job import Desk
from privbandit_agents.experiments.results.cells import Cells
from privbandit_agents.experiments.results.frame import frame_of
from privbandit_agents.experiments.results.readings import Reading, by_cell
from privbandit_agents.experiments.running.attempt import run_job
from privbandit_agents.zoo.auto import Auto
from privbandit_agents.zoo.entries import AGENTS
from privbandit_agents.zoo.registry import field_names, find
from scipy import stats

WORLD: dict[str, Any] = {"n_arms": 3, "dim": 2, "design": "ill", "delta": 0.04, "support": 20, "instance_seed": 5}
HORIZON = 4000
EASY: dict[str, dict[str, Any]] = {name: {"epsilon": 4.0} for name in AGENTS if "local" in AGENTS[name].agent}
LONG: dict[str, dict[str, Any]] = {
    name: {"growth": 1.4} for name in AGENTS if "growth" in field_names(find(name).load().Config)
}
"""Batches that are long enough to be counted."""


def environment() -> Any:
    return gym.make("privbandit/Linear-v0", horizon=HORIZON, **WORLD)


@cache
def counting() -> list[str]:
    """Return the names of agents that take users by counts."""
    env, names = environment(), []
    for name in AGENTS:
        if issubclass(find(name).load(), Auto | LearningAgent):  # another agent's name, or a loop of its own
            continue
        if not find(name).load().plays(env.observation_space, env.action_space):
            try:
                agent = make(name, env, seed=0)
            except (ValueError, ImportError):
                continue
            names += [name] if agent.by_counts else []
    return names


RUNS = 40


@pytest.mark.parametrize("name", [name for name in counting() if name != "ldp-oful"])  # ldp-linucb, but for its width
@pytest.mark.wide
def test_regret_has_the_law_of_the_step_path(name: str) -> None:
    """Means within 4 standard errors, and KS at p > 1e-4, over 40 runs each."""
    regrets = []
    for by_counts in (True, False):
        runs = []
        for seed in range(RUNS):
            env = environment()
            agent = make(name, env, seed=seed, **EASY.get(name, {}) | LONG.get(name, {}))
            result = play(env, agent, seed=seed + 100 * by_counts, checkpoints=[HORIZON], by_counts=by_counts)
            assert result.simulation == (
                "users" if not by_counts else f"counts{', normal' * (agent.by_counts == 'normal')}"
            )
            runs.append(result.regret[-1])
        regrets.append(np.array(runs))
    one, other = regrets
    error = np.sqrt((one.var(ddof=1) + other.var(ddof=1)) / RUNS)
    assert abs(one.mean() - other.mean()) <= 4 * error + 1e-9 * one.mean()
    assert stats.ks_2samp(one, other).pvalue > 1e-4


@pytest.mark.every_agent
@pytest.mark.wide_at("prec-ts", "input-*", "ldp-linucb")
@pytest.mark.parametrize("name", [name for name in counting() if name != "uniform"])
def test_the_ledger_knows_all_users(name: str) -> None:
    env = environment()
    agent: Any = make(name, env, seed=0)
    if agent.guarantee.notion == "none":
        return
    play(env, agent, seed=0, checkpoints=[HORIZON])
    assert agent.ledger.group == HORIZON - 1
    spent = agent.ledger.spent_epsilon(agent.guarantee.delta)
    assert 0 < spent <= agent.guarantee.epsilon * (1 + 1e-6)
    assert agent.guarantee.notion != "local" or spent == pytest.approx(agent.guarantee.epsilon)


@pytest.mark.parametrize("name", [name for name in counting() if "local" in AGENTS[name].agent])
@pytest.mark.wide
def test_sums_of_reports_have_the_law_of_reports(name: str) -> None:
    """KS at p > 1e-4 of every coordinate for users of two kinds; a wrong scale is rejected."""
    env = environment()
    env.reset(seed=1)
    agent: Any = make(name, env, seed=1, **EASY[name])
    if not hasattr(agent, "device"):
        return
    contexts = env.unwrapped.support.contexts[:2]
    actions, feedback, counts = np.array([0, 1]), np.array([1.0, -1.0]), np.array([40, 20])
    counts = counts * (10 if agent.by_counts == "normal" else 1)  # the limit is for many users
    repeated = [np.repeat(part, counts, axis=0) for part in (contexts, actions, feedback)]
    single = np.array([agent.estimate(agent.randomize(*repeated)).sum(axis=0) for _ in range(1000)])
    summed = np.array([agent.randomize_sum(contexts, actions, feedback, counts) for _ in range(2000)])
    # sums of few values lie on a grid, up to rounding
    for ours, theirs in zip(summed.T.round(9), single.T.round(9), strict=True):
        assert stats.ks_2samp(ours, theirs).pvalue > 1e-4
        centre = theirs.mean()
        assert stats.ks_2samp(centre + 1.5 * (ours - centre), theirs).pvalue < 1e-3


def test_an_agent_that_does_not_count_is_served_one_by_one() -> None:
    env = environment()
    result = play(env, make("jdp-linucb", env, seed=0), 700, seed=0)
    assert result.simulation == "users"
    with pytest.raises(TypeError, match="one by one"):
        make("jdp-linucb", env, seed=0).update_counts(
            np.zeros((1, 3, 2)), np.array([0]), np.array([1.0]), np.array([5])
        )


def test_a_run_that_counted_nobody_says_so() -> None:
    env = environment()
    dense, sparse = np.arange(100, 1001, 100), [400, 1000]
    runs = {
        (len(points), by_counts): play(
            env, make("uniform", env, seed=0), 1000, seed=0, checkpoints=points, by_counts=by_counts
        )
        for points in (dense, sparse)
        for by_counts in (True, False)
    }
    assert [run.simulation for run in runs.values()] == ["users", "users", "counts", "users"]
    assert runs[10, True].regret.tolist() == runs[10, False].regret.tolist()


def test_errors_of_predictions_are_those_of_the_estimate() -> None:
    env = gym.make("privbandit/Linear-v0", n_arms=2, dim=2, support=30, horizon=40_000)
    agent: Any = make("ldp-greedy", env, seed=0, epsilon=8.0)
    result = play(env, agent, seed=0, checkpoints=[600, 20_000, 40_000])
    problem: Any = env.unwrapped.problem  # type: ignore[attr-defined]
    error = problem.support().contexts @ (agent.scorer[:, -1] - problem.theta)
    assert result.mad is not None and result.mse is not None
    assert result.mad[-1] == pytest.approx(np.abs(error).mean(), rel=1e-4)
    assert result.mse[-1] == pytest.approx((error**2).mean(), rel=1e-4)
    assert result.mad[-1] < result.mad[0]
    assert play(env, make("uniform", env, seed=0), seed=0).mad is None


def test_experiments_read_errors_of_predictions(tmp_path: Path) -> None:
    world = {"n_arms": 1, "dim": 2, "support": 30}
    trials = [Trial("privbandit/Linear-v0", "ldp-greedy", 4000, seed, world, checkpoints=4) for seed in (0, 1)]
    outcomes = [run_trial(trial, tmp_path) for trial in trials]
    assert [run_trial(trial, tmp_path).result.mad.tolist() for trial in trials] == [  # type: ignore[union-attr]
        outcome.result.mad.tolist()  # type: ignore[union-attr]
        for outcome in outcomes
    ]
    results = by_cell(frame_of([run_job(trial, Desk(tmp_path)) for trial in trials]))
    (cell,) = Cells.of(trials)
    values = Reading(cell, "mad", np.array([2000.0, 4000.0])).read(results)
    assert values.above[:, -1].tolist() == [outcome.result.mad[-1] for outcome in outcomes]  # type: ignore[index]
    assert (values.below == 1).all() and values.replications.tolist() == [0, 1]
    plain = Trial("privbandit/Linear-v0", "uniform", 4000, 0, world, checkpoints=4)
    (cell,) = Cells.of([plain])
    with pytest.raises(ValueError, match="it predicts no rewards"):
        Reading(cell, "mse", np.array([9.0])).read(by_cell(frame_of([run_job(plain, Desk(tmp_path))])))


@pytest.mark.wide_at("None")
@pytest.mark.parametrize("checkpoints", [None, [1, 700, 900, 5000, 12_345, 60_000]])
def test_reports_that_wait_for_the_next_change_are_those_of_every_checkpoint(checkpoints: Any) -> None:
    """Without noise, where both ways are the same sums."""
    found = []
    for late in (True, False):
        env = gym.make("privbandit/Linear-v0", n_arms=3, dim=3, support=20, horizon=60_000)
        agent: Any = make("lplr", env, seed=1, epsilon=float("inf"))
        assert agent.reports_late
        agent.reports_late = late
        result = play(env, agent, seed=1, checkpoints=checkpoints)
        found.append((result.regret, agent.users, agent.refit_at, agent.ledger.releases, agent.total))
    assert found[0][1:4] == found[1][1:4] and found[0][1] == found[0][3] == 60_000
    assert found[0][0] == pytest.approx(found[1][0]) and found[0][4] == pytest.approx(found[1][4])
