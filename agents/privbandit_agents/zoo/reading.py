"""Modules that somebody names: a command names modules to run, a file of data names modules that must be here."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType

READING: ContextVar[bool] = ContextVar("reading", default=False)
"""Whether names come from a file of data."""


class ForeignModule(ImportError):  # noqa: N818 (as Python's ModuleNotFoundError, it says what it is)
    """A file of data names a module that is neither imported nor installed."""


@contextmanager
def reading() -> Iterator[None]:
    """Read data of others within: a module that they name is imported only if it is installed, never from here.

    Modules that are imported already count: whoever trusts one imports it before.
    """
    token = READING.set(True)
    try:
        yield
    finally:
        READING.reset(token)


def import_named(module: str) -> ModuleType:
    """Import a module that somebody names before a colon, as in ``"module:name"`` or ``"folder/file.py:Class"``.

    Raises:
        ForeignModule: data name it, and it is neither imported nor found outside of the current folder.
        ImportError: there is no such module, or no such file.
    """
    if module in sys.modules:
        return sys.modules[module]
    if module.endswith(".py"):
        return from_file(module)
    if not READING.get():
        return importlib.import_module(module)
    before = list(sys.path)
    sys.path[:] = [entry for entry in before if not is_here(entry)]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        way_out = f"import {module} first if you trust it" if module.isidentifier() else "so it stays unknown"
        raise ForeignModule(f"the data name the module {module!r:.60}, which is not installed: {way_out}.") from error
    finally:
        sys.path[:] = before


def from_file(path: str) -> ModuleType:
    """Return the module of a file, which is called like the file; it is imported unless data name it."""
    file = os.path.realpath(path)
    name = os.path.basename(path).removesuffix(".py")
    known = sys.modules.get(name)
    if known is not None and os.path.realpath(getattr(known, "__file__", None) or "") == file:
        return known
    if READING.get():
        raise ForeignModule(f"the data name the file {path!r:.60}: import it first if you trust it.")
    if known is not None:
        raise ImportError(f"{path}: another module is called {name}; rename the file.")
    if not os.path.isfile(file):
        raise ImportError(f"no file {path!r:.60}; give the path of a Python file.")
    if (folder := os.path.dirname(file)) not in sys.path:
        sys.path.append(folder)  # what stands beside it can be imported, too
    return importlib.import_module(name)


def is_here(entry: str) -> bool:
    """Return whether an entry of the path is the current folder."""
    try:
        return os.path.realpath(entry) == os.path.realpath("")
    except OSError:  # the current folder is gone
        return entry == ""
