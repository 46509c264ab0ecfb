import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privbandit_agents.privacy.accounting.conversions import (
    epsilon_to_rho,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    pure_to_rho,
    rho_to_epsilon,
)
from privbandit_agents.privacy.accounting.costs import Cost, gaussian_dp
from scipy.integrate import quad
from scipy.stats import norm

EPSILONS = st.floats(1e-3, 1000)
DELTAS = st.floats(1e-12, 0.5)


@pytest.mark.parametrize(
    ("delta", "table"),
    [(0.01, {0.5: 0.0352, 1: 0.1034, 2: 0.3051, 5: 1.2363, 10: 3.3990}), (1e-5, {0.5: 0.0085, 1: 0.0306, 2: 0.1083})],
)
def test_rho_of_epsilon_and_delta(delta: float, table: dict[float, float]) -> None:
    for epsilon, rho in table.items():
        assert epsilon_to_rho(epsilon, delta) == pytest.approx(rho, abs=5.1e-5)


@settings(max_examples=60, deadline=None)
@given(EPSILONS, DELTAS)
def test_the_conversion_and_its_inverse_agree(epsilon: float, delta: float) -> None:
    rho = epsilon_to_rho(epsilon, delta)
    assert rho_to_epsilon(rho, delta) <= epsilon * (1 + 1e-9)  # both are rounded to their safe side
    assert rho_to_epsilon(rho * (1 + 1e-6) + 1e-300, delta) >= epsilon * (1 - 1e-5)


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-6, 1e4), DELTAS)
def test_the_conversion_is_the_infimum_over_orders(rho: float, delta: float) -> None:
    orders = 1 + np.exp(np.linspace(-20, 25, 20_001))
    excess = orders - 1
    curve = rho * orders + (-np.log(orders * delta) + excess * np.log1p(-1 / orders)) / excess
    assert rho_to_epsilon(rho, delta) == pytest.approx(max(float(curve.min()), 0), rel=1e-4, abs=1e-9)
    assert rho_to_epsilon(rho, delta) <= rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1e-12


def test_the_conversion_holds_for_the_gaussian_mechanism_and_is_not_far_off() -> None:
    for rho, delta in ((0.01, 1e-5), (0.5, 1e-6), (3.0, 0.01)):
        mu = math.sqrt(2 * rho)
        exact = gaussian_epsilon(mu=mu, delta=delta)
        assert exact <= rho_to_epsilon(rho, delta) <= 1.25 * exact + 0.05


@settings(max_examples=60, deadline=None)
@given(EPSILONS, st.floats(1e-12, 0.4))
def test_the_analytic_gaussian_meets_its_delta(epsilon: float, delta: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert gaussian_delta(epsilon, mu * (1 + 1e-6)) >= delta * (1 - 1e-3)


def test_gaussian_delta_by_the_definition() -> None:
    for epsilon, mu in ((0.3, 0.5), (1.0, 1.0), (4.0, 2.0)):
        direct = norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
        assert gaussian_delta(epsilon, mu) == pytest.approx(direct, rel=1e-10)
    assert 1 / gaussian_mu(1, 1e-5) == pytest.approx(3.7306, abs=1e-4)


def test_absurd_parameters_never_overspend() -> None:
    for epsilon, delta in ((1e-10, 1e-9), (1e-10, 1e-15), (1e-6, 1e-300), (1e-10, 1e-300)):
        assert gaussian_delta(epsilon, gaussian_mu(epsilon, delta)) <= delta


def exact_delta(epsilon: float, mu: float) -> float:
    """Return delta(epsilon) of mu-Gaussian DP without cancellation, by its derivative in mu, phi(eps/mu - mu/2).

    In v = eps/mu - mu/2 it is the integral of phi(v) (1 - v / sqrt(v^2 + 2 eps)) there; only v > 0 is asked for.
    """
    start = epsilon / mu - mu / 2

    def density(v: float) -> float:
        root = math.sqrt(v * v + 2 * epsilon)
        return math.exp((start - v) * (start + v) / 2) * 2 * epsilon / (root * (root + v))

    beyond, _ = quad(density, start, start + 40 / (1 + start), epsabs=0, epsrel=1e-12, limit=500)
    return float(norm.pdf(start) * beyond)


def test_delta_without_cancellation_is_the_usual_one_where_nothing_cancels() -> None:
    for epsilon, mu in ((0.3, 0.5), (1.0, 1.0), (4.0, 2.0), (1.0, 0.1), (1e-3, 1e-3)):
        assert exact_delta(epsilon, mu) == pytest.approx(gaussian_delta(epsilon, mu), rel=1e-10)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(1e-10, 1e-300), (1e-10, 1e-30), (1e-10, 1e-16), (1e-12, 1e-15), (1e-6, 1e-15), (1e-8, 1e-30), (1e-4, 1e-300)],
)
def test_mu_is_right_where_the_closed_form_cancels(epsilon: float, delta: float) -> None:
    """By the closed form the true delta of each of these is off, some five times above the asked one."""
    mu = gaussian_mu(epsilon, delta)
    assert exact_delta(epsilon, mu) <= delta * (1 + 1e-11) < exact_delta(epsilon, mu * (1 + 1e-8))
    assert gaussian_epsilon(mu=mu, delta=delta) == pytest.approx(epsilon, rel=1e-7)


@pytest.mark.parametrize(("mu", "delta"), [(1e-10, 1e-13), (1e-8, 1e-30), (1e-4, 1e-300), (0.1, 1e-5), (3.0, 1e-9)])
def test_the_epsilon_of_gaussian_noise_is_never_rounded_down(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu=mu, delta=delta)
    assert exact_delta(epsilon, mu) <= delta < exact_delta(epsilon * (1 - 1e-10), mu)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (4.0, 1e-6), (0.1, 1e-3), (10.0, 0.01)])
def test_mu_is_a_billionth_below_the_largest(epsilon: float, delta: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert exact_delta(epsilon, mu) < delta < exact_delta(epsilon, mu * (1 + 2e-9))


def test_infinite_and_large_budgets_are_valid() -> None:
    assert epsilon_to_rho(math.inf, 0.01) == gaussian_mu(math.inf, 0.01) == math.inf
    assert rho_to_epsilon(math.inf, 0.01) == math.inf and rho_to_epsilon(0, 0.01) == 0
    assert 700 < epsilon_to_rho(1000, 1e-6) < 1000
    assert pure_to_rho(2) == 2


@pytest.mark.parametrize("bad", [0, -1, math.nan, True, "1", None])
def test_bad_parameters_are_named(bad: float) -> None:
    for call in (pure_to_rho, lambda e: epsilon_to_rho(e, 0.1), lambda e: gaussian_mu(e, 0.1)):
        call(1)  # which True equals, to a cache
        with pytest.raises(ValueError, match=r"epsilon must be > 0; got"):
            call(bad)
    for delta in (bad, 1, 1.5):
        with pytest.raises(ValueError, match=r"delta must lie in \(0, 1\); got"):
            rho_to_epsilon(1.0, delta)


@pytest.mark.wide
def test_against_another_accountant() -> None:
    accounting = pytest.importorskip("dp_accounting")
    mechanisms = pytest.importorskip("dp_accounting.rdp")
    for sigma in (1.0, 3.0, 10.0):
        rdp = mechanisms.RdpAccountant(orders=[1 + x / 50 for x in range(1, 20_000)])
        rdp.compose(accounting.GaussianDpEvent(sigma))
        assert rho_to_epsilon(1 / (2 * sigma**2), 1e-5) == pytest.approx(rdp.get_epsilon(1e-5), rel=1e-3)
        pld = accounting.pld.PLDAccountant()
        pld.compose(accounting.GaussianDpEvent(sigma))
        assert gaussian_epsilon(mu=1 / sigma, delta=1e-5) == pytest.approx(pld.get_epsilon(1e-5), rel=1e-3)
    pld = accounting.pld.PLDAccountant()
    for sigma in (5.0, 7.0, 7.0):
        pld.compose(accounting.GaussianDpEvent(sigma))
    together = sum((gaussian_dp(1 / (2 * sigma**2)) for sigma in (5.0, 7.0, 7.0)), Cost())
    assert together.at(1e-5) == pytest.approx(pld.get_epsilon(1e-5), rel=1e-3)
