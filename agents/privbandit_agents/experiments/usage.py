"""Bad usage in one sentence, with the place in the file where it stands."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from gymnasium.error import Error as GymnasiumError
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from privbandit_envs.validate import did_you_mean, shown

EXTRAS = {"dask": "cluster", "distributed": "cluster", "sklearn": "data", "stable_baselines3": "rl", "torch": "rl"}

PLAIN = (ValueError, TypeError, OSError, GymnasiumError)
"""What our own checks raise, in sentences."""
BAD = (*PLAIN, AttributeError, LookupError, MemoryError, OverflowError, RuntimeError, SyntaxError)
"""What other people's code raises when it is given a bad value."""

AGAINST, UNFINISHED = 1, 4
"""Exit codes: a checked claim fails; some of the work failed, or could not be written."""
LONGEST = 1000
"""Characters of a sentence; of a longer one the middle is left out."""

Place = tuple[int | str, ...]
M = TypeVar("M", bound=BaseModel)


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
    except BAD as error:
        kind = "" if isinstance(error, PLAIN) else f"{type(error).__name__}: "
        raise UsageError(f"{place}: {kind}{error}") from error


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
        tasks: what they write, in words, to what does it.
    """
    lost: dict[str, list[str]] = {}
    for what, write in tasks.items():
        try:
            write()
        except OSError as error:
            lost.setdefault(error.strerror or str(error), []).append(what)
    return [f"{folder}: {', '.join(names)} could not be written: {why}." for why, names in lost.items()]


def on_one_line(text: str) -> str:
    """Return a text on one line, without its middle if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 200]} ... {line[-195:]}"


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


def place_of(location: Place) -> str:
    """Return ``parts[0].agents[1].name`` for a path of keys and positions."""
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return place.removeprefix(".") or "the file"


def validated(model: type[M], content: object, source: str = "", named: Callable[[Place], str] = place_of) -> M:
    """Return the model of what a file says.

    Args:
        model: of the whole file.
        content: what was read.
        source: the file, for error messages.
        named: turns a path of keys and positions into text.

    Raises:
        UsageError: a key or a value is wrong; the message names the place and the nearest valid key.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        problem = explained(error, model, named)
        raise UsageError(f"{source}: {problem}." if source else f"{problem}.") from None


def explained(error: ValidationError, model: type[BaseModel], named: Callable[[Place], str] = place_of) -> str:
    """Return the first mistake that a model found, in words: the place, what is wrong, the nearest key."""
    first = error.errors(include_url=False)[0]
    place, last = named(first["loc"]), str(first["loc"][-1]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        known = keys_at(first, model)
        return f"{place} is not a known key{did_you_mean(last, known)}; the keys are {', '.join(known)}"
    if first["type"] == "missing":
        near = [key for key in first["input"] if did_you_mean(key, [last])]
        return f"{place} is missing" + (f" (did you mean it by {near[0]!r}?)" if near else "")
    message = first["msg"].removeprefix("Value error, ").removesuffix(".")
    got = "" if "; got " in message else f"; got {shown(first['input'])}"
    return f"{place}: {message[0].lower()}{message[1:]}{got}".removesuffix(".")


def keys_at(error: ErrorDetails, root: type[BaseModel]) -> list[str]:
    """Return the known keys of the part of a file in which an unknown one stands."""
    model: Any = root
    for step in error["loc"][:-1]:
        if isinstance(step, str):
            model = model_within(model.model_fields[step].annotation)
    return [field.alias or name for name, field in model.model_fields.items()]


def model_within(annotation: object) -> Any:
    """Return the model that a field's type is made of: itself, a list of it, or it or None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in getattr(annotation, "__args__", ()) if (found := model_within(part))), None)
