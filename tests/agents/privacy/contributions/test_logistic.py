"""Derivatives of a logistic likelihood: what they are, and how far one record moves them."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy
from given import rng
from privbandit_agents.privacy.contributions import logistic
from privbandit_agents.privacy.vectors import smat

NORMS = [0.0, 0.5, 2.0, 5.0, 20.0]


def gradients(norm: float, dim: int, users: int = 1500) -> Any:
    """Return packed records of random and extreme users at a theta of this norm; half of them near the worst angle."""
    draw = rng(dim)
    x = draw.standard_normal((users, dim))
    x[: users // 2, 0] *= draw.uniform(0.1, 1, users // 2)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x[:20] *= draw.random((20, 1))
    theta = norm * np.eye(dim)[0]
    return np.concatenate([logistic.pack(x, np.full(users, y), theta) for y in (0.0, 1.0)])


def farthest(one: Any, other: Any) -> float:
    """Return the largest distance of a row of one array from a row of the other."""
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1) - 2 * one @ other.T
    return math.sqrt(squares.max())


def test_derivatives_are_those_of_the_likelihood() -> None:
    x, y, theta = np.array([[0.3, -0.5]]), np.array([0.7]), np.array([1.0, 2.0])

    def likelihood(at: Any) -> float:
        score = float(x[0] @ at)
        return float(y[0] * score - np.logaddexp(0.0, score))

    gradient, hessian = logistic.model_of(logistic.pack(x, y, theta)[0], 2)
    numeric = scipy.optimize.approx_fprime(theta, likelihood, 1e-7)
    assert np.allclose(gradient, numeric, atol=1e-6)
    steps = np.eye(2) * 1e-4
    second = [
        [sum(s * t * likelihood(theta + s * one + t * two) for s in (1, -1) for t in (1, -1)) / 4e-8 for one in steps]
        for two in steps
    ]
    assert np.allclose(hessian, -np.array(second), atol=1e-5)


@pytest.mark.wide_at("2-[025].0", "3-0.?")
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dim", [2, 3])
def test_no_pair_of_records_is_farther_apart_than_declared_and_some_are_nearly_so(norm: float, dim: int) -> None:
    packed = gradients(norm, dim)
    assert farthest(packed, packed) <= logistic.sensitivity([norm])
    told = math.sqrt(logistic.sensitivity([norm]) ** 2 - 1 / 4)
    found = farthest(packed[:, :dim], packed[:, :dim])
    slack = (1 + norm / 4) * math.pi / logistic.ANGLES
    assert found <= told * (1 + 1e-9) and found > 0.97 * (told - slack), "the bound is no looser than its grid"


def test_it_grows_with_the_norm() -> None:
    told = [logistic.sensitivity([norm]) for norm in np.linspace(0, 20, 101)]
    assert all(b > a for a, b in pairwise(told)) and 1.11 < told[0] < 1.13 and told[-1] < 2.07


@pytest.mark.parametrize("norms", [(5.0, 5.0), (5.0, 0.0)])
def test_records_of_two_models_are_within_the_bound_of_two(norms: tuple[float, float]) -> None:
    one, other = (gradients(norm, 2) for norm in norms)
    apart = math.sqrt((one**2).sum(axis=1).max() + (other**2).sum(axis=1).max())
    assert apart <= logistic.sensitivity(norms)


@pytest.mark.parametrize("record", [(math.nan, 1.0), (1e300, -5.0), (0.5, math.inf), (-math.inf, 0.0), (0.1, 1e9)])
def test_any_record_is_a_point_that_the_bound_knows(record: tuple[float, float]) -> None:
    theta = np.array([4.0, -3.0])
    packed = logistic.pack(np.full((1, 2), record[0]), np.array([record[1]]), theta)
    assert np.isfinite(packed).all() and np.linalg.norm(packed[0, :2]) <= 1
    assert np.linalg.norm(smat(packed[0, 2:])) <= logistic.WEIGHT / 4 * (1 + 1e-12)
    ordinary = gradients(5.0, 2, 500)
    assert farthest(packed, ordinary) <= logistic.sensitivity([5.0])


def test_a_belief_without_noise_is_the_posterior_mode_after_a_few_batches() -> None:
    draw, true = rng(1), np.array([2.0, -1.0])
    x = draw.standard_normal((20_000, 2))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
    y = (draw.random(len(x)) < scipy.special.expit(x @ true)).astype(float)
    belief = logistic.Belief(1, 2)
    for part in np.split(np.arange(len(x)), [500, 2000]):
        belief.learn(logistic.pack(x[part], y[part], belief.theta[0]).sum(axis=0), 0.0, 5.0)
    assert np.linalg.norm(belief.theta[0] - true) < 5 * math.sqrt(np.trace(np.linalg.inv(belief.precision[0])))
    assert belief.norms[0] == pytest.approx(float(np.linalg.norm(belief.theta[0])))
    belief.learn(np.array([1e9, 0.0, 0.0, 0.0, 0.0]), 1.0, 5.0)
    assert belief.norms[0] <= 5 * (1 + 1e-12)


@pytest.mark.wide_at("0.3", "1e-06")
@pytest.mark.parametrize("radius", [1e-6, 0.3, 5.0, 20.0])
def test_no_estimate_ends_above_its_radius(radius: float) -> None:
    draw = rng(0)
    for dim in (1, 2, 5, 20):
        belief = logistic.Belief(1, dim)
        for _ in range(250):
            packed = draw.standard_normal(dim + dim * (dim + 1) // 2)
            packed[:dim] *= 1e6
            belief.learn(packed, 1e-2, radius)
            assert belief.norms[0] <= radius
            logistic.sensitivity(belief.norms)
