"""A map of where agents may be trusted: worlds down, agents across, dark where an agent has little regret."""

import textwrap
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
    """Draw maps below each other, and write a PNG, and other ``formats``; ``stamp`` as for ``draw_figure``.

    Every text has at least 7 pt where the picture is as wide as a page of the documentation.
    """
    with matplotlib.rc_context(STYLE):
        rows = [len(each.worlds) for each in maps]
        # inches: a row has a share, a median and how many seeds learned nothing; above are a title and names of agents
        heights = [0.46 * n + 0.95 for n in rows]
        # 9 inches wide: the documentation shows pictures on 876 pixels, 9.1 inches
        figure = Figure(figsize=(9.0, sum(heights) + 0.75), layout="constrained", dpi=160)
        axes = figure.subplots(len(maps), 1, squeeze=False, height_ratios=rows)[:, 0]
        for axis, each in zip(axes, maps, strict=True):
            draw_map(axis, each)
        write_title(figure, title, stamp)
        figure.supxlabel(NOTE, fontsize=8.5, color="#555555", x=0.99, ha="right")
        save(figure, path, formats)


def draw_map(axis: Axes, each: TrustMap) -> None:
    means = np.array([[np.nan if place is None else place.mean.value for place in row] for row in each.places])
    axis.imshow(np.maximum(means, SCALE.vmin or 0.0), cmap=COLOURS, norm=SCALE, aspect="auto")
    axis.set_title(each.panel)
    names = [textwrap.fill(agent, 22, break_long_words=False, break_on_hyphens=False) for agent in each.agents]
    axis.set_xticks(range(len(names)), names, rotation=35, ha="right", rotation_mode="anchor", fontsize=8.5)
    axis.set_yticks(range(len(each.worlds)), [textwrap.fill(world, 28) for world in each.worlds], fontsize=8.5)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    for i, row in enumerate(each.places):
        for j, place in enumerate(row):
            told = "-" if place is None else share(place.mean.value)
            dark = place is not None and float(SCALE(place.mean.value)) < 0.6
            text: dict[str, Any] = {"ha": "center", "va": "center", "color": "white" if dark else "black"}
            below = besides(place)
            lines = below.count("\n") + bool(below)
            axis.text(j, i - 0.13 * lines, told, fontsize=9, **text)
            axis.text(j, i + 0.34 - 0.1 * lines, below, fontsize=7.2, linespacing=0.95, **text)
            if place and place.notion != "none" and place.mean.value < FAILED and each.over_best(i, j) == 1:
                axis.add_patch(Rectangle((j - 0.47, i - 0.46), 0.94, 0.92, fill=False, ec="#D55E00", lw=1.8))


def besides(place: Place | None) -> str:
    """Return a warning if the mean misleads: a median that is far below it, and how many seeds learned nothing."""
    if place is None or place.notion == "none":
        return ""
    median = (
        f"median {share(place.median)}" if place.median < 0.7 * place.mean.value else ""
    )  # few bad seeds make the mean
    return "\n".join(part for part in (median, f"{place.failed:.0%}" if place.failed else "") if part)
