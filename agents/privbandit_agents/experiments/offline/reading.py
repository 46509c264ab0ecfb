"""Cells of an offline comparison, and what is read of them: the accuracies of a point of the grid."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.experiments.cells import one, placed, select
from privbandit_agents.experiments.offline.file import Pick, Selection
from privbandit_agents.experiments.offline.method import Method
from privbandit_agents.experiments.offline.runner import Results
from privbandit_agents.experiments.offline.task import Task
from privbandit_agents.experiments.statistics import Floats
from privbandit_agents.experiments.store import name_of
from privbandit_agents.experiments.trial import plain
from privbandit_envs.validate import did_you_mean

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Cell:
    """Tasks that differ in their replication alone.

    Attributes:
        name: hash of what they share.
        tasks: in the order of their replications.
        settings: ``method``, ``agent``, ``epsilon`` if there is one, and the settings of the world.
    """

    name: str
    tasks: tuple[Task, ...] = field(compare=False)
    settings: Mapping[str, Any] = field(compare=False)

    @property
    def method(self) -> Method:
        """The method of all tasks."""
        return self.tasks[0].method


def cells_of(tasks: Sequence[Task]) -> list[Cell]:
    """Return the cells of tasks, in the order of their first tasks."""
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        shared = {key: value for key, value in task.spec.items() if key != "replication"}
        groups.setdefault(name_of({**shared, "name": task.method.name}), []).append(task)
    return [
        Cell(name, tuple(sorted(group, key=lambda task: task.replication)), settings_of(group[0]))
        for name, group in groups.items()
    ]


def settings_of(task: Task) -> dict[str, Any]:
    """Return the settings by which a cell is found."""
    budget = {} if task.epsilon is None else {"epsilon": plain(task.epsilon)}
    return {"method": task.method.name, "agent": task.method.agent, **budget, **plain(task.world.settings)}


@dataclass(frozen=True)
class Values:
    """What was read of a cell.

    Attributes:
        replications: that have a number, increasing, shape (n,).
        values: accuracy or seconds, shape (n,).
        point: the point of the grid that was picked; None if the halves have one each, or nothing was measured.
        why: the reason where nothing was measured.
    """

    replications: Int64s
    values: Floats
    point: Mapping[str, Any] | None = None
    why: str = ""

    @property
    def mean(self) -> float:
        """Over replications; NaN without any."""
        return float(self.values.mean()) if len(self.values) else np.nan


@dataclass(frozen=True)
class Reading:
    """A cell, and how its point of the grid is picked; see ``Selection``."""

    cell: Cell
    pick: Pick = "best"
    y: str = "accuracy"
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def places(self) -> list[int]:
        """The points of the grid that have the fixed values."""
        wanted = {key: plain(value) for key, value in self.fixed.items()}
        points = enumerate(self.cell.method.points)
        return [place for place, point in points if all(plain(point[key]) == value for key, value in wanted.items())]

    def read(self, results: Results) -> Values:
        """Return the numbers of every replication that was measured."""
        found = [(task.replication, results[task.name]) for task in self.cell.tasks if task.name in results]
        accuracy = self.table([scores.accuracy for _, scores in found])
        could = np.flatnonzero(~np.isnan(accuracy).any(axis=0)) if found else np.array([], np.int64)
        if not len(could):
            return Values(np.array([], np.int64), np.array([]), why=reason([scores.errors for _, scores in found]))
        numbers = accuracy if self.y == "accuracy" else self.table([scores.seconds for _, scores in found])
        replications = np.array([replication for replication, _ in found])
        picked = could[picks(accuracy[:, could], self.pick)]
        kept = picked >= 0
        same = len(set(picked.tolist())) == 1
        point = self.cell.method.points[self.places[picked[0]]] if same else None
        return Values(replications[kept], numbers[np.arange(len(found)), picked][kept], point)

    def table(self, rows: Sequence[Sequence[float | None]]) -> Floats:
        """Return numbers of the points that may be picked, shape (replications, points); NaN where there is none."""
        return np.array([[row[place] for place in self.places] for row in rows], dtype=np.float64)


def picks(accuracy: Floats, pick: Pick) -> Int64s:
    """Return the place of the point that is read in each replication, shape (n,).

    Args:
        accuracy: shape (n, points), n >= 1.
        pick: ``best``: the point of the best mean. ``honest``: for replications of even place the point of the best
            mean over those of odd place, and the other way round; with one replication there is no other half.
    """
    n = len(accuracy)
    if pick == "best" or accuracy.shape[1] == 1 or n == 1:
        return np.full(n, accuracy.mean(axis=0).argmax())
    even = np.arange(n) % 2 == 0
    by_odd, by_even = accuracy[~even].mean(axis=0).argmax(), accuracy[even].mean(axis=0).argmax()
    return np.asarray(np.where(even, by_odd, by_even))


def reason(errors: Sequence[Sequence[str | None]]) -> str:
    """Return why nothing was measured: the first reason given."""
    return next((why for row in errors for why in row if why), "not run")


def reading_of(selection: Selection, cells: Sequence[Cell]) -> Reading:
    """Return the reading that a selection names.

    Raises:
        ValueError: it matches no cell or several, or fixes what the grid has not.
    """
    return checked(Reading(one(cells, selection.settings), selection.pick, selection.y, selection.fixed))


def checked(reading: Reading) -> Reading:
    """Return a reading whose fixed values the grid has."""
    grid = reading.cell.method.grid
    for key, value in reading.fixed.items():
        with placed("fixed"):
            if key not in grid:
                known = ", ".join(grid) or "nothing"
                raise ValueError(
                    f"{reading.cell.method.name} has no grid of {key!r}{did_you_mean(key, grid)}; {known}."
                )
            if plain(value) not in plain(grid[key]):
                raise ValueError(f"{key} must be one of {plain(grid[key])}; got {value!r}.")
    return reading


def in_order(key: str, values: Iterable[Any]) -> list[Any]:
    """Return values increasing.

    Raises:
        ValueError: they have no order.
    """
    try:
        return sorted(values)
    except TypeError:
        raise ValueError(f"{key} needs values that can be ordered; got {list(values)}.") from None


def along(of: Selection, key: str, cells: Sequence[Cell]) -> dict[Any, Reading]:
    """Return the readings of a line: one for each value of a key of the cells, or of the grid, increasing.

    It is empty if the cells that are selected have no such key, as those of methods without epsilon.
    """
    if any(key in cell.settings for cell in cells):
        found = [cell for cell in select(cells, of.settings) if key in cell.settings]
        values = dict.fromkeys(cell.settings[key] for cell in found)
        readings = {
            value: Reading(one(found, {key: value}), of.pick, of.y, of.fixed) for value in in_order(key, values)
        }
        return {value: checked(reading) for value, reading in readings.items()}
    whole = reading_of(of, cells)
    grid = in_order(key, plain(whole.cell.method.grid.get(key, [None])))
    return {value: checked(replace(whole, fixed={**of.fixed, key: value})) for value in grid}
