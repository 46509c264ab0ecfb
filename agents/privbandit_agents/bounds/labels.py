"""The rate of LPCT's paper, up to constants, to draw over a figure.

Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023, Theorems 6
and 7.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbandit_envs.validate import count, one_of, positive

Floats = NDArray[np.float64]


def excess_risk(
    rows: ArrayLike,
    *,
    of: Literal["n_private", "n_public"] = "n_private",
    epsilon: float = 1.0,
    gamma: float = 1.0,
    dim: int = 2,
    alpha: float = 1.0,
    beta: float = 1.0,
) -> Floats:
    """Return (n_P (e^epsilon - 1)^2)^-r or n_Q^-q, the least excess risk of one kind of rows alone (Theorem 6).

    r = alpha (beta + 1) / (2 alpha + 2 d) and q = alpha (beta + 1) / (2 gamma alpha + d). With both kinds the larger of
    n_P (e^epsilon - 1)^2 and n_Q^((2 alpha + 2 d) / (2 gamma alpha + d)) counts. Theorem 7, the upper bound, has
    epsilon^2 in place of (e^epsilon - 1)^2 and logarithms; at epsilon = 4 that is 16 for 2873. The constant is 1: scale
    a curve before comparing levels.

    Args:
        rows: how many there are, any shape.
        of: which kind.
        epsilon: budget of a private row, > 0.
        gamma: relative signal of public rows, > 0.
        dim: d.
        alpha: smoothness of the regression function, in (0, 1].
        beta: margin exponent, > 0.
    """
    d, a, b = count(dim=dim), positive(alpha=alpha), positive(beta=beta)
    n = np.asarray(rows, dtype=np.float64)
    if one_of(("n_private", "n_public"), of=of) == "n_private":
        return np.asarray((n * np.expm1(positive(epsilon=epsilon)) ** 2) ** (-a * (b + 1) / (2 * a + 2 * d)))
    return np.asarray(n ** (-a * (b + 1) / (2 * positive(gamma=gamma) * a + d)))
