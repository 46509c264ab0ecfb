"""An error in a file, in one sentence with its place."""

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from privbandit_agents.experiments.usage import UsageError
from privbandit_envs.validate import did_you_mean, shown

Place = tuple[int | str, ...]
M = TypeVar("M", bound=BaseModel)


def place_of(location: Place) -> str:
    """Return ``parts[0].agents[1].name`` for a path of keys and positions."""
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return place.removeprefix(".") or "the file"


def validated(model: type[M], content: object, source: str = "", named: Callable[[Place], str] = place_of) -> M:
    """Return the model of a file's content.

    Raises:
        UsageError: a key or a value is wrong; the message names the place and the nearest valid key.
    """
    if content is None:
        keys = ", ".join(field.alias or name for name, field in model.model_fields.items())
        raise UsageError(f"{source or 'the file'} is empty; its keys are {keys}.")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        problem = explained(error, model, named)
        raise UsageError(f"{source}: {problem}." if source else f"{problem}.") from None


def explained(error: ValidationError, model: type[BaseModel], named: Callable[[Place], str] = place_of) -> str:
    """Return the first mistake that a model found, in words: the place, the mistake, the nearest key."""
    first = error.errors(include_url=False)[0]
    place, last = named(first["loc"]), str(first["loc"][-1]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        known = keys_at(first, model)
        return f"{place} is not a known key{did_you_mean(last, known)}; the keys are {', '.join(known)}"
    if first["type"] == "missing":
        near = [key for key in first["input"] if did_you_mean(key, [last])]
        return f"{place} is missing" + (f" (did you mean it by {near[0]!r}?)" if near else "")
    message = first["msg"].removeprefix("Value error, ").removesuffix(".")
    if first["type"] == "model_type":
        message = "must be keys with their values, as in key: value"
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
