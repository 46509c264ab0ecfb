"""Modules that somebody names: a command names modules to run, a file of data names modules that must be here."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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


def import_named(module: str) -> None:
    """Import a module that somebody names before a colon, as in ``"module:name"``.

    Raises:
        ForeignModule: data name it, and it is neither imported nor found outside of the current folder.
        ImportError: there is no such module.
    """
    if module in sys.modules:
        return
    if not READING.get():
        importlib.import_module(module)
        return
    before = list(sys.path)
    sys.path[:] = [entry for entry in before if not is_here(entry)]
    try:
        importlib.import_module(module)
    except ImportError as error:
        way_out = f"import {module} first if you trust it" if module.isidentifier() else "so it stays unknown"
        raise ForeignModule(f"the data name the module {module!r:.60}, which is not installed: {way_out}.") from error
    finally:
        sys.path[:] = before


def is_here(entry: str) -> bool:
    """Return whether an entry of the path is the current folder."""
    try:
        return os.path.realpath(entry) == os.path.realpath("")
    except OSError:  # the current folder is gone
        return entry == ""
