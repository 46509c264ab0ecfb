"""A belief about coefficients on a support: it learns, forgets what is not clear, and needs no data."""

import math
from typing import Any

import numpy as np
import pytest
from given import rng
from privbandit_agents.privacy.contributions.support import Support, in_own_units, shortened

BETA = np.array([1.0, -0.5, 0.3])


def taught(users: int = 4000, noise: tuple[float, float] = (0.0, 0.0)) -> Any:
    """Return a belief after two rounds of sums over Gaussian users with correlated features, clipped at the median."""
    draw, support = rng(3), Support()
    support.choose(np.array([4, 0, 7]), np.zeros(3), 1.0)
    mixed = np.linalg.cholesky(np.array([[1.0, 0.7, 0.4], [0.7, 1.0, 0.5], [0.4, 0.5, 1.0]]))
    for _ in range(5):
        x = draw.standard_normal((users, 3)) @ mixed.T
        residuals = x @ (BETA - support.theta) + 0.1 * draw.standard_normal(users)
        b = float(np.median(np.abs(residuals)))
        clipped = np.clip(residuals, -b, b)
        score = clipped @ x + noise[0] * draw.standard_normal(3)
        support.learn(score, x.T @ x, noise, 0.5, 0.69 * b**2)
    return support


def test_it_learns_coefficients_of_correlated_features() -> None:
    support = taught()
    errors = (support.theta - BETA) @ support.precision @ (support.theta - BETA)
    assert errors < 20 and np.abs(support.theta - BETA).max() < 0.02
    assert np.array_equal(np.flatnonzero(support.all_of(9)), [0, 4, 7]) and support.all_of(9)[4] == support.theta[0]


def test_noise_is_believed_less() -> None:
    exact, noisy = taught(), taught(noise=(300.0, 0.0))
    assert np.linalg.det(noisy.precision) < 0.1 * np.linalg.det(exact.precision)
    assert (noisy.theta - BETA) @ noisy.precision @ (noisy.theta - BETA) < 20


def test_what_is_not_clear_is_dropped_and_the_others_take_its_place() -> None:
    support = Support()
    support.choose(np.array([1, 2]), np.array([3.0, 0.1]), 1.0)
    support.precision = np.array([[2.0, 1.0], [1.0, 2.0]])
    support.drop()
    assert support.chosen.tolist() == [1] and support.precision.tolist() == [[2.0]]
    assert support.theta[0] == pytest.approx(3.0 + 0.1 / 2), "given that the other one is 0"
    support.theta[0] = 0.1
    support.drop()
    assert len(support) == 0 and not support.all_of(4).any()


def test_units_are_each_records_own_and_vectors_stay_in_the_ball() -> None:
    x = rng(0).standard_normal((50, 6)) * rng(1).exponential(100.0, (50, 1))
    x[0] = 0.0
    units, y = in_own_units(x, np.ones(50))
    assert np.allclose(np.vecdot(units, units)[1:], 6) and not units[0].any() and y[0] == 1.0
    assert np.array_equal(in_own_units(x[3:4], np.ones(1))[0][0], units[3])
    assert np.linalg.norm(shortened(units), axis=1).max() <= 1 + 1e-12
    short = np.full((1, 6), 0.1)
    assert np.allclose(shortened(short), short / (1.5 * math.sqrt(6)))
