"""Names: hashes of jobs, the files of their results, and readable labels of settings."""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

TALLIES = ("calls", "claimed")
"""Numbers at the end of a trial that only some agents give, in ``tally``."""
MEAN_EVENTS, TRIAL_EVENTS = "tensorboard", "tensorboard-trials"
"""Folders of events: of means over seeds, and of single trials."""
FOLDERS = ("trials", "unfinished", MEAN_EVENTS, TRIAL_EVENTS)
"""What a folder of results has inside."""
CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def canonical(value: object) -> str:
    """Return the one JSON text of a value: keys sorted, no spaces."""
    return CANONICAL.encode(value)


def name_of(spec: Mapping[str, Any]) -> str:
    """Return the name of a job: the first 16 hex digits of the SHA-256 of its spec's canonical JSON."""
    return hashlib.sha256(canonical(spec).encode()).hexdigest()[:16]


def result_path(folder: str | Path, name: str) -> Path:
    return Path(folder) / "trials" / f"{name}.json"


def unfinished(folder: str | Path, name: str, suffix: str) -> Path:
    """Return where a running job keeps its lock (``lock``) or its snapshot (``npz``)."""
    return Path(folder) / "unfinished" / f"{name}.{suffix}"


def check_folder(folder: str | Path) -> None:
    """Raise ValueError unless the folders in a folder of results are its own: through a link one writes elsewhere."""
    for inner in (Path(folder) / name for name in FOLDERS):
        for place in chain([inner], *([Path(top) / one for one in inside] for top, inside, _ in os.walk(inner))):
            if place.is_symlink():
                raise ValueError(f"{place} must be a folder of its own, no link; move the link away.")


def plain(value: object) -> Any:
    """Return a canonical JSON value: sorted keys that are texts, 1.0 written as 1, so that equal jobs hash alike."""
    if isinstance(value, Mapping):
        return {str(key): plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and is_plain(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return value is None or isinstance(value, bool | int | float | str | np.ndarray | np.generic)


def described(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Make settings JSON-serialisable, in the order of their names; unknown values become their type's name."""
    ordered = sorted(settings.items())
    return {key: plain(value) if is_plain(value) else f"<{type(value).__name__}>" for key, value in ordered}


def with_settings(name: str, settings: Mapping[str, Any]) -> str:
    """Return ``"name"`` or ``"name(key=value, ...)"``; an agent loses its module."""
    name = name if "/" in name else name.rpartition(":")[2]
    return f"{name}({as_text(settings)})" if settings else name


def as_text(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={bare(value)}" for key, value in settings.items())


def swept(given: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, list[str]]:
    """Return the settings that are given anywhere for each name: labels show them, defaults too."""
    found: dict[str, dict[str, None]] = {}
    for name, settings in given:
        found.setdefault(name, {}).update(dict.fromkeys(settings))
    return {name: list(keys) for name, keys in found.items()}


def bare(value: object) -> str:
    """Return a value as JSON, strings without quotes."""
    return value if isinstance(value, str) else json.dumps(value)


def rounded(value: float) -> str:
    """Return a number to three digits or to an integer, whichever has more digits."""
    return f"{value:,.0f}" if 100 <= abs(value) < 1e15 else f"{value:.3g}"


def short(env: str) -> str:
    """Return an environment's label without its namespace."""
    return re.sub(r"^[^(]*[/:]", "", env)


def folder_name(label: str) -> str:
    """Return a label as the name of one folder on any file system."""
    text = re.sub(r"[^\w.=+-]+", "-", label).strip("-.")
    longest = 100  # characters of a folder's name
    if len(text) <= longest:
        return text
    return f"{text[: longest - 9]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"


def world_text(env: str) -> str:
    """Return an environment's label without its namespace, its settings after a space."""
    return short(env).replace("(", " (", 1)


def agent_text(agent: str, settings: Mapping[str, Any]) -> str:
    """Return an agent's label: its name without its module, and settings after a space."""
    return f"{agent.rpartition(':')[2]} {as_text(settings)}".strip()


def without_settings(label: str, dropped: Collection[str], opening: str = " ") -> str:
    """Return a label of an agent, or with ``opening="("`` of a world, without some of its settings."""
    name, kept = settings_in(label, opening)
    told = ", ".join(one for one in kept if one.partition("=")[0] not in dropped)
    return f"{name}{opening}{told}{')' * opening.endswith('(')}" if told else name


def settings_in(label: str, opening: str = " ") -> tuple[str, list[str]]:
    """Return the name in a label, and its settings as ``as_text`` writes them."""
    name, _, told = label.partition(opening)
    inner = told.removesuffix(")") if opening.endswith("(") else told
    return name, re.split(r", (?=\w+=)", inner) if inner else []
