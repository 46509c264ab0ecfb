"""Scores as a frame, and the boards of it; statistics are those of rliable.

Agarwal, Schwarzer, Castro, Courville, Bellemare, "Deep Reinforcement Learning at the Edge of the Statistical
Precipice", NeurIPS 2021: interquartile means, stratified bootstrap, performance profiles.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy
from numpy.random import default_rng

from privbandit_agents.experiments.results.ranks import interquartile_mean, resampled
from privbandit_agents.experiments.results.statistics import (
    Floats,
    Interval,
    percentile_interval,
    student_interval,
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


def pooled(scores: Sequence[Floats]) -> Interval[float]:
    """Return the interquartile mean of scores in several tasks, with a 95 % interval; seeds are drawn within tasks."""
    return estimated(scores, drawn(scores))


def drawn(scores: Sequence[Floats], draws: int = 2000) -> Floats:
    """Return bootstrapped interquartile means, shape (draws,): on the same seeds for all agents with as many tasks."""
    enough = scores and min(map(len, scores)) > 1
    return resampled(scores, default_rng(0), draws) if enough else np.full(1, np.nan)


def estimated(scores: Sequence[Floats], draws: Floats) -> Interval[float]:
    value = float(interquartile_mean(np.concatenate(scores))) if scores else np.nan
    return percentile_interval(value, draws)


def profile(scores: Sequence[Floats], levels: Floats) -> Floats:
    """Return the share of runs with a score above each level, every task with the same weight."""
    return np.asarray(np.mean([(one[:, None] > levels).mean(axis=0) for one in scores], axis=0))


def placed(scores: pl.DataFrame, epsilon: float) -> pl.DataFrame:
    """Return the agents of every board at a budget, the highest score first.

    Names whose runs are the same share a row. Agents are tied that cannot be told apart: ``tied``.

    Returns:
        ``family, notion, unit, agent``; ``also``, other names of the same runs; ``score``, the interquartile mean over
        tasks and seeds, with the ends ``low`` and ``high`` of its 95 % interval; ``rank`` and ``last``, the first and
        the last place of its group of ties, null unless it has played all tasks of the board; ``played`` and
        ``asked``, how many tasks it has played, and how many there are.
    """
    rows: list[dict[str, object]] = []
    at = at_budget(scores, epsilon)
    for board in boards_in(at):
        each: dict[str, list[Floats]] = {}
        names: dict[str, list[str]] = {}  # of one agent, by what it did
        counts: dict[str, dict[str, int]] = {}
        for (name,), own in on_board(at, board).group_by("agent", maintain_order=True):
            names.setdefault(repr(own.select("task", "scores").rows()), []).append(str(name))
            if own["played"].any():
                each[str(name)] = lists(own)
                counts[str(name)] = {"played": int(own["played"].sum()), "asked": int(own["asked"][0])}
        also = {first: others for first, *others in names.values()}
        draws = {name: drawn(own) for name, own in each.items() if name in also}
        found = {name: estimated(each[name], own) for name, own in draws.items()}
        order = sorted(found, key=lambda name: -found[name].value)
        whole = [name for name in order if len(each[name]) == counts[name]["asked"]]
        seeds = min((len(task) for name in whole for task in each[name]), default=0)
        asked = counts[whole[0]]["asked"] if whole else 0
        groups = tied([found[name].value for name in whole], [draws[name] for name in whole], seeds, asked)
        places = dict(zip(whole, groups, strict=True))
        for name in order:
            first, last = places.get(name, (None, None))
            ends = {"score": found[name].value, "low": found[name].low, "high": found[name].high}
            told = {"agent": name, "also": also[name], **ends, "rank": first, "last": last}
            rows.append({**board._asdict(), **told, **counts[name]})
    schema: Any = {"also": pl.List(pl.String), "rank": pl.Int64, "last": pl.Int64}
    return pl.DataFrame(rows, schema_overrides=schema, infer_schema_length=None)


def tied(scores: Sequence[float], draws: Sequence[Floats], seeds: int, tasks: int) -> list[tuple[int, int]]:
    """Return the first and the last place of each agent's group of ties, the best agent first.

    Two agents are told apart if their scores differ by more than Student's quantile at 99 % times the standard error of
    the difference. That is bootstrapped, and paired, as all agents are drawn on the same seeds. A group ends where
    every agent above is told from every agent below, so that the order of two groups is that of all their pairs.

    Args:
        scores: of the agents.
        draws: bootstrapped scores of each agent, shape (draws,).
        seeds: of a task; one alone tells nothing.
        tasks: of the board.
    """
    groups = [0] * len(draws)
    if seeds > 1 and len(draws) > 1:
        spread = np.cov(np.array(draws)) * seeds / (seeds - 1)
        errors = np.sqrt(np.maximum(np.add.outer(spread.diagonal(), spread.diagonal()) - 2 * spread, 0))
        told = np.subtract.outer(scores, scores) > scipy.stats.t.ppf(0.995, tasks * (seeds - 1)) * errors
        for i in range(1, len(draws)):
            groups[i] = groups[i - 1] + bool(told[:i, i:].all())
    return [(groups.index(own) + 1, len(groups) - groups[::-1].index(own)) for own in groups]


def overall(scores: pl.DataFrame, agent: str, epsilon: float) -> Interval[float]:
    """Return an agent's score over all families; promises to persons are left out."""
    return pooled(lists(at_budget(scores, epsilon).filter(agent=agent, unit=VISIT)))


def stability(scores: pl.DataFrame, epsilon: float = 1.0) -> list[dict[str, Any]]:
    """Return how well the order of agents repeats, a row for each board with five ranked agents or more.

    One half of the seeds forms groups, the other half judges them, for every way to halve the seeds. Agents of a group
    have the mean of their places.

    Returns:
        ``board``; ``agents`` and ``groups``, how many it ranks by all seeds; ``correlation``, the mean of Spearman's
        between both halves; ``flips``, the share of pairs of different groups whose order the other half reverses; NaN
        without such pairs; ``tied``, how many halves tell no agents apart, such as ``"2 of 20"``.
    """
    found, places = [], placed(scores, epsilon)
    for board in boards_in(at_budget(scores, epsilon)):
        own = on_board(places, board).filter(pl.col("rank").is_not_null())
        if own.height < 5:
            continue
        at = on_board(at_budget(scores, epsilon), board)
        values = np.array([lists(at.filter(agent=name)) for name in own["agent"]])
        seeds = values.shape[-1]
        halves = list(combinations(range(seeds), seeds // 2))
        correlations, turned = [], []
        for half in halves:
            inside, outside = values[..., list(half)], np.delete(values, half, axis=-1)
            here, there = (interquartile_mean(one.reshape(len(one), -1)) for one in (inside, outside))
            order = np.argsort(-here)
            draws = [drawn(list(inside[i]), 500) for i in order]
            groups = tied(list(here[order]), draws, len(half), values.shape[1])
            first = np.array([place for place, _ in groups])
            group = (first[:, None] == first) / (first[:, None] == first).sum(axis=0)
            left, right = (group @ scipy.stats.rankdata(-one[order]) for one in (here, there))
            if np.ptp(first):
                correlations.append(np.corrcoef(left, right)[0, 1])
                turned.append(np.less.outer(there[order], there[order])[np.less.outer(first, first)])
        told = {
            **{"agents": own.height, "groups": own["rank"].n_unique()},
            "correlation": float(np.mean(correlations)) if turned else np.nan,
            "flips": float(np.mean(np.concatenate(turned))) if turned else np.nan,
        }
        found.append({"board": board, **told, "tied": f"{len(halves) - len(turned)} of {len(halves)}"})
    return found


def level_tasks(scores: pl.DataFrame, epsilon: float = 1.0) -> list[dict[str, Any]]:
    """Return the tasks that tell less than half of a board's pairs apart: ``board, task, agents, told``.

    Of boards with five ranked agents or more; ``told`` is a share, by Student's 95 % interval of paired differences.
    """
    found, places = [], placed(scores, epsilon)
    for board in boards_in(at_budget(scores, epsilon)):
        names = on_board(places, board).filter(pl.col("rank").is_not_null())["agent"]
        own = on_board(at_budget(scores, epsilon), board).filter(pl.col("agent").is_in(names.implode()))
        for (task,), rows in own.group_by("task", maintain_order=True):
            values = np.array(lists(rows))
            i, j = np.triu_indices(len(values), 1)
            gaps = student_interval((values[i] - values[j]).T)
            told = float(np.mean((gaps.low > 0) | (gaps.high < 0))) if len(i) else 1.0
            if len(names) >= 5 and told < 0.5:
                found.append({"board": board, "task": task, "agents": len(names), "told": told})
    return found


def score_of(row: Mapping[str, Any]) -> Interval[float]:
    """Return the score of a place, with its interval."""
    return Interval(row["score"], row["low"], row["high"])


def signed(value: float) -> str:
    """Return a score with two digits after the point; "-" for no number."""
    return "-" if value != value else f"{value:.2f}"
