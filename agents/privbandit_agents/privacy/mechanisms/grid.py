"""A public grid to which everything continuous is rounded before it leaves.

Noise in floating point is fine-grained near 0 and coarse far from it, and a sum with the value keeps traces of both in
its last bits. Rounding to multiples of a power of two, which noise and a public constant fix, wipes them out. It is
post-processing: it cannot cost privacy, and it is no proof that floats are as private as real numbers.
"""

import math

import numpy as np

from privbandit_agents.privacy.mechanisms.secure import Floats

FINER = 32
"""The same where exact noise is drawn on the grid, and the sensitivity grows by the rounding of values."""


def held(scale: float) -> float:
    """Return a scale of noise if floats and grids can hold it; 0, of an infinite budget, is no noise.

    Raises:
        ValueError: it is so small or so large that noise of it would be lost, or infinite.
    """
    if scale and not 2.0**-900 < scale < 2.0**900:
        text = f"noise of scale {scale:.3g} is beyond what floats can add"
        raise ValueError(f"{text}; scale the values, or take another budget.")
    return scale


def step_of(scale: float, fine: int = 20) -> float:
    """Return the step for noise of this scale, a power of two; 0 if there is no noise.

    Raises:
        ValueError: a scale beyond what ``held`` takes.
    """
    return math.ldexp(1.0, math.frexp(scale)[1] - 1 - fine) if held(scale) else 0.0


def covering(scale: float, ratio: float) -> float:
    """Return a scale of noise that also covers a step of the finer grid, and a hundredth of one.

    Args:
        scale: for a sensitivity D.
        ratio: ``scale / D``.

    Raises:
        ValueError: the noise is so large that its grid is coarser than the hidden values, or that floats overflow.
    """
    if ratio and not scale:
        raise ValueError("the sensitivity is too small for floats; scale the values.")
    step = 1.01 * ratio * 2.0**-FINER
    if not step < 0.5:
        raise ValueError("the budget is too small for noise on a grid; take a larger one.")
    return held(scale / (1 - step) * (1 + 1e-12))


def rounded(values: Floats, scale: float) -> Floats:
    """Return the nearest multiples of the step for noise of this scale; the array is overwritten."""
    if step := step_of(scale):
        values /= step
        np.rint(values, out=values)
        values *= step
    return values


def on_finer_grid(values: Floats, scale: float) -> Floats:
    """Return the nearest multiples of the finer step for noise of this scale, however large the values are."""
    step = step_of(scale, FINER)
    if not step:
        return values.copy()
    with np.errstate(over="ignore"):
        steps = np.rint(values / step)
    return np.where(np.isfinite(steps), steps * step, values)  # what is that far out is on the grid already
