"""What ``privbandit show NAME`` prints: the page of an agent, an environment, an experiment, a data set or a target.

The docstrings are the manual; this file finds them, and puts settings and their meaning into a table.
"""

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium as gym
from gymnasium.spaces import Box, Discrete

from privbandit_agents.audits.registry import TARGETS, games
from privbandit_agents.cli.listing import HOLDS, dataset_facts, why_not
from privbandit_agents.experiments.jobs.catalogue import (
    agent_defaults,
    env_class,
    env_defaults,
    env_settings,
    env_spec,
    env_summary,
)
from privbandit_agents.experiments.names import bare, short
from privbandit_agents.experiments.shelf import bundled, library
from privbandit_agents.experiments.text import paragraph, strong, table, width
from privbandit_agents.zoo.auto import Auto
from privbandit_agents.zoo.entries import AGENTS, preset_of
from privbandit_agents.zoo.explore import explored_name
from privbandit_agents.zoo.plugins import load_plugins
from privbandit_agents.zoo.registry import can_play, find, make
from privbandit_envs.registration import ENV_IDS
from privbandit_envs.validate import unknown

Page = Iterator[str]
SECTION = re.compile(r"^(Args|Attributes):\n((?:(?: .*)?\n)*)", re.MULTILINE)
ENTRY = re.compile(r"^    (\w+): (.*(?:\n(?: {5,}.*)?)*)", re.MULTILINE)


def page(name: str) -> Page:
    """Return the manual page of a name.

    Raises:
        ValueError: nothing has this name; the message has the nearest one.
    """
    from privbandit_envs.datasets import packaged, tables

    load_plugins()
    pages: dict[str, Callable[[str], Page]] = {
        **dict.fromkeys((*packaged.SHEETS, *tables.SOURCES), data_page),
        **dict.fromkeys(library(), experiment_page),
        **dict.fromkeys(TARGETS, target_page),
        **dict.fromkeys((*map(short, ENV_IDS), *ENV_IDS), env_page),
        **dict.fromkeys(AGENTS, agent_page),
        **dict.fromkeys(bundled(), sweep_page),
    }
    if name not in pages and explored_name(name):
        return agent_page(name)
    if name not in pages and ":" in name:
        return env_page(name) if "/" in name else agent_page(name)
    if name not in pages:
        raise unknown("nothing", name, pages, "privbandit list")
    return pages[name](name)


def agent_page(name: str) -> Page:
    """Yield an agent's description, its promise, its settings, and its documentation."""
    entry = find(name)
    agent_class, short_name = entry.load(), name.rpartition(":")[2]
    yield from head(short_name, entry.summary)
    if preset := short_name in AGENTS and preset_of(short_name):
        given = ", ".join(f"{key}={bare(value)}" for key, value in entry.defaults.items())
        yield from paragraph(f"A preset of {preset}: {given}.")
        yield ""
    if entry.successor:
        yield from paragraph(f"Retired: take {entry.successor}.")
        yield ""
    yield from facts(agent_facts(name))
    yield from settings(agent_defaults(name), meanings(agent_class.Config))
    yield from prose(agent_class)
    yield from prose(inspect.getmodule(agent_class))
    yield f"class: {agent_class.__module__}.{agent_class.__qualname__}"
    yield from ("file:", f"  {inspect.getsourcefile(agent_class)}")


def agent_facts(name: str) -> dict[str, str]:
    """Return an agent's families and its promise, by default, in its first environment."""
    played = [env for env in map(gym.make, ENV_IDS) if can_play(name, env)]
    found = {"plays": ", ".join(short(env.spec.id) for env in played if env.spec) or "environments of others"}
    if issubclass(find(name).load(), Auto):
        found["stands for"] = ", ".join(f"{make(name, env).name} in {short(env.spec.id)}" for env in played if env.spec)
    promise = make(name, played[0], seed=0).guarantee if played else find(name).load().guarantee
    if promise.notion == "none":
        return found | {"privacy": "none"}
    return found | {
        "privacy": promise.words,
        "protects": f"{promise.protects} ({promise.neighbours})",
        "holds": HOLDS[promise.arithmetic],
        "may be deployed": deployment(name, played[0]) if played else "unknown",
        "proof": promise.reference or "none",
        "audit": f"privbandit audit {name}",
    }


def deployment(name: str, env: gym.Env[Any, Any]) -> str:
    """Return whether an agent may be deployed, and why not."""
    if not (reason := why_not(name, env)):
        return "yes, with noise=secure and without a seed"
    return f"with other settings: {reason}" if find(name).secure else f"no: {reason}"


COMMON: dict[str, tuple[Any, str]] = {
    "available": (None, "share of arms that are present for a user; None: all are, without masks."),
    "people": (None, "how many people there are, who come again; None: everyone is new, or whom the data show."),
    "returns": ("uniform", "how people come again: uniform, zipf or in-turn."),
    "person_spread": (None, "how much a person's contexts differ, 0: not at all; None: they are new at every visit."),
    "features": (None, "what agents see of contexts: fourier, interactions, bins, or {kind, n, length, seed}."),
    "jumps": ((), "numbers of users, from whom on the hidden parameter is another one."),
    "drift": (0.0, "angle by which the parameter turns with every user."),
    "shifts": ({}, "from numbers of users to arguments that are others from there on."),
    "feedback": (None, "by how many users reports are late: a number, or {mean, law, missing}; None: they are not."),
}
"""What every environment takes besides its own settings."""


def env_page(name: str) -> Page:
    """Yield an environment's description, its arguments, its spaces, and its documentation."""
    id = next((id for id in ENV_IDS if short(id) == name), name)
    yield from head(env_spec(id).id, env_summary(id))
    env, problem = gym.make(id), env_class(id)
    agents = ", ".join(agent for agent in AGENTS if can_play(agent, env))
    yield from facts({"context": str(env.observation_space), "action": str(env.action_space), "agents": agents})
    seeded = {"instance_seed": "seed of the world itself; by default a reset's seed draws world and users."}
    own = env_defaults(id)
    unfit = {"available"} if not isinstance(env.action_space, Discrete) else set()
    unfit |= {"features"} if not isinstance(env.observation_space, Box) else set()
    unfit |= set() if getattr(problem, "hidden", ()) else {"jumps", "drift"}
    common = {key: COMMON[key][0] for key in env_settings(id) if key in COMMON and key not in {*own, *unfit}}
    told = {key: text for key, (_, text) in COMMON.items()}
    yield from settings(own | common, told | meanings(problem) | seeded)
    yield from prose(problem, summary=False)
    yield f"make: gymnasium.make({id!r})"


def experiment_page(name: str) -> Page:
    """Yield an experiment's figures and its statements."""
    from privbandit_agents.experiments.schema.experiment import read_experiment

    experiment = read_experiment(library()[name])
    yield from head(name, experiment.title)
    yield from paragraph(experiment.about)
    yield ""
    for statement in experiment.statements:
        yield from paragraph(f"- {statement.says}")
    yield ""
    figures = f"{len(experiment.figures)} figures, {len(experiment.statements)} statements"
    run = f"privbandit reproduce {name}"
    tried = {"try": f"{run} --scale smoke"} | (
        {} if experiment.sweep is None else {"yours": f"{run} --agent FILE:Class"}
    )
    yield from facts({"has": figures, "run": run, **tried, "file": str(library()[name])})


def sweep_page(name: str) -> Page:
    """Yield the manual page of a bundled sweep."""
    from privbandit_agents.experiments.schema.sweep import named_sweep

    trials = named_sweep(name).trials()
    yield from head(name, "a run of agents from all families, with a figure and a table")
    cells = {(short(trial.env), trial.agent): None for trial in trials}
    played: dict[str, list[str]] = {}
    for env, agent in cells:
        played.setdefault(env, []).append(agent)
    yield from facts({env: ", ".join(agents) for env, agents in played.items()})
    yield ""
    yield from facts({"has": f"{len(trials)} trials", "run": f"privbandit run {name}"})


def target_page(name: str) -> Page:
    """Yield the subject of a mechanism's audit."""
    target = TARGETS[name]
    (game,) = games(name, 1.0)
    yield from head(name, f"an audit: {game.pair}")
    limit = "the same" if math.isinf(target.published) else f"up to epsilon = {target.published:g}"
    published = f"privbandit audit {name} --calibration published ({limit})" if target.published else "none"
    seen = {"looks at": game.seen, "cannot see": game.unseen, "runs": f"{target.runs:,} of each world"}
    yield from facts(seen | {"run": f"privbandit audit {name}", "published calibration": published})


def data_page(name: str) -> Page:
    """Yield where a data set comes from, and how to get it."""
    from privbandit_envs.datasets import packaged, tables

    if name in packaged.SHEETS:
        sheet = packaged.SHEETS[name]
        yield from head(name, sheet.title)
        yield from facts(dataset_facts(name) | sheet.facts | {"use": packaged.use(name)})
        return
    yield from head(name, tables.SOURCES[name].title)
    use = f'gymnasium.make("privbandit/Classification-v0", source="{name}")'
    yield from facts(dataset_facts(name) | {"use": use})


def head(name: str, summary: str) -> Page:
    yield strong(name)
    yield from paragraph(summary)
    yield ""


def facts(known: Mapping[str, str]) -> Page:
    yield from table(list(known.items()))


def settings(defaults: Mapping[str, Any], about: Mapping[str, str]) -> Page:
    """Yield a table of settings: name, default, meaning."""
    rows = [(name, bare(value), about.get(name, "")) for name, value in defaults.items()]
    yield ""
    yield from table(rows, ("setting", "default", "meaning")) if rows else ["settings: none"]
    yield ""


def prose(documented: Any, summary: bool = True) -> Page:
    """Yield a docstring, with its first line or without, and without the settings, which are in the table."""
    text = SECTION.sub("", (inspect.getdoc(documented) or "") + "\n")
    text = text if summary else text.partition("\n")[2]
    if text.strip():
        yield from reflowed(text.strip().replace("``", ""))
        yield ""


def reflowed(text: str) -> Page:
    """Yield a docstring in lines that fit: paragraphs are filled, lists, tables and code keep their lines."""
    for place, block in enumerate(re.split(r"\n\s*\n", text)):
        yield from [""] * bool(place)
        lines = block.splitlines()
        if not any(re.match(r"\s|[-*|>]|\d+\.|\w+:$", line) for line in lines):
            yield from paragraph(block)
            continue
        for line in lines:
            margin = " " * (len(line) - len(line.lstrip()) + 2)
            yield from textwrap.wrap(line, width(), subsequent_indent=margin, break_on_hyphens=False) or [""]


def meanings(documented: Any) -> dict[str, str]:
    """Return the settings in a class's docstring and in those of its bases."""
    found: dict[str, str] = {}
    for base in reversed(inspect.getmro(documented) if inspect.isclass(documented) else (documented,)):
        for _, section in SECTION.findall(inspect.cleandoc(base.__doc__ or "") + "\n"):
            found |= {name: " ".join(text.split()) for name, text in ENTRY.findall(section.replace("``", ""))}
    return found
