"""A card for each agent and each environment, made from registry and docstrings while the documentation is built."""

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
from privbandit_agents.cli.manual import SECTION, agent_facts, meanings
from privbandit_agents.experiments.jobs.catalogue import agent_defaults, env_class, env_defaults, env_summary
from privbandit_agents.experiments.names import bare, short
from privbandit_agents.experiments.shelf import library
from privbandit_agents.zoo.entries import AGENTS, preset_of
from privbandit_agents.zoo.registry import can_play

from privbandit_envs import ENV_IDS

DOCS = Path(__file__).parent
KINDS = ("agents", "environments")


def cards() -> Iterator[tuple[str, str]]:
    """Yield (address, Markdown) of every card."""
    yield from ((f"cards/agents/{name}.md", agent_card(name)) for name in carded())
    yield from ((f"cards/environments/{short(id)}.md", env_card(id)) for id in ENV_IDS)


def addresses(kind: str) -> list[Any]:
    """Return the navigation of a kind: its list, and its cards; those of agents by what they protect."""
    if kind == "environments":
        return ["environments.md", *(f"cards/environments/{short(id)}.md" for id in ENV_IDS)]
    groups: dict[str, list[str]] = {"Joint privacy": [], "Local privacy": [], "Other privacy": [], "No privacy": []}
    titles = {"joint": "Joint privacy", "local": "Local privacy", "none": "No privacy"}
    for name in carded():
        groups[titles.get(AGENTS[name].notion, "Other privacy")].append(f"cards/agents/{name}.md")
    return ["agents.md", *({title: pages} for title, pages in groups.items())]


def linked(markdown: str) -> str:
    """Return a list's Markdown with a link from each name in a first cell to its card."""
    places = {f"`{name}`": f"cards/agents/{name}.md" for name in carded()}
    places |= {f"`{id}`": f"cards/environments/{short(id)}.md" for id in ENV_IDS}

    def first(row: re.Match[str]) -> str:
        return re.sub(
            r"`[^`]+`", lambda name: f"[{name[0]}]({places[name[0]]})" if name[0] in places else name[0], row[0]
        )

    return re.sub(r"^\|[^|]*\|", first, markdown, flags=re.MULTILINE)


def carded() -> list[str]:
    """Return the agents with a card of their own; a preset is on the card of its agent."""
    return [name for name, entry in AGENTS.items() if not entry.successor and not preset_of(name)]


def agent_card(name: str) -> str:
    entry = AGENTS[name]
    agent = entry.load()
    try:
        known = agent_facts(name)
    except ImportError:  # it needs an extra that is not installed
        known = {"plays": " ".join(entry.families), "privacy": entry.notion}
    found = [*facts(known), *mentions(name), *settings(agent_defaults(name), meanings(agent.Config)), *presets(name)]
    about = [*prose(agent), *prose(inspect.getmodule(agent))]
    source = f"Source: `{agent.__qualname__}` of `{agent.__module__}`."
    use = f'```\nmake("{name}", env, epsilon=1.0)\n```' if agent.guarantee.notion != "none" else ""
    return "\n".join([f"# {name}", "", f"{entry.summary}.", "", *found, *about, use, source, ""])


def env_card(id: str) -> str:
    problem, env = env_class(id), gym.make(id)
    players = ", ".join(f"[`{name}`](../agents/{name}.md)" for name in carded() if can_play(name, env))
    known = {"context": f"`{env.observation_space}`", "action": f"`{env.action_space}`"}
    found = [*facts(known), *mentions(id), *settings(env_defaults(id), meanings(problem))]
    source = f"Source: `{problem.__qualname__}` of `{problem.__module__}`."
    parts = [
        f"# {short(id)}",
        "",
        env_summary(id),
        "",
        *found,
        *prose(problem),
        f"Played by {players}.",
        "",
        source,
        "",
    ]
    return "\n".join(parts)


def facts(known: Mapping[str, str]) -> list[str]:
    return ["| property | value |", "|---|---|", *(f"| {label} | {cell(text)} |" for label, text in known.items()), ""]


def settings(defaults: Mapping[str, Any], about: Mapping[str, str]) -> list[str]:
    rows = [f"| `{key}` | `{cell(bare(value))}` | {cell(about.get(key, ''))} |" for key, value in defaults.items()]
    return ["## Settings", "", "| setting | default | meaning |", "|---|---|---|", *rows, ""] if rows else []


def presets(name: str) -> list[str]:
    """Return the table of an agent's presets."""
    rows = []
    for key, entry in AGENTS.items():
        if preset_of(key) == name:
            given = ", ".join(f"{field}={bare(value)}" for field, value in entry.defaults.items())
            rows.append(f"| `{key}` | `{cell(given)}` | {cell(entry.summary)} |")
    return ["## Presets", "", "| name | settings | what it is |", "|---|---|---|", *rows, ""] if rows else []


def mentions(name: str) -> list[str]:
    """Return where a name is written about, and the experiments that play it."""
    told = re.compile(rf"`{re.escape(name)}`")
    pages = [page for room in ("papers", "privacy") for page in sorted((DOCS / room).glob("*.md"))]
    links = [f"[{page.stem}](../../{page.parent.name}/{page.name})" for page in pages if told.search(page.read_text())]
    played = re.compile(rf"(?:name|id): {re.escape(name)}\b(?!-)")
    runs = [f"`{one}`" for one, path in library().items() if played.search(path.read_text())]
    lines = [f"Pages: {', '.join(links)}.", ""] if links else []
    return [*lines, *([f"Figures and tables, by `privbandit reproduce NAME`: {', '.join(runs)}.", ""] if runs else [])]


def prose(documented: Any) -> list[str]:
    text = SECTION.sub("", (inspect.getdoc(documented) or "") + "\n").strip().replace("``", "")
    return ["```text", text, "```", ""] if text else []


def cell(text: str) -> str:
    """Return a text as one cell of a table."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
