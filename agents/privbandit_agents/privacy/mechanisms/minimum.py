"""The certified minimum of a strongly convex function."""

import math
from collections.abc import Callable

import numpy as np

from privbandit_agents.privacy.vectors import Floats


def stationary_point(
    derivatives: Callable[[Floats], tuple[Floats, Floats]], start: Floats, tau: float, steps: int = 500
) -> Floats:
    """Return a point where the gradient of a strongly convex function has norm at most tau.

    Damped Newton steps: each is halved until the norm of the gradient falls, which leads to the minimiser from
    anywhere.

    Args:
        derivatives: takes a point of shape (d,) to gradient (d,) and Hessian (d, d).
        start: shape (d,).
        tau: > 0.
        steps: Newton steps at most.

    Raises:
        RuntimeError: no such point was found: the function is not strongly convex, or tau is below rounding.
    """
    point = start
    gradient, hessian = derivatives(point)
    size = math.hypot(*gradient)
    for _ in range(steps):
        if size <= tau:
            return point
        # a Newton step, halved until the gradient falls
        try:
            step = np.linalg.solve(hessian, gradient)
        except np.linalg.LinAlgError:
            break
        for fraction in 0.5 ** np.arange(30):
            moved = point - fraction * step
            gradient, hessian = derivatives(moved)
            reached = math.hypot(*gradient)
            if reached <= (1 - 1e-4 * fraction) * size:
                break
        else:
            break
        point, size = moved, reached
    raise RuntimeError(
        f"the norm of the gradient must fall to tau = {tau:g}, but stays above it; "
        "check that the loss is convex and finite, or raise tau."
    )
