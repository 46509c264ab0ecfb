"""Checks of arguments; an error is one sentence with the value and the way out.

Every check takes one keyword, whose name the error repeats, and returns its value:

    >>> count(n_arms=3)
    3
    >>> count(n_arms=0)
    Traceback (most recent call last):
    ValueError: n_arms must be an integer >= 1; got 0.
"""

import difflib
import sys
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


def number(**named: float) -> float:
    """Return a finite number."""
    ((name, value),) = named.items()
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not real or not -sys.float_info.max <= value <= sys.float_info.max:  # an integer may be beyond all floats
        raise ValueError(f"{name} must be a finite number; got {value!r}.")
    return value


def at_least(minimum: float, **named: float) -> float:
    """Return a finite number >= ``minimum``."""
    ((name, value),) = named.items()
    if number(**named) < minimum:
        raise ValueError(f"{name} must be >= {minimum:g}; got {value!r}.")
    return value


def positive(**named: float) -> float:
    """Return a finite number > 0."""
    return above(0, **named)


def above(minimum: float, **named: float) -> float:
    """Return a finite number > ``minimum``."""
    ((name, value),) = named.items()
    if number(**named) <= minimum:
        raise ValueError(f"{name} must be > {minimum:g}; got {value!r}.")
    return value


def count(**named: int) -> int:
    """Return an integer >= 1."""
    ((name, value),) = named.items()
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
        raise ValueError(f"{name} must be an integer >= 1; got {value!r}.")
    return int(value)


def seed(**named: int | None) -> int | None:
    """Return None or an integer >= 0."""
    ((name, value),) = named.items()
    if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__") or value < 0):
        raise ValueError(f"{name} must be an integer >= 0; got {value!r}.")
    return value if value is None else int(value)


def fraction(**named: float) -> float:
    """Return a number in [0, 1]."""
    ((name, value),) = named.items()
    if not 0 <= number(**named) <= 1:
        raise ValueError(f"{name} must lie in [0, 1]; got {value!r}.")
    return value


def one_of(options: Iterable[str], **named: str) -> str:
    """Return one of ``options``; the error names the nearest one.

    Example:
        >>> one_of(("laplace", "gaussian"), noise="gausian")
        Traceback (most recent call last):
        ValueError: noise must be one of laplace, gaussian; got 'gausian' (did you mean 'gaussian'?).
    """
    ((name, value),) = named.items()
    known = list(options)
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}; got {value!r}{did_you_mean(value, known)}.")
    return value


def numbers(size: int, **named: object) -> NDArray[np.float64]:
    """Return ``size`` finite numbers as an array.

    Example:
        >>> numbers(2, theta=[0.6, 0.8])
        array([0.6, 0.8])
    """
    ((name, value),) = named.items()
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise ValueError(f"{name} must be {size} finite numbers; got {value!r}.")
    return array


def did_you_mean(value: object, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for the nearest known name, or ``""`` if none is near."""
    near = difflib.get_close_matches(str(value), list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""
