"""The regret bounds of FLIPHAT's paper, up to constants: functions of the horizon to draw over a figure.

Sunrit Chakraborty, Saptarshi Roy and Debabrota Basu, "FLIPHAT: Joint Differential Privacy for High Dimensional Sparse
Linear Bandits", 2024, Theorems 3.2 and 5.6. Both hide an absolute constant, which is 1 here; scale a curve before
comparing levels.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbandit_envs.validate import above, at_least, count, positive

Floats = NDArray[np.float64]


def lower_bound(T: ArrayLike, *, dim: int, sparsity: int, epsilon: float, delta: float) -> Floats:  # Theorem 3.2
    """Return a bound that every (epsilon, delta)-jointly private agent's regret reaches in its worst world.

    max{sqrt(s* log^2(d/s*) log(1/delta) / epsilon^2), sqrt(s* T log(d/s*))}; for delta = 0 the first term is
    s* log^(3/2)(d/s*) / epsilon. The theorem needs epsilon^2 < log(1/delta); beyond, only the second term is known.

    Args:
        T: horizons, any shape.
        dim: d > s*.
        sparsity: s*.
        epsilon: of the privacy, > 0; infinity leaves the second term.
        delta: in [0, 1).
    """
    log_ratio = math.log(ratio(dim, sparsity))
    learning = np.sqrt(sparsity * np.asarray(T, dtype=np.float64) * log_ratio)
    if delta == 0:
        return np.asarray(np.maximum(sparsity * log_ratio**1.5 / epsilon, learning))
    if epsilon**2 >= math.log(1 / delta):
        return np.asarray(learning)
    return np.asarray(np.maximum(math.sqrt(sparsity * math.log(1 / delta)) * log_ratio / epsilon, learning))


def upper_bound(
    T: ArrayLike,
    *,
    dim: int,
    sparsity: int,
    epsilon: float,
    delta: float,
    s: int | None = None,
    alpha: float = 0.0,
    margin: float = 1.0,
    x_max: float = 1.0,
    b_max: float = 1.0,
) -> Floats:
    """Return the bound on FLIPHAT's regret, x_max b_max (s + s*) log d + max(I_alpha, J_alpha) (Theorem 5.6).

    The printed growth of I_alpha in T is read as (T^((1 - alpha)/2) - 1) / (1 - alpha): it gives the sqrt(T) at
    alpha = 0 and the log T at alpha = 1 that the text states. log T in Psi is the number of episodes. The theorem is
    about the published noise; noise for the right sensitivity is larger by 4 x_max.

    Args:
        T: horizons >= 1, any shape.
        dim: d > s*.
        sparsity: s*.
        epsilon: of the privacy, > 0; infinity leaves the statistical term.
        delta: in (0, 1/e).
        s: sparsity guess; default: s*.
        alpha: of the margin condition, >= 0; infinity for a gap between the arms.
        margin: Delta* of the margin condition, > 0.
        x_max: bound on the features.
        b_max: bound on the l1 norm of beta.
    """
    ratio(dim, sparsity)
    horizons = np.asarray(T, dtype=np.float64)
    size = (sparsity if s is None else count(s=s)) + sparsity
    statistical = size**2 * math.log(dim)
    private = size**3 * math.log(dim) ** 2 * math.log(1 / delta) / epsilon**2
    start = x_max * b_max * size * math.log(dim)
    if alpha == math.inf:
        return np.full(horizons.shape, start + max(statistical, private))
    power = (1 + at_least(0, alpha=alpha)) / 2
    scale = positive(margin=margin) ** -alpha
    rate = (1 - alpha) / 2  # at 0 the growth is its limit
    growth = np.log(horizons) / 2 if rate == 0 else np.expm1(rate * np.log(horizons)) / (2 * rate)
    learning = scale * growth * statistical**power
    # Psi_alpha(T) Delta*^alpha: the sum over n = 0, ..., floor(log T) + 1 of n^(2 alpha + 2) / 2^(n alpha)
    last = np.floor(np.log2(horizons)).astype(int) + 1
    n = np.arange(int(last.max()) + 1, dtype=np.float64)
    episodes = np.asarray(np.cumsum(n ** (2 * alpha + 2) / 2 ** (n * alpha))[last])
    return np.asarray(start + np.maximum(learning, scale * episodes * private**power))


def ratio(dim: int, sparsity: int) -> float:
    """Return d / s*, which has to exceed 1."""
    return above(1, **{"dim / sparsity": count(dim=dim) / count(sparsity=sparsity)})
