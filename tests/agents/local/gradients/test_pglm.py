import math
from typing import Any

import numpy as np
import pytest
from given import classification
from privbandit_agents import make
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import game
from privbandit_agents.classifiers import AgentClassifier
from privbandit_agents.local.gradients.pglm import link_scale
from privbandit_agents.privacy.accounting.conversions import gaussian_delta
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

USERS = 2000

SLOPE = np.array([3.0, -2.0, 1.0, 0.0])


def normal(rows: int, seed: int) -> tuple[Any, Any]:
    """Nearly normal features within the cube, labels by a logistic model."""
    rng = np.random.default_rng(seed)
    x = np.clip(0.5 + 0.15 * rng.standard_normal((rows, 4)), 0, 1)
    return x, (rng.random(rows) < expit((x - 0.5) / 0.15 @ SLOPE / 2)).astype(int)


def fitted(epsilon: float, public: int = 400, **settings: Any) -> Any:
    config = {"epsilon": epsilon, **settings}
    model = AgentClassifier("pglm", config, scale_by="range", random_state=0)
    return model.fit(*normal(50_000, 1), *normal(public, 2))


def test_without_noise_it_is_logistic_regression() -> None:
    """Direction and, by the scale equation, length, on normal features; no other formula was used to find them."""
    model, (x, y) = fitted(math.inf, 20_000, shift=0.0), normal(50_000, 1)
    agent = model.agent_
    best = LogisticRegression(C=1e4, fit_intercept=False, max_iter=500).fit(agent.learner.features(x), y).coef_[0]
    w = agent.learner.scale * agent.learner.w
    assert w @ best / np.linalg.norm(w) / np.linalg.norm(best) > 0.998
    assert np.linalg.norm(w) == pytest.approx(np.linalg.norm(best), rel=0.05)


@pytest.mark.parametrize("length", [0.01, 0.1, 0.25])
def test_the_scale_solves_its_equation(length: float) -> None:
    scores = length * np.random.default_rng(0).standard_normal(500)
    c = link_scale(scores)
    p = expit(c * scores)
    assert c * (p * (1 - p)).mean() == pytest.approx(1)
    assert link_scale(np.zeros(0)) == pytest.approx(4)


def test_where_no_scale_solves_it_the_nearest_is_taken() -> None:
    scores = 50 * np.random.default_rng(0).standard_normal(500)
    c, grid = link_scale(np.array([5.0, -5.0])), np.geomspace(1e-2, 10, 5000)
    values = grid * expit(5 * grid) * expit(-5 * grid)
    assert c == pytest.approx(grid[values.argmax()], rel=0.02)
    assert 0 < link_scale(scores) < math.inf


def test_it_learns_from_users_and_not_from_noise() -> None:
    test = normal(5000, 3)
    assert fitted(8.0).score(*test) > fitted(math.inf).score(*test) - 0.02 > 0.72
    assert fitted(1e-3).score(*test) < 0.7
    assert fitted(8.0, report="hemisphere").guarantee_.delta == 0


def test_the_sum_drawn_at_once_has_the_same_law() -> None:
    """Means and variances of one coordinate of the sum of 50 reports."""
    x, y = normal(50, 0)
    sums = []
    for aggregate in (False, True):
        model = AgentClassifier("pglm", {"epsilon": 2.0}, aggregate=aggregate, scale_by="range", random_state=0)
        agent = model.fit(x, y, *normal(20, 1)).agent_
        draws = []
        for _ in range(800):
            agent.learner.total = np.zeros_like(agent.learner.total)
            agent.learn_labels(x, y, aggregate)
            draws.append(agent.learner.total)
        sums.append(np.array(draws))
    error = sums[0].std(axis=0) / 800**0.5
    assert (np.abs(sums[0].mean(axis=0) - sums[1].mean(axis=0)) < 6 * error).all()
    assert sums[0].std(axis=0) == pytest.approx(sums[1].std(axis=0), rel=0.15)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_noise_covers_the_worst_pair_of_records(epsilon: float) -> None:
    """Extreme, wild and random records: no two packed ones are more than 2 apart, and sigma is exact for 2."""
    agent: Any = make("pglm", classification(USERS), seed=0, epsilon=epsilon)
    x = np.concatenate([np.random.default_rng(0).random((20, 2)), [[0, 0], [1, 1], [1e30, 0], [math.nan, math.inf]]])
    records = np.concatenate([agent.learner.encode(agent.rows(x), np.full(24, label)) for label in (0, 1)])
    distances = np.linalg.norm(records[:, None] - records[None], axis=2)
    assert 1.5 < distances.max() <= 2 * (1 + 1e-12)
    assert gaussian_delta(epsilon, 2 / agent.learner.sigma) == pytest.approx(agent.guarantee.delta, rel=1e-4)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_hemisphere_reports_have_a_ratio_of_at_most_epsilon(epsilon: float) -> None:
    agent: Any = make("pglm", classification(USERS), seed=0, epsilon=epsilon, report="hemisphere")
    corners = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    records = np.concatenate([agent.learner.encode(corners, np.full(3, label)) for label in (0, 1)])
    reports = agent.learner.randomize(np.repeat(corners, 300, axis=0), np.ones(900, int), agent.rng)
    density = np.array([agent.learner.device.log_likelihood(reports, 0, record) for record in records])
    assert 0.8 * epsilon < (density.max(axis=0) - density.min(axis=0)).max() <= epsilon * (1 + 1e-9)


def test_delta_is_one_over_the_users_squared() -> None:
    assert make("pglm", classification(2000)).guarantee.delta == pytest.approx(2000**-2)
    for few in ({"horizon": 1}, {"people": 5}, {"horizon": 316}):
        assert make("pglm", classification(2000), **few).guarantee.delta == 1e-5  # less than 1 in n would promise
    rows = np.tile([[0.2, 0.4], [0.6, 0.9]], (5, 1)), np.arange(10) % 2
    for n in (1, 2, 10):
        model = AgentClassifier("pglm", classes=[0, 1], feature_range=(0, 1)).fit(rows[0][:n], rows[1][:n])
        assert model.guarantee_.delta == model.ledger_.delta == 1e-5
    assert make("pglm", classification(USERS), delta=1e-3).guarantee.delta == 1e-3
    with pytest.raises(ValueError, match=r"delta must lie in \(0, 1\); got 0"):
        make("pglm", classification(USERS), delta=0.0)
    with pytest.raises(ValueError, match="report must be one of gaussian, hemisphere"):
        make("pglm", classification(USERS), report="laplace")
    with pytest.raises(ValueError, match="shift must be >= 0; got -1"):
        make("pglm", classification(USERS), shift=-1.0)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    "epsilon", [pytest.param(0.5, marks=pytest.mark.slow), 1.0, pytest.param(4.0, marks=pytest.mark.slow)]
)
@pytest.mark.wide
def test_it_keeps_its_claim(epsilon: float) -> None:
    verdict = audit(game("pglm", epsilon), 40_000, np.random.default_rng(0), confidence=0.999)
    assert not verdict.refuted and verdict.lower_bound > 0.5 * epsilon


@pytest.mark.usefixtures("brief")
@pytest.mark.wide
def test_half_the_noise_is_caught() -> None:
    target: Any = game("pglm", 2.0)
    target.claim = game("pglm", 1.0).claim
    assert audit(target, 5000, np.random.default_rng(0)).refuted
