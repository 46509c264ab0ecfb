"""The face of a package: names that are imported when they are first asked for."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose names live in modules that load on demand.

    Args:
        package: its name.
        homes: from modules, below the package unless they are whole names, to the names in them, apart by spaces.
    """
    home = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}.")
        return getattr(import_module(home[name], package), name)

    return find, lambda: sorted(home)
