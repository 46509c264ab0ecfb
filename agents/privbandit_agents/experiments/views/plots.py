"""Figures of the frame of results: regret along the users, final regret along a setting, regret and privacy."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from privbandit_agents.experiments.schema.figures import FigureSpec
from privbandit_agents.experiments.views.figures import Log, composed, regret_figure, y_label
from privbandit_agents.experiments.views.layout import Panel
from privbandit_agents.experiments.views.lines import (
    frontiers_of,
    one_budget,
    panels_of,
    settings_of,
    told_of,
)
from privbandit_agents.experiments.views.style import (
    LABEL_HEIGHT,
    Line,
    caption,
    empty_picture,
    narrow,
    readable,
    shortened,
    style,
    styles_of,
    write_caption,
    write_title,
)
from privbandit_envs.validate import one_of

Size = tuple[float, float] | None


def plot_regret(frame: pl.DataFrame, log: Log = "auto", title: str = "", size: Size = None) -> Figure:
    """Draw regret along the users, a panel for each environment and horizon.

    Args:
        frame: from ``load_results`` or ``compare``.
        log: the logarithmic axes; ``"auto"``: y in panels where the ends of lines are far apart.
        title: above the figure.
        size: inches, width and height; None: as the panels need.

    Returns:
        A matplotlib figure; ``figure.savefig("regret.pdf")`` writes it.
    """
    return regret_figure(panels_of(frame), log, title, size)


def plot_along(frame: pl.DataFrame, x: str, log: Log = "xy", title: str = "", size: Size = None) -> Figure:
    """Draw the final regret against a setting, a panel for each environment with its other settings.

    Args:
        frame: from ``load_results`` or ``compare``.
        x: a column of numbers: ``"horizon"``, ``"epsilon"``, ``"env.dim"``, ``"agent.alpha"``. An agent that lacks it
            is not drawn.
        log: the logarithmic axes.
        title: above the figure.
        size: inches, width and height; None: as the panels need.

    Raises:
        ValueError: there is no such column, or nothing in it is a number.

    Examples:
        >>> from privbandit_agents import compare
        >>> worlds = {"id": "privbandit/Linear-v0", "grid": {"dim": [2, 5, 10]}}
        >>> figure = plot_along(compare(worlds, ["uniform", "linucb"], seeds=2, horizon=50), "env.dim")
    """
    numbers = [name for name, kind in frame.schema.items() if kind.is_numeric()]
    panels = settings_of(frame, one_of(numbers, x=x))
    if not panels:
        raise ValueError(f"x must be a column with numbers; {x!r} has none.")
    spec = FigureSpec(name="along", x=x, y="regret", log=log, title=title)
    return composed(spec, [(Panel(name, []), lines) for name, lines in panels.items()], size=size)


def plot_frontier(frame: pl.DataFrame, log: Log = "xy", title: str = "", size: Size = None) -> Figure:
    """Draw the final regret against epsilon, a panel for each environment and horizon.

    Every private agent is a line along its epsilons, or a point; if there is one epsilon alone, all are bars. A promise
    of zCDP alone is drawn at the epsilon that it implies at delta = 1e-5. The best agent without privacy and
    ``uniform`` are levels. Agents whose calibration is a published one without a valid proof are lines of their own,
    marked so.

    Args:
        frame: from ``load_results`` or ``compare``.
        log: the logarithmic axes.
        title: above the figure.
        size: inches, width and height; None: as the panels need.

    Raises:
        ValueError: no private agent is in the table.
    """
    panels = {name: lines for name, lines in frontiers_of(frame).items() if lines}
    if not panels:
        raise ValueError("a frontier needs an agent that promises privacy; these results have none.")
    horizons = {name: rows["horizon"].unique().to_list() for name, rows in panels_of(frame).items()}
    users = {name: found[0] if len(found) == 1 else None for name, found in horizons.items()}
    spec = FigureSpec(name="frontier", x="epsilon", y="regret", log=log, title=title)
    if one_budget(panels):
        labels = {name: y_label(spec, users[name]) for name in panels}
        return draw_bars(panels, labels, title, told_of(frame), size)
    kept = [(Panel(name, [], users=users[name]), lines) for name, lines in panels.items()]
    return composed(spec, kept, told=told_of(frame, budgets=False), size=size)


def draw_bars(
    panels: Mapping[str, Sequence[Line]],
    labels: Mapping[str, str],
    title: str = "",
    told: Sequence[str] = (),
    size: tuple[float, float] | None = None,
) -> Figure:
    """Return a figure with a bar for each agent, the least regret on top."""
    every = list(panels.values())
    styles = styles_of(every)
    most = max(map(len, every))
    figure, axes = empty_picture(len(every), size=size)
    rows = -(-len(every) // 2)
    figure.set_size_inches(size or (figure.get_figwidth(), rows * (1.5 * LABEL_HEIGHT * most + 1.1) + 0.3))
    with matplotlib.rc_context(style(size)):
        for axis, (name, lines) in zip(axes, panels.items(), strict=True):
            draw_bar_panel(axis, sorted(lines, key=lambda line: -float(line.mean.value[0])), styles)
            axis.set(title=name, xlabel=labels[name])
        write_title(figure, title)
        if narrow(size):
            return figure
        write_caption(figure, "; ".join([caption(every, "interval", "seed"), *told]), [])
    return figure


def draw_bar_panel(axis: Axes, lines: Sequence[Line], styles: Mapping[str, Mapping[str, Any]]) -> None:
    for place, line in enumerate(lines):
        color, mean = styles[line.label]["color"], float(line.mean.value[0])
        axis.barh(place, mean, height=0.62, color=color, alpha=0.85)
        if len(line.each):
            axis.plot([one[0] for one in line.each], [place] * len(line.each), ".", color="#222222", markersize=4)
        elif line.mean.known:
            low, high = line.interval(log=True)
            axis.plot([low[0], high[0]], [place, place], color="#222222", linewidth=1.2)
        axis.get_yaxis().set_tick_params(length=0)
    axis.set_yticks(range(len(lines)), [shortened(line.label) for line in lines])
    for tick, line in zip(axis.get_yticklabels(), lines, strict=True):
        tick.set_color(readable(styles[line.label]["color"]))
    axis.set_xlim(left=0)
    axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.grid(True, axis="x")
    axis.set_axisbelow(True)
