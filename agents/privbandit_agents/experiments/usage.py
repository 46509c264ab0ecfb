"""Bad usage in one sentence; this file loads with next to nothing, so that the command starts at once."""

import errno
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

EXTRAS = {
    **dict.fromkeys(
        "crc32c filelock joblib matplotlib narwhals polars pyarrow pydantic pydantic_core".split(), "bench"
    ),
    **dict.fromkeys("rich ruamel tensorboard threadpoolctl".split(), "bench"),
    "dask": "cluster",
    "distributed": "cluster",
    "optuna": "tune",
    "sklearn": "data",
    "stable_baselines3": "rl",
    "torch": "rl",
}

PLAIN = (ValueError, TypeError, OSError)
"""What our own checks raise, in sentences; Gymnasium has errors of its own."""
BAD = (AttributeError, LookupError, MemoryError, OverflowError, RuntimeError, SyntaxError)
"""What other people's code raises besides when it is given a bad value."""

AGAINST, UNFINISHED = 1, 4
"""Exit codes: a checked claim fails; some of the work failed, or could not be written."""


class UsageError(ValueError):
    """The request cannot be run; the message is one sentence."""


@contextmanager
def usage_errors(place: str) -> Iterator[None]:
    """Turn the errors of a bad name or value into a UsageError at a place."""
    try:
        yield
    except UsageError:
        raise
    except ImportError as error:
        raise UsageError(f"{place}: {missing_module(error)}") from error
    except Exception as error:
        plain = (*PLAIN, gymnasium_error())
        if not isinstance(error, plain + BAD):
            raise
        kind = "" if isinstance(error, plain) else f"{type(error).__name__}: "
        raise UsageError(f"{place}: {kind}{error}{at_line_of(error)}") from error


def at_line_of(error: BaseException) -> str:
    """Return the last place in a file that is neither ours nor an installed package's, in words; "" for none.

    The first two calls are those of the command, around ``usage_errors``.
    """
    ours = (str(Path(__file__).parents[2]), sys.prefix, sys.base_prefix)
    calls = [call for call in traceback.extract_tb(error.__traceback__)[2:] if "privbandit_envs" not in call.filename]
    own = [call for call in calls if not call.filename.startswith((*ours, "<"))]
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""


def code_of(error: BaseException | None) -> int:
    """Return the exit code of an error: ``UNFINISHED`` if a disk or the memory is full, else that of bad usage."""
    full = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO)
    lack = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in full)
    return UNFINISHED if lack else 2


@contextmanager
def contained() -> Iterator[None]:
    """Turn a BaseException, such as a SystemExit of a foreign agent, into a RuntimeError that names it."""
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise RuntimeError(f"{type(error).__name__}: {error}".rstrip(": ")) from error


def gymnasium_error() -> type[Exception]:
    from gymnasium.error import Error

    return Error


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Prefix errors with where they occurred."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise ValueError(f"{place}: {error}") from error


def unwritten(folder: object, tasks: Mapping[str, Callable[[], object]]) -> list[str]:
    """Do what writes files, one after the other; return a sentence for each reason why some could not be written.

    Args:
        folder: named in the sentences.
        tasks: functions that write, by their output in words.
    """
    lost: dict[str, list[str]] = {}
    for what, write in tasks.items():
        try:
            write()
        except (OSError, UsageError) as error:
            why = getattr(error, "strerror", None) or str(error).removesuffix(".")
            lost.setdefault(why, []).append(what)
    return [f"{folder}: {', '.join(names)} could not be written: {why}." for why, names in lost.items()]


def on_one_line(text: str) -> str:
    """Return a text on one line, without its middle if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= 1000 else f"{line[: 1000 - 200]} ... {line[-195:]}"  # characters


def missing_module(error: ImportError) -> str:
    """Return what cannot be imported, and the extra that brings it if there is one."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return str(error)
    extra = EXTRAS.get(error.name.partition(".")[0])
    way_out = f"pip install 'privbandit[{extra}]' brings it" if extra else "install the package that has it"
    return f"no module named {error.name!r} is installed; {way_out}."


def sentence(error: BaseException) -> str:
    """Return an error on one line, with its kind unless its text speaks for itself."""
    if isinstance(error, ModuleNotFoundError):
        return missing_module(error)
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"
