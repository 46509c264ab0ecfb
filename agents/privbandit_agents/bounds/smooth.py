"""The order of the least regret for rewards that are smooth in the context. Proof: docs/privacy/smooth-rewards.md.

Philippe Rigollet and Assaf Zeevi, "Nonparametric Bandits with Covariates", COLT 2010, has the rate without privacy.
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbandit_envs.validate import at_least, count, one_of, positive

Floats = NDArray[np.float64]
NOTIONS = ("none", "local")


def smooth_worst_case(
    T: ArrayLike,
    *,
    dim: int,
    exponent: float = 1.0,
    margin: float = 1.0,
    notion: Literal["none", "local"] = "none",
    epsilon: float = math.inf,
) -> Floats:
    """Return the order of the least regret in the worst world of two arms: for ``Smooth-v0(rewards="scales")``.

    Statement: no agent of this notion has an order less on average over the best arms of the bumps. Without privacy
    T^(1 - r) with r = beta (1 + alpha) / (2 beta + d); locally private T (T (e^epsilon - 1)^2)^-r with
    r = beta (1 + alpha) / (2 beta + 2 d), or the order without privacy if that is larger. The constant is 1, and not
    sharp.

    Args:
        T: horizons, any shape.
        dim: d.
        exponent: beta in (0, 1], of smoothness.
        margin: alpha >= 0 with alpha beta <= 1.
        notion: of privacy.
        epsilon: > 0.
    """
    d, b = count(dim=dim), positive(exponent=exponent)
    gain, horizon = b * (1 + at_least(0, margin=margin)), np.asarray(T, np.float64)
    plain = horizon ** (1 - gain / (2 * b + d))
    if one_of(NOTIONS, notion=notion) == "none" or math.isinf(epsilon):
        return np.asarray(plain)
    told = horizon * math.expm1(positive(epsilon=epsilon)) ** 2
    return np.asarray(np.maximum(horizon * np.maximum(told, 1) ** (-gain / (2 * b + 2 * d)), plain))
