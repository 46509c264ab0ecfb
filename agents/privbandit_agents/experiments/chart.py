"""The figures of an experiment: curves against users, or points with error bars against a setting."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from privbandit_agents.experiments.experiment import FigureSpec, Reference
from privbandit_agents.experiments.figure import (
    UNIFORM,
    Label,
    caption,
    label_points,
    picture,
    styles_of,
    write_caption,
)
from privbandit_agents.experiments.layout import Panel, Series
from privbandit_agents.experiments.measure import START, fitted_slope
from privbandit_agents.experiments.measured import Reading, Table
from privbandit_agents.experiments.report import rounded
from privbandit_agents.experiments.statistics import Floats, common_seeds, student_half_width

Y_LABELS = {
    "regret": "cumulative regret",
    "ratio": "regret / regret of uniform",
    "regret_per_round": "regret per user",
    "reward": "reward per user",
    "mad": "mean absolute error of predictions",
    "mse": "mean squared error of predictions",
}
FIT_AXES = {"xy": "log", "x": "semilog", "": "linear"}
REFERENCE: dict[str, Any] = {"color": "#222222", "linestyle": (0, (1, 1.6)), "linewidth": 1.2}
GRID = 200


@dataclass(frozen=True)
class Line:
    """A measured line.

    Attributes:
        label: its name.
        agent: that plays, or the label.
        x: shape (c,); both ends of the panel for a level.
        mean: over seeds, shape (c,).
        half_width: of the 95 % interval of the mean, shape (c,); NaN for one seed.
        seeds: the fewest that a point has.
        level: whether it has no x of its own.
    """

    label: str
    agent: str
    x: Floats
    mean: Floats
    half_width: Floats
    seeds: int
    level: bool = False


def draw_figure(spec: FigureSpec, panels: Sequence[Panel], table: Table, path: Path) -> bool:
    """Draw a figure and write a PNG; lines of which nothing was measured are left out.

    Args:
        spec: axes, title.
        panels: from ``layout``.
        table: from ``measured``.
        path: of the file.

    Returns:
        Whether there was anything to draw.
    """
    drawn = [lines_of(spec, panel, table) for panel in panels]
    kept = [(panel, lines) for panel, lines in zip(panels, drawn, strict=True) if lines]
    if not kept:
        return False
    styles = styles_of([lines for _, lines in kept])
    with picture(path, len(kept)) as (figure, axes):
        for axis, (panel, lines) in zip(axes, kept, strict=True):
            draw_panel(axis, spec, panel, lines, styles)
        if spec.title:
            figure.suptitle(spec.title, fontsize=12, x=0.01, ha="left")
        shown = "band" if spec.x == "users" else "interval"
        write_caption(figure, caption([lines for _, lines in kept], shown))
    return True


def draw_panel(
    axis: Axes, spec: FigureSpec, panel: Panel, lines: Sequence[Line], styles: dict[str, dict[str, Any]]
) -> None:
    """Draw one panel: lines, reference curves, and a label at the end of each."""
    draw_lines(axis, spec, lines, styles)
    ends = [Label(line.x[-1], line.mean[-1], named(spec, line), styles[line.label]["color"]) for line in lines]
    by_label = {line.label: line for line in lines}
    for reference, series in panel.references:
        ends.append(draw_reference(axis, spec, reference, by_label.get(series.label) if series else None, lines))
    finish(axis, spec, panel.title, lines)
    label_points(axis, ends)


def lines_of(spec: FigureSpec, panel: Panel, table: Table) -> list[Line]:
    """Return the lines of a panel that were measured; levels go from end to end."""
    lines = [line_of(series, table) for series in panel.series]
    found = [line for line in lines if line is not None]
    x = np.concatenate([line.x for line in found if not line.level] or [np.array([1.0, 2.0])])
    ends = np.array([x.min(), x.max()])
    return [level_across(line, ends) if line.level else line for line in found]


def line_of(series: Series, table: Table) -> Line | None:
    """Return the mean over seeds of one line, with its interval."""
    measured = [reading for reading in series.readings if len(reading.seeds(table))]
    if not measured:
        return None
    if not series.users:
        users = table[measured[0].cell.name].users
        mean, half_width = means(measured[0], users.astype(np.float64), table)
        return Line(series.label, series.agent, users.astype(np.float64), mean, half_width, seeds_of(measured, table))
    places = [i for i, reading in enumerate(series.readings) if reading in measured]
    points = [means(series.readings[i], np.array([series.users[i]]), table) for i in places]
    mean, half_width = (np.concatenate(part) for part in zip(*points, strict=True))
    x = np.array([series.x[i] for i in places] if series.x else [np.nan])
    return Line(series.label, series.agent, x, mean, half_width, seeds_of(measured, table), not series.x)


def seeds_of(readings: Sequence[Reading], table: Table) -> int:
    """Return the fewest seeds that a reading has."""
    return min(len(reading.seeds(table)) for reading in readings)


def means(reading: Reading, users: Floats, table: Table) -> tuple[Floats, Floats]:
    """Return a quantity's mean over seeds after numbers of users, and the half-width of its 95 % interval.

    That of a ratio of means is Student's for the linearised ratio (the delta method).
    """
    above, below = reading.at(users, common_seeds(reading.seeds(table)), table)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = above.mean(axis=0) / below.mean(axis=0)
        return mean, student_half_width((above - mean * below) / below.mean(axis=0))


def level_across(line: Line, ends: Floats) -> Line:
    """Return a level as a line between two x."""
    return replace(line, x=ends, mean=np.repeat(line.mean, 2), half_width=np.repeat(line.half_width, 2))


def named(spec: FigureSpec, line: Line) -> str:
    """Return a line's label, with its slope if that is asked for."""
    start = START * line.x[-1] if spec.x == "users" else -np.inf
    late = line.x >= (start if spec.fit_from is None else spec.fit_from)
    if not spec.fit or line.level or late.sum() < 2:
        return line.label
    axes: Any = FIT_AXES[spec.log]
    slope = float(fitted_slope(line.x[late], line.mean[None, late], axes)[0])
    return f"{line.label}, slope {rounded(slope) if abs(slope) >= 10 else format(round(slope, 2) + 0.0, '.2f')}"


def draw_lines(axis: Axes, spec: FigureSpec, lines: Sequence[Line], styles: dict[str, dict[str, Any]]) -> None:
    """Draw bands around curves and levels, and error bars at points."""
    for line in lines:
        style = styles[line.label]
        axis.plot(line.x, line.mean, linewidth=1.8, zorder=3 if style is UNIFORM else 2, **style)
        low, high = line.mean - line.half_width, line.mean + line.half_width
        if "y" in spec.log:
            low = np.maximum(low, 1e-3 * line.mean)
        if spec.x == "users" or line.level:
            axis.fill_between(line.x, low, high, color=style["color"], alpha=0.16, lw=0)
        else:
            bars = np.stack([line.mean - low, high - line.mean])
            axis.errorbar(line.x, line.mean, bars, fmt="o", markersize=4, capsize=2.5, lw=1.2, color=style["color"])


def draw_reference(
    axis: Axes, spec: FigureSpec, reference: Reference, through: Line | None, lines: Sequence[Line]
) -> Label:
    """Draw a reference curve; return its label."""
    own = through.x if through is not None else np.concatenate([line.x for line in lines])
    x = (np.geomspace if "x" in spec.log else np.linspace)(own.min(), own.max(), GRID)
    y = np.asarray(reference.load()(x, **reference.kwargs), dtype=np.float64)
    if through is not None:
        y = y * through.mean[-1] / y[-1]
    axis.plot(x, y, zorder=4, **REFERENCE)
    return Label(x[-1], y[-1], reference.label, REFERENCE["color"])


def finish(axis: Axes, spec: FigureSpec, title: str, lines: Sequence[Line]) -> None:
    """Set scales, limits, ticks and titles of a panel."""
    axis.set_title(title)
    axis.set_xlabel("users served" if spec.x == "users" else spec.x.rpartition(".")[2].replace("_", " "))
    axis.set_ylabel(Y_LABELS[spec.y])
    axis.set_axisbelow(True)
    if "y" in spec.log:
        axis.set_yscale("log")
        axis.set_ylim(*log_limits(lines))
        label_logarithms(axis.yaxis, *axis.get_ylim())
    else:
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    if "y" not in spec.log and spec.y != "reward":
        axis.set_ylim(bottom=0)
    axis.grid(True, axis="y")
    scale_x(axis, spec, np.unique(np.concatenate([line.x for line in lines])))


def label_logarithms(axis: Axis, low: float, high: float) -> None:
    """Write numbers as they are at powers of ten, and at 2 and 5 times these where there are few."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 200 * low else (1.0,), numticks=12))
    axis.set_major_formatter(lambda value, _: plain_number(value))
    axis.set_minor_formatter(NullFormatter())


def plain_number(value: float) -> str:
    """Return a number for an axis; powers of ten from a million on as such."""
    power = round(math.log10(value)) if value > 0 else 0
    return f"$10^{{{power}}}$" if power >= 6 and value == 10.0**power else f"{value:,g}"


def log_limits(lines: Sequence[Line]) -> tuple[float | None, float | None]:
    """Return limits around the means, whatever the intervals of few seeds: five orders of magnitude, and all ends."""
    positive = np.concatenate([line.mean[line.mean > 0] for line in lines])
    if not len(positive):
        return None, None
    ends = [float(line.mean[-1]) for line in lines if line.mean[-1] > 0]
    lowest = min([max(float(positive.min()), float(positive.max()) * 2e-5), *ends])
    return lowest / 2, 2 * float(positive.max())


def scale_x(axis: Axes, spec: FigureSpec, x: Floats) -> None:
    """Set the horizontal axis: ticks at the points of a setting, or along the users."""
    log = "x" in spec.log
    if log:
        axis.set_xscale("log")
    if spec.x == "users":
        axis.set_xlim(x[0] if log else 0, x[-1])
    elif len(x) <= 8:
        axis.set_xticks(x)
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter(lambda value, _: plain_number(value))
    if log and (spec.x == "users" or len(x) > 8):
        label_logarithms(axis.xaxis, x[0], x[-1])
    if not log and (spec.x == "users" or len(x) > 8):
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
