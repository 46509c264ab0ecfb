"""What an agent's classes and their modules hold, where all agents of a process find it."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from numpy.random import Generator, RandomState

from privbandit_agents.audits.views.reports import encoded
from privbandit_agents.base.agent import Agent, AnyAgent
from privbandit_agents.base.state import stateful


def bytes_of(value: Any) -> bytes | None:
    """Return a value's encoding without the states of its generators; None if it has none."""
    if isinstance(value, Generator | RandomState):
        return b""
    try:
        if stateful(value) and type(value).__module__.startswith("privbandit_agents."):
            arrays, values = value.state()
            return encoded([sorted(arrays.items()), sorted(values.items())])
        if hasattr(value, "__dict__") and not callable(value):
            return encoded([type(value), {key: bytes_of(inner) for key, inner in vars(value).items()}])
        return encoded(value)
    except (TypeError, RecursionError):
        return None


def outside(agent: AnyAgent) -> Iterator[tuple[str, Any]]:
    """Yield values, by name, that an agent's own classes and their modules hold for all agents of a process."""
    for cls in type(agent).__mro__:
        if cls.__module__.startswith((Agent.__module__.rpartition(".")[0], "abc", "builtins", "typing")):
            continue
        module = sys.modules.get(cls.__module__)
        for holder, held in ((cls.__name__, vars(cls)), (cls.__module__, vars(module) if module else {})):
            for key, value in list(held.items()):
                if key.startswith("__") or isinstance(value, type) or type(value).__name__ in ("module", "property"):
                    continue
                while isinstance(value, staticmethod | classmethod):
                    value = value.__func__
                yield f"{holder}.{key}", getattr(value, "__dict__", None) or value if callable(value) else value
                if (defaults := getattr(value, "__defaults__", None)) or getattr(value, "__kwdefaults__", None):
                    yield f"a default of {holder}.{key}()", (defaults, value.__kwdefaults__)


def kept_outside(agent: AnyAgent) -> dict[str, bytes]:
    return {key: there for key, value in outside(agent) if (there := bytes_of(value)) is not None}


def same_outside(ours: Mapping[str, bytes], theirs: Mapping[str, bytes]) -> None:
    """Fail if classes or modules keep something of the users who were served."""
    differ = sorted(key for key in ours.keys() & theirs.keys() if ours[key] != theirs[key])
    assert not differ, f"{differ[0]} changes with the users, and all agents of a process share it: keep it in self"
