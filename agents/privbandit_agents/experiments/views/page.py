"""``privbandit report -o``: all results of a folder as one page, with its figures, tables and the code that draws."""

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import polars as pl

from privbandit_agents.experiments.names import world_text
from privbandit_agents.experiments.results.frame import COLUMNS
from privbandit_agents.experiments.results.queries import beside_uniform, finals, worlds
from privbandit_agents.experiments.results.ranks import PRIVATE, ranks
from privbandit_agents.experiments.usage import UsageError
from privbandit_agents.experiments.views.audits import audit_table
from privbandit_agents.experiments.views.lines import curves_of, frontiers_of, one_budget, panels_of
from privbandit_agents.experiments.views.style import Line, readable, styles_of
from privbandit_agents.experiments.views.table import Column, Table
from privbandit_agents.zoo.entries import AGENTS
from privbandit_envs.files import atomic

Places = Mapping[tuple[Any, ...], int]
"""The number of each world among the choices, by environment and horizon."""
Lines = Mapping[str, Sequence[Line]]
"""The lines of each panel, by its title."""
PROMISED = {
    "joint": "If what others are offered may reveal little of one user's record",
    "shuffle": "If shuffled messages may reveal little of one user's record",
    "shuffle-reward": "If shuffled messages may reveal little of one user's reward, and contexts are public",
    "local": "If a device's report may reveal little of its user's record",
    "local-reward": "If a device's report may reveal little of its user's reward, and contexts are public",
    "reward": "If offers may reveal little of one user's reward, and contexts are public",
}
"""The promise of each notion, as the beginning of a sentence."""


def write_report(frame: pl.DataFrame, path: Path, title: str, audits: Sequence[Path] = ()) -> None:
    """Write a page of results that needs nothing else: no network, no other file.

    Raises:
        UsageError: the extra ``report``, which has the code that draws in a browser, is not installed.
    """
    text = page(frame, title, audits, library())
    with atomic(path, follow=True) as file:
        file.write(text)


def library() -> str:
    """Return Vega-Lite as JavaScript."""
    try:
        from vl_convert import javascript_bundle
    except ModuleNotFoundError:
        raise UsageError("a report page needs vl-convert-python: pip install 'privbandit[report]' brings it.") from None
    return str(javascript_bundle())  # type: ignore[call-arg, unused-ignore]  # its types forget the default


def page(frame: pl.DataFrame, title: str, audits: Sequence[Path], script: str) -> str:
    """Return the page as text; ``script`` is the library that draws."""
    # a hundred settings may be columns, which cost more memory than what is drawn
    drawn = {*COLUMNS, "agent.calibration"} - {"env_id", "config"}
    frame = frame.select(name for name in frame.columns if name in drawn)
    placed, panels = ranks(frame), panels_of(frame)
    places = {rows.select("env", "horizon").row(0): place for place, rows in enumerate(panels.values())}
    here = files("privbandit_agents.experiments.views")
    every, frontiers = {name: curves_of(rows) for name, rows in panels.items()}, frontiers_of(frame)
    data = {"envs": list(panels), "curves": curves(panels, every, frontiers), "frontier": frontier(every, frontiers)}
    parts = {
        "title": html.escape(title),
        "summary": summary(frame),
        "headlines": headlines(frame, places),
        "css": here.joinpath("page.css").read_text(encoding="utf-8"),
        "controls": controls(data),
        "ranks": rank_table(placed, places, list(panels)),
        "sections": speed_section(frame) + audit_section(audits),
        "data": json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        "library": script.replace("</script", "<\\/script"),
        "script": here.joinpath("page.js").read_text(encoding="utf-8"),
    }
    return Template(here.joinpath("page.html").read_text(encoding="utf-8")).substitute(parts)


def summary(frame: pl.DataFrame) -> str:
    trials = frame.select("env", "label", "horizon", "seed").unique().height
    counts = {
        "environment": frame["env"].n_unique(),
        "agent with its settings": frame["label"].n_unique(),
        "seed": frame["seed"].n_unique(),
    }
    words = {"agent with its settings": "agents with their settings"}
    told = [f"{n:,} {what if n == 1 else words.get(what, what + 's')}" for what, n in counts.items()]
    return f"{trials:,} trial{'s' * (trials != 1)}: {', '.join(told)}."


def headlines(frame: pl.DataFrame, places: Places) -> str:
    """Return, for each world in which ``uniform`` played, the gain that each notion keeps at the epsilon nearest to 1.

    The page shows that of the environment that is chosen; without scripts it shows all.
    Uniform play and the best action bound the gain, so an agent keeps 1 - regret / (regret of uniform play) of it.
    """
    sentences = []
    for env, horizon, rows in worlds(beside_uniform(finals(frame)).filter(pl.col("uniform") > 0)):
        keys = ("label", "agent", "notion", "epsilon", "delta", "uniform")
        found = rows.group_by(keys, maintain_order=True).agg(pl.col("regret").mean(), pl.col("reward").mean())
        private = found.filter(pl.col("notion").is_in(list(PROMISED)) & pl.col("epsilon").is_finite()).to_dicts()
        if not private:
            continue
        earned = found.filter(agent="uniform")["reward"][0]
        ends = earned / horizon, (earned + found["uniform"][0]) / horizon
        parts = [
            f"{world_text(env)}, {horizon:,} users: reward per user is {ends[0]:.3g} with uniform play and "
            f"{ends[1]:.3g} with the best action for each user."
        ]
        near = min((row["epsilon"] for row in private), key=lambda epsilon: abs(math.log(epsilon)))
        for notion in PROMISED:
            if of := [row for row in private if row["notion"] == notion and row["epsilon"] == near]:
                parts.append(kept(min(of, key=lambda row: float(row["regret"])), horizon))
        told = f'<p class="headline" data-world="{places[env, horizon]}">{html.escape(" ".join(parts))}</p>\n'
        sentences.append(told)
    return "".join(sentences)


def kept(row: Mapping[str, Any], horizon: int) -> str:
    """Return a sentence on an agent: the reward, the share of the gain, the promise, and whether it may be deployed."""
    entry = AGENTS.get(row["agent"])
    deployed = "may be deployed with noise=secure" if entry and entry.secure else "is for simulation only"
    promise = f"epsilon = {row['epsilon']:g}" + (f", delta = {row['delta']:g}" if row["delta"] else "")
    gain = 1 - row["regret"] / row["uniform"]
    held = f"keeps {gain:.0%} of the gain" if gain > 0 else "is worse than uniform play"
    return (
        f"{PROMISED[row['notion']]} ({promise}), {row['label']} earns {row['reward'] / horizon:.3g} and {held}; "
        f"it {deployed}."
    )


def curves(panels: Mapping[str, pl.DataFrame], every: Lines, frontiers: Lines) -> list[dict[str, Any]]:
    """Return the regret of each agent in each environment, the least first."""
    looks = styles_of([*every.values(), *frontiers.values()])
    many = sum(map(len, every.values()))
    found = []
    most = 60  # points of a curve
    for env, (name, lines) in enumerate(every.items()):
        promised = {row["label"]: row["epsilon"] for row in panels[name].unique("label").to_dicts()}
        for line in sorted(lines, key=lambda line: float(line.mean.value[-1])):
            few = thinned(line, most if many <= 300 else most // 2)  # curves
            found.append({"env": env, **drawn(few, looks), "agent": line.agent, "epsilon": promised[line.label]})
    return found


def frontier(every: Lines, frontiers: Lines) -> list[dict[str, Any]]:
    """Return the final regret of each private agent along epsilon, and the levels beside them; none at one epsilon."""
    if one_budget(frontiers):
        return []
    looks = styles_of([*frontiers.values(), *every.values()])
    return [
        {"env": env, **drawn(line, looks), "agent": line.agent, "epsilon": None, "level": line.level}
        for env, lines in enumerate(frontiers.values())
        for line in sorted(lines, key=lambda line: (not line.level, float(line.mean.value.min())))
    ]


def thinned(line: Line, most: int) -> Line:
    kept = np.unique(np.linspace(0, len(line.x) - 1, min(most, len(line.x))).round().astype(np.int64))
    each = [one[kept] for one in line.each]
    return replace(line, x=line.x[kept], mean=line.mean.mapped(lambda end: end[kept]), each=each)


def drawn(line: Line, looks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the page's data of a line."""
    few = len(line.each) > 0
    return {
        "name": line.label,
        "notion": line.notion,
        "color": readable(looks[line.label]["color"], 3.0),
        "seeds": line.replications,
        "x": numbers(line.x),
        "mean": numbers(line.mean.value),
        "half": [None] * len(line.x) if few else numbers(line.mean.half_width),
        "each": [numbers(one) for one in line.each],
    }


def numbers(values: Iterable[float]) -> list[float | None]:
    """Return numbers with five digits; None for values that are no numbers."""
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values]


def controls(data: Mapping[str, Any]) -> str:
    """Return the choices: environment, agent, epsilon, privacy, and the scale of regret."""
    agents = sorted({line["agent"] for line in data["curves"]})
    budgets = sorted({line["epsilon"] for line in data["curves"] if line["epsilon"] is not None})
    every = [("", "all")]
    chosen = [
        select("env", "Environment", [(str(i), name) for i, name in enumerate(data["envs"])]),
        select("agent", "Agent", every + [(name, name) for name in agents]),
        select("epsilon", "Epsilon", every + [(json.dumps(int(e) if e == int(e) else e), f"{e:g}") for e in budgets]),
        select("group", "Privacy", [*every, ("private", "private"), ("open", "not private")]),
    ]
    radios = "".join(
        f'<label><input type="radio" name="scale" value="{value}"{checked}> {value}</label>'
        for value, checked in (("linear", " checked"), ("log", ""))
    )
    return "\n".join([*chosen, f"<fieldset><legend>Regret along the users</legend><div>{radios}</div></fieldset>"])


def select(name: str, label: str, options: Sequence[tuple[str, str]]) -> str:
    inner = "".join(f'<option value="{html.escape(value)}">{html.escape(text)}</option>' for value, text in options)
    return f'<div><label for="{name}">{label}</label><select id="{name}">{inner}</select></div>'


def rank_table(placed: pl.DataFrame, places: Places, names: Sequence[str]) -> str:
    columns = [
        Column("environment", "world", True),
        Column("group", "group", True),
        Column("rank", "rank"),
        Column("agent", "label", True),
        Column("privacy", lambda row: row["notion"] or "none", True),
        Column("epsilon", "epsilon"),
        Column("seeds", "seeds"),
        Column("regret (interquartile mean)", "iqm"),
        Column("95 % from", "low"),
        Column("to", "high"),
        Column("better than another", "better"),
        Column("from", "better_low"),
        Column("to", "better_high"),
    ]
    told, lines = [], []
    for row in placed.iter_rows(named=True):
        place = places.get((row["env"], row["horizon"]))
        told.append(f"{row['env']} environments, over uniform" if place is None else names[place])
        line = {"agent": row["label"].partition(" ")[0], "epsilon": row["epsilon"], "notion": row["notion"] or "none"}
        lines.append({"line": json.dumps({**line, "env": place})})
    title = (
        "Agents by the interquartile mean of their final regret, with 95 % intervals by a bootstrap over seeds within "
        "each environment. Better than another: the probability of less regret than another agent of the group on a "
        f"common seed. {PRIVATE.capitalize()} agents and the others are ranked apart."
    )
    return Table(placed.with_columns(world=pl.Series(told, dtype=pl.String)), columns, title).html("Ranks", lines)


def speed_section(frame: pl.DataFrame) -> str:
    """Return the section on speed: users a second, the median over trials."""
    speed = finals(frame).with_columns(speed=pl.col("horizon") / pl.col("seconds").clip(1e-9))
    rows = speed.group_by("env", "label", maintain_order=True).agg(pl.col("speed").median(), pl.col("seconds").median())
    columns = [
        Column("environment", lambda row: world_text(row["env"]), True),
        Column("agent", "label", True),
        Column("users a second", "speed"),
        Column("seconds of a trial", "seconds"),
    ]
    title = "Medians over trials, on the machine that ran them."
    return section("Speed", Table(rows.sort("env", "speed", descending=[False, True]), columns, title))


def audit_section(paths: Sequence[Path]) -> str:
    """Return the section on audits, if there are any."""
    table = audit_table(paths)
    return section("Audits", table) if len(table.rows) else ""


def section(name: str, table: Table) -> str:
    key = f"{name.lower()}-title"
    return f'<section aria-labelledby="{key}"><h2 id="{key}">{name}</h2>{table.html(name)}</section>\n'
