"""Agents under batches and delay: what a regime costs them, and what their widths count."""

import copy
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, load, make, play, save
from privbandit_agents.testing.loops import check_actions, check_frozen, check_resume, check_seeds
from privbandit_agents.testing.privacy import check_budgets
from privbandit_agents.testing.records import check_hostile_records
from privbandit_agents.testing.twins import check_local

BATCH, FIXED = {"mean": 500, "law": "batch"}, {"mean": 500, "law": "fixed"}
WORLDS: dict[str, dict[str, Any]] = {
    "arms": {"id": "privbandit/Bandit-v0", "n_arms": 8},
    "clicks": {"id": "privbandit/Clicks-v0", "n_arms": 8, "dim": 3},
    "linear": {"id": "privbandit/Linear-v0", "n_arms": 4, "dim": 3},
}
LATE: list[dict[str, Any]] = [BATCH, FIXED, {"mean": 300, "law": "geometric"}]


@cache
def regret(world: str, name: str, law: tuple[tuple[str, Any], ...], seeds: int, epsilon: float | None = None) -> float:
    """Return the mean regret of an agent over 4000 users."""
    given = {} if epsilon is None else {"epsilon": epsilon}
    runs = []
    for seed in range(seeds):
        env = gym.make(**WORLDS[world], horizon=4000, feedback=dict(law) or None)
        agent = make(name, env, seed=seed, **given)
        runs.append(play(env, agent, seed=seed, checkpoints=[4000], by_counts=False).regret[-1])
    return float(np.mean(runs))


@pytest.mark.parametrize(
    ("world", "name", "epsilon", "most"),
    [
        ("arms", "linucb", None, 420),
        ("arms", "ucb1", None, 420),
        ("arms", "adap-klucb", None, 420),
        ("arms", "dp-se", None, 600),
        ("arms", "ldp-ucb", None, 600),
        ("clicks", "linucb", None, 300),
        ("clicks", "regcb", None, 300),
        ("clicks", "greedy", None, 400),
        ("clicks", "jdp-linucb", 4, 400),
        ("clicks", "jdp-glm", 4, 400),
    ],
)
@pytest.mark.parametrize("law", [BATCH, FIXED])
@pytest.mark.wide_but("law0-*-jdp-glm-*", "law0-clicks-greedy-*")
def test_a_batch_costs_what_uniform_play_over_the_first_one_does(
    law: dict[str, Any], world: str, name: str, epsilon: float | None, most: float
) -> None:
    """Three seeds; uniform play has a regret of 1600 and 990 here."""
    assert regret(world, name, tuple(law.items()), 3, epsilon) <= most


@pytest.mark.wide
@pytest.mark.parametrize("name", ["linucb", "regcb", "ucb1", "adap-klucb", "dp-se", "jdp-linucb", "jdp-glm"])
@pytest.mark.parametrize("size", [50, 500, 1000])
def test_no_batch_costs_more_than_half_as_much_again_as_it_must(name: str, size: int) -> None:
    world = "arms" if name in ("ucb1", "adap-klucb", "dp-se") else "clicks"
    law = ("mean", size), ("law", "batch")
    floor = regret(world, name, (), 6) + regret(world, "uniform", (), 6) * size / 4000
    assert regret(world, name, law, 6) <= 1.5 * floor


@pytest.mark.wide_at("jdp-glm", "jdp-linucb")
@pytest.mark.parametrize("name", ["jdp-glm", "jdp-linucb"])
def test_a_curator_who_was_told_of_batches_loses_less(name: str) -> None:
    def played(told: dict[str, Any], seed: int) -> float:
        env = gym.make(**WORLDS["clicks"], horizon=4000, feedback=BATCH)
        return float(play(env, make(name, env, seed=seed, **told), seed=seed, checkpoints=[4000]).regret[-1])

    told, untold = (np.mean([played(some, seed) for seed in range(4)]) for some in ({}, {"feedback": None}))
    assert told < 0.97 * untold


@pytest.mark.wide_at("linucb-*", "sw-linucb-arms", "sw-linucb-linear", "regcb-arms", "linucb-arms", "regcb-clicks")
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", ["linucb", "regcb", "sw-linucb"])
def test_widths_count_whoever_was_served(world: str, name: str) -> None:
    """After any users, A is the ridge and the features of all: of those who have reported, and of those who have not.

    Arms of users who are asked about, and not served, count for nobody.
    """
    env = gym.make(**WORLDS[world], horizon=400, feedback=60)
    agent: Any = make(name, env, seed=0)
    context, _ = env.reset(seed=0)
    expected = np.stack([agent.config.ridge * np.eye(agent.dim)] * len(agent.regression.matrices))
    for _ in range(150):
        agent.probabilities(context[None], 20, np.random.default_rng(0))
        arm = int(agent.select_action(context))
        (x,), (group,) = agent.observed(np.asarray(context)[None], np.array([arm]))
        expected[group] += np.outer(x, x)
        context, *_, info = env.step(arm)
        if info["reports"] is not None:
            agent.update(*info["reports"])
    for inverse, a in zip(agent.ahead.matrices[..., :-1], expected, strict=True):
        assert np.allclose(inverse @ a, np.eye(agent.dim), atol=1e-8)
    assert agent.waiting == 60


@pytest.mark.parametrize("name", ["linucb", "regcb"])
def test_after_a_batch_widths_are_those_of_the_regression(name: str) -> None:
    env = gym.make(**WORLDS["linear"], horizon=400, feedback={"mean": 40, "law": "batch", "missing": 0.2})
    agent: Any = make(name, env, seed=0)
    play(env, agent, 80, seed=0)
    assert np.array_equal(agent.ahead.matrices, agent.regression.matrices) and agent.waiting == 0


@pytest.mark.parametrize("name", ["linucb", "ucb1", "ldp-ucb", "adap-klucb", "dp-se", "jdp-glm"])
@pytest.mark.parametrize("law", LATE)
@pytest.mark.wide_at("law0-ldp-ucb", "law1-*", "law2-*")
def test_a_saved_agent_goes_on_in_its_regime(name: str, law: dict[str, Any], tmp_path: Any) -> None:
    world = "arms" if name not in ("linucb", "jdp-glm") else "clicks"
    env = gym.make(**WORLDS[world], horizon=4000, feedback=law)
    agent: Any = make(name, env, seed=0)
    play(env, agent, 700, seed=0)
    save(agent, tmp_path / "agent.npz")
    again: Any = load(tmp_path / "agent.npz", env, fork=False)
    assert again.config.feedback == agent.config.feedback is not None
    contexts = np.stack([env.reset(seed=seed)[0] for seed in range(20)])
    assert np.array_equal(again.select_action(contexts), agent.select_action(contexts))


@pytest.mark.parametrize("name", ["ucb1", "ldp-ucb"])
def test_the_users_of_the_first_batch_share_the_arms_out(name: str) -> None:
    env = gym.make(**WORLDS["arms"], horizon=4000, feedback=BATCH)
    agent: Any = make(name, env, seed=0)
    arms = np.bincount(agent.select_action(np.zeros(500, int)), minlength=8)
    assert np.ptp(arms) <= 1


@pytest.mark.parametrize("name", ["adap-klucb", "dp-se"])
def test_probabilities_of_a_run_of_all_arms_are_those_by_which_arms_are_drawn(name: str) -> None:
    env = gym.make(**WORLDS["arms"], horizon=4000, feedback=BATCH)
    agent: Any = make(name, env, seed=1)
    play(env, agent, 500, seed=1)
    law = np.asarray(agent.probabilities(np.zeros(1, int)))[0]
    n = 20_000
    drawn = np.bincount(copy.deepcopy(agent).select_action(np.zeros(n, int)), minlength=8)
    assert (np.abs(drawn - n * law) <= 5 * np.sqrt(n * law * (1 - law)) + 1e-9).all() and law.sum() == pytest.approx(1)


@pytest.mark.wide_at("law0", "law[12]")
@pytest.mark.parametrize("law", [*LATE, {"mean": 40, "law": "heavy", "missing": 0.3}])
def test_expected_records_of_arms_are_right_on_average(law: dict[str, Any]) -> None:
    """Of the first runs of a curator who counts no arm: by the promise, within five standard errors."""
    seen: list[Any] = []
    for seed in range(6):
        env = gym.make(**WORLDS["arms"], horizon=4000, feedback=law)
        agent: Any = make("adap-klucb", env, seed=seed)
        named = np.zeros(8)
        context, _ = env.reset(seed=seed)
        learned_all = agent.learned_all

        def kept(sums: Any, records: Any, named: Any = named, learned_all: Any = learned_all) -> None:
            seen.append((records, named.copy()))
            named[:] = 0
            learned_all(sums, records)

        agent.learned_all = kept
        for _ in range(1500):
            context, *_, info = env.step(agent.select_action(context))
            for one in zip(*(info["reports"] or ((), (), ())), strict=True):
                named[one[1]] += 1
                agent.update(*(part[None] for part in one))
    expected, found = (np.concatenate(column) for column in zip(*seen, strict=True))
    assert len(seen) >= 12
    error = np.abs((expected - found).sum())
    assert error < 1e-6 * found.sum(), "all records of a run are expected somewhere"
    assert np.sqrt(((expected - found) ** 2 / np.maximum(expected, 1)).mean()) < 1.3, "within chance"


PREPARED = {
    **dict.fromkeys(("ucb1", "adap-klucb", "dp-se", "ldp-ucb"), "privbandit/Bandit-v0"),
    **dict.fromkeys(("linucb", "regcb", "sw-linucb", "jdp-glm", "jdp-linucb", "prec-ts"), "privbandit/Linear-v0"),
    "shuffle-linucb": "privbandit/Linear-v0",
    **dict.fromkeys(("ldp-clicks", "reward-dp-linucb"), "privbandit/Clicks-v0"),
}
CHECKS = (check_actions, check_budgets, check_frozen, check_hostile_records, check_local, check_resume, check_seeds)


@pytest.mark.parametrize("name", PREPARED)
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("law", [{"mean": 20, "law": "batch"}, {"mean": 9, "law": "fixed"}, {"mean": 9}])
@pytest.mark.wide_but("law0-check_frozen-*", "law0-check_resume-*")
def test_who_was_told_of_a_regime_conforms_as_others_do(law: dict[str, Any], check: Any, name: str) -> None:
    if check is check_hostile_records and AGENTS[name].notion == "none":
        pytest.skip("without privacy whoever is served counts in others' widths")
    check(name, PREPARED[name], 120, {"feedback": law})
