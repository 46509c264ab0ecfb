"""Noise that is safe against attacks on floating point and on pseudo-random generators, by OpenDP (extra ``secure``).

OpenDP draws exact discrete noise on a grid of powers of two, fed by the operating system. It is about a thousand times
slower than numpy and unseeded by design: for deployment, never for studies. Ilya Mironov, "On Significance of the Least
Significant Bits for Differential Privacy", CCS 2012, shows the attack on ordinary floating-point noise.
"""

from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
NOISES = ("numpy", "secure")


def check(noise: str) -> str:
    if noise not in NOISES:
        raise ValueError(f"noise must be one of {', '.join(NOISES)}; got {noise!r}.")
    if noise == "secure":
        opendp()
    return noise


def laplace(value: Floats, scale: float) -> Floats:
    """Return the value with Laplace noise of the given scale on every coordinate; scale 0 returns it as it is.

    *Formal guarantees.* Those of ``Laplace``, exact for the discrete law on a fine grid.
    """
    return flat(value, "make_laplace", "l1_distance", scale)


def gaussian(value: Floats, sigma: float) -> Floats:
    """Return the value with Gaussian noise of the given standard deviation; 0 returns it as it is.

    *Formal guarantees.* Those of ``Gaussian``, exact for the discrete law on a fine grid.
    """
    return flat(value, "make_gaussian", "l2_distance", sigma)


def randomized_response(categories: NDArray[np.intp], k: int, truthful: float) -> NDArray[np.intp]:
    """Return each category with probability ``truthful``, else one of the k - 1 others, uniformly.

    *Formal guarantees.* As ``KaryRandomizedResponse``: epsilon = log(truthful (k - 1) / (1 - truthful)).
    """
    measurement = _randomized_response(int(k), float(truthful))
    return np.array([measurement(int(category)) for category in np.ravel(categories)], dtype=np.intp)


def flat(value: Floats, law: str, metric: str, scale: float) -> Floats:
    """Apply a measurement on vectors of finite floats to an array of any shape."""
    if scale == 0:
        return value.copy()
    dp = opendp()
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    measurement = getattr(dp.m, law)(domain, getattr(dp, metric)(T=float), scale=scale)
    return np.array(measurement(value.ravel().tolist()), dtype=np.float64).reshape(value.shape)


@lru_cache(maxsize=64)
def _randomized_response(k: int, truthful: float) -> Any:
    return opendp().m.make_randomized_response(categories=list(range(k)), prob=truthful)


@lru_cache(maxsize=1)
def opendp() -> ModuleType:
    try:
        import opendp.prelude as dp
    except ImportError as error:
        raise ImportError("secure noise needs opendp; run pip install 'privbandit[secure]'.") from error
    dp.enable_features("contrib")
    return dp
