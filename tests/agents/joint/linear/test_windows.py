from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.privacy.contributions.moments import pack
from privbandit_agents.testing.loops import check_frozen, check_resume
from privbandit_agents.testing.replay import check_replay
from privbandit_agents.testing.runs import Check
from privbandit_agents.testing.twins import check_keys, check_local

SMALL = {"sw-linucb": {"window": 50}, "sw-jdp-linucb": {"window": 30}, "sw-ldp-linucb": {"window": 40}}
PRIVATE: dict[str, tuple[Check, ...]] = {
    "sw-jdp-linucb": (check_keys, check_replay),
    "sw-ldp-linucb": (check_local, check_keys),
}
CASES = [(check, name) for name in SMALL for check in (check_frozen, check_resume, *PRIVATE.get(name, ()))]


@pytest.mark.parametrize(("check", "name"), CASES, ids=lambda case: getattr(case, "__name__", str(case)))
@pytest.mark.wide
def test_an_agent_that_forgets_conforms_across_the_ends_of_windows(check: Check, name: str) -> None:
    check(name, "privbandit/Linear-v0", 100, SMALL[name])


def world(**more: Any) -> Any:
    return gym.make("privbandit/Linear-v0", n_arms=3, dim=2, horizon=3000, **more).unwrapped


def records(env: Any, n: int) -> tuple[Any, Any, Any]:
    env.reset(seed=1)
    contexts, actions = env.upcoming(n), np.arange(n) % 3
    return contexts, actions, env.serve(actions).feedback


def test_without_noise_the_joint_window_is_the_sum_of_its_users() -> None:
    env = world()
    agent: Any = make("sw-jdp-linucb", env, seed=0, epsilon=np.inf, window=100, growth=1.01)
    x, a, y = records(env, 230)
    agent.update(x, a, y)
    played = x[np.arange(230), a].astype(np.float64)
    assert agent.schedule.group == 2
    assert np.allclose(agent.schedule.kept, pack(played[100:200], y[100:200]).sum(axis=0))
    assert np.allclose(agent.schedule.noisy, pack(played[200:230], y[200:230]).sum(axis=0))


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_the_local_window_is_the_sum_of_the_last_reports_however_they_come(cut: int) -> None:
    env = world()
    agent: Any = make("sw-ldp-linucb", env, seed=0, epsilon=np.inf, window=100)
    x, a, y = records(env, 257)
    for start in range(0, 257, cut):
        agent.update(x[start : start + cut], a[start : start + cut], y[start : start + cut])
    played = x[np.arange(257), a].astype(np.float64)
    assert np.allclose(agent.total, pack(played[150:], y[150:]).sum(axis=0))
    assert agent.counted == 107 and agent.users == 257 and agent.ledger.group == 256, (
        "every user has paid for one report"
    )


def test_the_window_of_linucb_is_a_ridge_regression_on_its_users() -> None:
    env = world()
    agent: Any = make("sw-linucb", env, seed=0, window=100)
    x, a, y = records(env, 254)
    agent.update(x, a, y)
    z, w = x[np.arange(254), a].astype(np.float64)[150:], y[150:]
    inverse = np.linalg.inv(z.T @ z + np.eye(2))
    assert np.allclose(agent.regression.matrices[0], np.column_stack([inverse, inverse @ z.T @ w]))


def test_every_window_pays_the_whole_budget_and_no_user_pays_twice() -> None:
    env = world()
    agent: Any = make("sw-jdp-linucb", env, seed=0, epsilon=0.7, window=500)
    play(env, agent, 3000, seed=0)
    assert agent.schedule.group == 5 and agent.ledger.spent_epsilon() == pytest.approx(0.7, rel=1e-6)


@pytest.mark.wide_at("pair1")
@pytest.mark.parametrize("pair", [("linucb", "sw-linucb"), ("jdp-linucb", "sw-jdp-linucb")])
def test_forgetting_pays_where_theta_jumps(pair: tuple[str, str]) -> None:
    regrets = []
    for name in pair:
        config: dict[str, Any] = {"window": 300} if name.startswith("sw") else {}
        config |= {"epsilon": 20.0} if "jdp" in name else {}
        found = 0.0
        for seed in range(1):
            env = world(jumps=[800, 1600, 2300])
            found += play(env, make(name, env, seed=seed, **config), 3000, seed=seed).regret[-1]
        regrets.append(found)
    assert regrets[1] < 0.7 * regrets[0]


@pytest.mark.wide_at("*-1.0001-997", "*-1.05-*", "*-10.0-*", "to*", "*-2", "*-31")
@pytest.mark.parametrize("window", [1, 2, 7, 30, 31, 997])
@pytest.mark.parametrize("growth", [1.0001, 1.05, 2.0, 10.0])
@pytest.mark.parametrize("counter", ["tree", "toeplitz", "buffered"])
def test_a_full_window_uses_every_term_that_its_counter_has_and_no_more(
    window: int, growth: float, counter: Any
) -> None:
    env = gym.make("privbandit/Linear-v0", n_arms=3, dim=2, horizon=2 * window + 3)
    agent: Any = make("sw-jdp-linucb", env, seed=0, window=window, growth=growth, counter=counter)
    x, a, y = np.zeros((window, 3, 2)), np.zeros(window, int), np.zeros(window)
    schedule = agent.schedule
    first = schedule.counter
    agent.update(x, a, y)
    assert first.t == first.horizon and schedule.counter is first and agent.frozen_rounds() == 1
    agent.update(x, a, y)
    assert schedule.counter is not first and schedule.counter.t == schedule.counter.horizon
    agent.update(x[:1], a[:1], y[:1])
    assert schedule.counter.t == 1


def test_a_window_beyond_the_horizon_has_the_terms_of_one_counter() -> None:
    env = gym.make("privbandit/Linear-v0", n_arms=3, dim=2, horizon=500)
    agents: list[Any] = [make(name, env, seed=0) for name in ("sw-jdp-linucb", "jdp-linucb")]
    one, other = (agent.schedule.counter for agent in agents)
    assert one.horizon == other.horizon and one.scale == other.scale
