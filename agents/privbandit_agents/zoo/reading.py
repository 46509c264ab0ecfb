"""Modules that somebody names: a command names modules to run, a file of data names modules that must be here."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType

OURS = ("privbandit_agents", "privbandit_envs")
GROUPS = ("privbandit.envs", "privbandit.agents", "privbandit.audits")
"""The groups of entry points: modules that register environments, agents, and targets of audits."""
READING: ContextVar[bool] = ContextVar("reading", default=False)
"""Whether names come from a file of data."""


class ForeignModule(ImportError):  # noqa: N818 (as Python's ModuleNotFoundError, it says what it is)
    """A file of data names a module that is neither imported nor of an installed package with our entry points."""


@contextmanager
def reading() -> Iterator[None]:
    """Read data of others within: a module that they name is imported only if it is ours, or its package extends us.

    Such a package is installed, not here, and names an entry point in one of ``GROUPS``. Modules that are imported
    already count: whoever trusts one imports it before. No ``__main__`` is imported, since it is a program.
    """
    token = READING.set(True)
    try:
        yield
    finally:
        READING.reset(token)


def import_named(module: str) -> ModuleType:
    """Import a module that somebody names before a colon, as in ``"module:name"`` or ``"folder/file.py:Class"``.

    Raises:
        ForeignModule: data name it, and it is neither imported, nor ours, nor of a package that extends us.
        ImportError: there is no such module, or no such file.
    """
    if module in sys.modules:
        return sys.modules[module]
    if module.endswith(".py"):
        return from_file(module)
    if not READING.get():
        return importlib.import_module(module)
    way_out = f"import {module} first if you trust it" if module.isidentifier() else "so it stays unknown"
    refused = (
        f"the data name the module {module!r:.60}, which no installed package with our entry points has: {way_out}."
    )
    with elsewhere():
        if not extends(module):
            raise ForeignModule(refused)
        try:
            return importlib.import_module(module)
        except (Exception, SystemExit) as error:  # whatever the code of others raises
            raise ForeignModule(refused) from error


def extends(module: str) -> bool:
    """Return whether a module is ours, or of a package that names an entry point of ours, and no program."""
    from importlib.metadata import entry_points  # which takes long to import, and is seldom needed

    package, *inner = module.split(".")
    offered = (entry.value.split(":")[0].split(".")[0] for group in GROUPS for entry in entry_points(group=group))
    return "__main__" not in inner and (package in OURS or package in offered)


@contextmanager
def elsewhere() -> Iterator[None]:
    """Leave the current folder out of the search for modules, and for packages, while data are read."""
    before = list(sys.path)
    if READING.get():
        sys.path[:] = [entry for entry in before if not is_here(entry)]
    try:
        yield
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
