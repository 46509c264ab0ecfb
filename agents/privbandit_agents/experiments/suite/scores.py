"""Scores as a frame, and the boards of it; statistics are those of rliable.

Agarwal, Schwarzer, Castro, Courville, Bellemare, "Deep Reinforcement Learning at the Edge of the Statistical
Precipice", NeurIPS 2021: interquartile means, stratified bootstrap, performance profiles, probability of improvement.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy
from numpy.random import default_rng

from privbandit_agents.experiments.results.ranks import interquartile_mean, resampled
from privbandit_agents.experiments.results.statistics import (
    Floats,
    Interval,
    estimate_alone,
    percentile_interval,
)
from privbandit_agents.experiments.suite.records import PERSON, VISIT, Record
from privbandit_agents.experiments.suite.tasks import OPEN, Suite, Task, budget_name

NOTIONS = ("none", "reward", "joint", "shuffle-reward", "shuffle", "local-reward", "local")


READING = (
    "A score is log(U / R) / log(U / B) for a regret R, where U is the mean regret of uniform play and B that of the "
    "best agent without privacy: 0 is no better than uniform play, below 0 is worse, 1 is as good as without privacy. "
    "Scores are interquartile means over tasks and seeds, with 95 % intervals by a bootstrap of the seeds within each "
    "task. A task that an agent refuses has score 0. Promises a visit and a person, and of different notions, are "
    "ranked apart."
)


class Board(NamedTuple):
    """Whose scores may be compared: a family, a notion of privacy, and who is promised the budget."""

    family: str
    notion: str
    unit: str

    @property
    def title(self) -> str:
        promise = "without privacy" if self.notion == OPEN else f"{self.notion} privacy a {self.unit}"
        return f"{self.family}, {promise}"


BOARD = Board._fields


def board_tasks(suite: Suite, board: Board) -> list[Task]:
    """Return a board's tasks: those with returning people if a person is promised a budget, else the others.

    Without a promise all tasks are on one board.
    """
    own = [task for task in suite.tasks.values() if task.family == board.family]
    return [task for task in own if board.notion == OPEN or (task.people is not None) == (board.unit == PERSON)]


def scores_of(records: Mapping[str, Record], suite: Suite, seeds: int = 0) -> pl.DataFrame:
    """Return the scores of agents, a row for each task and budget that one was asked.

    Args:
        records: by name.
        suite: with the tasks.
        seeds: how many a task has that is refused; default: the suite's.

    Returns:
        ``family``, ``notion`` and ``unit`` name a board: tasks with returning people are on one of their own if a
        person is promised a budget. ``agent``, ``group``, ``task``, ``budget``; ``scores`` of every seed, 0 where the
        agent refused the task; ``played``, whether it did not; ``asked``, how many tasks the board has.
    """
    rows: list[dict[str, Any]] = []
    for name, record in records.items():
        families = {suite.tasks[task].family for task in record.regrets if task in suite.tasks}
        budgets = [OPEN] if record.notion == OPEN else [budget_name(one) for one in suite.budgets]
        for task in (task for task in suite.tasks.values() if task.family in families):
            unit = PERSON if task.people and record.notion != OPEN else VISIT
            board = Board(task.family, record.notion, unit)
            told = {**board._asdict(), "agent": name, "group": task.group, "task": task.name}
            told |= {"played": task.name in record.regrets, "asked": len(board_tasks(suite, board))}
            found = {budget: record.scores(task, budget, seeds or len(suite.seeds)) for budget in budgets}
            rows += [{**told, "budget": budget, "scores": one} for budget, one in found.items() if one is not None]
    order = {task.family: place for place, task in reversed(list(enumerate(suite.tasks.values())))}
    rows.sort(key=lambda row: order[row["family"]])
    return pl.DataFrame(rows, schema_overrides={"scores": pl.List(pl.Float64)})


def at_budget(scores: pl.DataFrame, epsilon: float) -> pl.DataFrame:
    """Return the rows of agents without privacy, and of the others at a budget."""
    return scores.filter(pl.col("budget").is_in([OPEN, budget_name(epsilon)]))


def on_board(rows: pl.DataFrame, board: Board) -> pl.DataFrame:
    return rows.filter(**board._asdict())


def lists(rows: pl.DataFrame) -> list[Floats]:
    """Return the scores of rows, each shape (seeds,)."""
    return [one.to_numpy() for one in rows["scores"]]


def boards_in(scores: pl.DataFrame) -> list[Board]:
    """Return the boards on which somebody played, in the order of families as they come, units and notions."""
    played = scores.filter("played")
    families = list(dict.fromkeys(played["family"]))
    found = {Board(*row) for row in played.select(BOARD).iter_rows()}
    return sorted(found, key=lambda one: (families.index(one.family), one.unit != VISIT, NOTIONS.index(one.notion)))


def pooled(scores: Sequence[Floats], seed: int = 0) -> Interval[float]:
    """Return the interquartile mean of scores in several tasks, with a 95 % interval; seeds are drawn within tasks."""
    if not scores:
        return estimate_alone(np.nan)
    value = float(interquartile_mean(np.concatenate(scores)))
    if min(map(len, scores)) < 2:
        return estimate_alone(value)
    return percentile_interval(value, resampled(scores, default_rng(seed)))


def profile(scores: Sequence[Floats], levels: Floats) -> Floats:
    """Return the share of runs with a score above each level, every task with the same weight."""
    return np.asarray(np.mean([(one[:, None] > levels).mean(axis=0) for one in scores], axis=0))


def improvement(ours: Sequence[Floats], theirs: Sequence[Floats]) -> float:
    """Return the probability that a run of ours has a higher score than one of theirs, the mean over common tasks."""
    pairs = zip(ours, theirs, strict=True)
    gaps = [np.sign(one[:, None] - other[None]) for one, other in pairs]
    return float(np.mean([(1 + gap.mean()) / 2 for gap in gaps]))


def placed(scores: pl.DataFrame, epsilon: float) -> pl.DataFrame:
    """Return the agents of every board at a budget, the highest score first.

    Returns:
        ``family, notion, unit, agent``; ``score``, the interquartile mean over tasks and seeds, with the ends ``low``
        and ``high`` of its 95 % interval; ``rank``, 1 and how many have a higher score, null unless it has played all
        tasks of the board; ``played`` and ``asked``, how many tasks it has played, and how many there are; ``better``,
        the probability of improvement on the next agent of the board, NaN for the last one.
    """
    rows: list[dict[str, object]] = []
    at = at_budget(scores, epsilon)
    for board in boards_in(at):
        by_agent = {name: own for (name,), own in on_board(at, board).group_by("agent", maintain_order=True)}
        each = {name: lists(own) for name, own in by_agent.items() if own["played"].any()}
        found = {name: pooled(own) for name, own in each.items()}
        order = sorted(found, key=lambda name: -found[name].value)
        whole = {name: len(each[name]) == by_agent[name]["asked"][0] for name in order}
        for i, name in enumerate(order):
            one, after = found[name], (other for other in order[i + 1 :] if len(each[other]) == len(each[name]))
            ahead = sum(found[other].value > one.value for other in order if whole[other])
            beaten = next(after, None)
            better = np.nan if beaten is None else improvement(each[name], each[beaten])
            counts = {"played": by_agent[name]["played"].sum(), "asked": by_agent[name]["asked"][0]}
            rank = {"rank": 1 + ahead if whole[name] else None, **counts, "better": better}
            ends = {"score": one.value, "low": one.low, "high": one.high}
            rows.append({**board._asdict(), "agent": name, **ends, **rank})
    return pl.DataFrame(rows, schema_overrides={"rank": pl.Int64, "better": pl.Float64}, infer_schema_length=None)


def overall(scores: pl.DataFrame, agent: str, epsilon: float) -> Interval[float]:
    """Return an agent's score over all families; promises to persons are left out."""
    return pooled(lists(at_budget(scores, epsilon).filter(agent=agent, unit=VISIT)))


def stability(scores: pl.DataFrame, epsilon: float = 1.0) -> dict[Board, tuple[int, float]]:
    """Return how many agents each board ranks, and Spearman's correlation of their ranks by two halves of the seeds.

    NaN stands for less than two agents, and where all are level.
    """
    halves = [scores.with_columns(pl.col("scores").list.gather_every(2, half)) for half in (0, 1)]
    ranked = [placed(half, epsilon).filter(pl.col("rank").is_not_null()) for half in halves]
    both = ranked[0].join(ranked[1], on=[*BOARD, "agent"], maintain_order="left")
    found = {}
    for board in boards_in(scores):
        first, second = (on_board(both, board)[key].to_list() for key in ("score", "score_right"))
        level = len(set(first)) < 2 or len(set(second)) < 2
        agreement = np.nan if level else float(scipy.stats.spearmanr(first, second).statistic)
        found[board] = len(first), agreement
    return found


def score_of(row: Mapping[str, Any]) -> Interval[float]:
    """Return the score of a place, with its interval."""
    return Interval(row["score"], row["low"], row["high"])


def signed(value: float) -> str:
    """Return a score with two digits after the point; "-" for no number."""
    return "-" if value != value else f"{value:.2f}"
