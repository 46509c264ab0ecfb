"""Theorem 5 of Cho and Sun, repaired: exact (epsilon, delta) by quadrature in one dimension, both directions."""

import math
from typing import Any

import numpy as np
import pytest
from privbandit_agents.privacy.accounting.costs import approximate
from privbandit_agents.privacy.mechanisms.objective import UserLoss
from privbandit_agents.privacy.mechanisms.objective_approximate import calibrate, perturbation, published
from scipy import stats

Gradient = tuple[np.ndarray, np.ndarray]
SCALAR = UserLoss(1, lipschitz=1.0, curvature=1.0)
MNL = UserLoss.multinomial_logit


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def step(a: np.ndarray, centre: float, width: float = 1.0, height: float = 1.0) -> Gradient:
    """Gradient and Hessian of a loss with |gradient| <= height and curvature <= height / width."""
    y = np.tanh((a - centre) / width)
    return height * y, height / width * (1 - y**2)


def exact_delta(epsilon: float, users: tuple[Gradient, Gradient], a: np.ndarray, sigma: float, Delta: float) -> float:
    """Return sup over events of P - e^epsilon Q, the larger one of both directions, for the minimisers' densities."""
    densities = []
    for gradient, curvature in users:
        noise = gradient + Delta * a
        densities.append(stats.norm.pdf(noise / sigma) / sigma * (curvature + Delta))
    cell = a[1] - a[0]
    assert all(p.sum() * cell == pytest.approx(1, abs=1e-6) for p in densities)
    p, q = densities
    return max(float(np.maximum(one - math.exp(epsilon) * two, 0).sum() * cell) for one, two in ((p, q), (q, p)))


def grid(sigma: float, Delta: float) -> np.ndarray:
    reach = (10 * sigma + 2) / Delta
    return np.linspace(-reach, reach, 400_001)


def pairs(a: np.ndarray, spread: float, seed: int) -> list[tuple[Gradient, Gradient]]:
    """Opposite gradients, curvature against none, and random ones."""
    generator, none = rng(seed), (np.zeros_like(a), np.zeros_like(a))
    far = 30 * spread
    drawn = [step(a, spread * generator.normal(), 1 + 9 * generator.random()) for _ in range(2)]
    return [
        (step(a, far), step(a, -far)),
        (step(a, 0.0), none),
        (step(a, spread), step(a, -spread)),
        (drawn[0], drawn[1]),
    ]


@pytest.mark.wide_but("1.0-0.05-0.5", "0.1-1e-06-0.1")
@pytest.mark.parametrize("split", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("delta", [1e-6, 0.05])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 4.0])
def test_no_scalar_loss_violates_the_repaired_theorem(epsilon: float, delta: float, split: float) -> None:
    sigma, Delta = calibrate(epsilon, delta, SCALAR, split)
    a = grid(sigma, Delta)
    for users in pairs(a, sigma / Delta, seed=int(1000 * epsilon)):
        assert exact_delta(epsilon, users, a, sigma, Delta) <= delta


def test_the_noise_is_not_far_more_than_needed() -> None:
    epsilon, delta = 1.0, 1e-6
    sigma, Delta = calibrate(epsilon, delta, SCALAR, split=0.99)
    a = grid(sigma, Delta)
    users = pairs(a, sigma / Delta, 0)[0]
    assert exact_delta(0.8 * epsilon, users, a, sigma, Delta) > delta


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_the_printed_Delta_is_refuted(epsilon: float) -> None:  # noqa: N802 (the paper's capital)
    """(1 - q) R eta / epsilon at q = 1/2 and the theorem's own sigma: curvature against none."""
    delta = 1e-6
    sigma, _ = published(epsilon, delta, SCALAR)
    printed = 0.5 / epsilon
    a = grid(sigma, printed)
    assert exact_delta(epsilon, pairs(a, 1.0, 0)[1], a, sigma, printed) > 100 * delta


def test_algorithm_4_survives_since_its_eta_is_four_times_too_large() -> None:
    for epsilon in (0.1, 1.0):
        for capacity in (2, 10):
            loose = published(epsilon, 1e-6, UserLoss(5, 2.0, 1.0, rank=min(5, capacity - 1)))
            least = calibrate(epsilon, 1e-6, MNL(5, capacity), 0.5)
            assert loose[0] >= least[0] and loose[1] >= least[1]


def test_the_printed_constants() -> None:
    epsilon, delta, d = 0.4, 1e-4, 5
    sigma, Delta = published(epsilon, delta, UserLoss(d, 2.0, 1.0, rank=4))
    c = d + 2 * math.sqrt(d * math.log(2e4)) + 2 * math.log(2e4)
    assert sigma == pytest.approx(4 * (math.sqrt(c) + math.sqrt(c + epsilon)) / epsilon)
    assert Delta == pytest.approx(2 * 4 / epsilon)


@pytest.mark.parametrize("user", [SCALAR, MNL(5, 10), MNL(3, 2, 7.0), UserLoss(20, 3.0, 9.0, rank=4)])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 9.0, 1000.0])
def test_the_log_ratio_exceeds_epsilon_with_probability_delta_at_most(epsilon: float, user: UserLoss) -> None:
    delta, r = 1e-7, user.directions
    sigma, Delta = calibrate(epsilon, delta, user)
    u = user.lipschitz / sigma
    determinant = r * math.log1p(user.weight * user.curvature / Delta / r)
    tail = stats.chi.sf((epsilon - determinant - 2 * u**2) / (2 * u), user.dim)
    assert tail <= delta * (1 + 1e-6)
    if epsilon <= 9:
        assert tail == pytest.approx(delta, rel=1e-6)


def test_output_noise_is_part_of_the_price() -> None:
    user, share = MNL(5, 10), 0.25
    mechanism = perturbation(1.0, 1e-6, user, output_share=share)
    assert mechanism.cost == approximate(1.0, 1e-6)
    assert (mechanism.sigma, mechanism.Delta) == calibrate(1 - share, (1 - share) * 1e-6, user)
    mu = 2 * mechanism.tau / mechanism.Delta / mechanism.output_sigma
    tail = stats.norm.sf(share / mu - mu / 2) - math.exp(share) * stats.norm.sf(share / mu + mu / 2)
    assert tail == pytest.approx(share * 1e-6, rel=1e-4)


def test_without_budget_limit_nothing_is_perturbed() -> None:
    assert calibrate(math.inf, 1e-6, SCALAR) == published(math.inf, 1e-6, SCALAR) == (0, 0)
    assert perturbation(math.inf, 1e-6, SCALAR).output_sigma == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0, 1e-6), "epsilon must be > 0"), ((1, 0), "delta must lie in"), ((1, 1e-6, SCALAR, 1.0), "split must lie in")],
)
def test_bad_arguments_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        calibrate(*arguments, *((SCALAR,) if len(arguments) == 2 else ()))
