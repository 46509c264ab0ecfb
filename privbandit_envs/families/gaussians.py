"""Standard Gaussians and uniform directions for contexts, drawn by whole arrays."""

import numpy as np
from numpy.random import Generator

from privbandit_envs.problem import Array

Precision = np.dtype[np.floating]
BOUND = 8.0  # contexts are clipped here: beyond it a standard Gaussian has probability 1.2e-15
INSIDE = 1 - 2**-20  # keeps a normalised float32 vector inside the unit ball


def gaussians(rng: Generator, shape: tuple[int, ...], dtype: Precision) -> Array:
    """Draw independent standard Gaussians.

    float32 uses the Box-Muller transform in whole-array operations, three times as fast as the ziggurat of
    ``rng.standard_normal``, whose branches cannot be vectorised. A uniform is (k + 1/2) / 2^32 rounded to 24 bits, so
    no value is 0 or exceeds sqrt(66 ln 2) = 6.76 (which has probability 1.4e-11). The last bit may differ between
    types of processors, as in any vectorised elementary function. This is for simulation only: privacy noise is never
    drawn here.

    Args:
        rng: source of randomness.
        shape: of the result.
        dtype: float32, or float64 for the ziggurat at full precision.
    """
    if dtype != np.float32:
        return rng.standard_normal(shape)
    size = int(np.prod(shape))
    half = (size + 1) // 2
    bits = rng.integers(2**64 - 1, size=half, dtype=np.uint64, endpoint=True).view(np.uint32)
    numbers = bits.astype(np.float32)
    numbers += np.float32(0.5)  # no angle of exactly 0
    radius, angle = numbers[:half], numbers[half:]
    radius *= np.float32(2**-32 * (1 - 2**-24))  # in (0, 1), so that no radius is 0
    np.log(radius, out=radius)
    radius *= np.float32(-2)
    np.sqrt(radius, out=radius)
    angle *= np.float32(2 * np.pi * 2**-32)
    cosine = np.cos(angle)
    np.sin(angle, out=angle)
    angle *= radius
    radius *= cosine
    return numbers[:size].reshape(shape)


def directions(rng: Generator, shape: tuple[int, ...], dtype: Precision) -> Array:
    """Draw vectors uniformly from the unit sphere, shape (..., d); rounding leaves none outside the unit ball."""
    x = gaussians(rng, shape, dtype)
    x *= (INSIDE / np.maximum(np.sqrt(np.vecdot(x, x)), np.finfo(x.dtype).tiny))[..., None]
    return x
