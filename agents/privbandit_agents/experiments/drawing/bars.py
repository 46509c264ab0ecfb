"""Final regret of agents at one budget, as bars."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from privbandit_agents.experiments.drawing.style import (
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


def draw_bars(
    panels: Mapping[str, Sequence[Line]],
    labels: Mapping[str, str],
    title: str = "",
    told: Sequence[str] = (),
    size: tuple[float, float] | None = None,
) -> Figure:
    """Return a figure with a bar for each agent, the least regret on top.

    Args:
        panels: lines of one point, or levels, by the title of their panel.
        labels: of the horizontal axes, by the title of the panel.
        title: above the figure.
        told: the rest of the caption.
        size: inches; None: as the panels need.
    """
    every = list(panels.values())
    styles = styles_of(every)
    most = max(map(len, every))
    figure, axes = empty_picture(len(every), size=size)
    rows = -(-len(every) // 2)
    figure.set_size_inches(size or (figure.get_figwidth(), rows * (1.5 * LABEL_HEIGHT * most + 1.1) + 0.3))
    with matplotlib.rc_context(style(size)):
        for axis, (name, lines) in zip(axes, panels.items(), strict=True):
            draw_panel(axis, sorted(lines, key=lambda line: -float(line.mean.value[0])), styles)
            axis.set(title=name, xlabel=labels[name])
        write_title(figure, title)
        if narrow(size):
            return figure
        write_caption(figure, "; ".join([caption(every, "interval", "seed"), *told]), [])
    return figure


def draw_panel(axis: Axes, lines: Sequence[Line], styles: Mapping[str, Mapping[str, Any]]) -> None:
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
