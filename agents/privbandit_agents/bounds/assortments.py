"""The regret bound of DPMNL's paper, up to constants: a function of the horizon to draw over a figure.

Young Hyun Cho and Will Wei Sun, "Privacy-Preserving Dynamic Assortment Selection", 2024, Theorem 4.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbandit_envs.validate import count, positive

Floats = NDArray[np.float64]


def regret_upper_bound(T: ArrayLike, *, dim: int, rho: float, mle_share: float = 0.9) -> Floats:
    """Return (d + d^(5/2) / rho_1 + d^(3/4) / rho_2^(1/4)) sqrt(T), Theorem 4 without its logarithms.

    The bound does not depend on the number of items N (Remark 3); K and kappa are constants in it. Here its constant is
    1: scale a curve before comparing levels.

    Args:
        T: horizons, any shape.
        dim: d.
        rho: rho_1 + rho_2 > 0.
        mle_share: rho_1 / rho, in (0, 1).
    """
    d = count(dim=dim)
    first, second = positive(rho_1=rho * mle_share), positive(rho_2=rho * (1 - mle_share))
    factor = d + d**2.5 / first + d**0.75 / second**0.25
    return np.asarray(factor * np.sqrt(np.asarray(T, dtype=np.float64)))
