"""One-sentence errors for privacy parameters; infinite epsilon means no noise and is valid."""

import math


def budget(**named: float) -> float:
    """Return the one keyword's value if it is > 0; infinity is allowed."""
    ((name, value),) = named.items()
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value <= 0:
        raise ValueError(f"{name} must be > 0; got {value!r}.")
    return float(value)


def failure(**named: float) -> float:
    """Return the one keyword's value if it lies in (0, 1)."""
    ((name, value),) = named.items()
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ValueError(f"{name} must lie in (0, 1); got {value!r}.")
    return float(value)


def positive(**named: float) -> float:
    """Return the one keyword's value if it is a finite number > 0."""
    ((name, value),) = named.items()
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"{name} must be a finite number > 0; got {value!r}.")
    return float(value)


def count(**named: int) -> int:
    """Return the one keyword's value if it is an integer >= 1."""
    ((name, value),) = named.items()
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
        raise ValueError(f"{name} must be an integer >= 1; got {value!r}.")
    return int(value)


def within(low: float, high: float, **named: float) -> float:
    """Return the one keyword's value if it lies in [low, high]."""
    ((name, value),) = named.items()
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{name} must lie in [{low}, {high}]; got {value!r}.")
    return float(value)
