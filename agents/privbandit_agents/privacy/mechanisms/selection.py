"""Noisy iterative hard thresholding: how far one user moves a step, and the noise that covers it.

Sunrit Chakraborty, Saptarshi Roy and Debabrota Basu, "FLIPHAT: Joint Differential Privacy for High Dimensional Sparse
Linear Bandits", 2024, Algorithms 1 and 3; Cynthia Dwork, Weijie Su and Li Zhang, "Differentially Private False
Discovery Rate Control", 2021 (peeling).
"""

import math

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.privacy._validate import budget, count, failure, positive
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho
from privbandit_agents.privacy.mechanisms.additive import GumbelTopK, LaplacePeeling

Floats = NDArray[np.float64]


def step_sensitivity(eta: float, x_max: float, R: float, C: float, n: int) -> float:
    """Return how far replacing one of n users moves a gradient step of the mean of (y - x . theta)^2, in sup norm.

    *Formal guarantees.* 4 eta x_max (R + x_max C) / n for |x|_inf <= x_max, |y| <= R and |theta|_1 <= C: one user's
    term is (2 eta / n) x (y - x . theta), at most (2 eta / n) x_max (R + x_max C), and replacing it moves the step by
    at most twice that. Attained at theta = C e1 by y = R, x = x_max (-1, 1, ..., 1) against y = R, x = -x_max 1. The
    number of users enters once.

    Args:
        eta: step size, > 0.
        x_max: bound on the features, > 0.
        R: bound on the reward, > 0.
        C: bound on the l1 norm of the iterate, > 0.
        n: number of users, >= 1.
    """
    return 4 * positive(eta=eta) * positive(x_max=x_max) * published_bound(x_max, R, C) / count(n=n)


def published_sensitivity(eta: float, x_max: float, R: float, C: float, n: int) -> float:
    """Return eta B / n with B = R + x_max C, which the paper takes for the sensitivity: 4 x_max times too small."""
    return positive(eta=eta) * published_bound(x_max, R, C) / count(n=n)


def published_bound(x_max: float, R: float, C: float) -> float:
    """Return B = R + x_max C."""
    return positive(R=R) + positive(x_max=x_max) * positive(C=C)


def concentrated(rho: float, iterations: int, s: int, sensitivity: float, selection: float = 0.5) -> GumbelTopK:
    """Return the selection and release of one of M iterations that are rho-zCDP together.

    *Formal guarantees.* zCDP adds up over adaptive iterations; each is ``GumbelTopK`` at rho / M.
    """
    return GumbelTopK.calibrate(budget(rho=rho) / count(iterations=iterations), s, sensitivity, selection)


def basic(epsilon: float, delta: float, iterations: int, s: int, sensitivity: float) -> LaplacePeeling:
    """Return the peeling of one of M iterations that are (epsilon, delta)-DP together by basic composition.

    *Formal guarantees.* Each iteration is (epsilon / M, delta / M)-DP. With x = sensitivity / scale a peeling is
    3 s x-DP and 2.5 s x^2-zCDP, so x may be the larger of epsilon / (3 M s) and sqrt(rho / (2.5 s)), rho that of
    (epsilon / M, delta / M). The paper's scale is used where it is at least that, which is where its lemma is proved.
    """
    one, failing = budget(epsilon=epsilon) / count(iterations=iterations), failure(delta=delta) / iterations
    proved = max(one / (3 * s), math.sqrt(epsilon_to_rho(one, failing) / (2.5 * s)))
    scale = positive(sensitivity=sensitivity) / proved
    return LaplacePeeling(s, max(scale, LaplacePeeling.published_scale(one, failing, s, sensitivity)), sensitivity)


def published(
    epsilon: float, delta: float, iterations: int, s: int, sensitivity: float, stated: float
) -> LaplacePeeling:
    """Return the paper's peeling of one of M iterations, whose noise covers the stated sensitivity, not the real one.

    *Formal guarantees.* None at the claimed budget. What a release costs really is in its ``cost``.
    """
    one, failing = budget(epsilon=epsilon) / count(iterations=iterations), failure(delta=delta) / iterations
    return LaplacePeeling(s, LaplacePeeling.published_scale(one, failing, s, stated), sensitivity)


def project_on_l1_ball(vector: Floats, radius: float) -> Floats:
    """Return the nearest point of l1 norm at most the radius; entries beyond a million radii count as those."""
    vector = np.clip(vector, -1e6 * radius, 1e6 * radius)
    modulus = np.abs(vector)
    if modulus.sum() <= radius:
        return vector
    ordered = np.sort(modulus)[::-1]
    excess = (np.cumsum(ordered) - radius) / np.arange(1, len(vector) + 1)
    threshold = excess[np.flatnonzero(ordered > excess)[-1]]
    projected = np.sign(vector) * np.maximum(modulus - threshold, 0.0)
    return np.asarray(projected * min(1.0, radius / np.abs(projected).sum()))
