"""Conversions between pure, approximate, Gaussian and zero-concentrated differential privacy.

Mark Bun and Thomas Steinke, "Concentrated Differential Privacy", TCC 2016 (zCDP); Clement Canonne, Gautam Kamath and
Thomas Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020 (the tight conversion); Borja Balle and
Yu-Xiang Wang, "Improving the Gaussian Mechanism for Differential Privacy", ICML 2018 (the analytic Gaussian); Mark
Cesar and Ryan Rogers, "Bounding, Concentrating, and Truncating", ALT 2021 (bounded range).
"""

import math
from functools import lru_cache

import scipy

from privbandit_agents.privacy._validate import budget, failure, positive


def pure_to_rho(epsilon: float) -> float:
    """Return rho = eps^2 / 2: every eps-DP mechanism is rho-zCDP. Where floats have few digits, it is rounded up."""
    rho = budget(epsilon=epsilon) * epsilon / 2  # a power would raise an error where it passes the largest float
    return rho if rho > 1e-290 else math.nextafter(rho, math.inf)


@lru_cache(maxsize=4096, typed=True)
def rho_to_epsilon(rho: float, delta: float) -> float:
    """Return the smallest epsilon of the tight conversion: rho-zCDP implies (epsilon, delta)-DP.

    epsilon = inf over a > 1 of rho a + [log(1/(a delta)) + (a - 1) log(1 - 1/a)] / (a - 1).

    >>> round(rho_to_epsilon(0.1, delta=1e-5), 3)
    1.914

    Args:
        rho: >= 0; infinity gives infinity.
        delta: in (0, 1).
    """
    failure(delta=delta)
    if rho == 0:
        return 0.0
    return at_best_order(budget(rho=rho), delta) * (1 + 1e-9)  # never a rounding error below


def at_best_order(rho: float, delta: float) -> float:
    """Return the epsilon of the tight conversion within 1e-9 of it."""
    if rho == math.inf:
        return math.inf

    def bound(log_excess: float) -> float:
        excess = math.exp(log_excess)  # a - 1
        order = 1 + excess
        # tiny budgets have orders beyond, which need logarithms that lose no digits
        log_ratio = math.log(excess / order) if excess < 1e6 else math.log1p(-1 / order)
        return rho * order + (-math.log(order * delta) + excess * log_ratio) / excess

    start = math.log(math.sqrt(math.log(1 / delta) / rho) + 1e-12)  # the minimum of the simple conversion
    found = scipy.optimize.minimize_scalar(bound, bracket=(start - 1, start + 1), tol=1e-12)
    return max(float(found.fun), 0.0)


@lru_cache(maxsize=1024, typed=True)
def epsilon_to_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho whose tight conversion is at most epsilon.

    >>> round(epsilon_to_rho(1.0, delta=0.01), 4)
    0.1034

    Args:
        epsilon: > 0; infinity gives infinity.
        delta: in (0, 1).
    """
    failure(delta=delta)
    if budget(epsilon=epsilon) == math.inf:
        return math.inf
    high = epsilon  # rho_to_epsilon(rho) >= rho only up to log terms, so widen until it is
    while at_best_order(high, delta) < epsilon:
        high *= 2
    low = high
    while at_best_order(low, delta) > epsilon:
        low /= 2
    root = math.exp(
        scipy.optimize.brentq(
            lambda x: at_best_order(math.exp(x), delta) - epsilon, math.log(low), math.log(high), xtol=1e-13
        )
        if low < high
        else math.log(low)
    )
    return root * (1 - 1e-9)  # never a rounding error above the budget


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return delta(epsilon) of mu-Gaussian DP: Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2).

    Where the difference would lose its digits, it is integrated as what it is the mean of, (1 - e^(eps - loss))+, with
    the loss eps + mu s: phi(z) times the integral over s > 0 of (1 - e^(-mu s)) e^(-z s - s^2/2), z = eps/mu - mu/2.

    Args:
        epsilon: any real number.
        mu: sensitivity over standard deviation, > 0.
    """
    positive(mu=mu)
    first = math.exp(scipy.special.log_ndtr(-epsilon / mu + mu / 2))
    difference = first - math.exp(epsilon + scipy.special.log_ndtr(-epsilon / mu - mu / 2))
    if difference > 1e-3 * first or epsilon < 0:
        return difference

    z = epsilon / mu - mu / 2
    reach = 40 / (1 + z)  # beyond it nothing is left
    beyond, _ = scipy.integrate.quad(
        lambda s: -math.expm1(-mu * s) * math.exp(-z * s - s**2 / 2), 0, reach, epsabs=0, epsrel=1e-12
    )
    return math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * float(beyond)


@lru_cache(maxsize=4096, typed=True)
def gaussian_epsilon(*, mu: float, delta: float) -> float:
    """Return the epsilon at which mu-Gaussian DP has the given delta; 0 if delta is reached at epsilon = 0 already.

    >>> round(gaussian_epsilon(mu=math.sqrt(0.2), delta=1e-5), 3)  # rho = 0.1: zCDP alone gives 1.914
    1.76
    """
    failure(delta=delta)
    if mu == math.inf:
        return math.inf
    if mu == 0 or gaussian_delta(0.0, mu) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(high, mu) > delta:
        high *= 2
    root = scipy.optimize.brentq(
        lambda epsilon: gaussian_delta(epsilon, mu) - delta, 0.0, high, xtol=1e-300, rtol=1e-12, maxiter=1000
    )
    return float(root) * (1 + 1e-11)  # never a rounding error below


@lru_cache(maxsize=1024, typed=True)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu such that mu-Gaussian DP implies (epsilon, delta)-DP; infinity for epsilon = infinity."""
    failure(delta=delta)
    if budget(1e12, epsilon=epsilon) == math.inf:
        return math.inf
    high = 1.0
    while gaussian_delta(epsilon, high) < delta:
        high *= 2
    while gaussian_delta(epsilon, high / 2) >= delta:
        high /= 2

    def excess(mu: float) -> float:
        return gaussian_delta(epsilon, mu) - delta

    root = float(scipy.optimize.brentq(excess, high / 2, high, xtol=1e-14 * high, rtol=1e-13, maxiter=1000))
    return root * (1 - 1e-9)  # never a rounding error above delta
