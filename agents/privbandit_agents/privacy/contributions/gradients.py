"""What one user contributes to a step of squared loss: its gradient, clipped."""

import math

import numpy as np

from privbandit_agents.privacy._validate import positive
from privbandit_agents.privacy.vectors import Floats, lengths_beside


def clipped_gradients(scores: Floats, answers: Floats, features: Floats, bound: float) -> Floats:
    """Return the gradients (s - y) z of (s - y)^2 / 2 in the weights of z, each scaled down to a norm of ``bound``.

    *Formal guarantees.* Whatever finite scores, answers and features of at most 10^150 are: every row has l2 norm at
    most ``bound``, up to the rounding that ``sensitivity`` covers. The norm is that of the row itself, as computed.
    Proof: docs/privacy/dp-dqn.md.

    Args:
        scores: s, shape (n,).
        answers: y, shape (n,).
        features: z, shape (n, p).
        bound: C > 0.
    """
    gradients: Floats = (scores - answers)[:, None] * features
    norms, longest = lengths_beside(gradients, positive(bound=bound))
    return np.asarray(gradients * (longest / np.maximum(norms, longest)))


def sensitivity(bound: float, users: int, dim: int) -> float:
    """Return how far replacing one record moves a sum over ``users`` users of clipped gradients of length ``dim``.

    *Formal guarantees.* 2 C in real numbers, attained by a gradient and its opposite. The rest is rounding: of the
    clipped row, (p + 8) 2^-53 of C, and of two sums of n rows, n^2 2^-52 of C each.
    """
    unit = 2.0**-53
    return 2 * positive(bound=bound) * (1 + (dim + 8) * unit + 2 * users * users * unit) * (1 + math.ulp(1.0))
