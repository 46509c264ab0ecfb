"""What can be run: environments and agents, their summaries and their settings."""

import dataclasses
import importlib.util
import inspect
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator

import privbandit_envs  # noqa: F401 (registers the environments)
from privbandit_agents.zoo.entries import AGENTS
from privbandit_agents.zoo.plugins import load_plugins
from privbandit_agents.zoo.reading import import_named
from privbandit_envs.registration import ENV_IDS
from privbandit_envs.validate import did_you_mean

COMMON: dict[str, Any] = {
    **{"available": None, "people": None, "returns": "uniform", "person_spread": None, "features": None},
    **{"jumps": [], "drift": 0.0, "shifts": {}, "feedback": None},
}
"""What every environment of a problem takes besides its own arguments, and the defaults."""


@cache
def env_spec(id: str) -> EnvSpec:
    """Return the registered environment; ``"package:namespace/Name-v0"`` imports the package first.

    Raises:
        ValueError: there is none of this id.
    """
    package, colon, bare = id.rpartition(":")
    if colon:
        import_named(package)
    if bare not in gym.registry:
        load_plugins("privbandit.envs", "privbandit.agents")
    if bare not in gym.registry:
        raise ValueError(
            f"no environment {bare!r}{did_you_mean(bare, ENV_IDS)}; `privbandit list envs` shows all, "
            "and 'package:namespace/Name-v0' finds those of other packages."
        )
    return gym.spec(bare)


@cache
def env_defaults(id: str) -> dict[str, Any]:
    """Return the keyword arguments of an environment and their defaults."""
    spec = env_spec(id)
    if "problem" in spec.kwargs:
        own = keywords(named_problem(spec).__init__)
        defaults = {**own, "horizon": own.get("horizon", 10_000), "instance_seed": None}
    else:
        assert spec.entry_point is not None
        creator = spec.entry_point if callable(spec.entry_point) else load_env_creator(spec.entry_point)
        defaults = keywords(creator)
    return {**defaults, **{key: value for key, value in spec.kwargs.items() if key != "problem"}}


def env_settings(id: str) -> dict[str, Any]:
    """Return an environment's arguments and their defaults, those of masks, of time and of feedback too."""
    return ({**COMMON} if "problem" in env_spec(id).kwargs else {}) | env_defaults(id)


def named_problem(spec: EnvSpec) -> Any:
    """Return the class of an environment's problem, given by itself or as ``"module:Class"``."""
    problem = spec.kwargs["problem"]
    return resolve_name(problem) if isinstance(problem, str) else problem


def keywords(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty and p.name != "render_mode"}


def env_class(id: str) -> Any:
    """Return the class that documents an environment: its problem, or itself."""
    spec = env_spec(id)
    return named_problem(spec) if "problem" in spec.kwargs else spec.entry_point


def env_summary(id: str) -> str:
    """Return the first line of an environment's docstring, read from its file where that does: a list loads nothing."""
    module, _, name = str(env_spec(id).kwargs.get("problem", "")).partition(":")
    file = importlib.util.find_spec(module) if name else None
    if file is not None and file.origin is not None:
        source = Path(file.origin).read_text(encoding="utf-8")
        if (
            told := re.search(rf'^class {re.escape(name)}\b.*:\n    """(.+?)(?:"""|$)', source, re.MULTILINE)
        ) is not None:
            return told[1]
    return (inspect.getdoc(env_class(id)) or "").partition("\n")[0]


def agent_defaults(name: str) -> dict[str, Any]:
    from privbandit_agents.zoo.registry import find

    entry = find(name)
    fields = dataclasses.fields(entry.load().Config)
    values = {f.name: None if f.default is dataclasses.MISSING else f.default for f in fields}
    made = {f.name: f.default_factory() for f in fields if f.default_factory is not dataclasses.MISSING}
    return values | made | dict(entry.defaults)


def env_source(id: str) -> str | None:
    """Return a hash of the source of an environment that is not ours, or None."""
    from privbandit_agents.experiments.store.provenance import source_of  # which takes long to import

    played = env_class(id)
    creator: Any = load_env_creator(played) if isinstance(played, str) else played
    return source_of(creator)


def agent_source(name: str) -> str | None:
    """Return a hash of the source of an agent that is not ours, or None."""
    from privbandit_agents.experiments.store.provenance import source_of
    from privbandit_agents.zoo.registry import find

    return source_of(find(name).load())


def at_home(env: str, agent: str) -> bool:
    """Return whether a class that plays is defined in the program itself, so that no other process finds it."""
    world, entry = env_class(env), AGENTS.get(agent)
    homes = getattr(world, "__module__", str(world)), agent if entry is None else entry.agent
    return any(home.startswith("__main__") or "<locals>" in home for home in homes)
