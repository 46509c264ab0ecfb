"""Lower bounds for linear bandits with contexts that are drawn, as quoted in section 2 of FLIPHAT's paper.

Jiahao He, Jiheng Zhang and Rachel Zhang, "A Reduction from Linear Contextual Bandits Lower Bounds to Estimations Lower
Bounds", ICML 2022 (joint); Achraf Azize and Debabrota Basu, "Concentrated Differential Privacy for Bandits", SaTML 2024
(rewards). Their constants are hidden: they are 1 here.
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbandit_envs.validate import count, one_of, positive

Floats = NDArray[np.float64]
NOTIONS = ("none", "joint", "reward", "local")


def linear_lower_bound(
    T: ArrayLike,
    *,
    dim: int,
    n_arms: int = 2,
    notion: Literal["none", "joint", "reward", "local"] = "none",
    epsilon: float = math.inf,
    delta: float = 0.0,
) -> Floats:
    """Return the order of the least regret in the worst world of d features: for ``Linear-v0`` with a hard theta.

    Statement: no agent of this notion has an order less for every theta. Without privacy sqrt(d T log K); with joint
    privacy d / (epsilon + delta) more; with private rewards d / epsilon more; with local privacy sqrt(d T) / epsilon.
    The constant is 1, and not known.

    Args:
        T: horizons, any shape.
        dim: d.
        n_arms: K >= 2.
        notion: of privacy.
        epsilon: > 0.
        delta: in [0, 1).
    """
    horizon = np.asarray(T, np.float64)
    learning = np.sqrt(count(dim=dim) * horizon * math.log(max(count(n_arms=n_arms), 2)))
    if one_of(NOTIONS, notion=notion) == "none" or math.isinf(epsilon):
        return np.asarray(learning)
    if notion == "local":
        return np.asarray(np.maximum(np.sqrt(dim * horizon) / positive(epsilon=epsilon), learning))
    return np.asarray(learning + dim / (positive(epsilon=epsilon) + (delta if notion == "joint" else 0.0)))
