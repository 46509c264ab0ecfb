"""The figures of an offline comparison: accuracy against epsilon, sample sizes or settings of the grid."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullLocator

from privbandit_agents.experiments.cells import check_setting, one, placed, select
from privbandit_agents.experiments.chart import plain_number
from privbandit_agents.experiments.figure import Label, caption, label_points, picture, styles_of, write_caption
from privbandit_agents.experiments.labels import as_text
from privbandit_agents.experiments.offline.file import Figure, Selection
from privbandit_agents.experiments.offline.reading import Cell, Reading, along
from privbandit_agents.experiments.offline.runner import Results
from privbandit_agents.experiments.statistics import Floats, student_half_width

Y_LABELS = {"accuracy": "accuracy", "seconds": "seconds of one fit"}
FEW = 10
"""So many values of x have a tick each."""


@dataclass(frozen=True)
class Series:
    """A line to be drawn: its readings by x, or one reading where it has no x."""

    label: str
    agent: str
    readings: Mapping[float, Reading]
    level: Reading | None = None


@dataclass(frozen=True)
class Panel:
    """A panel: its title and lines."""

    title: str
    series: list[Series]


@dataclass(frozen=True)
class Line:
    """A measured line: x, means over replications, half-widths of their 95 % intervals, each of shape (c,)."""

    label: str
    agent: str
    x: Floats
    mean: Floats
    half_width: Floats
    seeds: int
    level: bool


def layout(spec: Figure, cells: Sequence[Cell]) -> list[Panel]:
    """Return the panels of a figure.

    Raises:
        ValueError: nothing to draw, two cells at one point, or an unknown setting.
    """
    names = {cell.name for wanted in spec.select for cell in select(cells, wanted)}
    drawn = [cell for cell in cells if cell.name in names]
    for key in (*spec.panels, *spec.lines):
        check_setting(key, drawn)
    if not any(spec.x in cell.method.grid for cell in drawn):
        check_setting(spec.x, drawn)
    return [Panel(title, series_of(spec, inside, cells)) for title, inside in panelled(drawn, spec.panels).items()]


def panelled(cells: Sequence[Cell], keys: Sequence[str]) -> dict[str, list[Cell]]:
    """Return cells by the text of their keys; those that lack a key are in all panels that they fit."""
    whole = [cell for cell in cells if all(key in cell.settings for key in keys)] or list(cells)
    panels: dict[str, list[Cell]] = {}
    for place in dict.fromkeys(text_of(cell, keys) for cell in whole):
        first = next(cell for cell in whole if text_of(cell, keys) == place)
        panels[place] = [cell for cell in cells if fits(cell, first, keys)]
    return panels


def fits(cell: Cell, other: Cell, keys: Sequence[str]) -> bool:
    """Return whether a cell has the values of another one under those keys that it has."""
    return all(cell.settings.get(key, other.settings.get(key)) == other.settings.get(key) for key in keys)


def text_of(cell: Cell, keys: Sequence[str]) -> str:
    """Return what a cell has under some keys."""
    own = {key: cell.settings[key] for key in keys if key in cell.settings}
    return ", ".join(str(value) if key in ("method", "source") else as_text({key: value}) for key, value in own.items())


def series_of(spec: Figure, inside: Sequence[Cell], cells: Sequence[Cell]) -> list[Series]:
    """Return the lines of a panel."""
    groups: dict[str, list[Cell]] = {}
    for cell in inside:
        groups.setdefault(text_of(cell, spec.lines) or cell.settings["method"], []).append(cell)
    return [line(spec, label, group, any(spec.x in cell.settings for cell in cells)) for label, group in groups.items()]


def line(spec: Figure, label: str, group: Sequence[Cell], of_cells: bool) -> Series:
    """Return the line of some cells; a method without what x stands for is a level."""
    method = group[0].method
    wanted = Selection(pick=spec.pick, y=spec.y)
    with placed(f"line {label!r}"):
        if (of_cells and not any(spec.x in cell.settings for cell in group)) or (
            not of_cells and spec.x not in method.grid
        ):
            return Series(label, method.agent, {}, Reading(one(group, {}), spec.pick, spec.y))
        readings = along(wanted, spec.x, group)
        if strange := [x for x in readings if isinstance(x, bool) or not isinstance(x, int | float)]:
            raise ValueError(f"x must be numbers; got {spec.x} {strange[0]!r}.")
        return Series(label, method.agent, readings)


def draw(spec: Figure, panels: Sequence[Panel], results: Results, path: Path) -> bool:
    """Draw a figure and write a PNG; lines of which nothing was measured are left out.

    Returns:
        Whether there was anything to draw.
    """
    measured = [(panel.title, lines_of(panel, results)) for panel in panels]
    kept = [(title, lines) for title, lines in measured if lines]
    if not kept:
        return False
    styles = styles_of([lines for _, lines in kept])
    with picture(path, len(kept)) as (figure, axes):
        for axis, (title, lines) in zip(axes, kept, strict=True):
            draw_panel(axis, spec, title, lines, styles)
        if spec.title:
            figure.suptitle(spec.title, fontsize=12, x=0.01, ha="left")
        told = caption([lines for _, lines in kept]).replace("seed", "replication")
        chosen = (
            "best over the grid, chosen on the test sets" if spec.pick == "best" else "chosen on other replications"
        )
        write_caption(figure, f"{told}; {chosen}")
    return True


def lines_of(panel: Panel, results: Results) -> list[Line]:
    """Return what was measured of a panel's lines; levels go from end to end."""
    points = [(series, measured_points(series, results)) for series in panel.series]
    x = [x for series, found in points if series.level is None for x in found] or [0.0, 1.0]
    lines = []
    for series, found in points:
        if not found:
            continue
        if series.level is not None:
            found = {end: values for end in (min(x), max(x)) for values in found.values()}
        rows = list(found.values())
        mean, half_width = np.array([row.mean() for row in rows]), np.array([student_half_width(row) for row in rows])
        fewest = min(map(len, rows))
        places = np.array(list(found), dtype=np.float64)
        lines.append(Line(series.label, series.agent, places, mean, half_width, fewest, series.level is not None))
    return lines


def measured_points(series: Series, results: Results) -> dict[float, Floats]:
    """Return the numbers of the replications at every x that was measured; those of a level at 0."""
    readings = {0.0: series.level} if series.level is not None else series.readings
    read = {float(x): reading.read(results).values for x, reading in readings.items()}
    return {x: values for x, values in read.items() if len(values)}


def draw_panel(axis: Axes, spec: Figure, title: str, lines: Sequence[Line], styles: dict[str, dict[str, Any]]) -> None:
    """Draw one panel: lines, bands, and a label at the end of each line."""
    ticks = np.unique(np.concatenate([line.x for line in lines]))
    ends = []
    for line in lines:
        style = styles[line.label]
        x = placed_at(line.x, ticks, spec)
        marker = "" if line.level else "o"
        axis.plot(x, line.mean, linewidth=1.6, marker=marker, markersize=3.5, zorder=2, **style)
        low, high = line.mean - line.half_width, line.mean + line.half_width
        axis.fill_between(x, low, high, color=style["color"], alpha=0.16, lw=0)
        ends.append(Label(float(x[-1]), float(line.mean[-1]), line.label, style["color"]))
    axis.set_title(title)
    axis.set_xlabel(spec.x.replace("_", " "))
    axis.set_ylabel(Y_LABELS[spec.y])
    axis.grid(True, axis="y")
    axis.set_axisbelow(True)
    scale_x(axis, spec, ticks)
    label_points(axis, ends)


def placed_at(x: Floats, ticks: Floats, spec: Figure) -> Floats:
    """Return where values are drawn: one step apart for categories."""
    return np.searchsorted(ticks, x).astype(np.float64) if spec.axis == "categories" else x


def scale_x(axis: Axes, spec: Figure, ticks: Floats) -> None:
    """Set the scale and the ticks of x."""
    if spec.axis == "log":
        axis.set_xscale("log")
    if spec.axis == "categories" or len(ticks) <= FEW:
        axis.set_xticks(placed_at(ticks, ticks, spec), [plain_number(float(value)) for value in ticks])
        axis.tick_params(axis="x", labelrotation=45 if len(ticks) > FEW else 0)
        axis.xaxis.set_minor_locator(NullLocator())
    elif spec.axis == "linear":
        axis.xaxis.set_major_locator(MaxNLocator(6))
