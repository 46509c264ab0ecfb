"""What was measured in a cell, and the quantities that are read off it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.experiments.cells import Cell, cell_name
from privbandit_agents.experiments.statistics import Floats, common_seeds
from privbandit_agents.experiments.trial import Outcome

Quantity = Literal["regret", "ratio", "regret_per_round", "reward", "mad", "mse"]
"""Cumulative regret; that over uniform's in the same environment; regret per user; reward per user; mean absolute and
mean squared error of the predicted mean rewards."""


@dataclass(frozen=True)
class Measured:
    """The curves of one cell.

    Attributes:
        seeds: increasing, shape (n,).
        users: numbers of users at the checkpoints, shape (c,).
        regret: cumulative, shape (n, c).
        reward: cumulative, shape (n, c).
        mad: mean absolute error of predictions, shape (n, c); None if the agents predict nothing.
        mse: their mean squared error, likewise.
    """

    seeds: NDArray[np.int64]
    users: NDArray[np.int64]
    regret: Floats
    reward: Floats
    mad: Floats | None = None
    mse: Floats | None = None


Table = Mapping[str, Measured]
"""What was measured, by the name of the cell."""


def measured(outcomes: Iterable[Outcome]) -> dict[str, Measured]:
    """Return what finished trials have measured, cell by cell."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(cell_name(outcome.trial), []).append(outcome)
    return {name: stacked(sorted(runs, key=lambda run: run.trial.seed)) for name, runs in groups.items()}


def stacked(runs: Sequence[Outcome]) -> Measured:
    """Return the curves of runs at the checkpoints that all of them have."""
    results = [run.result for run in runs]
    users = reduce(np.intersect1d, [result.checkpoints for result in results])
    kept = [np.isin(result.checkpoints, users) for result in results]
    seeds = np.array([run.trial.seed for run in runs], dtype=np.int64)
    series = {
        name: np.stack([getattr(result, name)[here] for result, here in zip(results, kept, strict=True)])
        for name in ("regret", "reward", "mad", "mse")
        if all(getattr(result, name) is not None for result in results)
    }
    return Measured(seeds, users, **series)


@dataclass(frozen=True)
class Reading:
    """A quantity of a cell; its mean over seeds is a ratio of two means over seeds.

    Attributes:
        cell: that is read.
        y: the quantity.
        uniform: the cell of ``uniform`` beside it, for ``y="ratio"``.
    """

    cell: Cell
    y: Quantity
    uniform: Cell | None = None

    def seeds(self, table: Table) -> NDArray[np.int64]:
        """Return the seeds with which it was measured."""
        cells = [self.cell] if self.uniform is None else [self.cell, self.uniform]
        return common_seeds(*(table[cell.name].seeds if cell.name in table else [] for cell in cells))

    def at(self, users: Floats, seeds: NDArray[np.int64], table: Table) -> tuple[Floats, Floats]:
        """Return numerators and denominators after numbers of users, both of shape (seeds, users)."""
        curves = table[self.cell.name]
        if self.y in ("mad", "mse"):
            above = between(curves, self.y, users, seeds, self.cell)
            return above, np.ones(above.shape)
        above = interpolated(curves, "reward" if self.y == "reward" else "regret", users, seeds)
        if self.uniform is not None:
            return above, interpolated(table[self.uniform.name], "regret", users, seeds)
        below = np.ones(len(users)) if self.y == "regret" else np.asarray(users, dtype=np.float64)
        return above, np.broadcast_to(below, above.shape)


def interpolated(curves: Measured, name: str, users: Floats, seeds: NDArray[np.int64]) -> Floats:
    """Return a cumulative sum after numbers of users, linear between checkpoints, shape (seeds, users)."""
    rows = getattr(curves, name)[np.searchsorted(curves.seeds, seeds)]
    known = np.concatenate([[0], curves.users])
    return np.stack([np.interp(users, known, np.concatenate([[0.0], row])) for row in rows])


def between(curves: Measured, name: str, users: Floats, seeds: NDArray[np.int64], cell: Cell) -> Floats:
    """Return an error of predictions after numbers of users, linear between checkpoints, shape (seeds, users).

    Raises:
        ValueError: the agents of the cell predict nothing, or the world has not finitely many contexts.
    """
    series = getattr(curves, name)
    if series is None:
        raise ValueError(
            f"{cell.trial.agent_label} has no {name} in {cell.trial.env_label}: it predicts no rewards there."
        )
    rows = series[np.searchsorted(curves.seeds, seeds)]
    return np.stack([np.interp(users, curves.users, row) for row in rows])


def beside(cell: Cell, cells: Iterable[Cell]) -> Cell:
    """Return the cell in which ``uniform`` plays the same environment.

    Raises:
        ValueError: there is none.
    """
    own = {key: value for key, value in cell.settings.items() if key in ("env", "horizon") or key.startswith("env.")}
    for other in cells:
        if other.settings["agent"] == "uniform" and own == {key: other.settings.get(key) for key in own}:
            return other
    raise ValueError(f"a ratio needs the agent 'uniform' in {cell.trial.env_label}, {cell.trial.horizon} users.")


def reading_of(cell: Cell, y: Quantity, cells: Iterable[Cell]) -> Reading:
    """Return the reading of a quantity.

    Raises:
        ValueError: a ratio without uniform beside it, or with no seed in common.
    """
    uniform = beside(cell, cells) if y == "ratio" else None
    if uniform is not None and not len(common_seeds(cell.seeds, uniform.seeds)):
        raise ValueError(f"a ratio needs a seed in common with uniform's; {cell.trial.agent_label} has {cell.seeds}.")
    return Reading(cell, y, uniform)
