"""Pictures of worlds: the laws of LPCT's paper, ranges estimated from public rows, and partitions.

Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023, figures 3,
8(a) and 9(a).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from privbandit_agents.experiments.jobs.method import Method
from privbandit_agents.experiments.jobs.rows import Floats, Labels, World, draw
from privbandit_agents.experiments.schema.figures import Picture
from privbandit_agents.experiments.views.style import Look, save, style, write_title
from privbandit_envs.families.classification import eta

COLOURS = "RdBu_r"


def draw_picture(picture: Picture, path: Path, look: Look) -> None:
    """Draw a picture and write a PNG, and other formats."""
    with matplotlib.rc_context(look.text), matplotlib.rc_context(style(look.size)):
        figure = Figure(figsize=look.size or (10, 3.8), layout="constrained", dpi=160)
        picture.load()(figure, **picture.kwargs)
        write_title(figure, picture.title)
        save(figure, path, look.formats)


def contours(figure: Figure, gammas: Sequence[float]) -> None:
    """Draw the probability of label 1 under P (gamma = 1) and under Q, a panel for each gamma (figure 3)."""
    points = 300
    grid = (np.arange(points) + 0.5) / points
    x = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    axes = figure.subplots(1, len(gammas), sharey=True, squeeze=False)[0]
    for axis, gamma in zip(axes, gammas, strict=True):
        heights = eta(x, gamma).reshape(points, points)
        drawn = axis.contourf(grid, grid, heights, levels=np.linspace(0, 1, 21), cmap=COLOURS)
        axis.set_title("P" if gamma == 1 else f"Q, gamma = {gamma:g}")
        squared(axis, 1.0)
    figure.colorbar(drawn, ax=list(axes), label="probability of label 1")


def ranges(figure: Figure, n_public: int, side: float, replication: int = 0) -> None:
    """Draw the estimate of an unknown range [0, a]^2 from public rows, and ranges to try instead (figure 8a).

    Args:
        figure: to draw on.
        n_public: number of public rows.
        side: a.
        replication: the one that drew the rows.
    """
    sample = draw(World(n_public=n_public, stretch=(side, side)), replication)
    x, y = sample.public
    axis = figure.subplots()
    for end in np.arange(1.0, 5.01, 0.5):
        axis.add_patch(Rectangle((0, 0), end, end, fill=False, ec="#AAAAAA", lw=1))
    low, high = x.min(axis=0), x.max(axis=0)
    axis.add_patch(Rectangle((low[0], low[1]), *(high - low), fill=False, ec="black", lw=2))
    scattered(axis, x, y)
    axis.set_title(f"black: from {n_public} public rows, a = {side:g}; grey: guesses")
    squared(axis, 5.1)


def partitions(figure: Figure, n_public: int, gamma: float, depth: int, replication: int = 0) -> None:
    """Draw a random partition, and one by the max-edge rule grown on public rows, beside each other (figure 9a)."""
    sample = draw(World(n_public=n_public, gamma=gamma), replication)
    rules: list[tuple[str, dict[str, str], str]] = [
        ("lpct-r", {}, "longest edges in random order"),
        ("lpct", {"partition": "occupied"}, "longest edges, by public rows"),
    ]
    axes = figure.subplots(1, 2, sharey=True)
    for axis, (agent, rule, title) in zip(axes, rules, strict=True):
        method = Method(name=agent, agent=agent, settings={"depth": depth, "scale_by": "range", **rule})
        fitted = method.build({}, 1.0, sample.n_labels, np.random.default_rng(replication))
        fitted.fit(*sample.private, *sample.public)
        for low, high in boxes(fitted.agent_.partition):
            axis.add_patch(Rectangle((low[0], low[1]), *(high - low), fill=False, ec="black", lw=1))
        scattered(axis, *sample.public)
        axis.set_title(title)
        squared(axis, 1.0)


def boxes(tree: Any) -> list[tuple[Floats, Floats]]:
    """Return the lower and the upper corner of every leaf of a ``Partition`` of the unit square."""
    ends = {0: (np.zeros(2), np.ones(2))}
    for node, feature in enumerate(tree.feature):
        if feature >= 0:
            (low, high), cut = ends.pop(node), tree.threshold[node]
            left, right = high.copy(), low.copy()
            left[feature] = right[feature] = cut
            ends |= {int(tree.children[node, 0]): (low, left), int(tree.children[node, 1]): (right, high)}
    return list(ends.values())


def scattered(axis: Axes, x: Floats, y: Labels) -> None:
    for label, colour in ((0, "#0072B2"), (1, "#D55E00")):
        axis.plot(*x[y == label].T, ".", color=colour, markersize=3)


def squared(axis: Axes, side: float) -> None:
    axis.set(xlim=(0, side), ylim=(0, side), aspect="equal")
