"""Lower bounds for arms without a context. Proofs: docs/privacy/finite-arms.md, Theorems 5 and 6.

Tze Leung Lai and Herbert Robbins, "Asymptotically Efficient Adaptive Allocation Rules", Advances in Applied Mathematics
1985; Roshan Shariff and Or Sheffet, "Differentially Private Contextual Linear Bandits", NeurIPS 2018, and Achraf Azize
and Debabrota Basu, "When Privacy Meets Partial Information: A Refined Analysis of Differentially Private Bandits",
NeurIPS 2022, have the joint bounds with other constants.
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbandit_agents.base.divergence import coin_divergence
from privbandit_envs.validate import count, fraction, one_of, positive

Floats = NDArray[np.float64]
Notion = Literal["none", "joint", "local"]
NOTIONS = ("none", "joint", "local")


def information(low: ArrayLike, high: ArrayLike, notion: Notion = "none", epsilon: float = math.inf) -> Floats:
    """Return what one more user tells of whether an arm of mean ``low`` has the mean ``high``, at most, in nats.

    Without privacy kl(low, high). Jointly private: that, or epsilon (high - low) if it is less. Locally private: the
    divergence of the two randomized coins.

    Args:
        low: means in (0, 1), any shape.
        high: means in (0, 1), of the same shape.
        notion: of privacy.
        epsilon: > 0.
    """
    one_of(NOTIONS, notion=notion)
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    if notion == "local":
        told = math.tanh(epsilon / 2)
        return np.asarray(coin_divergence(0.5 + told * (low - 0.5), 0.5 + told * (high - 0.5)))
    plain = np.asarray(coin_divergence(low, high))
    if notion == "none" or math.isinf(epsilon):
        return plain
    return np.asarray(np.minimum(plain, positive(epsilon=epsilon) * np.abs(high - low)))


def arms_lower_bound(
    T: ArrayLike, *, gap: float, n_arms: int = 10, notion: Notion = "none", epsilon: float = math.inf
) -> Floats:
    """Return (K - 1) gap log T / I: the least regret in ``Bandit-v0(gap=gap)`` that log T can have a factor of.

    Statement: an agent of this notion whose regret is o(T^a) for every a > 0 in every world of K coins has, as T grows,
    at least this regret, with I = ``information``. The constant is exact; at a finite T regret may be below.

    Args:
        T: horizons, any shape.
        gap: between the best arm, of mean (1 + gap) / 2, and the K - 1 others, in (0, 1).
        n_arms: K.
        notion: of privacy.
        epsilon: > 0.
    """
    told = float(information((1 - gap) / 2, (1 + fraction(gap=gap)) / 2, notion, epsilon))
    return np.asarray((count(n_arms=n_arms) - 1) * gap * np.log(np.asarray(T, np.float64)) / told)


def arms_worst_case(T: ArrayLike, *, n_arms: int = 10, notion: Notion = "none", epsilon: float = math.inf) -> Floats:
    """Return the rate of the least regret in the worst world of K coins: for ``Bandit-v0(gap="hard")``.

    Statement: no agent of this notion has an order less in every world. sqrt(K T); locally private sqrt(K T) /
    tanh(epsilon / 2); jointly private max(sqrt(K T), K / epsilon). The constant is 1, and not sharp.

    Args:
        T: horizons, any shape.
        n_arms: K.
        notion: of privacy.
        epsilon: > 0.
    """
    one_of(NOTIONS, notion=notion)
    learning = np.sqrt(count(n_arms=n_arms) * np.asarray(T, np.float64))
    if notion == "local":
        return np.asarray(np.minimum(learning / math.tanh(epsilon / 2), T))
    return np.asarray(np.maximum(learning, n_arms / epsilon) if notion == "joint" else learning)
