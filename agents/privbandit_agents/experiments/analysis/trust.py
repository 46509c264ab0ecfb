"""Where agents may be trusted: worlds x agents at every budget, each as a share of uniform play's regret."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from privbandit_agents.experiments.analysis.cells import VARIANT, Cell, Cells
from privbandit_agents.experiments.analysis.readings import Results, TrialReading, runs_of
from privbandit_agents.experiments.analysis.statistics import Interval
from privbandit_agents.experiments.analysis.tables import Table
from privbandit_agents.experiments.names import bare
from privbandit_agents.experiments.schema.figures import MapSpec
from privbandit_agents.experiments.usage import placed

FAILED = 0.9
"""A seed with this share of uniform play's regret, or more, has learned nothing."""


@dataclass(frozen=True)
class Place:
    """One agent in one world at one budget.

    Attributes:
        notion: of privacy.
        seeds: how many.
        mean: of the regret, over the mean of uniform's on the same seeds, with its 95 % interval.
        median: of the regret, over the same.
        failed: share of the seeds with ``FAILED`` of uniform's regret or more.
        late: the ratio of means in the last quarter of users alone.
    """

    notion: str
    seeds: int
    mean: Interval[float]
    median: float
    failed: float
    late: float

    @property
    def numbers(self) -> dict[str, str | float]:
        """The columns of the CSV file."""
        return vars(self) | {"mean": self.mean.value, "half_width": self.mean.half_width}


@dataclass(frozen=True)
class TrustMap:
    """A map at one budget; None where an agent does not play, or was not run.

    Attributes:
        panel: the name of the budget.
        worlds: names of its rows.
        agents: names of its columns.
        places: rows of columns.
    """

    panel: str
    worlds: Sequence[str]
    agents: Sequence[str]
    places: Sequence[Sequence[Place | None]]

    def over_best(self, row: int, column: int) -> float:
        """Return an agent's mean over the least mean in its world at its notion of privacy."""
        place = self.places[row][column]
        rivals = [other.mean.value for other in self.places[row] if other and place and other.notion == place.notion]
        return place.mean.value / min(rivals) if place and min(rivals) > 0 else float("nan")


Squares = Mapping[str, Sequence[Sequence[Cell | None]]]
"""The cells of a map's places, by panel: found before anything runs."""


def squares(spec: MapSpec, cells: Cells) -> Squares:
    """Return the cells of a map; an agent without the setting of the panels is in all of them.

    Raises:
        ValueError: an unknown setting or agent, two cells at one place, or no uniform beside one.
    """
    cells.check_setting(spec.panels)
    known = [cells.select(row) for row in spec.worlds.values()]
    columns = [cells.select({VARIANT: agent}) for agent in spec.agents]
    budgets = Cells(cell for column in columns for cell in column).values(spec.panels)

    def at(value: Any, row: Cells, column: Cells) -> Cell | None:
        rows = {cell.name for cell in row}
        found = [c for c in column if c.name in rows and c.settings.get(spec.panels, value) == value]
        if found:
            cells.beside(found[0])
        return Cells(found).one({}) if found else None

    found = {}
    for value in budgets:
        name = f"{spec.panels.rpartition('.')[2]} = {bare(value)}"
        with placed(name):
            found[name] = [[at(value, row, column) for column in columns] for row in known]
    return found


def trust_maps(spec: MapSpec, found: Squares, cells: Cells, results: Results) -> list[TrustMap]:
    """Return the maps of the runs, one for each budget; each has the worlds in which an agent played at that budget."""

    def read(cell: Cell | None) -> Place | None:
        return None if cell is None else place_of(cell, cells.beside(cell), results)

    maps = []
    for panel, rows in found.items():
        # what has no budget is in all of them
        own = [
            i
            for i, row in enumerate(rows)
            if any(cell and any(cell is not other[i][j] for other in found.values()) for j, cell in enumerate(row))
        ]
        kept = own or list(range(len(rows)))
        places = [[read(cell) for cell in rows[i]] for i in kept]
        if any(place for row in places for place in row):
            maps.append(TrustMap(panel, [list(spec.worlds)[i] for i in kept], spec.agents, places))
    return maps


def place_of(cell: Cell, uniform: Cell, results: Results) -> Place | None:
    """Return a cell's measurement beside that of uniform play; None: there is none."""
    horizon = cell.settings["horizon"]
    # the last quarter of users
    whole = TrialReading(cell, "ratio", np.array([0.75 * horizon, horizon]), uniform).read(results)
    if not len(whole.replications):
        return None
    mean, own, beside = whole.interval, whole.above, whole.below.mean(axis=0)
    late = (own[:, 1] - own[:, 0]).mean() / (beside[1] - beside[0])
    notion = next(iter(runs_of(cell, results).values())).notes.get("privacy", "none").partition(" ")[0]
    return Place(
        notion,
        len(own),
        mean.mapped(lambda end: float(end[1])),
        float(np.median(own[:, 1]) / beside[1]),
        float(np.mean(own[:, 1] >= FAILED * whole.below[:, 1])),
        float(late),
    )


def trust_table(each: TrustMap) -> Table:
    """Return a map as a table; in brackets how many seeds of a hundred have learned nothing."""
    rows: list[dict[str, str]] = []
    numbers = []
    for i, world in enumerate(each.worlds):
        rows.append({"world": world})
        for j, (agent, place) in enumerate(zip(each.agents, each.places[i], strict=True)):
            rows[-1][agent] = words(place)
            if place is not None:
                name = {"budget": each.panel, "world": world, "agent": agent}
                numbers.append({**name, **place.numbers, "over_best": each.over_best(i, j)})
    note = f"Share of uniform play's regret; in brackets, seeds of a hundred with {FAILED:g} of it or more"
    return Table(pl.DataFrame(rows), pl.DataFrame(numbers), f"{note}; {each.panel}.", left=["world"])


def words(place: Place | None) -> str:
    if place is None:
        return "-"
    return share(place.mean.value) + (f" ({place.failed:.0%})" if place.failed else "")


def share(value: float) -> str:
    """Return a share to two digits, without the 0 before the point."""
    return (f"{value:.2f}" if value >= 0.095 else f"{value:.2g}").removeprefix("0")
