import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play

ASSORTMENT = "privbandit/Assortment-v0"
NAMES = ["ucb-mnl", "greedy-mnl", "ts-mnl"]


def small(**kwargs: Any) -> Any:
    return gym.make(ASSORTMENT, **{"n_items": 20, "capacity": 4, "dim": 3, "horizon": 1000, **kwargs}).unwrapped


def taught(name: str, users: int = 300, **config: Any) -> Any:
    env = small()
    agent = make(name, env, seed=0, **config)
    play(env, agent, users, seed=0)
    return agent


def contexts(n: int) -> Any:
    x = np.random.default_rng(1).standard_normal((n, 20, 4))
    x[..., -1] = 1.0
    return x


@pytest.mark.wide_at("*-ucb-mnl", "kwargs0-ts-mnl", "kwargs[12]-*")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kwargs", [{"features": "gaussian"}, {"features": "unit"}, {"revenues": "random"}])
def test_they_pay_little_more_than_their_exploration(name: str, kwargs: dict[str, Any]) -> None:
    env = gym.make(ASSORTMENT, horizon=1500, **kwargs)
    curves = [play(env, make(name, env, seed=s), seed=s).regret for s in range(2)]
    chance = np.mean([play(env, make("uniform", env, seed=s), seed=s).regret[-1] for s in range(2)])
    assert np.mean([curve[-1] for curve in curves]) < 0.15 * chance
    assert np.mean([curve[-1] - curve[-100] for curve in curves]) < 0.05 * chance / 2


@pytest.mark.parametrize("name", NAMES)
def test_theta_and_v_are_those_of_all_users_at_the_last_refit(name: str) -> None:
    agent = taught(name, 200, growth=2.0, ridge=0.7)
    assert agent.refit_at == 400 and agent.in_gram == 200
    x = agent.choices.features.view().reshape(-1, 3)
    assert np.allclose(agent.gram, 0.7 * np.eye(3) + x.T @ x)
    gradient = agent.choices.likelihood(agent.theta, 0.7)[1]
    assert np.linalg.norm(gradient) < 1e-4


def test_greedy_refits_at_doubling_times_and_offers_the_best_estimate() -> None:
    env, agent, times = small(), make("greedy-mnl", small(), seed=0), []
    env.reset(seed=0)
    theta = agent.theta  # type: ignore[attr-defined]
    for t in range(1, 450):
        context = env.upcoming(1)
        action = agent.select_action(context)
        agent.update(context, action, env.serve(action).feedback)
        if agent.theta is not theta:  # type: ignore[attr-defined]
            theta = agent.theta  # type: ignore[attr-defined]
            times.append(t)
    assert times == [50, 100, 200, 400]
    x = contexts(30)
    best = np.sort(np.argsort(-(x[..., :-1] @ theta), axis=1)[:, :4], axis=1)
    assert np.array_equal(np.nonzero(np.asarray(agent.select_action(x)))[1].reshape(30, 4), best)


def test_thompson_samples_are_gaussian_around_theta_with_the_width_of_v() -> None:
    agent = taught("ts-mnl", 300, samples=1, bonus_scale=1.5, growth=1.5)
    t, covariance = agent.in_gram, np.array([[4.0, 3.0, 0.0], [3.0, 3.0, 1.0], [0.0, 1.0, 2.0]])
    alpha = 1.5 * math.sqrt(3 / 2 * math.log(1 + t / 3) + math.log(t))
    root = agent.scorer[:, :-1]
    assert np.allclose(root @ root.T, alpha**2 * np.linalg.inv(agent.gram))
    agent.scorer[:, :-1] = np.linalg.cholesky(covariance)
    x = np.zeros((20_000, 20, 4))
    x[:, 0, :3] = [1.0, -2.0, 0.5]
    drawn = agent.utilities(x)[:, 0]
    width = math.sqrt(x[0, 0, :3] @ covariance @ x[0, 0, :3])
    assert drawn.mean() == pytest.approx(x[0, 0, :3] @ agent.theta, abs=5 * width / math.sqrt(20_000))
    assert drawn.std() == pytest.approx(width, rel=0.03)  # five standard errors
    agent.config = type(agent.config)(samples=9, bonus_scale=1.5)
    assert agent.utilities(x)[:, 0].mean() == pytest.approx(x[0, 0, :3] @ agent.theta + 1.485 * width, abs=0.03 * width)


def test_all_items_of_a_user_share_the_samples() -> None:
    agent = taught("ts-mnl", samples=1)
    x = contexts(50)
    x[:, 7] = x[:, 3]
    values = agent.utilities(x)
    assert np.array_equal(values[:, 3], values[:, 7]) and not np.allclose(values[0] - values[1], 0)


def test_the_number_of_samples_makes_every_item_optimistic_with_constant_probability() -> None:
    p = 1 / (4 * math.sqrt(math.e * math.pi))
    for capacity, draws in ((1, 1), (4, 17), (10, 27)):
        config = make("ts-mnl", small(n_items=30, capacity=capacity)).config
        assert config.draws(capacity) == draws
        assert capacity * (1 - p) ** draws <= 1 - p < capacity * (1 - p) ** (draws - 2)
    assert make("ts-mnl", small(), samples=5).config.draws(10) == 5


def test_draws_do_not_depend_on_the_grouping() -> None:
    one, other, x = taught("ts-mnl"), taught("ts-mnl"), contexts(9)
    assert np.array_equal(one.select_action(x), [other.select_action(context) for context in x])
    assert one.rng.bit_generator.state == other.rng.bit_generator.state


@pytest.mark.parametrize("name", NAMES)
def test_bad_settings_get_one_sentence(name: str) -> None:
    bad: list[dict[str, Any]] = [{"ridge": 0.0}, {"growth": 1.0}]
    bad += [{"bonus_scale": -1.0}] if name != "greedy-mnl" else []
    bad += [{"samples": 0}] if name == "ts-mnl" else []
    for config in bad:
        with pytest.raises(ValueError, match=f"{next(iter(config))} must be"):
            make(name, small(), **config)


@pytest.mark.parametrize("name", NAMES)
def test_choices_that_are_not_kept_count_by_their_expansion(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = taught(name, 900, growth=1.3)
    monkeypatch.setattr("privbandit_agents.baselines.mnl.KEPT_BYTES", 8 * 4 * 5 * 200)
    env: Any = small()
    agent: Any = make(name, env, seed=0, growth=1.3)
    held = []
    play(env, agent, 900, seed=0, checkpoints=range(1, 901), on_checkpoint=lambda _: held.append(len(agent.choices)))
    assert agent.most == 200 and max(held) <= 200 and agent.users == whole.users == 900
    agent.refit(), whole.refit()  # the one has users in V whom the other takes in with the next refit
    assert np.linalg.norm(agent.theta - whole.theta) < 0.05 * np.linalg.norm(whole.theta)
    loss = whole.choices.likelihood(agent.theta, 1.0)[0] / whole.choices.likelihood(whole.theta, 1.0)[0]
    assert loss < 1.001
    assert np.isclose(np.trace(agent.gram), np.trace(whole.gram), rtol=0.05)
