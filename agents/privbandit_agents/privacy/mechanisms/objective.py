"""Objective perturbation: the minimiser of a convex loss, made private by a random linear term.

Kamalika Chaudhuri, Claire Monteleoni and Anand Sarwate, "Differentially Private Empirical Risk Minimization", JMLR
2011; Daniel Kifer, Adam Smith and Abhradeep Thakurta, "Private Convex Empirical Risk Minimization and High-dimensional
Regression", COLT 2012; Roger Iyengar, Joseph Near, Dawn Song, Om Thakkar, Abhradeep Thakurta and Lun Wang, "Towards
Practical Differentially Private Convex Optimization", S&P 2019 (approximate minimisers); Cho and Sun,
"Privacy-Preserving Dynamic Assortment Selection" (the published constants). Proofs:
docs/privacy/objective-perturbation.md.

The release is a* = argmin over R^d of sum of the users' losses + (Delta / 2) |a|^2 + b . a, with b ~ N(0, sigma^2 I).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Self

import numpy as np
import scipy
from numpy.random import Generator

from privbandit_agents.privacy._validate import budget, count, failure, positive, renamed
from privbandit_agents.privacy.accounting.costs import Cost, zcdp
from privbandit_agents.privacy.mechanisms.grid import rounded
from privbandit_agents.privacy.mechanisms.minimum import stationary_point
from privbandit_agents.privacy.vectors import Floats

Loss = Callable[[Floats], tuple[float, Floats, Floats]]
Derivatives = tuple[float, Floats, Floats]
Method = Literal["dimension-free", "published"]


@dataclass(frozen=True)
class UserLoss:
    """Bounds that hold everywhere on the loss of every user, which is convex and twice continuously differentiable.

    Attributes:
        dim: number of parameters d.
        lipschitz: bound L on the norm of the gradient.
        curvature: bound on the largest eigenvalue of the Hessian.
        trace: bound on the trace of the Hessian; by default curvature times rank.
        rank: bound on the rank of the Hessian; by default dim.
    """

    dim: int
    lipschitz: float
    curvature: float
    trace: float = math.inf
    rank: int | None = None

    def __post_init__(self) -> None:
        count(dim=self.dim), positive(lipschitz=self.lipschitz)
        positive(curvature=self.curvature), budget(trace=self.trace)
        if self.rank is not None:
            count(rank=self.rank)

    @classmethod
    def multinomial_logit(cls, dim: int, capacity: int, radius: float = 1.0) -> Self:
        """Return the bounds for the choice of one of ``capacity`` items or nothing; features of norm <= radius.

        The gradient is mean feature - chosen feature, of norm at most 2 radius; the Hessian is the covariance of the
        chosen feature, so that its trace is at most radius^2, and its rank at most min(dim, capacity).
        """
        square = positive(radius=radius) ** 2
        return cls(dim, 2 * radius, square, square, min(dim, count(capacity=capacity)))

    @property
    def directions(self) -> int:
        """The largest number of positive eigenvalues of the Hessian."""
        return self.dim if self.rank is None else min(self.dim, self.rank)

    @property
    def weight(self) -> float:
        """The largest possible trace in units of the curvature: at most ``directions``."""
        return min(self.trace / self.curvature, self.directions)


def certified_rho(sigma: float, Delta: float, user: UserLoss) -> float:
    """Return a rho such that the exact minimiser is rho-zCDP.

    *Formal guarantees.* rho-zCDP of a* under replacement of one user's whole record. Assumes minimisation over all of
    R^d (project afterwards) and convex C^2 losses within ``user``: the l2 norm of a user's gradient, and the operator
    norm, trace and rank of the Hessian, are bounded. The dimension and the rank enter only through the bound for large
    orders. Statement and proof: docs/privacy/objective-perturbation.md.

    | sigma, Delta | what happens |
    |---|---|
    | sigma = infinity | the cost of the curvature is left |
    | 0, negative or NaN | ValueError |
    """
    u = user.lipschitz / budget(sigma=sigma)
    kappa = user.curvature / positive(Delta=Delta)
    r = user.directions
    far = r * math.log1p(user.weight * kappa / r) + 2 * u * math.sqrt(user.dim)

    def excess(order: float) -> float:
        return curvature_cost(order, kappa, user) - far / order

    # the first bound grows with the order, the second falls: the larger of them is smallest where they meet
    low, high = 1 + 1e-9, 1 + (1 - 1e-9) / kappa
    if high <= low or excess(low) >= 0:
        return 2 * u**2 + far
    order = high if excess(high) <= 0 else scipy.optimize.brentq(excess, low, high)
    return 2 * u**2 + max(curvature_cost(order, kappa, user), far / order)


def curvature_cost(order: float, kappa: float, user: UserLoss) -> float:
    """Return the share of the curvature in D_alpha / alpha for all alpha <= order < 1 + 1 / kappa.

    About alpha kappa^2 / 2 for each of w positive and of q negative eigenvalues of a user's Hessian relative to the
    others'.
    """
    s = order - 1
    psi = -math.log1p(kappa) - math.log1p(-s * kappa) / s
    chi = (order * math.log1p(kappa) - math.log1p(order * kappa)) / s
    w = user.weight
    q = min(user.dim - w, user.directions)
    if q <= w:
        negative = q * chi
    else:
        negative = w * (chi if order * kappa**2 <= 1 else order * kappa**2 / 2)
    return (w * psi + negative) / order


def calibrate(
    rho: float, user: UserLoss, *, method: Method = "dimension-free", split: float = 0.5, eta: float = 4.0
) -> tuple[float, float]:
    """Return (sigma, Delta) for a rho-zCDP minimiser.

    *Formal guarantees.* Those of ``certified_rho``, for replacement of one user's whole record: ``"dimension-free"``
    returns the pair of the smallest sqrt(sigma^2 d + Delta^2) that it certifies. ``"published"`` is Theorem 1 of Cho
    and Sun: a share of rho pays for the noise, the rest for the determinant. Its statement holds, though a step of its
    printed proof does not, for Hessians of norm at most ``eta`` and rank at most ``user.rank``.

    | rho | what happens |
    |---|---|
    | infinity | (0, 0): no perturbation at all |
    | 0, negative or NaN | ValueError |

    Args:
        rho: > 0.
        user: the bounds of one user's loss.
        method: the calibration.
        split: share of rho for the noise, in (0, 1); of ``"published"`` only.
        eta: bound on the norm of the Hessian; of ``"published"`` only.

    Raises:
        ValueError: an argument out of range.
    """
    if budget(1e12, rho=rho) == math.inf:
        return 0.0, 0.0
    if method == "published":
        return published(rho, user, split, eta)
    if method != "dimension-free":
        raise ValueError(f"method must be 'dimension-free' or 'published'; got {method!r}.")
    return smallest(rho, user)


@lru_cache(maxsize=256)
def smallest(rho: float, user: UserLoss) -> tuple[float, float]:
    """Return the pair (sigma, Delta) with the smallest sqrt(sigma^2 d + Delta^2) among those that cost rho."""
    least = user.lipschitz * math.sqrt(2 / rho)  # 2 u^2 = rho: nothing is left for the curvature

    def pair(log_slack: float) -> tuple[float, float]:
        sigma = least * math.sqrt(1 + math.exp(log_slack))
        return sigma, least_Delta(rho, sigma, user)

    def size(log_slack: float) -> float:
        sigma, Delta = pair(log_slack)
        return math.hypot(sigma * math.sqrt(user.dim), Delta)

    near = min(range(-25, 26), key=size)
    return pair(
        scipy.optimize.minimize_scalar(size, bounds=(near - 1, near + 1), method="bounded", options={"xatol": 1e-6}).x
    )


def least_Delta(rho: float, sigma: float, user: UserLoss) -> float:  # noqa: N802 (the paper's capital)
    """Return the smallest Delta that makes the minimiser rho-zCDP, given a sigma with 2 u^2 < rho."""

    def excess(log_Delta: float) -> float:
        return certified_rho(sigma, math.exp(log_Delta), user) - rho

    low = high = math.log(user.curvature)
    while excess(high) > 0:
        high += 2
    while excess(low) <= 0:
        low -= 2
    return math.exp(scipy.optimize.brentq(excess, low, high, xtol=1e-12)) * (1 + 1e-9)  # never a rounding error below


def published(rho: float, user: UserLoss, split: float, eta: float) -> tuple[float, float]:
    """Return (sigma, Delta) of Cho and Sun's Theorem 1, with q = split and u = L / sigma.

    They solve R log(1 + eta / Delta) = (1 - q) rho and 2 u sqrt(d) + 2 u^2 = q rho; but Delta stays above eta / 1000,
    which costs no privacy and keeps the minimum well-conditioned for large rho.
    """
    exponent = (1 - failure(split=split)) * rho / user.directions
    Delta = positive(eta=eta) / math.expm1(min(exponent, math.log1p(1000)))
    root = math.sqrt(user.dim)
    u = split * rho / (root + math.sqrt(user.dim + 2 * split * rho))
    return user.lipschitz / u, Delta


def tolerance(user: UserLoss, sigma: float) -> float:
    """Return a bound on the gradient's norm that is above the rounding and far below the noise."""
    return 1e-8 * user.lipschitz + 1e-11 * sigma * math.sqrt(user.dim)


def rounding(user: UserLoss, users: int) -> float:
    """Return a bound on how far the computed gradient of ``users`` users is from the exact one, in l2 norm.

    A sum of n floats in any order is within n 2^-53 of the sum of their sizes; a hundred roundings are left for a
    user's own gradient.
    """
    return users * (users + 100) * 2.0**-53 * user.lipschitz


@dataclass(frozen=True)
class ObjectivePerturbation:
    """The minimiser of a perturbed loss, found to a certified accuracy, with output noise for the remaining error.

    *Formal guarantees.* ``cost`` under replacement of one user's whole record, if every user's loss keeps the promises
    of its ``UserLoss``. The certificate |gradient| <= tau puts the result within tau / Delta of the exact minimiser,
    which costs rho - rho_output; the output noise N(0, output_sigma^2 I) covers the rest: (2 tau / Delta)^2 / (2
    output_sigma^2) = rho_output, where tau has the ``rounding`` of the computed gradient in it. Projecting or rounding
    the result afterwards is free. An infinite rho adds no noise of either kind and no Delta. ``objective_approximate``
    builds the same for (epsilon, delta).

    Attributes:
        sigma: standard deviation of the linear term's coefficients.
        Delta: factor of |a|^2 / 2.
        dim: number of parameters d.
        cost: of one minimisation, output noise included.
        tau: bound on the norm of the gradient at the result, > 0.
        output_sigma: standard deviation of the output noise.
        user: the bounds of one user's loss that it was calibrated to, if they are known.
    """

    sigma: float
    Delta: float
    dim: int
    cost: Cost
    tau: float
    output_sigma: float
    user: UserLoss | None = None

    @classmethod
    def from_rho(
        cls,
        rho: float,
        user: UserLoss,
        *,
        method: Method = "dimension-free",
        split: float = 0.5,
        eta: float = 4.0,
        tau: float | None = None,
        output_share: float = 1e-4,
        users: int = 1,
    ) -> Self:
        """Return the mechanism that costs rho in all, of which a small share for the output noise.

        Args:
            rho: > 0; infinity adds no noise.
            user: the bounds of one user's loss.
            method: as in the function ``calibrate``, like ``split`` and ``eta``.
            split: share of rho for the noise; of ``"published"`` only.
            eta: bound on the norm of the Hessian; of ``"published"`` only.
            tau: bound on the norm of the gradient at the result, > 0; by default ``tolerance``.
            output_share: rho_output / rho, in (0, 1).
            users: how many losses are added up at most; their rounding is covered.
        """
        rho_output = failure(output_share=output_share) * budget(1e12, rho=rho)
        sigma, Delta = calibrate(rho * (1 - output_share), user, method=method, split=split, eta=eta)
        tau = positive(tau=tolerance(user, sigma) if tau is None else tau)
        output_sigma = (tau + rounding(user, users)) / Delta * math.sqrt(2 / rho_output) if Delta else 0.0
        return cls(sigma, Delta, user.dim, zcdp(rho), tau, output_sigma, user)

    calibrate = renamed("from_rho")

    def minimise(self, loss: Loss, rng: Generator, start: Floats | None = None) -> Floats:
        """Return the noisy minimiser, shape (d,).

        *Formal guarantees.* Those of the class; nothing is returned without the certificate, whatever the loss.

        Args:
            loss: takes a of shape (d,) to the value (not read), gradient (d,) and Hessian (d, d) of all users together;
                public convex terms may be part of it.
            rng: of both noises.
            start: where to start, shape (d,); by default 0.

        Raises:
            RuntimeError: no point with a gradient of norm <= tau was found.
        """
        linear = self.sigma * rng.standard_normal(self.dim)

        def derivatives(a: Floats) -> tuple[Floats, Floats]:
            _, gradient, hessian = loss(a)
            return gradient + self.Delta * a + linear, hessian + self.Delta * np.eye(self.dim)

        exact = stationary_point(derivatives, np.zeros(self.dim) if start is None else start, self.tau)
        return rounded(exact + self.output_sigma * rng.standard_normal(self.dim), self.output_sigma)

    def loss(self, exact: Derivatives, other: Derivatives, released: object) -> Cost:
        """Return the price of a call if two users are within the declared bounds at the released point, else infinity.

        Args:
            exact: value, gradient and Hessian of the users' loss at the released point.
            other: the same with one user replaced.
            released: the point.

        Raises:
            LookupError: the users' loss is not known.
        """
        if self.user is None:
            raise LookupError("this ObjectivePerturbation does not know its UserLoss")
        share = share_of_bounds(self.user, exact, other)
        within = 0 < share <= 1 + 1e-6  # room for the rounding of sums over users
        return self.cost if within else Cost(rho=math.inf if share else 0.0)

    def standardised(self, exact: Derivatives, released: Floats) -> Floats:
        """Return the linear term, which the gradient at the minimum undoes; other noise is far below it."""
        return np.asarray(-(exact[1] + self.Delta * released) / self.sigma)


def share_of_bounds(user: UserLoss, exact: Derivatives, other: Derivatives) -> float:
    """Return the share of what ``user`` allows by which the derivatives move when one user is replaced.

    A gradient moves by 2 L at most. The Hessian moves by H' - H for positive semidefinite H and H', so that its
    positive eigenvalues are at most those of H', and its negative ones at most those of H.
    """
    values = np.linalg.eigvalsh(other[2] - exact[2])
    trace = user.weight * user.curvature
    by_trace = max(values[values > 0].sum(initial=0.0), -values[values < 0].sum(initial=0.0)) / trace
    by_curvature = np.abs(values).max() / user.curvature
    return float(max(np.linalg.norm(other[1] - exact[1]) / (2 * user.lipschitz), by_trace, by_curvature))
