"""Save and load objects without pickle: arrays as they are, the rest as JSON."""

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.privacy.keys import Unseeded
from privbandit_envs.files import arrays_of, atomic

JSON_KEY = "json"
Arrays = dict[str, NDArray[Any]]


class Stateful(Protocol):
    """An object that knows its state itself; of all others the attributes are the state."""

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return (arrays, JSON values) under dotted names."""

    def restore(self, arrays: Arrays, values: dict[str, Any]) -> None:
        """Take over a state that an object of the same construction returned."""


def stateful(value: object) -> TypeGuard[Stateful]:
    return hasattr(type(value), "state") and hasattr(type(value), "restore")


def state_of(thing: object) -> tuple[Arrays, dict[str, Any]]:
    """Return an object's (arrays, JSON values) under dotted names.

    Its attributes are arrays, generators, JSON values, or objects with attributes of these kinds. Attributes named in
    ``fixed`` and frozen dataclasses come from the constructor and are neither saved nor restored.
    """
    arrays: Arrays = {}
    values: dict[str, Any] = {}
    for name, value in kept(thing):
        if isinstance(value, np.ndarray):
            arrays[name] = value
        elif isinstance(value, Generator):
            values[name] = value.bit_generator.state
        elif hasattr(value, "__dict__"):
            inner_arrays, inner_values = value.state() if stateful(value) else state_of(value)
            arrays.update({f"{name}.{key}": array for key, array in inner_arrays.items()})
            values.update({f"{name}.{key}": inner for key, inner in inner_values.items()})
        else:
            values[name] = value.item() if isinstance(value, np.generic) else value
    return arrays, values


def restore_into(thing: object, arrays: Arrays, values: dict[str, Any]) -> None:
    """Give an object the state of another one of the same construction."""
    if unknown := {key.split(".")[0] for key in (*arrays, *values)} - {name for name, _ in kept(thing)}:
        names = ", ".join(sorted(unknown))
        raise ValueError(f"the saved state has {names}, which a new {type(thing).__name__} lacks: make it in begin().")
    for name, value in kept(thing):
        if isinstance(value, Generator):
            value.bit_generator.state = values[name]
        elif hasattr(value, "__dict__"):
            restore = value.restore if stateful(value) else partial(restore_into, value)
            restore(inside(name, arrays), inside(name, values))
        else:
            setattr(thing, name, taken(name, value, arrays[name].copy(order="K") if name in arrays else values[name]))


def taken(name: str, own: Any, given: Any) -> Any:
    """Return a state's value of an attribute, or raise ValueError: it is of another kind than the object's own.

    None may become anything, a number any other real number, and an array may have grown by rows. NaN is taken only
    where the object has it itself.
    """
    for kind in (np.ndarray, bool, str, (int, float), (list, tuple), dict):
        if isinstance(own, kind) and not isinstance(given, kind):
            raise ValueError(f"{name} must be of the kind {type(own).__name__}; got {type(given).__name__}")
    if isinstance(own, np.ndarray):
        fits = given.ndim == own.ndim and (
            not own.size or (given.shape[1:] == own.shape[1:] and len(given) >= len(own))
        )
        fits = fits or given.shape == own.shape
        if not fits or (own.dtype.kind != given.dtype.kind and not {own.dtype.kind, given.dtype.kind} <= set("iuf")):
            raise ValueError(f"{name} must be {own.dtype} of shape {own.shape}; got {given.dtype} of {given.shape}")
    elif isinstance(given, int if isinstance(own, float) else int | float) and abs(given) >= 2**63:
        raise ValueError(f"{name} must be below 2^63")
    if isinstance(own, np.ndarray | int | float) and np.any(given != given) and not np.any(own != own):
        raise ValueError(f"{name} must hold numbers; got NaN")
    if isinstance(given, bool) and not isinstance(own, bool | None):
        raise ValueError(f"{name} must be of the kind {type(own).__name__}; got bool")
    return given


def rekey(thing: object, rng: Generator | None = None) -> None:
    """Give an object's generators fresh keys from the operating system; noise of later releases is forgotten.

    With ``rng`` they are spawned from it: for simulations.

    Past releases stay as they are. An object that draws noise ahead of its release has a method ``forget``, which drops
    the noise of releases to come.
    """
    for name, value in kept(thing):
        if isinstance(value, Generator):
            setattr(thing, name, Unseeded() if rng is None else rng.spawn(1)[0])
        elif hasattr(value, "__dict__"):
            rekey(value, rng)
    if hasattr(thing, "forget"):
        thing.forget()


def kept(thing: object) -> Iterator[tuple[str, Any]]:
    """Yield the attributes that are state."""
    fixed = getattr(thing, "fixed", ())
    for name, value in vars(thing).items():
        made = getattr(value if isinstance(value, type) else type(value), "__dataclass_params__", None)
        if name not in fixed and not (made is not None and made.frozen):
            yield name, value


def inside(name: str, flat: dict[str, Any]) -> dict[str, Any]:
    """Return the entries under ``name.`` with the prefix removed."""
    return {key[len(name) + 1 :]: value for key, value in flat.items() if key.startswith(f"{name}.")}


def write(path: str | Path, arrays: Arrays, values: dict[str, Any], secret: bool = False, follow: bool = False) -> None:
    """Write one ``.npz`` file, whole or not at all; a secret one is readable by its owner alone.

    ``follow`` links if the user named the path.

    Raises:
        TypeError: a value is not JSON; the message names it.
    """
    text = as_json(values)
    with atomic(Path(path), "wb", 0o600 if secret else 0o666, follow=follow) as file:
        np.savez(file, **{JSON_KEY: np.array(text)}, **arrays)  # type: ignore[arg-type]


def as_json(value: object, name: str = "the state") -> str:
    """Return a value as JSON, or raise a TypeError that names the innermost part which is none."""
    try:
        return json.dumps(value)
    except TypeError as error:
        for key, inner in value.items() if isinstance(value, dict) else ():
            as_json(inner, str(key))
        way_out = "keep an array, or numbers of Python's own, and name in `fixed` the attributes that are no state"
        raise TypeError(f"{name} cannot be saved: {error}; {way_out}.") from None


def read(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what ``write`` wrote; an OSError is the disk's, as a damaged file is read from memory."""
    arrays = arrays_of(Path(path))
    return arrays, json.loads(str(arrays.pop(JSON_KEY)))


def changed(config: object) -> str:
    """Return the settings that are no defaults, in brackets; "" if there are none."""
    if not is_dataclass(config):
        return ""
    defaults = {part.name: part.default for part in fields(config)}
    given = {key: repr(value) for key, value in vars(config).items() if repr(value) != repr(defaults.get(key))}
    return f"({', '.join(f'{key}={value:.40}' for key, value in given.items())})" if given else ""
