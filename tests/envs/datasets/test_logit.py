import numpy as np
import pytest
from scipy.optimize import approx_fprime

from privbandit_envs.datasets.hotels.data import extended, free
from privbandit_envs.datasets.logit import Logit, bilinear


def model(rng: np.random.Generator, n: int, ridge: float = 1.0, join: str = "full") -> tuple[Logit, np.ndarray]:
    """A model of 12 hotels with 3 features and users with 2, and the parameters its choices are drawn from."""
    chosen = free(join, 3, 2)
    phi = np.where(chosen, rng.normal(0, 0.7, chosen.shape), 0)
    hotels, users = extended(rng.standard_normal((12, 3))), extended(rng.standard_normal((n, 2)))
    offered = rng.random((n, 12)) < 0.5
    utility = np.where(offered, users @ phi.T @ hotels.T, -np.inf)
    worth = np.column_stack([np.zeros(n), utility]) + rng.gumbel(size=(n, 13))
    maps, taken = bilinear(hotels, users, chosen), worth.argmax(axis=1) - 1
    return Logit(*maps, offered, taken, int(chosen.sum()), ridge), phi[chosen]


@pytest.mark.wide_at("full", "concatenated")
@pytest.mark.parametrize("join", ["outer", "concatenated", "full"])
def test_the_parameters_of_many_choices_are_recovered(join: str) -> None:
    logit, truth = model(np.random.default_rng(1), 20_000, join=join)
    assert np.abs(logit.fit() - truth).max() < 0.08
    assert np.abs(truth).max() > 0.5


def test_the_gradient_and_the_curvature_are_those_of_the_loss() -> None:
    rng = np.random.default_rng(2)
    logit, truth = model(rng, 200, ridge=0.7)
    theta, step = truth + 0.3, rng.standard_normal(len(truth))
    assert np.allclose(logit.loss(theta)[1], approx_fprime(theta, lambda t: logit.loss(t)[0], 1e-6), atol=1e-3)
    along = (logit.loss(theta + 1e-5 * step)[1] - logit.loss(theta - 1e-5 * step)[1]) / 2e-5
    _, probabilities = logit.choice(logit.utilities(theta))
    assert np.allclose(logit.curve(probabilities, step), along, atol=1e-4)


def test_the_fit_is_a_minimum_and_a_larger_ridge_a_smaller_one() -> None:
    logit, _ = model(np.random.default_rng(3), 300)
    theta = logit.fit()
    assert np.abs(logit.loss(theta)[1]).max() <= 1e-8
    held, _ = model(np.random.default_rng(3), 300, ridge=1000.0)
    assert np.linalg.norm(held.fit()) < 0.5 * np.linalg.norm(theta)


def test_huge_utilities_stay_finite() -> None:
    logit, truth = model(np.random.default_rng(4), 50)
    value, gradient = logit.loss(1e4 * truth)
    assert np.isfinite(value) and np.isfinite(gradient).all()
