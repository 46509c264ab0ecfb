"""Boards: the agents of one family that make one promise, by their scores; statistics are those of rliable.

Agarwal, Schwarzer, Castro, Courville, Bellemare, "Deep Reinforcement Learning at the Edge of the Statistical
Precipice", NeurIPS 2021: interquartile means, stratified bootstrap, performance profiles, probability of improvement.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.random import default_rng

from privbandit_agents.experiments.analysis.ranks import interquartile_mean, resampled
from privbandit_agents.experiments.analysis.statistics import (
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


@dataclass(frozen=True)
class Place:
    """An agent on a board.

    Attributes:
        score: interquartile mean over tasks and seeds, with its 95 % interval by a stratified bootstrap.
        rank: 1 and how many have a higher score; None if it has not played all tasks of the board.
        played: how many tasks it has played, without those that it refused.
        better: probability of improvement on the next agent of the board; NaN for the last one.
    """

    score: Interval[float]
    rank: int | None
    played: int
    better: float


def board_tasks(suite: Suite, board: Board) -> list[Task]:
    """Return a board's tasks: those with returning people if a person is promised a budget, else the others.

    Without a promise all tasks are on one board.
    """
    own = [task for task in suite.tasks.values() if task.family == board.family]
    return [task for task in own if board.notion == OPEN or (task.people is not None) == (board.unit == PERSON)]


def boards_of(record: Record, suite: Suite) -> Iterator[Board]:
    """Yield the boards on which an agent has a place."""
    families = dict.fromkeys(suite.tasks[name].family for name in record.regrets if name in suite.tasks)
    for family in families:
        for unit in (VISIT,) if record.notion == OPEN else (VISIT, PERSON):
            board = Board(family, record.notion, unit)
            if any(task.name in record.regrets for task in board_tasks(suite, board)):
                yield board


def scores_on(board: Board, record: Record, suite: Suite, epsilon: float, seeds: int) -> list[Floats]:
    """Return an agent's scores in each task of a board that it was asked, each shape (seeds,)."""
    budget = OPEN if record.notion == OPEN else budget_name(epsilon)
    found = (record.scores(task, budget, seeds) for task in board_tasks(suite, board))
    return [scores for scores in found if scores is not None]


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


def placed(
    board: Board, records: Mapping[str, Record], suite: Suite, epsilon: float, seeds: int = 0
) -> dict[str, Place]:
    """Return the agents of a board at a budget, the highest score first.

    Args:
        board: whose agents are compared.
        records: by name.
        suite: with the tasks.
        epsilon: of private agents.
        seeds: how many there are; default: the suite's.
    """
    seeds = seeds or len(suite.seeds)
    asked = len(board_tasks(suite, board))
    scores = {
        name: scores_on(board, record, suite, epsilon, seeds)
        for name, record in records.items()
        if board in boards_of(record, suite)
    }
    found = {name: pooled(own) for name, own in scores.items() if own}
    order = sorted(found, key=lambda name: -found[name].value)
    ranked = [found[name].value for name in order if len(scores[name]) == asked]
    places: dict[str, Place] = {}
    for i, name in enumerate(order):
        rank = 1 + sum(other > found[name].value for other in ranked) if len(scores[name]) == asked else None
        after = next((other for other in order[i + 1 :] if len(scores[other]) == len(scores[name])), None)
        better = np.nan if after is None else improvement(scores[name], scores[after])
        played = sum(task.name in records[name].regrets for task in board_tasks(suite, board))
        places[name] = Place(found[name], rank, played, better)
    return places


def all_boards(records: Mapping[str, Record], suite: Suite) -> list[Board]:
    """Return the boards of all agents, in the order of families and notions."""
    found = {board for record in records.values() for board in boards_of(record, suite)}
    families = list(dict.fromkeys(task.family for task in suite.tasks.values()))

    def order(board: Board) -> tuple[int, bool, int]:
        return families.index(board.family), board.unit != VISIT, NOTIONS.index(board.notion)

    return sorted(found, key=order)


def overall(record: Record, suite: Suite, epsilon: float, seeds: int = 0) -> Interval[float]:
    """Return the score over all families, of a name that plays all of them; promises to persons are left out."""
    families = dict.fromkeys(task.family for task in suite.tasks.values())
    seeds = seeds or len(suite.seeds)
    every = [scores_on(Board(family, record.notion, VISIT), record, suite, epsilon, seeds) for family in families]
    return pooled([one for part in every for one in part])


def halved(record: Record, half: int) -> Record:
    """Return a record with every second seed, from 0 or 1 on."""
    regrets = {
        task: {budget: list(every)[half::2] for budget, every in by_budget.items()}
        for task, by_budget in record.regrets.items()
    }
    return Record(record.agent, record.notion, regrets, record.promises, record.refused, record.speed)


def stability(board: Board, records: Mapping[str, Record], suite: Suite, epsilon: float = 1.0) -> tuple[int, float]:
    """Return how many agents a board ranks, and Spearman's correlation of their ranks by two halves of the seeds."""
    sides: list[dict[str, Any]] = []
    for half in (0, 1):
        part = {name: halved(record, half) for name, record in records.items() if board in boards_of(record, suite)}
        ranked = placed(board, part, suite, epsilon, len(suite.seeds[half::2]))
        sides.append({name: place.score.value for name, place in ranked.items() if place.rank})
    names = sorted(sides[0].keys() & sides[1].keys())
    if len(names) < 2:
        return len(names), np.nan
    first, second = ([side[name] for name in names] for side in sides)
    if len(set(first)) == 1 or len(set(second)) == 1:  # all are level
        return len(names), np.nan
    return len(names), float(scipy.stats.spearmanr(first, second).statistic)


def signed(value: float) -> str:
    """Return a score with two digits after the point; "-" for no number."""
    return "-" if value != value else f"{value:.2f}"
