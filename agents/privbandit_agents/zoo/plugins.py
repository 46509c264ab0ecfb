"""Agents that are not in the zoo: registered by name, or offered by installed packages.

Agents, environments and audit targets of packages are imported when something of theirs may be asked for. A module that
a file of data names is imported only if its package is one of these: see ``reading.py``.

A package names a module of its own in the entry points of its ``pyproject.toml``, and importing the module registers:

    [project.entry-points."privbandit.agents"]
    acme = "acme_bandits.agents"
"""

import warnings
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from privbandit_agents.zoo.entries import AGENTS, Entry
from privbandit_agents.zoo.reading import GROUPS, elsewhere

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

LOADED: set[str] = set()
"""The groups that were looked at in this process."""


def register_agent(
    name: str, agent: str, summary: str = "", *, audit: str = "", runs: int | None = None, **defaults: Any
) -> None:
    """Add an agent to the zoo, so that ``make``, the command line and the conformance suite know it.

    Args:
        name: its name.
        agent: ``"module:Class"`` of an Agent.
        summary: one line for ``privbandit list``.
        audit: ``"module:Game"``, the game that ``privbandit audit`` plays; "": the one for agents of this shape.
        runs: how often an audit plays each world; None: the game's own number.
        **defaults: settings that differ from the class's Config; none may be called ``audit`` or ``runs``.
    """
    AGENTS[name] = Entry(agent, summary, defaults=defaults, audit=audit, runs=runs)


class BrokenPlugin(UserWarning):
    """An installed package offers something that cannot be used; nothing else is concerned."""


def load_plugins(*groups: str) -> None:
    """Import the modules that installed packages name in these groups, all by default, once a process.

    Warns with ``BrokenPlugin``: one sentence for each package that fails, or that takes a name which is not its own.
    """
    from importlib.metadata import entry_points  # which takes long to import, and is seldom needed

    for group in groups or GROUPS:
        if group not in LOADED:
            LOADED.add(group)  # now, as a plug-in may ask for agents, too
            with elsewhere():
                problems = {said_by(entry): wrong_with(entry) for entry in entry_points(group=group)}
            for who, problem in problems.items():
                if problem:
                    warnings.warn(f"{who} is left out: {problem}.", BrokenPlugin, stacklevel=3)


def wrong_with(entry: "EntryPoint") -> str:
    """Import the object that an entry point names, and its agents; undo all of it and return the error if it fails."""
    before = dict(AGENTS)
    worlds = {id: spec for id, spec in gym.registry.items() if id.startswith("privbandit/")}
    try:
        entry.load()
        for name in AGENTS.keys() - before.keys():
            AGENTS[name].load()
        if taken := [name for name, agent in before.items() if AGENTS.get(name) is not agent]:
            names = ", ".join(map(repr, taken))
            raise ValueError(f"{names} is the name of another agent, choose one of its own")
        if taken := [id for id, spec in worlds.items() if gym.registry.get(id) is not spec]:
            raise ValueError(f"{', '.join(map(repr, taken))} belongs to privbandit, choose an id of its own")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the code of others raises
        AGENTS.clear()
        AGENTS.update(before)
        gym.registry.update(worlds)
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}".rstrip(".: ")
    return ""


def said_by(entry: "EntryPoint") -> str:
    package = f" of the package {entry.dist.name}" if entry.dist is not None else ""
    return f"the plug-in {entry.name!r}{package} ({entry.value})"
