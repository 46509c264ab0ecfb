"""Figures: curves against users, or points with error bars against a setting."""

import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import matplotlib
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from privbandit_agents.experiments.names import rounded
from privbandit_agents.experiments.results.measures import fitted_slope
from privbandit_agents.experiments.results.readings import CHOSEN, Results, Values
from privbandit_agents.experiments.results.statistics import FEW_SEEDS, Floats, common_seeds, joined
from privbandit_agents.experiments.schema.figures import FigureSpec, Reference
from privbandit_agents.experiments.views.layout import Panel, Series
from privbandit_agents.experiments.views.lines import curves_of, panels_of, told_of
from privbandit_agents.experiments.views.style import (
    UNIFORM,
    Label,
    Line,
    Look,
    caption,
    empty_picture,
    label_points,
    narrow,
    save,
    style,
    styles_of,
    text_scale,
    write_caption,
    write_legend,
    write_title,
)
from privbandit_agents.zoo.entries import AGENTS

Y_LABELS = {
    "regret": "cumulative regret",
    "static": "regret against the best fixed policy",
    "ratio": "regret / regret of uniform",
    "regret_per_round": "regret per user",
    "reward": "reward per user",
    "mad": "mean absolute error of predictions",
    "excess": "excess risk",
    "calls": "calls of the estimator",
    "claimed": "claimed of the estimator's budget",
    "mse": "mean squared error of predictions",
    "accuracy": "accuracy",
    "seconds": "seconds of one fit",
}
REFERENCE: dict[str, Any] = {"color": "#222222", "linestyle": (0, (1, 1.6)), "linewidth": 1.2}
SCALES = ((1e6, "millions"), (1e9, "billions"), (1e12, "trillions"))
BOUNDS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(
        ("regret", "ratio", "regret_per_round", "mad", "mse", "calls", "claimed", "excess", "seconds"), (0.0, math.inf)
    ),
    "accuracy": (0.0, 1.0),
}
"""Between which values a quantity is, whatever its interval."""
LOOK = Look()
Log = Literal["", "x", "y", "xy", "auto"]
DRAWN = (
    *("env", "horizon", "label", "agent", "notion", "epsilon", "delta", "agent.calibration", "visits"),
    *("seed", "checkpoint", "regret"),
)
"""Columns of a frame that a figure of regret takes."""


def draw_regret(
    frame: pl.DataFrame, path: Path, look: Look = LOOK, pace: Callable[[int, int], None] | None = None
) -> None:
    """Draw the regret of a frame, a panel for each environment and horizon, and write a PNG and other formats.

    If there are many panels, one is drawn for itself first, and ``pace`` is told that one was drawn, of how many.
    """
    panels = panels_of(frame.select(column for column in DRAWN if column in frame.columns))
    if pace is not None and len(panels) > 8:  # fewer take some ten seconds at most
        with TemporaryDirectory() as folder:
            save(regret_figure({"": next(iter(panels.values()))}), Path(folder) / path.name)
        pace(1, len(panels))
    with matplotlib.rc_context(look.text):
        save(regret_figure(panels, "auto", look.title, look.size), path, look.formats)


def regret_figure(
    panels: Mapping[str, pl.DataFrame],
    log: Log = "auto",
    title: str = "",
    size: tuple[float, float] | None = None,
) -> Figure:
    """Return the figure of regret along the users, a panel for each frame of results."""
    spec = FigureSpec(name="regret", x="users", y="regret", log=log, title=title)
    told = told_of(pl.concat(panels.values()))
    return composed(spec, [(Panel(name, []), curves_of(rows)) for name, rows in panels.items()], told=told, size=size)


def draw_figure(
    spec: FigureSpec,
    panels: Sequence[Panel],
    results: Results,
    path: Path,
    look: Look = LOOK,
    stamp: str = "",
) -> bool:
    """Draw a completed figure and write a PNG; lines without measurements are left out.

    Returns:
        Whether there was anything to draw.
    """
    drawn = [(panel, lines_of(panel, results)) for panel in panels]
    kept = [(panel, lines) for panel, lines in drawn if lines]
    if not kept:
        return False
    job = panels[0].series[0].cells[0].job
    cells = [cell for panel, _ in kept for series in panel.series for cell in series.cells]
    budgets = spec.x.rpartition(".")[2] not in ("epsilon", "rho")
    told = [CHOSEN[spec.pick]]
    if job.kind == "trial":
        told = told_of(pl.concat([results[cell.name] for cell in cells if cell.name in results]), budgets)
    spec = spec.model_copy(update={"title": look.title or spec.title})
    with matplotlib.rc_context(look.text):
        save(composed(spec, kept, job.unit, told, stamp, look.size), path, look.formats)
    return True


def composed(
    spec: FigureSpec,
    kept: Sequence[tuple[Panel, Sequence[Line]]],
    unit: str = "seed",
    told: Sequence[str] = (),
    stamp: str = "",
    size: tuple[float, float] | None = None,
) -> Figure:
    """Return a figure of panels with their lines; ``told`` is the rest of the caption, ``size`` is in inches.

    A figure of less than 5 inches width has its labels in a legend below, and no caption: the paper has one.
    """
    every = [lines for _, lines in kept]
    styles = styles_of(every)
    longest = max(len(named(spec, line)) for lines in every for line in lines)
    labels = max(len(lines) + len(panel.references) for panel, lines in kept)
    crowded = labels > 50  # the figure would be a column of labels
    figure, axes = empty_picture(len(kept), longest, 0 if crowded else labels, size)
    with matplotlib.rc_context(style(size)):
        for axis, (panel, lines) in zip(axes, kept, strict=True):
            draw_panel(axis, with_logarithms(spec, lines), panel, lines, styles, labelled=not (crowded or narrow(size)))
        write_title(figure, spec.title, stamp)
        if narrow(size):
            names = {named(spec, line): styles[line.label] for lines in every for line in lines}
            names |= {one.label: REFERENCE for panel, _ in kept for one, _ in panel.references}
            write_legend(figure, names)
            fit_text(figure, axes)
            return figure
        words = [caption(every, "band" if spec.x == "users" else "interval", unit), *told]
        words += [f"{labels} lines, which the table names"] * crowded
        write_caption(figure, "; ".join(words), every)
    return figure


def with_logarithms(spec: FigureSpec, lines: Sequence[Line]) -> FigureSpec:
    """Return a figure with ``log: auto`` decided for a panel: logarithmic if the ends of lines are far apart."""
    if spec.log != "auto":
        return spec
    ends = [float(line.mean.value[-1]) for line in lines]
    apart = min(ends) > 0 and max(ends) / min(ends) > 8
    return spec.model_copy(update={"log": "y" if apart else ""})


def draw_panel(
    axis: Axes,
    spec: FigureSpec,
    panel: Panel,
    lines: Sequence[Line],
    styles: dict[str, dict[str, Any]],
    labelled: bool = True,
) -> None:
    """Draw a panel; ``labelled``: with labels at the ends of its lines."""
    ticks = np.unique(np.concatenate([line.x for line in lines]))
    lines = [replace(line, x=places_of(line.x, ticks, spec)) for line in lines]
    draw_lines(axis, spec, lines, styles)
    ends = [Label(line.x[-1], line.mean.value[-1], named(spec, line), styles[line.label]["color"]) for line in lines]
    by_label = {line.label: line for line in lines}
    for reference, series in panel.references:
        ends.append(draw_reference(axis, spec, reference, by_label.get(series.label) if series else None, lines))
    finish(axis, spec, panel.title, lines, ticks, panel.users)
    if labelled:
        label_points(axis, ends)


def fit_text(figure: Figure, axes: Sequence[Axes]) -> None:
    """Break titles and labels of axes that are longer than their panels, by the inches of a letter."""
    letter = 0.085 * text_scale()
    columns, rows = min(len(axes), 2), -(-len(axes) // 2)
    across, down = (int(inches / letter) for inches in figure.get_size_inches() / (columns, rows) - (0.6, 0.9))
    for axis in axes:
        axis.set_title(textwrap.fill(axis.get_title(loc="left"), max(12, across)))
        axis.set_xlabel(textwrap.fill(axis.get_xlabel(), max(12, across)))
        if isinstance(axis.xaxis.get_major_locator(), MaxNLocator):
            axis.xaxis.set_major_locator(MaxNLocator(max(1, across // 10)))
        axis.set_ylabel(textwrap.fill(axis.get_ylabel(), max(12, down)))


def places_of(x: Floats, ticks: Floats, spec: FigureSpec) -> Floats:
    """Return where values of x are drawn: one step apart if the figure asks for it."""
    return np.searchsorted(ticks, x).astype(np.float64) if spec.even else x


def lines_of(panel: Panel, results: Results) -> list[Line]:
    """Return the lines of a panel that were measured; levels go from end to end."""
    found = [line for series in panel.series if (line := line_of(series, results)) is not None]
    x = np.concatenate([line.x for line in found if not line.level] or [np.array([1.0, 2.0])])
    ends = np.array([x.min(), x.max()])
    for place, line in enumerate(found):
        if line.level:
            mean, each = line.mean.mapped(lambda end: end.repeat(2)), [one.repeat(2) for one in line.each]
            found[place] = replace(line, x=ends, each=each, mean=mean)
    return found


def line_of(series: Series, results: Results) -> Line | None:
    read = [reading.read(results) for reading in series.readings]
    there = [place for place, values in enumerate(read) if len(values.replications)]
    if not there:
        return None
    mean = joined([read[i].interval for i in there])
    fewest = min(len(read[i].replications) for i in there)
    x = np.array([series.x[i] for i in there]) if series.x else read[0].x
    each = each_of([read[i] for i in there]) if fewest < FEW_SEEDS else ()
    notion = notion_of(series, results)
    # methods that fit one agent in several ways differ in color
    method = bool(series.cells) and series.cells[0].job.kind == "fit" and "=" not in series.label
    return Line(series.label, series.label if method else series.agent, x, mean, fewest, series.level, each, notion)


def each_of(read: Sequence[Values]) -> list[Floats]:
    """Return the lines of replications that all points have, if there are several."""
    common = common_seeds(*(values.replications for values in read))
    if len(common) < 2:
        return []
    with np.errstate(all="ignore"):
        rows = np.concatenate([values.of(common).above / values.of(common).below for values in read], axis=1)
    return list(rows)


def notion_of(series: Series, results: Results) -> str:
    """Return what kind of privacy the agent of a line promises, by its results or else by its name."""
    for rows in (results[cell.name] for cell in series.cells if cell.name in results):
        if "notion" in rows.columns and rows["notion"][0] is not None:
            return str(rows["notion"][0])
    agent = series.cells[0].settings["agent"]
    return (AGENTS[agent].notion if agent in AGENTS else "") or "none"


def named(spec: FigureSpec, line: Line) -> str:
    """Return a line's label, with its slope if that is asked for."""
    start = 0.1 * line.x[-1] if spec.x == "users" else -np.inf
    late = line.x >= (start if spec.fit_from is None else spec.fit_from)
    if not spec.fit or line.level or late.sum() < 2:
        return line.label
    axes: Any = {"xy": "log", "x": "semilog"}.get(spec.log, "linear")
    slope = float(fitted_slope(line.x[late], line.mean.value[None, late], axes)[0])
    return f"{line.label}, slope {rounded(slope) if abs(slope) >= 10 else format(round(slope, 2) + 0.0, '.2f')}"


def draw_lines(axis: Axes, spec: FigureSpec, lines: Sequence[Line], styles: dict[str, dict[str, Any]]) -> None:
    for line in lines:
        style = styles[line.label]
        axis.plot(line.x, line.mean.value, linewidth=1.8, zorder=3 if style is UNIFORM else 2, **style)
        if len(line.each):
            draw_each(axis, spec, line, style["color"])
            continue
        low, high = line.interval("y" in spec.log, *BOUNDS.get(str(spec.y), ()))
        if spec.x == "users" or line.level:
            axis.fill_between(line.x, low, high, color=style["color"], alpha=0.16, lw=0)
        else:
            bars = np.maximum([line.mean.value - low, high - line.mean.value], 0.0)
            look: dict[str, Any] = {"fmt": style.get("marker", "o"), "color": style["color"]}
            axis.errorbar(line.x, line.mean.value, bars, markersize=4, capsize=2.5, lw=1.2, **look)


def draw_each(axis: Axes, spec: FigureSpec, line: Line, color: str) -> None:
    """Draw the few replications of a line, as thin lines along the users, as points otherwise."""
    for one in line.each:
        if spec.x == "users" or line.level:
            axis.plot(line.x, one, color=color, linewidth=0.6, alpha=0.55, zorder=1.5)
        else:
            axis.plot(line.x, one, "o", color=color, markersize=2.5, alpha=0.6, zorder=1.5)
    if spec.x != "users" and not line.level:
        axis.plot(line.x, line.mean.value, "o", color=color, markersize=4.5)


def draw_reference(
    axis: Axes, spec: FigureSpec, reference: Reference, through: Line | None, lines: Sequence[Line]
) -> Label:
    own = through.x if through is not None else np.concatenate([line.x for line in lines])
    x = (np.geomspace if "x" in spec.log else np.linspace)(own.min(), own.max(), 200)
    y = np.asarray(reference.load()(x, **reference.kwargs), dtype=np.float64)
    if through is not None:
        y = y * through.mean.value[-1] / y[-1]
    axis.plot(x, y, zorder=4, **REFERENCE)
    return Label(x[-1], y[-1], reference.label, REFERENCE["color"])


def y_label(spec: FigureSpec, users: int | None) -> str:
    """Return what the vertical axis shows; a regret at one number of users says which."""
    if spec.x == "users" or spec.y != "regret":
        return Y_LABELS[str(spec.y)]
    return f"regret after {users:,} users" if users else "final regret"


def finish(
    axis: Axes, spec: FigureSpec, title: str, lines: Sequence[Line], ticks: Floats, users: int | None = None
) -> None:
    axis.set_title(title)
    axis.set_xlabel(setting_name(spec))
    axis.set_ylabel(spec.names.get(str(spec.y), y_label(spec, users)))
    axis.set_axisbelow(True)
    if "y" in spec.log:
        axis.set_yscale("log")
        axis.set_ylim(*log_limits(lines, whole=spec.x != "users"))
        label_logarithms(axis.yaxis, *axis.get_ylim())
    else:
        least, most = BOUNDS.get(str(spec.y), (-math.inf, math.inf))
        if least == 0 and spec.y not in ("accuracy", "seconds"):
            axis.set_ylim(bottom=0)
        if axis.get_ylim()[1] > most:
            axis.set_ylim(top=most)
        if spec.y not in ("accuracy", "seconds"):
            label_numbers(axis.yaxis, axis.get_ylim()[1])
    axis.grid(True, axis="y")
    scale_x(axis, spec, ticks)


def setting_name(spec: FigureSpec) -> str:
    plain = "users served" if spec.x == "users" else spec.x.rpartition(".")[2].replace("_", " ")
    name = spec.names.get(spec.x, plain)
    return f"{name} (not to scale)" if spec.even else name


def label_logarithms(axis: Axis, low: float, high: float) -> None:
    """Write numbers as they are at powers of ten, and at 2 and 5 times these where there are few.

    On an axis that reaches a million, or a ten thousandth, all of them are powers.
    """
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 200 * low else (1.0,), numticks=12))
    axis.set_major_formatter(lambda value, _: power_of_ten(value) if high >= 1e6 or low < 1e-4 else plain_number(value))
    axis.set_minor_formatter(NullFormatter())


def label_numbers(axis: Axis, most: float) -> None:
    """Write numbers as they are below a million, and in millions, billions, ... on an axis that reaches these."""
    scale, word = max(((s, w) for s, w in SCALES if s <= most), default=(1.0, ""))
    axis.set_major_formatter(lambda value, _: f"{value / scale:,g}")
    if word and (label := axis.get_label_text()):
        axis.set_label_text(f"{label} ({word})")


def plain_number(value: float) -> str:
    """Return a number for an axis; from a million on with a power of ten."""
    return power_of_ten(value) if abs(value) >= 1e6 else f"{value:,g}"


def power_of_ten(value: float) -> str:
    """Return a number as a power of ten with its factor, unless it is 1."""
    if value <= 0:
        return f"{value:,g}"
    power = math.floor(math.log10(value) + 1e-9)
    factor = value / 10.0**power
    return f"$10^{{{power}}}$" if abs(factor - 1) < 1e-6 else f"${factor:g}\\cdot10^{{{power}}}$"


def log_limits(lines: Sequence[Line], whole: bool = False) -> tuple[float | None, float | None]:
    """Return limits around the means, whatever the intervals of few seeds.

    Curves along the users are shown over five orders of magnitude, and at their ends; ``whole``: at all their points.
    """
    positive = np.concatenate([line.mean.value[line.mean.value > 0] for line in lines])
    if not len(positive):
        return None, None
    ends = [float(line.mean.value[-1]) for line in lines if line.mean.value[-1] > 0]
    floor = 0.0 if whole else float(positive.max()) * 2e-5
    lowest = min([max(float(positive.min()), floor), *ends])
    return lowest / 2, 2 * float(positive.max())


def scale_x(axis: Axes, spec: FigureSpec, x: Floats) -> None:
    """Set the horizontal axis: ticks at the points of a setting, or along the users."""
    few = 10
    log, each = "x" in spec.log, spec.x != "users" and (len(x) <= few or spec.even)
    if log:
        axis.set_xscale("log")
    if spec.x == "users":
        axis.set_xlim(x[0] if log else 0, x[-1])
    if each:
        places, write = places_of(x, x, spec), power_of_ten if log and x[-1] >= 1e6 else plain_number
        texts = [write(float(value)) for value in x]
        shown = apart(places, texts, log, tilted=len(x) > few)
        axis.set_xticks([places[i] for i in shown], [texts[i] for i in shown])
        axis.tick_params(axis="x", labelrotation=45 if len(x) > few else 0)
        axis.xaxis.set_minor_locator(NullLocator())
    elif log:
        label_logarithms(axis.xaxis, x[0], x[-1])
    else:
        axis.xaxis.set_major_locator(MaxNLocator(5))
        label_numbers(axis.xaxis, x[-1])


def apart(places: Floats, texts: Sequence[str], log: bool, tilted: bool) -> list[int]:
    """Return which labels of an axis are written, from the right on, so that none lies over another."""
    at = np.log(places) if log else places
    width = max(float(at[-1] - at[0]), 1e-12)
    shown: list[int] = []
    for i in reversed(range(len(texts))):
        inches = 0.2 if tilted else 0.085 * len(re.sub(r"[${}^]|\\cdot", "", texts[i])) + 0.1
        if not shown or (at[shown[-1]] - at[i]) / width * 2.6 > inches:  # a panel has 2.6 inches at least
            shown.append(i)
    return shown[::-1]
