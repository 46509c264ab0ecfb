"""Noise that is safe against attacks on pseudo-random generators and on floating point: ``noise="secure"``.

What compares random integers with thresholds is exact already; it is fed by the operating system. Laplace and Gaussian
noise on floats comes from OpenDP (extra ``secure``), which draws exact discrete noise on a grid of powers of two, about
a thousand times slower than numpy. Both are unseeded by design: for deployment, never for studies. Ilya Mironov, "On
Significance of the Least Significant Bits for Differential Privacy", CCS 2012, shows the attack on ordinary
floating-point noise.
"""

import math
import os
from functools import lru_cache
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

from privbandit_agents.privacy.keys import alike

Floats = NDArray[np.float64]
NOISES = ("numpy", "secure")


def check(noise: str, library: bool = False) -> str:
    """Return the noise if there is such a one; ``library``: it needs OpenDP where it is secure."""
    if noise not in NOISES:
        raise ValueError(f"noise must be one of {', '.join(NOISES)}; got {noise!r}.")
    if noise == "secure" and library:
        opendp()
    return noise


class System:
    """The operating system's random numbers, by the methods of numpy's generator that exact samplers call."""

    def random(self, size: int | tuple[int, ...]) -> Floats:
        """Return multiples of 2^-53 in [0, 1)."""
        return np.asarray((self.words(size) >> np.uint64(11)) * 2.0**-53, np.float64)

    def bytes(self, length: int) -> bytes:
        return os.urandom(length)

    def words(self, size: int | tuple[int, ...]) -> NDArray[np.uint64]:
        return np.frombuffer(os.urandom(8 * int(np.prod(size))), "<u8").reshape(size)


def source(noise: str, rng: Generator) -> Generator:
    """Return where exact samplers take random numbers from."""
    return cast(Generator, System()) if noise == "secure" else rng


def words(rng: Generator, size: int) -> NDArray[np.uint64]:
    """Return random words of 64 bits, those of ``rng.bytes`` at a quarter of its time."""
    return cast(System, rng).words(size) if isinstance(rng, System) else rng.integers(0, 2**64, size, np.uint64)


def branch(noise: str, rng: Generator) -> Generator:
    """Return a source that may be used without end and takes the same of ``rng`` whatever it is used for."""
    if noise == "secure":
        return source(noise, rng)
    return alike(rng, PCG64(int.from_bytes(rng.bytes(32), "little")))


def laplace(value: Floats, scale: float) -> Floats:
    """Return the value with Laplace noise of the given scale on every coordinate; scale 0 returns it as it is.

    *Formal guarantees.* Those of ``Laplace``, exact for the discrete law on a fine grid.
    """
    return flat("laplace", value, scale)


def gaussian(value: Floats, sigma: float) -> Floats:
    """Return the value with Gaussian noise of the given standard deviation; 0 returns it as it is.

    *Formal guarantees.* The zCDP of ``Gaussian``, exact for the discrete law on a fine grid.
    """
    return flat("gaussian", value, sigma)


def flat(law: str, value: Floats, scale: float) -> Floats:
    """Apply a measurement on vectors of finite floats to an array of any shape."""
    if scale == 0:
        return value.copy()
    return np.array(measurement(law, scale)(value.ravel().tolist()), dtype=np.float64).reshape(value.shape)


def certified(noise: str, law: str, scale: float, sensitivity: float, budget: float) -> float:
    """Return the scale; for secure noise the least one from it on whose cost by OpenDP's own map is in the budget.

    Args:
        noise: ``"numpy"`` or ``"secure"``.
        law: ``"laplace"``, whose budget is epsilon and whose sensitivity l1, or ``"gaussian"``: rho and l2.
        scale: >= 0; 0 is no noise.
        sensitivity: > 0.
        budget: > 0.
    """
    while noise == "secure" and scale and measurement(law, scale).map(sensitivity) > budget:
        scale = math.nextafter(scale, math.inf)
    return scale


@lru_cache(maxsize=64)
def measurement(law: str, scale: float) -> Any:
    """Return OpenDP's measurement on vectors of finite floats."""
    dp = opendp()
    make, metric = {"laplace": ("make_laplace", "l1_distance"), "gaussian": ("make_gaussian", "l2_distance")}[law]
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    return getattr(dp.m, make)(domain, getattr(dp, metric)(T=float), scale=scale)


@lru_cache(maxsize=1)
def opendp() -> ModuleType:
    try:
        import opendp.prelude as dp
    except ImportError as error:
        raise ImportError("secure noise needs opendp; run pip install 'privbandit[secure]'.") from error
    dp.enable_features("contrib")
    return dp
