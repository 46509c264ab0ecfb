"""What ``privbandit list`` prints: tables of environments, agents, experiments and data sets.

Nothing is imported for it but the names: a list is there at once. ``privbandit show NAME`` gives details.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from privbandit_agents.experiments.text import paragraph, strong, table

Lines = Iterator[str]
HOLDS = {"exact": "exact for the numbers that leave", "real": "for real numbers: simulate only"}
NOTIONS = ("none", "local", "local-reward", "shuffle", "shuffle-reward", "joint", "reward")
LETTERS = {"linear": "L", "sparse": "S", "assortments": "A", "labels": "B", "clicks": "C", "arms": "K", "smooth": "H"}
"""Families in a list of agents."""
MORE = "privbandit show NAME has the details."


def lists(notion: str | None = None, plays: str | None = None) -> dict[str, Callable[[], Lines]]:
    """Return what makes each list, by its name; the notion and the family choose agents."""
    agents = partial(agent_lines, notion, plays)
    made: dict[str, Callable[[], Lines]] = {"envs": env_lines, "agents": agents, "experiments": experiment_lines}
    return made | {"targets": target_lines, "datasets": dataset_lines}


def overview() -> Lines:
    """Yield what to take first: the environments, the agents that we would take, and the names of the rest."""
    from privbandit_agents.audits import MECHANISMS
    from privbandit_agents.experiments.shelf import library
    from privbandit_agents.zoo.entries import shelves

    yield from env_lines()
    yield ""
    yield from agent_lines(first=True)
    others = sum(map(len, list(shelves().values())[1:]))
    yield ""
    yield strong("More")
    yield ""
    counted = {
        "agents": f"{others} further agents: of papers, presets and parts",
        "experiments": f"{len(library())} experiments of papers and of our own, which privbandit reproduce NAME runs",
        "targets": f"{len(MECHANISMS)} mechanisms that privbandit audit NAME attacks, and every private agent",
        "datasets": "data sets, and how to get them",
    }
    yield from table([(f"privbandit list {kind}", text) for kind, text in counted.items()], ("command", "lists"))


def env_lines() -> Lines:
    from privbandit_agents.experiments.jobs.catalogue import env_summary
    from privbandit_agents.zoo.plugins import load_plugins
    from privbandit_envs.registration import ENV_IDS

    load_plugins("privbandit.envs", "privbandit.agents")
    rows: list[tuple[str, ...]] = [(id, env_summary(id)) for id in ENV_IDS]
    yield from titled("Environments", rows, "id", "what it is")
    yield f"{MORE} Short names do: privbandit show Linear-v0."


def agent_lines(notion: str | None = None, plays: str | None = None, first: bool = False) -> Lines:
    """Yield a table of agents a shelf, or of the ``first``; a notion of privacy or a family selects agents."""
    from privbandit_agents.zoo.entries import shelves
    from privbandit_agents.zoo.plugins import load_plugins

    load_plugins("privbandit.agents")
    for shelf, names in list(shelves().items())[: 1 if first else None]:
        if rows := agent_rows(names, notion, plays):
            yield from titled(shelf, rows, "agent", "privacy", "deploy", "plays", "what it is")
    letters = ", ".join(f"{letter} {family}" for family, letter in LETTERS.items())
    yield from paragraph(f"plays: {letters}. exact: {HOLDS['exact']}; real: {HOLDS['real']}.")
    yield from paragraph("privacy: of every visit; with people=n of every person, for all visits together.")
    yield from paragraph(f"deploy: whether it may serve real users, with noise=secure alone. {MORE}")


def agent_rows(names: Iterable[str], notion: str | None, plays: str | None) -> list[tuple[str, ...]]:
    """Return the rows of the agents that have a notion and play a family; None: any."""
    from privbandit_agents.zoo.entries import AGENTS

    rows: list[tuple[str, ...]] = []
    for name in names:
        entry = AGENTS[name]
        families, known, arithmetic, secure = entry.families, entry.notion, entry.arithmetic, entry.secure
        if not known:
            families, known, arithmetic, secure = asked(name)
        if notion in (None, known) and (plays is None or plays in families):
            promise = f"{known} {arithmetic}".strip()
            deploy = "" if known in ("none", "?") else "yes" if secure else "no"
            rows.append((name, promise, deploy, played(families), entry.summary))
    return rows


def played(families: Iterable[str]) -> str:
    """Return the families that an agent plays as letters, each in its place."""
    return "".join(letter if family in families else "." for family, letter in LETTERS.items())


def asked(name: str) -> tuple[tuple[str, ...], str, str, bool]:
    """Return what somebody else's agent plays and promises: families, notion, arithmetic, and whether it is deployable.

    It is made in the first of our worlds that it plays.
    """
    import gymnasium as gym

    from privbandit_agents.zoo.entries import FAMILIES
    from privbandit_agents.zoo.registry import can_play, make

    envs = {family: gym.make(id) for family, id in FAMILIES.items()}
    plays = tuple(family for family, env in envs.items() if can_play(name, env))
    promise = make(name, envs[plays[0]], seed=0).guarantee if plays else None
    if promise is None or promise.notion == "none":
        return plays, "?" if promise is None else "none", "", False
    return plays, promise.kind, promise.arithmetic, not why_not(name, envs[plays[0]])


def why_not(name: str, env: Any, **config: Any) -> str:
    """Return why an agent of an environment must not be deployed, in words; "" if it may be, with secure noise."""
    from privbandit_agents.zoo.registry import make

    try:
        secure = make(name, env, noise="secure", **config).guarantee.arithmetic == "exact"
    except (ValueError, TypeError, ImportError) as error:
        return str(error)
    return "" if secure else HOLDS["real"]


def experiment_lines() -> Lines:
    from privbandit_agents.experiments.shelf import bundled, library

    rows: list[tuple[str, ...]] = []
    for name, path in library().items():
        title = re.search(r"^title: *(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        rows.append((name, title[1].strip("'\"") if title else ""))
    yield from titled("Experiments", rows, "experiment", "what it shows")
    names = ", ".join(bundled())
    yield from paragraph(f"privbandit reproduce NAME runs one, privbandit run NAME runs {names}. {MORE}")


def target_lines() -> Lines:
    """Yield the mechanisms that can be audited by name; agents can, too."""
    from privbandit_agents.audits import MECHANISMS
    from privbandit_agents.zoo.plugins import load_plugins

    load_plugins("privbandit.audits")
    published = MECHANISMS.copy()
    if there := sys.modules.get("privbandit_agents.audits.registry"):  # somebody's package may have added to it
        published |= {name: bool(target.published) for name, target in there.TARGETS.items()}
    rows: list[tuple[str, ...]] = [(name, "yes" if told else "") for name, told in published.items()]
    yield from titled("Audit targets", rows, "mechanism", "also as published")
    yield from paragraph(f"So can every private agent, and module:name for one of yours. {MORE}")


def dataset_lines() -> Lines:
    """Yield the data sets: which are there, and how to get the others."""
    from privbandit_envs.datasets import packaged, tables

    yield strong("Data sets")
    titles = {name: one.title for group in (packaged.SHEETS, tables.SOURCES) for name, one in group.items()}
    for name, title in titles.items():
        yield ""
        yield strong(name)
        yield from paragraph(title, indent=4)
        for label, text in dataset_facts(name).items():
            yield from paragraph(f"{label}: {text}", indent=4)


def dataset_facts(name: str) -> dict[str, str]:
    """Return a data set's subject, its sizes, and where it is or how to get it."""
    from privbandit_envs.datasets import packaged, tables

    if name in packaged.SHEETS:
        sheet = packaged.SHEETS[name]
        kept = {"is there": str(packaged.place(name).parent)} if packaged.is_there(name) else {}
        played = f"{packaged.KINDS[sheet.kind]}, {sheet.rows:,} rows"
        return {"kind": played, **(kept or {"to get it": f"privbandit data get {name}"})}
    source = tables.SOURCES[name]
    sizes = source.sizes
    facts = {
        "predicts": source.label.partition("|")[0],
        "public": source.rule.text if source.rule else f"{source.n_public} rows at random",
        "Table 1": f"n_P = {sizes.private:,}, n_Q = {sizes.public:,}, d = {sizes.d:,}",
    }
    return facts | tables.state(name)


def titled(title: str, rows: list[tuple[str, ...]], *heads: str) -> Lines:
    yield strong(title)
    yield ""
    yield from table(rows, heads)
    yield ""
