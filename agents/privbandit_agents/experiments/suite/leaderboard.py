"""The leaderboard: the references that come with the package as one page of Markdown."""

from collections.abc import Iterator, Mapping

import numpy as np

from privbandit_agents.experiments.suite.boards import (
    READING,
    Board,
    Place,
    all_boards,
    board_tasks,
    overall,
    placed,
    signed,
    stability,
)
from privbandit_agents.experiments.suite.records import Record, made_when, references
from privbandit_agents.experiments.suite.tasks import OPEN, VERSION, Suite, Task, budget_name, load_suite

RANKED = 1.0
"""The budget of the ranks."""


def leaderboard(version: str = VERSION) -> str:
    """Return the page of the references, drawn from their file alone."""
    suite, records = load_suite(version), references(version)
    made = made_when(version)
    told = ", ".join(f"{key} {value}" for key, value in made.items() if key != "date")
    return "\n".join(
        [
            f"# Leaderboard, suite {version}",
            "",
            READING,
            "",
            f"{len(suite.tasks)} tasks, {len(suite.seeds)} seeds, delta = {suite.delta:g}. Ranks are at epsilon = "
            f"{RANKED:g}. Agents without a rank have not played all tasks: networks that learn from every user play "
            "those of 5000 users. *Better than the next*: the probability that a run has a higher score than one of "
            f"the agent below, over tasks. Made on {made['date']} by {told}.",
            "",
            "`privbandit score my_agents.py:Mine` scores your own agent. To add it here, open a pull "
            "request with its `score.json` and the agent's address: we run and audit it, and add its line.",
            "",
            *over_families(records, suite),
            *(line for board in all_boards(records, suite) for line in section(board, records, suite)),
            "## Tasks",
            "",
            *tasks(suite),
            "",
        ]
    )


def over_families(records: Mapping[str, Record], suite: Suite) -> Iterator[str]:
    """Yield the table of the two names that choose an agent for each family."""
    yield from ("## Over all families", "", head("agent", "", *map(budget_name, suite.budgets)))
    for name in ("auto-joint", "auto-local"):
        if name in records:
            found = [overall(records[name], suite, epsilon) for epsilon in suite.budgets]
            scores = (f"{signed(one.value)} ({signed(one.low)} to {signed(one.high)})" for one in found)
            yield row(f"`{name}`", records[name].notion, *scores)
    yield ""


def section(board: Board, records: Mapping[str, Record], suite: Suite) -> Iterator[str]:
    """Yield a board: its heading, its table, and how stable its order is."""
    places = placed(board, records, suite, RANKED)
    others = [one for one in suite.budgets if one != RANKED and board.notion != OPEN]
    sides = {budget_name(one): placed(board, records, suite, one) for one in others}
    count = len(board_tasks(suite, board))
    yield from (f"## {board.title[0].upper()}{board.title[1:]}", "")
    yield head("rank", "agent", "score", "better than the next", *(f"at {one}" for one in sides), "tasks")
    for name, place in places.items():
        beside = (signed(side[name].score.value) if name in side else "" for side in sides.values())
        yield row(*first(name, place), *beside, f"{place.played} of {count}")
    ranked, agreement = stability(board, records, suite, RANKED)
    if ranked > 2 and not np.isnan(agreement):
        yield from ("", f"Rank correlation of two halves of the seeds, {ranked} agents: {agreement:.2f}.")
    asked = board_tasks(suite, board)
    yield from ("", head("score by task", *(task.name.removeprefix(f"{board.family}-") for task in asked)))
    for name in places:
        yield row(f"`{name}`", *(by_task(task, records[name], suite) for task in asked))
    yield ""


def by_task(task: Task, record: Record, suite: Suite) -> str:
    """Return the mean score in a task; in brackets the share of seeds with .9 of uniform play's regret or more."""
    if task.name in record.refused:
        return "refuses"
    scores = record.scores(task, OPEN if record.notion == OPEN else budget_name(RANKED), len(suite.seeds))
    if scores is None:
        return ""
    lost = float(np.mean(scores <= task.scores(0.9 * task.uniform)))
    return signed(float(scores.mean())) + (f" ({100 * lost:.0f} %)" if lost else "")


def first(name: str, place: Place) -> tuple[str, str, str, str]:
    if place.rank is None:  # a score over some of the tasks is no score of the board
        return "", f"`{name}`", "-", ""
    found = place.score
    interval = "" if np.isnan(found.low) else f" ({signed(found.low)} to {signed(found.high)})"
    better = "" if np.isnan(place.better) else f"{100 * place.better:.0f} %"
    return str(place.rank), f"`{name}`", f"{signed(found.value)}{interval}", better


def tasks(suite: Suite) -> Iterator[str]:
    """Yield the table of tasks."""
    yield head("task", "group", "users", "question", "uniform play's regret", "the best without privacy")
    for task in suite.tasks.values():
        best = f"{task.best:.4g} (`{task.best_agent}`)"
        yield row(f"`{task.name}`", task.group, f"{task.users:,}", task.question, f"{task.uniform:.4g}", best)


def head(*names: str) -> str:
    return f"{row(*names)}\n{row(*(['---'] * len(names)))}"


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
