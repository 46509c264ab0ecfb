"""Gradient agents with a public start: what leaves a device, how the server steps, what is learned."""

import copy
import math
from typing import Any

import numpy as np
import pytest
from given import classification
from privbandit_agents import load, make, play, save
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import game
from privbandit_agents.base.kernels.features import PublicFeatures
from privbandit_agents.classifiers import AgentClassifier
from privbandit_agents.local.gradients.descent import Schedule, gradient_device
from privbandit_agents.local.gradients.models import logistic_fit
from sklearn.linear_model import LogisticRegression

USERS = 2000

GRADIENTS = ("warm-ldp-sgd", "psgd-linear", "psgd-network")


def tilted(rows: int, seed: int, dim: int = 8) -> tuple[Any, Any]:
    """Labels by a logistic model on the cube."""
    rng = np.random.default_rng(seed)
    x = rng.random((rows, dim))
    slope = np.linspace(-8, 8, dim)
    return x, (rng.random(rows) < 1 / (1 + np.exp(-(x - 0.5) @ slope))).astype(int)


def gained(users: int, rows: int = 40, seeds: int = 6, **settings: Any) -> tuple[float, float]:
    """Return the mean accuracies of the public start and after the users."""
    test, start, end = tilted(20_000, 99), 0.0, 0.0
    for seed in range(seeds):
        known, people = tilted(rows, 200 + seed), tilted(users, 300 + seed)
        model = AgentClassifier("warm-ldp-sgd", settings, scale_by="range", random_state=seed).fit(*people, *known)
        end += model.score(*test) / seeds
        u = model.agent_.model.features(known[0])
        theta = logistic_fit(u, known[1], ridge=3.0)
        start += ((model.agent_.model.features(test[0]) @ theta > 0) == test[1]).mean() / seeds
    return start, end


@pytest.mark.wide
def test_users_improve_the_public_start() -> None:
    start, end = gained(20_000, epsilon=8.0)
    assert end > start + 0.02


@pytest.mark.wide
def test_noise_alone_hardly_harms_the_public_start() -> None:
    start, end = gained(20_000, epsilon=1e-3)
    assert start - 0.02 < end < start + 0.01


def test_without_public_rows_it_starts_at_zero_and_learns() -> None:
    people, test = tilted(20_000, 1), tilted(5000, 2)
    model = AgentClassifier("warm-ldp-sgd", {"epsilon": 4.0}, classes=[0, 1], feature_range=(0, 1), random_state=0).fit(
        *people
    )
    assert model.score(*test) > 0.75
    none = AgentClassifier("warm-ldp-sgd", classes=[0, 1], feature_range=(0, 1), random_state=0).fit(
        people[0][:1], people[1][:1]
    )
    assert none.agent_.learned == 1


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_worst_pair_of_records_has_a_ratio_of_epsilon(name: str, epsilon: float) -> None:
    """Exact densities over extreme, wild and random records at three public states; epsilon is never passed."""
    agent: Any = make(name, classification(USERS), seed=0, epsilon=epsilon)
    rng, worst, start = np.random.default_rng(1), [], agent.theta
    x = np.concatenate([rng.random((8, 2)), [[0, 0], [1, 1], [1e30, -math.inf], [math.nan, 0]]])
    for factor, offset in ((1, 0), (30, 0), (100, 1e3)):
        agent.theta = factor * start
        agent.theta[-1] += offset
        records = np.concatenate([agent.encode(agent.rows(x), np.full(12, label))[1] for label in (0, 1)])
        reports = agent.device.randomize(np.zeros(2400, int), np.repeat(records, 100, axis=0), rng)
        density = np.array([agent.device.log_likelihood(reports, 0, record) for record in records])
        worst.append((density.max(axis=0) - density.min(axis=0)).max())
    assert 0.8 * epsilon < max(worst) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("clip", [0.25, 1.0])
def test_gradients_are_those_of_the_logistic_loss(clip: float) -> None:
    agent: Any = make("warm-ldp-sgd", classification(USERS), seed=0, clip=clip)
    x, y = tilted(50, 0, dim=2)
    agent.theta = theta = np.array([0.7, -1.2, 0.3])
    u = agent.model.features(x)
    step = 1e-6 * np.eye(3)
    sign = np.where(y == 1, -1.0, 1.0)[:, None]
    loss = [np.logaddexp(0, sign * (u @ (theta + s * step).T)) for s in (1, -1)]
    assert agent.encode(x, y)[1] * clip == pytest.approx((loss[0] - loss[1]) / 2e-6, abs=1e-6)


def test_reports_estimate_the_clipped_gradients() -> None:
    agent: Any = make("warm-ldp-sgd", classification(USERS), seed=0, epsilon=3.0, batch=40_000)
    x = np.tile([[0.9, 0.1]], (40_000, 1))
    z = agent.clip * agent.device.sanitise(np.zeros(1, int), agent.encode(x[:1], np.ones(1))[1])[1][0]
    mean = agent.estimate(agent.randomize(x, np.ones(40_000, int), np.ones(40_000))).mean(axis=0)
    error = agent.clip * (agent.device.variance(own=False) / 40_000) ** 0.5
    assert mean == pytest.approx(z, abs=4 * error)


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_group_larger_than_a_batch_is_the_same_as_one_by_one(name: str) -> None:
    """Every device sees the steps that the users before it caused."""
    config = {"batch": 7} if name == "warm-ldp-sgd" else {"step": 0.1}
    together: Any = make(name, classification(USERS), seed=0, **config)
    alone: Any = make(name, classification(USERS), seed=0, **config)
    x, y = tilted(40, 3, dim=2)
    together.update(x, y, np.ones(40))
    for context, action in zip(x, y, strict=True):
        alone.update(context, action, 1.0)
    assert np.array_equal(together.theta, alone.theta)
    assert np.array_equal(together.average, alone.average)
    assert together.ledger.spent() == alone.ledger.spent() and together.ledger.releases == 40


@pytest.mark.wide_at("psgd-*")
@pytest.mark.parametrize("name", GRADIENTS)
def test_labels_that_are_known_teach_as_feedback_does(name: str) -> None:
    bandit: Any = make(name, classification(USERS), seed=0)
    offline: Any = make(name, classification(USERS), seed=0)
    x, y = tilted(1200, 3, dim=2)
    bandit.update(x, 1 - y, np.zeros(1200))
    for part in (slice(0, 450), slice(450, 1200)):
        offline.learn_labels(x[part], y[part])
    assert np.array_equal(bandit.theta, offline.theta)
    offline.conclude()
    chances = offline.chances(x)
    assert offline.learned == 1200 and chances.min() >= 0 and chances.sum(axis=1) == pytest.approx(1)


def test_randomize_moves_no_server() -> None:
    agent: Any = make("psgd-linear", classification(USERS), seed=0, step=0.1)
    before = copy.deepcopy(agent.state())
    agent.randomize(np.full((5, 2), 0.3), np.ones(5, int), np.ones(5))
    assert str(before) == str(agent.state())


def test_the_average_weighs_iterates_by_a_power_of_the_users() -> None:
    server: Any = make("warm-ldp-sgd", classification(USERS), seed=0, batch=2)
    server.schedule = Schedule(step=0.5, batch=2, decay=8, power=1.0)
    rng, theta, iterates = np.random.default_rng(0), server.theta, []
    for batch in range(5):
        gradients = rng.standard_normal((2, len(theta)))
        server.add(server.total + gradients[0], 1)
        server.add(server.total + gradients[1], 1)
        theta = theta - 0.5 / math.sqrt(1 + 2 * batch / 8) * gradients.sum(axis=0)
        iterates.append(theta)
    assert server.theta == pytest.approx(theta)
    assert server.average == pytest.approx(np.average(iterates, axis=0, weights=[2, 4, 6, 8, 10]))


def test_the_public_start_is_logistic_regression() -> None:
    x, y = tilted(300, 5)
    u = PublicFeatures.of(x)(x)
    model = LogisticRegression(C=1 / 0.2, fit_intercept=False, tol=1e-8, max_iter=1000).fit(u, y)
    assert logistic_fit(u, y, 0.2) == pytest.approx(model.coef_[0], abs=2e-3)
    assert not logistic_fit(u, np.ones(300, int), 0.2).any()


def test_features_are_read_off_public_rows() -> None:
    x = np.random.default_rng(0).random((50, 3))
    x[:, 2] = 0.4
    rows = PublicFeatures.of(x, unit=False)(np.array([x[:, :].mean(axis=0), [9, -9, 0.9]]))
    assert rows == pytest.approx(np.array([[0, 0, 0, 1], [3, -3, 0.5, 1]]))
    assert PublicFeatures.of(x[:0])(x).shape == (50, 4)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_auto_takes_the_report_with_less_variance(epsilon: float) -> None:
    spread = {name: gradient_device(name, epsilon, 21).variance(own=True) for name in ("auto", "hemisphere", "bin-cap")}
    assert spread["auto"] == min(spread.values())


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    ("name", "epsilon"),
    [
        pytest.param(name, epsilon, marks=pytest.mark.slow if epsilon > 1 or name == "psgd-linear" else ())
        for name in GRADIENTS
        for epsilon in (1.0, 4.0)
    ],
)
@pytest.mark.wide
def test_it_keeps_its_claim(name: str, epsilon: float) -> None:
    verdict = audit(game(name, epsilon), 20_000, np.random.default_rng(0), confidence=0.999)
    assert not verdict.refuted and verdict.lower_bound > 0.8 * epsilon


@pytest.mark.usefixtures("brief")
@pytest.mark.wide
def test_half_the_noise_is_caught() -> None:
    target: Any = game("warm-ldp-sgd", 2.0)
    target.claim = game("warm-ldp-sgd", 1.0).claim
    assert audit(target, 5000, np.random.default_rng(0)).refuted


def test_a_saved_agent_goes_on(tmp_path: Any) -> None:
    env = classification(USERS)
    agent: Any = make("psgd-network", env, seed=0)
    play(env, agent, 300, seed=0)
    save(agent, tmp_path / "agent.npz")
    again: Any = load(tmp_path / "agent.npz", env)
    x = np.random.default_rng(0).random((200, 2))
    assert np.array_equal(again.chances(x), agent.chances(x))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clip": 0.0}, r"clip must lie in \(0, 1\]; got 0.0"),
        ({"clip": 2.0}, r"clip must lie in \(0, 1\]; got 2.0"),
        ({"step": -1.0}, "step must be > 0; got -1.0"),
        ({"batch": 0}, "batch must be"),
        ({"report": "laplace"}, "report must be one of auto, bin-cap, hemisphere"),
        ({"epsilon": 0.0}, "epsilon must be > 0; got 0.0"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make("warm-ldp-sgd", classification(USERS), **settings)


@pytest.mark.parametrize("name", [*GRADIENTS, "pglm"])
def test_it_is_for_two_labels(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} plays classification with two labels"):
        make(name, classification(USERS, source="wine"))


def test_a_short_horizon_has_smaller_batches() -> None:
    sizes = [make("warm-ldp-sgd", classification(users), seed=0).frozen_rounds() for users in (240, 5000, 50_000)]
    assert sizes == [4, 100, 500]
