"""Noisy quadratic models of a loss, and how far to trust them: post-processing of releases, which reads no data."""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def improved(
    precision: Floats, slope: Floats, curvature: Floats, slope_noise: float, curvature_noise: float
) -> tuple[Floats, Floats]:
    """Return the precision with a batch's model added, shape (d, d), and the move from its anchor, shape (d,).

    The model is slope . u + u' H u / 2 in the move u. Its minimiser -H^-1 slope has the variance H^-1 (H + v I) H^-1:
    the H in the middle comes from the sampling of users, v I from the noise on the slope. So the model weighs
    M = H (H + v I)^-1 H against the precision P, and the minimum of both is at -(P + M)^-1 H (H + v I)^-1 slope. A
    batch that drowns in noise moves nothing and adds nothing.

    Args:
        precision: P, symmetric positive definite.
        slope: noisy gradient at the anchor.
        curvature: noisy Hessian, symmetric.
        slope_noise: standard deviation of the noise on every coordinate of the slope, sqrt(v).
        curvature_noise: standard deviation of the noise on every coordinate of svec(curvature).
    """
    values, vectors = rounded(curvature, curvature_noise)
    trust = values / (values + slope_noise * slope_noise)
    total = precision + (vectors * (values * trust)) @ vectors.T
    move = np.linalg.solve(total, vectors @ (trust * (vectors.T @ -slope)))
    return total, move.astype(np.float64, copy=False)


def rounded(curvature: Floats, noise: float) -> tuple[Floats, Floats]:
    """Return eigenvalues > 0 and eigenvectors of a noisy Hessian, shrunk towards a multiple of the identity.

    The rest of the Hessian is shrunk as James and Stein do, by the share of its energy that is expected to be noise.
    The multiple is at least the standard deviation of its own noise.
    """
    dim = len(curvature)
    mean = np.trace(curvature) / dim
    rest = curvature - mean * np.eye(dim)
    size, expected = float(np.linalg.norm(rest)), noise * math.sqrt(dim * (dim + 1) / 2 - 1)
    kept = 1 - (expected / size) ** 2 if size > expected else 0.0
    level = max(mean, noise / math.sqrt(dim), 1e-12)
    values, vectors = np.linalg.eigh(level * np.eye(dim) + kept * rest)
    return np.maximum(values, 0.1 * level), vectors


def doubts(precision: Floats, near: float, far: float) -> Floats:
    """Return a symmetric matrix R, shape (d, d): the rows of normal @ R are draws by the doubt in a precision.

    Their covariance has the eigenvectors of the precision P. An eigenvalue p of P, the largest being m, gives the
    variance near^2 / p, and (far^2 - near^2) (1/p - 10.0/m) more where that is positive.

    Args:
        precision: P, symmetric positive definite.
        near: multiplier of the standard deviations P^(-1/2), >= 0.
        far: the same where P is small.
    """
    values, vectors = np.linalg.eigh(precision)
    variances = 1 / np.maximum(values, 1e-12)
    rest = np.maximum(variances - 10.0 * variances.min(), 0.0)
    total = near * near * variances + max(far * far - near * near, 0.0) * rest
    return np.asarray((vectors * np.sqrt(total)) @ vectors.T)
