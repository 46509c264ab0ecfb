from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play

from privbandit_envs.datasets import packaged
from privbandit_envs.families.clicks import ClicksProblem, PricingProblem


def world(seed: int = 0, **kwargs: Any) -> ClicksProblem:
    return ClicksProblem(np.random.default_rng(seed), **kwargs)


def test_parameters_have_the_stated_law() -> None:
    """4000 arms of 6 features: five standard errors of each mean and deviation."""
    theta = world(n_arms=4000, dim=6, scale=0.5).theta.reshape(4000, 7)
    assert abs(theta[:, :-1].mean()) < 5 * 0.5 / 24000**0.5
    assert abs(theta[:, :-1].std() - 0.5) < 5 * 0.5 / 48000**0.5
    assert abs(theta[:, -1].mean() + 1) < 5 * 0.5 / 4000**0.5 and abs(theta[:, -1].std() - 0.5) < 5 * 0.5 / 8000**0.5
    assert np.allclose(world(3, scale=1.0).theta.reshape(4, 7)[:, :-1], 2 * world(3).theta.reshape(4, 7)[:, :-1])


@pytest.mark.parametrize("correlation", [0.0, 0.7, -0.5])
def test_contexts_have_the_stated_covariance(correlation: float) -> None:
    x = world(dim=4, correlation=correlation, dtype="float64").contexts(200_000, np.random.default_rng(1))
    expected = correlation ** np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    assert np.abs(np.cov(x.T) - expected).max() < 5 * (2 / 200_000) ** 0.5


@pytest.mark.parametrize("link", ["logistic", "identity"])
def test_users_click_as_often_as_the_link_says(link: str) -> None:
    problem, x = world(link=link, scale=2.0), np.tile([[1.0, -1.0, 0.5, 0.0, 2.0, 1.0]], (100_000, 1))
    theta = problem.theta.reshape(4, 7)
    z = theta[:, :-1] @ x[0] + theta[:, -1]
    chance = 1 / (1 + np.exp(-z)) if link == "logistic" else np.clip(0.5 + z / 4, 0, 1)
    clicks = problem.rewards(problem.means(x), np.random.default_rng(2))
    assert set(np.unique(clicks)) <= {0.0, 1.0}
    assert (np.abs(clicks.mean(axis=0) - chance) <= 5 * (chance * (1 - chance) / 100_000) ** 0.5).all()
    values, law = problem.outcome_law(x[:4], np.arange(4))
    assert (values == [1, 0]).all() and np.allclose(law[:, 0], chance) and np.allclose(law.sum(axis=1), 1)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("n_arms", [2, 6])
def test_arm_0_is_best_for_the_share_that_is_asked(share: float, n_arms: int) -> None:
    problem = world(4, n_arms=n_arms, imbalance=share, correlation=0.3)
    best = problem.best_action(problem.contexts(100_000, np.random.default_rng(5)))
    assert abs((best == 0).mean() - share) < 5 * (share * (1 - share) * (1 / 2**16 + 1e-5)) ** 0.5
    plain = world(4, n_arms=n_arms, correlation=0.3).theta.reshape(n_arms, 7)
    moved = problem.theta.reshape(n_arms, 7) - plain
    assert (moved[:, :-1] == 0).all() and moved[0, -1] == 0 and np.ptp(moved[1:, -1]) < 1e-12, "one number for all"


def test_finitely_many_contexts_are_served_by_counts() -> None:
    env = gym.make("privbandit/Clicks-v0", support=50, n_arms=3, dim=2, horizon=1_000_000)
    counted = play(env, make("uniform", env, seed=0), seed=0)
    assert counted.simulation == "counts"
    alone = play(env, make("uniform", env, seed=0), 50_000, seed=0, by_counts=False)
    rates = [run.reward[-1] / run.checkpoints[-1] for run in (counted, alone)]
    assert abs(rates[0] - rates[1]) < 5 * (0.25 / 50_000) ** 0.5


def test_a_world_of_clicks_changes_with_time() -> None:
    env = gym.make("privbandit/Clicks-v0", jumps=[100], drift=0.01, shifts={50: {"correlation": 0.9}})
    run = play(env, make("linucb", env, seed=0), 200, seed=0)
    assert run.static is not None and run.static[-1] <= run.regret[-1]


def test_offers_come_and_go() -> None:
    env = gym.make("privbandit/Clicks-v0", available=0.5)
    _, info = env.reset(seed=0)
    present = np.flatnonzero(info["action_mask"])
    assert env.step(int(present[0]))[4]["optimal_action"] in present


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n_arms": 0}, "n_arms.*0"),
        ({"correlation": 1.0}, "correlation.*1"),
        ({"link": "probit"}, "link.*probit"),
        ({"imbalance": 0.0}, "imbalance.*0"),
        ({"imbalance": 1.5}, "imbalance.*1.5"),
        ({"imbalance": 0.5, "n_arms": 1}, "imbalance.*n_arms = 1"),
        ({"scale": 0.0}, "scale.*0"),
        ({"theta": [1.0]}, r"theta.*\(4, 7\)"),
        ({"theta": np.full((4, 7), np.nan)}, "theta.*nan"),
        ({"support": 0}, "support.*0"),
    ],
)
def test_bad_arguments_are_refused(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        world(**kwargs)


@pytest.fixture
def visitors(monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Visitors with two features of three and four levels, ten items, and one click in 200."""
    levels = np.random.default_rng(0).integers((3, 4), size=(2000, 2))
    x = np.column_stack([np.eye(3)[levels[:, 0]], np.eye(4)[levels[:, 1]]])
    monkeypatch.setattr(packaged, "visitors", lambda campaign, download: (x, 10, 0.005))
    return x


@pytest.mark.parametrize(("rate", "lift"), [(None, 2.0), (0.05, 4.0)])
def test_a_resampled_world_has_the_stated_rate_and_lift(visitors: np.ndarray, rate: float | None, lift: float) -> None:
    problem = ClicksProblem(np.random.default_rng(1), source="open-bandit", rate=rate, lift=lift)
    means = problem.means(visitors)
    assert means.shape == (2000, 10)
    assert means.mean() == pytest.approx(rate or 0.005, rel=1e-6)
    assert means.max(axis=1).mean() / means.mean() == pytest.approx(lift, rel=1e-6)
    users = problem.contexts(20_000, np.random.default_rng(2))
    assert set(map(tuple, users.tolist())) <= set(map(tuple, visitors.tolist()))
    assert np.abs(users.mean(axis=0) - visitors.mean(axis=0)).max() < 0.02


def test_what_the_visitors_decide_is_refused(visitors: np.ndarray) -> None:
    for given, said in (({"dim": 3}, "dim"), ({"lift": 0.5}, "lift"), ({"rate": 0.5}, "rate"), ({"lift": 9.5}, "lift")):
        with pytest.raises(ValueError, match=said):
            ClicksProblem(np.random.default_rng(1), source="open-bandit", **{"rate": 0.099, **given})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="open-bandit"):
        ClicksProblem(np.random.default_rng(1), source="openbandit")


def test_products_of_features_count_where_they_are_asked_for() -> None:
    """Means are the sigmoid of a score with all products; parameters have the stated law within 5 standard errors."""
    problem = world(n_arms=400, dim=4, scale=0.2, interactions=0.7)
    theta = problem.theta.reshape(400, 4 + 6 + 1)
    assert abs(theta[:, 4:10].std() - 0.7) < 5 * 0.7 / np.sqrt(2 * 2400)
    assert abs(theta[:, :4].std() - 0.2) < 5 * 0.2 / np.sqrt(2 * 1600)
    x = problem.drawn(3, np.random.default_rng(1)).astype(float)
    products = np.array([[row[i] * row[j] for i in range(4) for j in range(i + 1, 4)] for row in x])
    scores = np.column_stack([x, products, np.ones(3)]) @ theta.T
    assert np.allclose(problem.means(x), 1 / (1 + np.exp(-scores)))
    assert np.array_equal(world(interactions=0.0).theta, world().theta)
    lead = world(n_arms=3, dim=3, interactions=1.0, imbalance=0.1)
    users = lead.drawn(20_000, np.random.default_rng(2))
    assert abs((lead.best_action(users) == 0).mean() - 0.1) < 0.012
    with pytest.raises(ValueError, match=r"theta must be finite numbers of shape \(2, 4\)"):
        world(n_arms=2, dim=2, interactions=1.0, theta=np.zeros((2, 3)))


def shop(seed: int = 0, **kwargs: Any) -> PricingProblem:
    return PricingProblem(np.random.default_rng(seed), **kwargs)


def test_a_price_sells_as_often_as_valuations_exceed_it_and_a_lower_one_to_the_same_users() -> None:
    """100,000 users of one context, five standard errors; beta from the parameters."""
    problem, x = shop(n_arms=4, dim=2, value=0.5, spread=0.2), np.tile([[0.5, -1.0]], (100_000, 1))
    theta = problem.theta.reshape(4, 3)
    assert np.ptp(theta[:, :2], axis=0).max() == 0 and (np.diff(theta[:, 2]) < 0).all()
    worth = 0.5 + 0.2 * theta[0, :2] @ x[0]
    prices = np.array([0.25, 0.5, 0.75, 1.0])
    chance = 1 / (1 + np.exp(-(worth - prices) / 0.2))
    assert np.allclose(problem.means(x[:3]), prices * chance)
    revenue = problem.rewards(problem.means(x), np.random.default_rng(2))
    sold = revenue > 0
    assert (revenue == prices * sold).all() and (sold[:, 1:] <= sold[:, :-1]).all()
    assert (np.abs(sold.mean(axis=0) - chance) <= 5 * (chance * (1 - chance) / 100_000) ** 0.5).all()
    values, law = problem.outcome_law(x[:4], np.arange(4))
    assert (values == np.stack([prices, 0 * prices], axis=1)).all() and np.allclose(law[:, 0], chance)


def test_no_price_is_best_for_all_users() -> None:
    problem = shop()
    best = np.bincount(problem.best_action(problem.contexts(10_000, np.random.default_rng(1))), minlength=5)
    assert (best > 0).sum() >= 3 and best.max() < 8000


@pytest.mark.wide
def test_prices_are_played_by_agents_of_clicks_under_every_notion() -> None:
    """Regret in shares of uniform play's at epsilon = 4 was .31 to .58."""
    env = gym.make("privbandit/Pricing-v0", horizon=20_000, instance_seed=1)
    lost = play(env, make("uniform", env, seed=0), seed=0).regret[-1]
    for name in ("reward-dp-linucb", "jdp-linucb", "shuffle-linucb", "ldp-clicks"):
        agent = make(name, env, seed=0, epsilon=4)
        assert agent.guarantee.epsilon == 4 and play(env, agent, seed=0).regret[-1] < 0.8 * lost, name


def test_finitely_many_customers_are_served_by_counts() -> None:
    env = gym.make("privbandit/Pricing-v0", support=50, horizon=1_000_000)
    counted = play(env, make("uniform", env, seed=0), seed=0)
    alone = play(env, make("uniform", env, seed=0), 50_000, seed=0, by_counts=False)
    assert counted.simulation == "counts"
    assert abs(counted.regret[-1] / 1e6 - alone.regret[-1] / 5e4) < 0.005


@pytest.mark.parametrize("key, value", [("spread", 0.0), ("scale", -1.0), ("n_arms", 0), ("value", float("nan"))])
def test_a_shop_out_of_range_is_refused(key: str, value: float) -> None:
    with pytest.raises(ValueError, match=key):
        shop(**{key: value})  # type: ignore[arg-type]
