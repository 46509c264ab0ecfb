"""The leaderboard: scores of the references, and of rows from outside, as one page that needs no other file."""

import html
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from string import Template
from typing import Any
from urllib.parse import quote_plus

import numpy as np
import polars as pl

from privbandit_agents.experiments.suite.records import JSON, Record, made_when, references
from privbandit_agents.experiments.suite.rows import Submitted
from privbandit_agents.experiments.suite.scores import (
    BOARD,
    READING,
    Board,
    boards_in,
    level_tasks,
    overall,
    placed,
    scores_of,
    signed,
    stability,
)
from privbandit_agents.experiments.suite.tasks import OPEN, Suite, budget_name, load_suite
from privbandit_agents.experiments.views.table import Column
from privbandit_agents.zoo.registry import find

FILES = "https://github.com/privbandit/privbandit/blob/main/"
PAPERS = "https://scholar.google.com/scholar?q="
TITLED = re.compile(r'"([^"]+?),?"')


REPEATS = (
    Column("board", "board", True),
    *(Column(key, key) for key in ("epsilon", "agents", "groups")),
    Column("correlation", lambda row: "" if row["correlation"] is None else f"{row['correlation']:.3f}"),
    Column("flips", lambda row: "" if row["flips"] is None else f"{100 * row['flips']:.1f} %"),
    Column("no order", "tied"),
)
"""Of a table that says whether the order of agents repeats."""


def leaderboard(told: JSON) -> str:
    """Return the page of ``standings``."""
    data = json.dumps(told, separators=(",", ":")).replace("</", "<\\/")
    parts = {"version": told["version"], "made": told["made"], "reading": html.escape(READING), "data": data}
    return Template(Path(__file__).with_name("board.html").read_text(encoding="utf-8")).substitute(parts)


def standings(
    audits: Mapping[str, str] | None = None,
    rows: Sequence[Submitted] = (),
    suite: Suite | None = None,
    records: Mapping[str, Record] | None = None,
) -> JSON:
    """Return everything that the page shows.

    Args:
        audits: what audits found, in words, by agent; rows from outside have their own.
        rows: from outside.
        suite: with the tasks; default: the current one.
        records: by agent; default: the references.

    Raises:
        ValueError: a row has the name of another one, or is not to be compared.
    """
    suite, records = suite or load_suite(), dict(references() if records is None else records)
    outside = {row.record.agent: row for row in rows}
    for row in rows:
        if why := "its name is taken" if row.record.agent in records else row.lacking(suite):
            raise ValueError(f"{row.folder} cannot be on the leaderboard: {why}.")
        records[row.record.agent] = row.record
    scores, found = scores_of(records, suite), dict[tuple[Any, ...], JSON]()
    boards = boards_in(scores)
    for epsilon in suite.budgets:
        for one in placed(scores, epsilon).to_dicts():
            board, agent = Board(*(one[part] for part in BOARD)), one["agent"]
            if (board, agent) not in found:
                found[board, agent] = about(agent, board, records[agent], outside.get(agent), audits or {})
                found[board, agent] |= {"board": boards.index(board), "played": one["played"], "asked": one["asked"]}
            at, ends = OPEN if one["notion"] == OPEN else budget_name(epsilon), ("score", "low", "high")
            place = [*(digits(one[end]) for end in ends), one["rank"], one["last"], one["also"]]
            found[board, agent]["places"][at] = place
    for one in scores.to_dicts():
        if cells := found.get((Board(*(one[part] for part in BOARD)), one["agent"])):
            mean = digits(float(np.mean(one["scores"]))) if one["played"] else None
            cells["tasks"].setdefault(one["task"], {})[one["budget"]] = mean
    made = made_when()
    versions = ", ".join(f"{key} {value}" for key, value in made.items() if key != "date")
    counts = f"{len(suite.tasks)} tasks, {len(suite.seeds)} seeds, delta = {suite.delta:g}"
    tasks = [{key: value for key, value in vars(task).items() if key not in DULL} for task in suite.tasks.values()]
    return {
        **{"version": suite.version, "made": f"{counts}. Made on {made['date']} by {versions}"},
        "budgets": list(map(budget_name, suite.budgets)),
        "boards": [{**board._asdict(), "title": board.title} for board in boards],
        "groups": list(dict.fromkeys(task.group for task in suite.tasks.values())),
        **{"tasks": tasks, "rows": list(found.values())},
        "repeats": [told for epsilon in suite.budgets for told in repeats(scores, epsilon)],
        "overall": {
            name: [f"{overall(scores, name, e).said(signed)} at {budget_name(e)}" for e in suite.budgets]
            for name in ("auto-joint", "auto-local")
            if name in records
        },
    }


DULL = ("world", "pin")
"""Parts of a task that the page does not show."""


def about(name: str, board: Board, record: Record, row: Submitted | None, audits: Mapping[str, str]) -> JSON:
    """Return a row of the page without its numbers: speed, promise, audit, paper and file."""
    told = [words for words in record.promises.values() if f" a {board.unit}" in words]
    speeds = [speed for task, speed in record.speed.items() if task.startswith(board.family)]
    paper, file = ("", row.address) if row else written(record.agent)
    return {
        **{"agent": name, "promise": promise(told[0]) if told else "", "paper": paper, "file": file},
        **{"speed": round(median(speeds or [0])), "memory": row.told["times"]["mib"] if row else None},
        **{"audit": row.told["audit"] if row else audits.get(record.agent, ""), "places": {}, "tasks": {}},
    }


def promise(words: str) -> str:
    """Return a promise without its budget: whether a delta is in it, and of which arithmetic its proof is."""
    delta = re.search(r", ([\d.]+e-\d+) a ", words)
    kind = words.rpartition(", ")[2]
    return f"{'delta = ' + delta[1] if delta else 'pure'}, {kind}"


def written(agent: str) -> tuple[str, str]:
    """Return the addresses of a search for an agent's paper, "" if its module quotes none, and of its file."""
    module = inspect.getmodule(find(agent).load())
    title = TITLED.search(" ".join((module.__doc__ or "").split())) if module else None
    file = f"{FILES}agents/{module.__name__.replace('.', '/')}.py" if module else ""
    return f"{PAPERS}{quote_plus(title[1])}" if title else "", file


def repeats(scores: pl.DataFrame, epsilon: float) -> list[JSON]:
    """Return how well the order of each board repeats at a budget, and its tasks that hardly tell agents apart."""
    level = level_tasks(scores, epsilon)
    return [
        {
            **{"board": one["board"].title, "epsilon": budget_name(epsilon), "flips": digits(one["flips"])},
            **{"agents": one["agents"], "groups": one["groups"], "correlation": digits(one["correlation"])},
            "tied": one["tied"],
            "level": [f"{task['task']} ({task['told']:.0%})" for task in level if task["board"] == one["board"]],
        }
        for one in stability(scores, epsilon)
        if one["board"].notion != OPEN or epsilon == 1  # without privacy it is the same at every budget
    ]


def digits(value: float) -> float | None:
    return None if value != value else round(value, 3)
