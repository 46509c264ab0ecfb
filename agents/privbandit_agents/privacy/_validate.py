"""One-sentence errors for privacy parameters; infinite epsilon means no noise and is valid."""

import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np


def _number(
    named: dict[str, float], must: str, holds: Callable[[float], bool], most: float = sys.float_info.max
) -> float:
    ((name, value),) = named.items()
    a_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if a_number and most < value < math.inf:
        raise ValueError(f"{name} must be at most {most:.4g}{', or infinite' if holds(math.inf) else ''}; got more.")
    if not a_number or not holds(value):
        raise ValueError(f"{name} must {must}; got {value!r:.60}.")
    return float(value)


def budget(most: float = 1e300, **named: float) -> float:
    """Return the one keyword's value if it is > 0, and at most ``most`` or infinite."""
    return _number(named, "be > 0", lambda value: value > 0, most)


def failure(**named: float) -> float:
    """Return the one keyword's value if it lies in (0, 1)."""
    return _number(named, "lie in (0, 1)", lambda value: 0 < value < 1)


def positive(**named: float) -> float:
    """Return the one keyword's value if it is a finite number > 0."""
    return _number(named, "be a finite number > 0", lambda value: 0 < value < math.inf)


def count(**named: int) -> int:
    """Return the one keyword's value if it is an integer >= 1."""
    ((name, value),) = named.items()
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
        raise ValueError(f"{name} must be an integer >= 1; got {value!r}.")
    return int(value)


def within(low: float, high: float, **named: float) -> float:
    """Return the one keyword's value if it lies in [low, high]."""
    return _number(named, f"lie in [{low}, {high}]", lambda value: low <= value <= high)


def renamed(new: str) -> Any:
    """Return a class method under an old name, which warns and calls the one that is now called ``new``."""

    def call(cls: Any, *args: Any, **named: Any) -> Any:
        text = f"{cls.__name__}.calibrate is called {new} now; the old name goes with the next release."
        warnings.warn(text, FutureWarning, stacklevel=2)
        return getattr(cls, new)(*args, **named)

    return classmethod(call)
