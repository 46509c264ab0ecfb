"""Bad usage, in one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

from gymnasium.error import Error as GymnasiumError

EXTRAS = {"dask": "cluster", "distributed": "cluster", "sklearn": "data", "stable_baselines3": "rl", "torch": "rl"}

PLAIN = (ValueError, TypeError, OSError, GymnasiumError)
"""What our own checks raise, in sentences."""
BAD = (*PLAIN, AttributeError, LookupError, MemoryError, OverflowError, RuntimeError, SyntaxError)
"""What other people's code raises when it is given a bad value."""


class UsageError(ValueError):
    """What was asked for cannot be run; the message is one sentence."""


@contextmanager
def usage_errors(place: str) -> Iterator[None]:
    """Turn the errors of a bad name or value into a UsageError at a place."""
    try:
        yield
    except UsageError:
        raise
    except ImportError as error:
        raise UsageError(f"{place}: {missing_module(error)}") from error
    except BAD as error:
        kind = "" if isinstance(error, PLAIN) else f"{type(error).__name__}: "
        raise UsageError(f"{place}: {kind}{error}") from error


def missing_module(error: ImportError) -> str:
    """Return what cannot be imported, and the extra that brings it if there is one."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return str(error)
    extra = EXTRAS.get(error.name.partition(".")[0])
    way_out = f"pip install 'privbandit[{extra}]' brings it" if extra else "install the package that has it"
    return f"no module named {error.name!r} is installed; {way_out}."
