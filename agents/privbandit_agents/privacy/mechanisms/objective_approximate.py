"""Objective perturbation under (epsilon, delta)-differential privacy.

Daniel Kifer, Adam Smith and Abhradeep Thakurta, "Private Convex Empirical Risk Minimization and High-dimensional
Regression", COLT 2012, Theorem 1; Cho and Sun, "Privacy-Preserving Dynamic Assortment Selection", Theorem 5, which
extends it to Hessians of any rank and to replaced users. Proof: docs/privacy/objective-perturbation.md.
"""

import math

import scipy

from privbandit_agents.privacy._validate import budget, failure
from privbandit_agents.privacy.accounting.conversions import gaussian_mu
from privbandit_agents.privacy.accounting.costs import approximate
from privbandit_agents.privacy.mechanisms.objective import ObjectivePerturbation, UserLoss, rounding, tolerance


def calibrate(epsilon: float, delta: float, user: UserLoss, split: float = 0.5) -> tuple[float, float]:
    """Return (sigma, Delta) such that the exact minimiser is (epsilon, delta)-DP.

    *Formal guarantees.* (epsilon, delta)-DP of a* under replacement of one user's whole record, for minimisation over
    all of R^d and convex C^2 losses within ``user``. This is Theorem 5 with its Delta put right: the printed one, (1 -
    q) R eta / epsilon, is too small, and the statement false. epsilon = infinity gives (0, 0), no perturbation at all.

    Args:
        epsilon: > 0.
        delta: in (0, 1).
        user: the bounds of one user's loss.
        split: q, the share of epsilon for the noise, in (0, 1).
    """
    failure(delta=delta)
    if budget(epsilon=epsilon) == math.inf:
        return 0.0, 0.0
    share, r = failure(split=split) * epsilon, user.directions
    reach = float(scipy.stats.chi.isf(delta, user.dim))
    u = share / (reach + math.sqrt(reach**2 + 2 * share))
    # Delta stays above a thousandth of the curvature: the minimum is well-conditioned
    room = r / user.weight * math.expm1(min((epsilon - share) / r, math.log1p(user.weight / r / 1e-3)))
    return user.lipschitz / u, user.curvature / room


def published(epsilon: float, delta: float, user: UserLoss, eta: float = 4.0) -> tuple[float, float]:
    """Return (sigma, Delta) of Algorithm 4, for q = 1/2, with R the rank and L the Lipschitz constant of ``user``.

    *Formal guarantees.* None from the printed theorem; those of ``calibrate`` if eta R is at least 4 times the trace of
    every user's Hessian.
    """
    x, R = math.log(2 / failure(delta=delta)), user.directions
    if budget(epsilon=epsilon) == math.inf:
        return 0.0, 0.0
    reach = math.sqrt(user.dim + 2 * math.sqrt(user.dim * x) + 2 * x)
    return 2 * user.lipschitz * (reach + math.sqrt(reach**2 + epsilon)) / epsilon, eta / 2 * R / epsilon


def perturbation(
    epsilon: float,
    delta: float,
    user: UserLoss,
    split: float = 0.5,
    *,
    as_printed: bool = False,
    output_share: float = 1e-3,
    users: int = 1,
) -> ObjectivePerturbation:
    """Return the mechanism that costs (epsilon, delta) in all, of which a small share of both for the output noise.

    *Formal guarantees.* (epsilon, delta)-DP by basic composition of the exact minimiser and, given it, the Gaussian
    output noise; see ``ObjectivePerturbation``. With ``as_printed`` those of ``published``.

    Args:
        epsilon: > 0; infinity adds no noise.
        delta: in (0, 1).
        user: the bounds of one user's loss.
        split: q, the share of epsilon for the noise, in (0, 1).
        as_printed: take Algorithm 4's constants.
        output_share: share of epsilon and of delta for the output noise, in (0, 1).
        users: how many losses are added up at most; their rounding is covered.
    """
    left = 1 - failure(output_share=output_share)
    exact = left * epsilon, left * delta
    sigma, Delta = published(*exact, user) if as_printed else calibrate(*exact, user, split)
    tau = tolerance(user, sigma)
    output = (
        2 * (tau + rounding(user, users)) / Delta / gaussian_mu(output_share * epsilon, output_share * delta)
        if Delta
        else 0.0
    )
    return ObjectivePerturbation(sigma, Delta, user.dim, approximate(epsilon, delta), tau, output, user)
