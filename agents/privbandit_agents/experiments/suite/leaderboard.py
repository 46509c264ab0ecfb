"""The leaderboard: the references that come with the package as one page of Markdown."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import polars as pl

from privbandit_agents.experiments.suite.records import made_when, references
from privbandit_agents.experiments.suite.scores import (
    READING,
    Board,
    at_budget,
    board_tasks,
    boards_in,
    on_board,
    overall,
    placed,
    score_of,
    scores_of,
    signed,
    stability,
)
from privbandit_agents.experiments.suite.tasks import OPEN, VERSION, Suite, Task, budget_name, load_suite
from privbandit_agents.experiments.views.table import Column, Row, Table

RANKED = 1.0
"""The budget of the ranks."""


def leaderboard(version: str = VERSION) -> str:
    """Return the page of the references, drawn from their file alone."""
    suite, records = load_suite(version), references(version)
    scores, made = scores_of(records, suite), made_when(version)
    places = {epsilon: placed(scores, epsilon) for epsilon in suite.budgets}
    stable = stability(scores, RANKED)
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
            "## Over all families",
            "",
            over_families(scores, suite),
            *(line for board in boards_in(scores) for line in section(board, scores, places, suite, stable[board])),
            "## Tasks",
            "",
            tasks(suite),
        ]
    )


def over_families(scores: pl.DataFrame, suite: Suite) -> str:
    """Return the table of the two names that choose an agent for each family."""
    names = scores.filter(pl.col("agent").is_in(["auto-joint", "auto-local"]))
    rows = [
        {
            "agent": f"`{name}`",
            "": notion,
            **{budget_name(e): overall(scores, name, e).said(signed) for e in suite.budgets},
        }
        for name, notion in names.select("agent", "notion").unique(maintain_order=True).iter_rows()
    ]
    return Table(rows, [Column(key, key, True) for key in rows[0]]).markdown


COLUMNS = (
    Column("rank", "rank", True),
    Column("agent", lambda row: f"`{row['agent']}`", True),
    # a score over some of the tasks is none of the board
    Column("score", lambda row: "-" if row["rank"] is None else score_of(row).said(signed), True),
    Column(
        "better than the next",
        lambda row: "" if row["rank"] is None or np.isnan(row["better"]) else f"{100 * row['better']:.0f} %",
        True,
    ),
)
"""Of a board; the scores at other budgets and the tasks follow."""


def section(
    board: Board, scores: pl.DataFrame, places: Mapping[float, pl.DataFrame], suite: Suite, stable: tuple[int, float]
) -> Iterator[str]:
    """Yield a board: its heading, its table, how stable its order is, and scores by task."""
    own = on_board(places[RANKED], board)
    columns = list(COLUMNS)
    for epsilon in (one for one in suite.budgets if one != RANKED and board.notion != OPEN):
        found = dict(on_board(places[epsilon], board).select("agent", "score").iter_rows())
        columns.append(Column(f"at {budget_name(epsilon)}", beside(found), True))
    columns.append(Column("tasks", lambda row: f"{row['played']} of {row['asked']}", True))
    yield from (f"## {board.title[0].upper()}{board.title[1:]}", "", Table(own, columns).markdown)
    ranked, agreement = stable
    if ranked > 2 and not np.isnan(agreement):
        yield f"Rank correlation of two halves of the seeds, {ranked} agents: {agreement:.2f}.\n"
    yield by_task(board, on_board(at_budget(scores, RANKED), board), own["agent"].to_list(), suite)


def beside(scores: Mapping[str, float]) -> Callable[[Row], str]:
    return lambda row: signed(scores[row["agent"]]) if row["agent"] in scores else ""


def by_task(board: Board, scores: pl.DataFrame, agents: list[str], suite: Suite) -> str:
    """Return the table of a board's scores by task, a row for each agent."""
    shown = {(row["agent"], row["task"]): task_score(row, suite.tasks[row["task"]]) for row in scores.to_dicts()}
    tasks = [task.name for task in board_tasks(suite, board)]
    rows = [{"agent": f"`{agent}`", **{task: shown.get((agent, task), "") for task in tasks}} for agent in agents]
    columns = [Column(task.removeprefix(f"{board.family}-"), task, True) for task in tasks]
    return Table(rows, [Column("score by task", "agent", True), *columns]).markdown


def task_score(row: Row, task: Task) -> str:
    """Return the mean score in a task; in brackets the share of seeds with .9 of uniform play's regret or more."""
    if not row["played"]:
        return "refuses"
    scores = np.array(row["scores"])
    lost = float(np.mean(scores <= task.scores(0.9 * task.uniform)))
    return signed(float(scores.mean())) + (f" ({100 * lost:.0f} %)" if lost else "")


def tasks(suite: Suite) -> str:
    """Return the table of tasks."""
    columns = [
        Column("task", lambda row: f"`{row['name']}`", True),
        Column("group", "group", True),
        Column("users", lambda row: f"{row['users']:,}", True),
        Column("question", "question", True),
        Column("uniform play's regret", lambda row: f"{row['uniform']:.4g}", True),
        Column("the best without privacy", lambda row: f"{row['best']:.4g} (`{row['best_agent']}`)", True),
    ]
    return Table([vars(task) for task in suite.tasks.values()], columns).markdown
