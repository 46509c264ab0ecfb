import math

import numpy as np
import pytest
from privbandit_agents.privacy.contributions.quadratic import doubts, improved, rounded

HESSIAN = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])


def test_without_noise_the_step_is_newtons() -> None:
    slope, precision = np.array([1.0, -2.0, 3.0]), np.diag([1.0, 2.0, 3.0])
    total, move = improved(precision, slope, HESSIAN, 0.0, 0.0)
    assert np.allclose(total, precision + HESSIAN) and np.allclose(total @ move, -slope)


def test_a_batch_weighs_what_its_noise_leaves_of_it() -> None:
    """Against the generalised least squares of two estimates with their covariances."""
    slope, precision, v = np.array([1.0, -2.0, 3.0]), np.diag([1.0, 2.0, 3.0]), 5.0
    total, move = improved(precision, slope, HESSIAN, math.sqrt(v), 0.0)
    inverse = np.linalg.inv(HESSIAN)
    weight = np.linalg.inv(inverse @ (HESSIAN + v * np.eye(3)) @ inverse)
    assert np.allclose(total, precision + weight)
    assert np.allclose(move, np.linalg.solve(precision + weight, weight @ -inverse @ slope))


def test_a_batch_that_drowns_in_noise_moves_nothing() -> None:
    total, move = improved(np.eye(3), 1e6 * np.ones(3), HESSIAN, 1e6, 1.0)
    assert np.linalg.norm(move) < 1e-4 and np.allclose(total, np.eye(3), atol=1e-9)
    far = improved(np.eye(3), np.ones(3), HESSIAN, 1e200, 1e150)
    assert np.isfinite(far[0]).all() and np.isfinite(far[1]).all()


def test_rounding_keeps_what_stands_out_of_the_noise() -> None:
    values, vectors = rounded(HESSIAN, 0.0)
    assert np.allclose((vectors * values) @ vectors.T, HESSIAN)
    assert np.allclose(rounded(HESSIAN, 1.0)[0], 3.0)  # nothing stands out
    loud = rounded(100 * HESSIAN, 1.0)
    assert np.allclose((loud[1] * loud[0]) @ loud[1].T, 100 * HESSIAN, rtol=1e-2, atol=0.2)


@pytest.mark.parametrize("noise", [0.0, 1.0, 50.0])
def test_eigenvalues_are_positive_whatever_was_released(noise: float) -> None:
    rng = np.random.default_rng(0)
    for scale in (0.0, 1.0, 1e3):
        noisy = scale * rng.standard_normal((4, 4))
        values = rounded(noisy + noisy.T, noise)[0]
        level = max(np.trace(noisy + noisy.T) / 4, noise / 2, 1e-12)
        assert values.min() >= 0.1 * level * (1 - 1e-12) > 0
    assert rounded(np.zeros((1, 1)), noise)[0] == pytest.approx(max(noise, 1e-12))


def test_doubts_are_wider_where_the_precision_is_far_less_than_elsewhere() -> None:
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    precision = (turn * [1.0, 20.0, 100.0]) @ turn.T
    root = turn.T @ doubts(precision, 0.2, 0.5) @ turn
    expected = [0.04 + 0.21 * 0.9, 0.04 / 20, 0.04 / 100]  # beyond a tenth of 100 there is nothing more
    assert np.allclose(root @ root, np.diag(expected))
    assert np.allclose(doubts(precision, 0.2, 0.1) @ doubts(precision, 0.2, 0.1), 0.04 * np.linalg.inv(precision))
    assert not doubts(precision, 0.0, 0.0).any()
