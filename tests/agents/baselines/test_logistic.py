from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.classifiers import AgentClassifier
from sklearn.linear_model import LogisticRegression


def blobs(rows: int, seed: int, labels: int = 3) -> tuple[Any, Any]:
    """Points around corners of a cube."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, labels, rows)
    return np.clip(0.5 + 0.3 * (np.eye(3)[y] - 1 / 3) + 0.12 * rng.standard_normal((rows, 3)), 0, 1), y


@pytest.mark.parametrize("labels", [2, 3])
def test_it_is_the_regression_of_the_public_rows(labels: int) -> None:
    known, test = blobs(200, 0, labels), blobs(500, 1, labels)
    model = AgentClassifier("logistic-public", scale_by="range")
    chances = model.fit(*blobs(300, 2, labels), *known).predict_proba(test[0])
    mean, deviation = known[0].mean(axis=0), known[0].std(axis=0)
    other = LogisticRegression().fit((known[0] - mean) / deviation, known[1])
    assert chances == pytest.approx(other.predict_proba((test[0] - mean) / deviation), abs=1e-6)
    assert model.score(*test) > 0.75


def test_users_teach_it_nothing() -> None:
    env = gym.make("privbandit/Classification-v0", source="breast_cancer", n_public=100, horizon=400)
    agent: Any = make("logistic-public", env, seed=0)
    before = agent.weights.copy()
    assert play(env, agent, seed=0).reward[-1] > 0.9 * 400
    assert np.array_equal(before, agent.weights) and agent.guarantee.notion == "none"


def test_labels_that_no_public_row_has() -> None:
    x, y = blobs(50, 0)
    keep = y != 1
    model = AgentClassifier("logistic-public", classes=[0, 1, 2], scale_by="range").fit(x, y, x[keep], y[keep])
    assert not model.predict_proba(x)[:, 1].any() and model.predict_proba(x).sum(axis=1) == pytest.approx(1)
    one = AgentClassifier("logistic-public", classes=[0, 1, 2], scale_by="range").fit(x, y, x[y == 2], y[y == 2])
    assert (one.predict(x) == 2).all()
    none = AgentClassifier("logistic-public", classes=[0, 1, 2], scale_by="range").fit(x, y)
    assert none.predict_proba(x) == pytest.approx(1 / 3)
