"""Figures: curves against users, or points with error bars against a setting."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from privbandit_agents.experiments.analysis.cells import Cells
from privbandit_agents.experiments.analysis.measures import START, fitted_slope
from privbandit_agents.experiments.analysis.readings import Results, runs_of
from privbandit_agents.experiments.analysis.statistics import Floats
from privbandit_agents.experiments.analysis.tables import CHOSEN, rounded, visits_of
from privbandit_agents.experiments.drawing.layout import Panel, Series, completed, layout
from privbandit_agents.experiments.drawing.style import (
    UNIFORM,
    Label,
    Line,
    caption,
    label_points,
    picture,
    styles_of,
)
from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.spec.figures import FigureSpec, Reference
from privbandit_agents.experiments.store.results import Finished

Y_LABELS = {
    "regret": "cumulative regret",
    "ratio": "regret / regret of uniform",
    "regret_per_round": "regret per user",
    "reward": "reward per user",
    "mad": "mean absolute error of predictions",
    "mse": "mean squared error of predictions",
    "accuracy": "accuracy",
    "seconds": "seconds of one fit",
}
REFERENCE: dict[str, Any] = {"color": "#222222", "linestyle": (0, (1, 1.6)), "linewidth": 1.2}
FEW = 10
"""So many values of x have a tick each."""
REGRET = FigureSpec(name="regret", log="auto")


def draw_regret(trials: Sequence[Finished], path: Path) -> None:
    """Draw the regret of trials, a panel for each environment and horizon, and write a PNG."""
    jobs = [Trial(**finished.job) for finished in trials]
    # what a trial says of itself, though its environment or agent may not be on this machine
    cells = Cells.of(jobs, lambda job: {key: job.spec[key] for key in ("env", "agent", "horizon")})
    spec = completed(REGRET, cells)
    draw_figure(spec, layout(spec, cells), {finished.name: finished for finished in trials}, path)


def draw_figure(spec: FigureSpec, panels: Sequence[Panel], results: Results, path: Path) -> bool:
    """Draw a completed figure and write a PNG; lines of which nothing was measured are left out.

    Returns:
        Whether there was anything to draw.
    """
    drawn = [(panel, lines_of(panel, results)) for panel in panels]
    kept = [(panel, lines) for panel, lines in drawn if lines]
    if not kept:
        return False
    styles = styles_of([lines for _, lines in kept])
    job = panels[0].series[0].cells[0].job
    longest = max(len(named(spec, line)) for _, lines in kept for line in lines)
    with picture(path, len(kept), longest) as (figure, axes):
        for axis, (panel, lines) in zip(axes, kept, strict=True):
            draw_panel(axis, with_logarithms(spec, lines), panel, lines, styles)
        if spec.title:
            figure.suptitle(spec.title, fontsize=12, x=0.01, ha="left")
        told = caption([lines for _, lines in kept], "band" if spec.x == "users" else "interval", job.unit)
        told = f"{told}; {CHOSEN[spec.pick]}" if job.kind == "fit" else told
        cells = (cell for panel, _ in kept for series in panel.series for cell in series.cells)
        visits = visits_of(run for cell in cells for run in runs_of(cell, results).values())
        told = f"{told}; up to {visits:,} visits a person" if visits > 1 else told
        figure.supxlabel(told, fontsize=9, color="#555555", x=0.99, ha="right")
    return True


def with_logarithms(spec: FigureSpec, lines: Sequence[Line]) -> FigureSpec:
    """Return a figure with ``log: auto`` decided for a panel: logarithmic if the ends of lines are far apart."""
    if spec.log != "auto":
        return spec
    ends = [float(line.mean[-1]) for line in lines]
    apart = min(ends) > 0 and max(ends) / min(ends) > 8
    return spec.model_copy(update={"log": "y" if apart else ""})


def draw_panel(
    axis: Axes, spec: FigureSpec, panel: Panel, lines: Sequence[Line], styles: dict[str, dict[str, Any]]
) -> None:
    ticks = np.unique(np.concatenate([line.x for line in lines]))
    lines = [replace(line, x=places_of(line.x, ticks, spec)) for line in lines]
    draw_lines(axis, spec, lines, styles)
    ends = [Label(line.x[-1], line.mean[-1], named(spec, line), styles[line.label]["color"]) for line in lines]
    by_label = {line.label: line for line in lines}
    for reference, series in panel.references:
        ends.append(draw_reference(axis, spec, reference, by_label.get(series.label) if series else None, lines))
    finish(axis, spec, panel.title, lines, ticks)
    label_points(axis, ends)


def places_of(x: Floats, ticks: Floats, spec: FigureSpec) -> Floats:
    """Return where values of x are drawn: one step apart if the figure says so."""
    return np.searchsorted(ticks, x).astype(np.float64) if spec.even else x


def lines_of(panel: Panel, results: Results) -> list[Line]:
    """Return the lines of a panel that were measured; levels go from end to end."""
    found = [line for series in panel.series if (line := line_of(series, results)) is not None]
    x = np.concatenate([line.x for line in found if not line.level] or [np.array([1.0, 2.0])])
    ends = np.array([x.min(), x.max()])
    for place, line in enumerate(found):
        if line.level:
            found[place] = replace(line, x=ends, mean=line.mean.repeat(2), half_width=line.half_width.repeat(2))
    return found


def line_of(series: Series, results: Results) -> Line | None:
    read = [reading.read(results) for reading in series.readings]
    there = [place for place, values in enumerate(read) if len(values.replications)]
    if not there:
        return None
    mean, half_width = (np.concatenate([getattr(read[i], name) for i in there]) for name in ("mean", "half_width"))
    fewest = min(len(read[i].replications) for i in there)
    x = np.array([series.x[i] for i in there]) if series.x else read[0].x
    return Line(series.label, series.agent, x, mean, half_width, fewest, series.level)


def named(spec: FigureSpec, line: Line) -> str:
    """Return a line's label, with its slope if that is asked for."""
    start = START * line.x[-1] if spec.x == "users" else -np.inf
    late = line.x >= (start if spec.fit_from is None else spec.fit_from)
    if not spec.fit or line.level or late.sum() < 2:
        return line.label
    axes: Any = {"xy": "log", "x": "semilog"}.get(spec.log, "linear")
    slope = float(fitted_slope(line.x[late], line.mean[None, late], axes)[0])
    return f"{line.label}, slope {rounded(slope) if abs(slope) >= 10 else format(round(slope, 2) + 0.0, '.2f')}"


def draw_lines(axis: Axes, spec: FigureSpec, lines: Sequence[Line], styles: dict[str, dict[str, Any]]) -> None:
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
    own = through.x if through is not None else np.concatenate([line.x for line in lines])
    x = (np.geomspace if "x" in spec.log else np.linspace)(own.min(), own.max(), 200)
    y = np.asarray(reference.load()(x, **reference.kwargs), dtype=np.float64)
    if through is not None:
        y = y * through.mean[-1] / y[-1]
    axis.plot(x, y, zorder=4, **REFERENCE)
    return Label(x[-1], y[-1], reference.label, REFERENCE["color"])


def finish(axis: Axes, spec: FigureSpec, title: str, lines: Sequence[Line], ticks: Floats) -> None:
    axis.set_title(title)
    axis.set_xlabel("users served" if spec.x == "users" else spec.x.rpartition(".")[2].replace("_", " "))
    axis.set_ylabel(Y_LABELS[str(spec.y)])
    axis.set_axisbelow(True)
    if "y" in spec.log:
        axis.set_yscale("log")
        axis.set_ylim(*log_limits(lines))
        label_logarithms(axis.yaxis, *axis.get_ylim())
    elif spec.y not in ("accuracy", "seconds"):
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    if "y" not in spec.log and spec.y not in ("reward", "accuracy", "seconds"):
        axis.set_ylim(bottom=0)
    axis.grid(True, axis="y")
    scale_x(axis, spec, ticks)


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
    log, each = "x" in spec.log, spec.x != "users" and (len(x) <= FEW or spec.even)
    if log:
        axis.set_xscale("log")
    if spec.x == "users":
        axis.set_xlim(x[0] if log else 0, x[-1])
    if each:
        axis.set_xticks(places_of(x, x, spec), [plain_number(float(value)) for value in x])
        axis.tick_params(axis="x", labelrotation=45 if len(x) > FEW else 0)
        axis.xaxis.set_minor_locator(NullLocator())
    elif log:
        label_logarithms(axis.xaxis, x[0], x[-1])
    else:
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
