"""Public arms: what leaves the device, when arms stop being public, and how well the agent plays."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import load, make, play, save
from privbandit_agents.local.linear.ldp_clicks import pointed

from privbandit_envs.changing.delay import DelayFeedback

CLICKS = "privbandit/Clicks-v0"


def agent_on(exploring: bool, epsilon: float = 1.0, horizon: int = 4000, **world: Any) -> Any:
    """Return an agent with three arms and two features, before or after it ends public arms."""
    env: Any = gym.make(CLICKS, **{"n_arms": 3, "dim": 2, "horizon": horizon} | world)
    agent: Any = make("ldp-clicks", env, seed=0, epsilon=epsilon)
    if not exploring:
        play(env, agent, seed=0)
        assert not agent.exploring
    return agent


def users(n: int, seed: int = 1) -> tuple[Any, Any, Any]:
    """Return contexts with wild ones among them, actions and rewards."""
    rng = np.random.default_rng(seed)
    contexts = rng.standard_normal((n, 2)).astype(np.float32)
    contexts[0], contexts[1], contexts[2] = np.nan, 1e30, 0.0
    rewards = np.where(rng.random(n) < 0.5, 0.0, 1e9)
    rewards[3] = math.inf
    return contexts, np.zeros(n, int), rewards


@pytest.mark.parametrize("exploring", [True, False])
def test_no_record_leads_to_a_longer_vector(exploring: bool) -> None:
    agent, records = agent_on(exploring), users(40)
    encoded = agent.encode(*records)
    assert np.isfinite(encoded).all() and np.isfinite(agent.randomize(*records)).all()
    longest = np.linalg.norm(encoded, axis=1).max()
    assert 1 - 1e-12 < longest <= 1 + 1e-12


@pytest.mark.parametrize("exploring", [True, False])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_no_two_records_have_a_likelihood_ratio_beyond_epsilon(exploring: bool, epsilon: float) -> None:
    """Exact densities at reports of records with all arms; the worst pair nearly reaches e^epsilon."""
    agent, (contexts, _, rewards) = agent_on(exploring, epsilon), users(16)
    actions = np.arange(16) % 3
    inputs = agent.encode(contexts, actions, rewards)
    many = [np.repeat(each, 100, axis=0) for each in (contexts, actions, rewards)]
    reports = agent.randomize(*many)
    density = np.array([agent.device.log_likelihood(reports, 0, one) for one in inputs])
    worst = (density.max(axis=0) - density.min(axis=0)).max()
    assert 0.7 * epsilon < worst <= epsilon * (1 + 1e-9)


def test_an_arm_that_was_not_asked_for_tells_nothing() -> None:
    agent, (contexts, _, rewards) = agent_on(True), users(12)
    assert agent.arm == 0 and agent.encode(contexts, np.zeros(12, int), rewards)[4:].any(axis=1).all()
    for other in (-1, 1, 2):
        assert not agent.encode(contexts, np.full(12, other), rewards).any()


def test_users_who_stay_report_no_reward() -> None:
    agent, (contexts, actions, rewards) = agent_on(False), users(12)
    encoded = agent.encode(contexts, actions, rewards)
    assert np.array_equal(encoded, agent.encode(contexts, actions + 1, 1 - np.clip(rewards, 0, 1)))


def test_means_of_reports_and_of_matrices_are_unbiased() -> None:
    """Without noise the sums are those of the users; theta is the regression of 2 y - 1 on z, up to the prior."""
    env: Any = gym.make(CLICKS, n_arms=2, dim=2, horizon=20_000, link="identity", dtype="float64")
    agent: Any = make("ldp-clicks", env, seed=0, epsilon=math.inf)
    play(env, agent, seed=4)
    contexts = env.unwrapped.problem.contexts(200_000, np.random.default_rng(6))
    z = pointed(contexts)
    gram = z.T @ z / len(z)
    assert np.abs(agent.gram() - gram).max() < 0.02
    env.reset(seed=4)  # the parameters of the world that was played
    means = env.unwrapped.problem.means(contexts)
    expected = np.linalg.solve(gram, z.T @ (2 * means - 1) / len(z)).T
    assert np.abs(agent.theta - expected).max() < 0.2 < np.abs(expected).max()


def test_reports_asked_for_before_the_change_count_as_nothing_after_it() -> None:
    agent, late = agent_on(False), agent_on(True).randomize(*users(5))
    total, served = agent.total.copy(), agent.users
    agent.absorb(late)
    assert agent.users == served + 5 and np.array_equal(agent.total, total)


def test_arms_are_public_longer_where_budgets_are_small_and_never_for_most_users() -> None:
    shares = [agent_on(False, epsilon, 8000, n_arms=4).explored / 8000 for epsilon in (0.1, 1.0, 8.0)]
    assert 0.3 > shares[2] and shares[0] > shares[2] and shares[0] < 0.45


@pytest.mark.wide_at("0.6")
@pytest.mark.parametrize("available", [None, 0.6])
def test_steps_blocks_and_saved_agents_agree(available: float | None, tmp_path: Any) -> None:
    world: Any = {"id": CLICKS, "n_arms": 3, "dim": 2, "horizon": 900, "available": available}
    runs = []
    for by_steps in (True, False):
        env = gym.make(**world)
        agent: Any = make("ldp-clicks", env, seed=3, epsilon=8.0)
        if by_steps:
            env = gym.wrappers.RecordEpisodeStatistics(env)
        runs.append((play(env, agent, seed=3, by_counts=False), agent))
    (one, first), (other, second) = runs
    assert np.array_equal(one.regret, other.regret) and np.array_equal(first.theta, second.theta)
    save(second, tmp_path / "agent.npz")
    again: Any = load(tmp_path / "agent.npz", gym.make(**world))
    assert again.device is again.about_contexts and np.array_equal(again.theta, second.theta)


def test_users_without_the_arm_of_a_run_are_not_counted() -> None:
    env: Any = gym.make(CLICKS, n_arms=4, dim=2, horizon=6000, available=0.5)
    agent: Any = make("ldp-clicks", env, seed=3, epsilon=4.0)
    play(env, agent, seed=3)
    share = agent.asked.sum() / agent.explored
    assert abs(share - (0.5 + 0.5**4 / 4)) < 0.05


@pytest.mark.wide_at("20")
@pytest.mark.parametrize("lag", [0, 20])
def test_regret_is_well_below_uniform(lag: int) -> None:
    """At epsilon = 4 and 6000 users, three seeds; reports that come 20 users late cost little."""
    regret, uniform = 0.0, 0.0
    for seed in range(3):
        env: Any = gym.make(CLICKS, n_arms=3, dim=3, horizon=6000, scale=1.0)
        late: Any = DelayFeedback(env, lag) if lag else env
        regret += play(late, make("ldp-clicks", env, seed=seed, epsilon=4.0), 6000, seed=seed).regret[-1]
        uniform += play(env, make("uniform", env, seed=seed), seed=seed).regret[-1]
    assert regret < 0.6 * uniform
