"""Readings: a quantity of a cell, at places along x, in every replication."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privbandit_agents.experiments.fields import users_or_fraction
from privbandit_agents.experiments.jobs.rows import best_accuracy
from privbandit_agents.experiments.names import TALLIES, plain
from privbandit_agents.experiments.results.cells import Cell, Cells, called, in_order, world
from privbandit_agents.experiments.results.queries import long, wide
from privbandit_agents.experiments.results.statistics import Floats, Interval, common_seeds, student_interval
from privbandit_agents.experiments.schema.measures import Pick, Selection
from privbandit_agents.experiments.usage import placed
from privbandit_envs.families.classification import SYNTHETIC
from privbandit_envs.validate import did_you_mean, one_of
from privbandit_envs.wrappers import even_checkpoints

Int64s = NDArray[np.int64]
Results = Mapping[str, pl.DataFrame]
"""Rows of the frame by cell."""
CHOSEN: Mapping[Pick, str] = {
    "best": "best over the grid, chosen on the test sets",
    "honest": "chosen on other replications",
}
"""How the point of the grid is picked, in words."""


@dataclass(frozen=True)
class Values:
    """The readings of a cell; their mean over replications is a ratio of two means.

    Attributes:
        replications: that have numbers, increasing, shape (n,).
        above: numerators, shape (n, c).
        below: denominators, shape (n, c).
        x: the places, shape (c,); empty for fits.
        point: the point of the grid that was picked; None if the halves have one each, or there is none.
        why: the reason if nothing was measured.
    """

    replications: Int64s
    above: Floats
    below: Floats
    x: Floats = field(default_factory=lambda: np.empty(0))
    point: Mapping[str, Any] | None = None
    why: str = ""

    @classmethod
    def nothing(cls, why: str = "") -> "Values":
        return cls(np.empty(0, np.int64), np.empty((0, 1)), np.empty((0, 1)), why=why)

    @property
    def mean(self) -> Floats:
        """Over replications, shape (c,); NaN without any."""
        if not len(self.replications):
            return np.full(self.above.shape[1], np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.above.mean(axis=0) / self.below.mean(axis=0))

    @property
    def interval(self) -> Interval[Floats]:
        """The mean and its 95 % interval, shape (c,): Student's for the linearised ratio (the delta method)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return student_interval((self.above - self.mean * self.below) / self.below.mean(axis=0), self.mean)

    def of(self, replications: Int64s) -> "Values":
        """Return the readings of some of the replications."""
        kept = np.searchsorted(self.replications, replications)
        return replace(self, replications=replications, above=self.above[kept], below=self.below[kept])


@dataclass(frozen=True)
class Reading:
    """A quantity of trials after numbers of users, or of fits at the point of their grid that is picked.

    Attributes:
        cell: that is read.
        y: the quantity.
        users: of trials, shape (c,); None: at the checkpoints that all trials of the cell have.
        uniform: the cell of ``uniform`` beside it, for ``y="ratio"``.
        pick: of fits; see ``Selection``.
        fixed: values of the grid; the pick is among the points that have them.
    """

    cell: Cell
    y: str
    users: Floats | None = None
    uniform: Cell | None = None
    pick: Pick = "best"
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def replications(self) -> Int64s:
        return common_seeds(self.cell.replications, *([] if self.uniform is None else [self.uniform.replications]))

    @property
    def along(self) -> bool:
        """Whether it is a curve along the users."""
        return self.cell.job.kind == "trial" and self.users is None

    def read(self, results: Results) -> Values:
        """Return the numbers of every seed that was measured.

        Raises:
            ValueError: the agents of the cell predict nothing or keep no tally, or contexts are not finitely many.
        """
        every = [results[cell.name] for cell in (self.cell, self.uniform) if cell is not None and cell.name in results]
        if len(every) < (1 if self.uniform is None else 2):
            return Values.nothing("not run")
        return self.of_fits(every[0]) if self.cell.job.kind == "fit" else self.of_trials(every)

    def of_trials(self, every: Sequence[pl.DataFrame]) -> Values:
        seeds = common_seeds(*(rows["seed"].to_numpy() for rows in every))
        if not len(seeds):
            return Values.nothing("not run")
        own, *others = [rows.filter(pl.col("seed").is_in(seeds.tolist())) for rows in every]
        users = wide(every[0], "regret")[0] if self.users is None else self.users
        name = {"ratio": "regret", "regret_per_round": "regret"}.get(self.y, self.y)
        above = self.at(own, name, users)
        if others:
            return Values(seeds, above, self.at(others[0], name, users), users)
        below = users if self.y in ("regret_per_round", "reward") else np.ones(len(users))
        return Values(seeds, above, np.broadcast_to(below, above.shape), users)

    def at(self, rows: pl.DataFrame, name: str, users: Floats) -> Floats:
        """Return a quantity after numbers of users, linear between shared checkpoints, shape (seeds, users).

        Cumulative sums start at 0; errors of predictions are constant before the first checkpoint.
        """
        if name not in rows.columns or long(rows.select(name))[name].null_count():
            where = world(self.cell)
            why = "it does not change, its arms come and go or are sets, or an agent that owns its loop played it"
            if name == "static":
                raise ValueError(f"{where} has no static regret here: {why}.")
            if name in TALLIES:
                raise ValueError(f"{called(self.cell)} keeps no tally of {name}; dpmnl does.")
            raise ValueError(f"{called(self.cell)} has no {name} in {where}: it predicts no rewards there.")
        known, values = wide(rows, name)
        if name in TALLIES:
            return np.repeat(values[:, -1:], len(users), axis=1)
        if name not in ("mad", "mse"):
            known, values = np.concatenate([[0], known]), np.pad(values, ((0, 0), (1, 0)))
        return np.stack([np.interp(users, known, row) for row in values])

    def of_fits(self, rows: pl.DataFrame) -> Values:
        wanted = {key: plain(value) for key, value in self.fixed.items()}
        points = self.cell.job.points
        places = [i for i, point in enumerate(points) if all(plain(point[key]) == one for key, one in wanted.items())]
        accuracy, numbers = (
            rows[key].to_numpy().reshape(-1, len(points))[:, places]
            for key in ("accuracy", "accuracy" if self.y == "excess" else self.y)
        )
        could = np.flatnonzero(~np.isnan(accuracy).any(axis=0)) if len(accuracy) else np.array([], np.int64)
        if not len(could):
            return Values.nothing(next(filter(None, rows["why"]), "not run"))
        if self.y == "excess":
            if self.cell.settings["source"] != SYNTHETIC:
                raise ValueError(f"excess needs the best accuracy, which is known for {SYNTHETIC} alone.")
            numbers = best_accuracy() - accuracy
        picked = could[picks(accuracy[:, could], self.pick)]
        found = numbers[np.arange(len(numbers)), picked][:, None]
        point = points[places[picked[0]]] if (picked == picked[0]).all() else None
        replications = rows["replication"].unique(maintain_order=True).to_numpy()
        return Values(replications, found, np.ones(found.shape), point=point)


def by_cell(frame: pl.DataFrame) -> Results:
    """Return the rows of a frame by cell, in the order of replications."""
    if frame.is_empty():
        return {}
    order = ["seed"] if "seed" in frame.columns else ["replication", "place"]
    parts = frame.sort(order, maintain_order=True).partition_by("cell", as_dict=True)
    return {str(name): rows for (name,), rows in parts.items()}


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


def reading(cell: Cell, selection: Selection, cells: Cells) -> Reading:
    """Return the reading that a selection defines; it may combine several cells.

    Raises:
        ValueError: it asks for a reading that the cell lacks.
    """
    y = one_of(cell.job.quantities, y=selection.y or cell.job.quantities[0])
    foreign = ("at",) if cell.job.kind == "fit" else ("pick", "fixed")
    if given := [key for key in foreign if key in selection.model_fields_set]:
        raise ValueError(f"{given[0]} is no choice for a {cell.job.kind}; leave it out.")
    if cell.job.kind == "fit":
        return fixed_at(Reading(cell, y, pick=selection.pick), selection.fixed)
    users, spec = users_of(selection.at, cell), cell.job.spec
    first = int(even_checkpoints(spec["horizon"], spec["checkpoints"])[0])
    if users < first:
        raise ValueError(f"must be at least the first checkpoint, {first} users; got {users:g}.")
    return Reading(cell, y, np.array([users]), cells.beside(cell) if y == "ratio" else None)


def curve(cell: Cell, selection: Selection, cells: Cells, users: Floats | None = None) -> Reading:
    """Return the reading of a trial's cell along its users; None: at its checkpoints."""
    found = reading(cell, selection, cells)
    if cell.job.kind == "fit":
        raise ValueError("users are those of trials; a fit has none.")
    return replace(found, users=users)


def line_along(selection: Selection, key: str, cells: Cells, every: Cells | None = None) -> dict[Any, Reading]:
    """Return the readings of a line: one for each value of a setting of the cells, or of the grid, increasing.

    It is empty if the selected cells have no such setting, as those of methods without epsilon.

    Args:
        selection: the cells of the line, and the reading.
        key: the setting.
        cells: among which the line's are.
        every: among which ``uniform`` is; default: ``cells``.

    Raises:
        ValueError: no cell and no grid has the setting, or its values have no order.
    """
    every = every or cells
    if key in cells.keys:
        line = cells.along(selection.settings, key)
        return {value: reading(cell, selection, every) for value, cell in line.items()}
    found = reading(cells.one(selection.settings), selection, every)
    values = in_order(key, grid_values(found.cell, key))
    return {value: fixed_at(found, {key: value}) for value in values}


def grid_values(cell: Cell, key: str) -> list[Any]:
    """Return the values of a setting in the grid of a cell, each once; raise ValueError if there is none."""
    values: list[Any] = []
    for value in (plain(point[key]) for point in cell.job.points if key in point):
        values += [] if value in values else [value]
    if not values:
        known = list(cell.job.points[0]) if cell.job.points else []
        has = f"{did_you_mean(key, known)}; {', '.join(known) or 'nothing'}."
        raise ValueError(f"{cell.job.called('agent', ())} has no grid of {key!r}{has}")
    return values


def fixed_at(found: Reading, fixed: Mapping[str, Any]) -> Reading:
    """Return a reading at further values of the grid, which must have them."""
    for key, value in fixed.items():
        with placed("fixed"):
            known = grid_values(found.cell, key)
            if plain(value) not in known:
                raise ValueError(f"{key} must be one of {known}; got {value!r}.")
    return replace(found, fixed={**found.fixed, **fixed})


def users_of(at: float, cell: Cell) -> float:
    horizon = cell.settings["horizon"]
    users = float(at * horizon if isinstance(users_or_fraction(at), float) else at)
    if users > horizon:
        raise ValueError(
            f"must be at most the horizon {horizon}; got {users:g}, a fraction such as 0.5 is relative to it."
        )
    return users
