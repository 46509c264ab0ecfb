"""A map of where agents may be trusted: worlds down, agents across, dark where an agent has little regret."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from privbandit_agents.experiments.analysis.trust import FAILED, Place, TrustMap, share
from privbandit_agents.experiments.drawing.style import STYLE, save, write_title

COLOURS = "viridis"
SCALE = LogNorm(0.003, 1.0, clip=True)
"""From a share of uniform play's regret that is next to nothing, to all of it."""
NOTE = "share of uniform play's regret; framed: the best of its notion of privacy; %: seeds that learned nothing"


def draw_maps(maps: Sequence[TrustMap], title: str, path: Path, formats: Sequence[str] = (), stamp: str = "") -> None:
    """Draw maps beside each other, and write a PNG, and other ``formats``; ``stamp`` as for ``draw_figure``."""
    columns, rows = len(maps[0].agents), len(maps[0].worlds)
    with matplotlib.rc_context(STYLE):
        size = 2.6 + len(maps) * (0.3 + 0.92 * columns), 1.9 + 0.42 * rows  # inches
        figure = Figure(figsize=size, layout="constrained", dpi=160)
        axes = figure.subplots(1, len(maps), sharey=True, squeeze=False)[0]
        for axis, each in zip(axes, maps, strict=True):
            draw_map(axis, each)
        write_title(figure, title, stamp)
        figure.supxlabel(NOTE, fontsize=9, color="#555555", x=0.99, ha="right")
        save(figure, path, formats)


def draw_map(axis: Axes, each: TrustMap) -> None:
    means = np.array([[np.nan if place is None else place.mean.value for place in row] for row in each.places])
    axis.imshow(np.maximum(means, SCALE.vmin or 0.0), cmap=COLOURS, norm=SCALE, aspect="auto")
    axis.set_title(each.panel)
    axis.set_xticks(range(len(each.agents)), each.agents, rotation=35, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(len(each.worlds)), each.worlds)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    for i, row in enumerate(each.places):
        for j, place in enumerate(row):
            told = "-" if place is None else share(place.mean.value)
            dark = place is not None and float(SCALE(place.mean.value)) < 0.6
            colour = "white" if dark else "black"
            text: dict[str, Any] = {"ha": "center", "color": colour, "fontsize": 9}
            below = besides(place)
            axis.text(j, i - 0.16 * bool(below), told, va="center", **text)
            axis.text(j, i + 0.26, below, va="center", **{**text, "fontsize": 6.5})
            if place and place.notion != "none" and place.mean.value < FAILED and each.over_best(i, j) == 1:
                axis.add_patch(Rectangle((j - 0.46, i - 0.44), 0.92, 0.88, fill=False, ec="#D55E00", lw=1.8))


def besides(place: Place | None) -> str:
    """Return a warning if the mean misleads: a median that is far below it, and how many seeds learned nothing."""
    if place is None or place.notion == "none":
        return ""
    median = (
        f"median {share(place.median)}" if place.median < 0.7 * place.mean.value else ""
    )  # few bad seeds make the mean
    return ", ".join(part for part in (median, f"{place.failed:.0%}" if place.failed else "") if part)
