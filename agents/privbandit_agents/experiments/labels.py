"""Readable names of environments and agents with their settings."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

LONGEST = 100
"""Characters of a folder name; longer ones are cut and told apart by a hash."""


def with_settings(name: str, settings: Mapping[str, Any]) -> str:
    """Return ``"name"`` or ``"name(key=value, ...)"``; an agent's name goes without its module."""
    name = name if "/" in name else name.rpartition(":")[2]
    return f"{name}({as_text(settings)})" if settings else name


def as_text(settings: Mapping[str, Any]) -> str:
    """Return ``"key=value, ..."``."""
    return ", ".join(f"{key}={bare(value)}" for key, value in settings.items())


def bare(value: Any) -> str:
    """Return a value as JSON, strings without quotes."""
    return value if isinstance(value, str) else json.dumps(value)


def short(env: str) -> str:
    """Return an environment's label without its namespace."""
    return re.sub(r"^[^(]*[/:]", "", env)


def folder_name(label: str) -> str:
    """Return a label as the name of one folder, on any file system."""
    text = re.sub(r"[^\w.=+-]+", "-", label).strip("-.")
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 9]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"
