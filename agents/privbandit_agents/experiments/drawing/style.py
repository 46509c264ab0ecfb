"""What all figures share: colours, the empty picture, captions, and labels at the ends of lines."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import scipy
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from privbandit_agents.experiments.analysis.statistics import Floats
from privbandit_agents.zoo import AGENTS
from privbandit_envs.files import atomic

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#332288")
"""Okabe and Ito's colours, and two of Tol's: told apart with any kind of colour vision."""
DASHES: tuple[Any, ...] = ("-", (0, (6, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
LONGEST = 120
"""Characters of a label."""
UNIFORM: dict[str, Any] = {"color": "#777777", "linestyle": (0, (4, 3))}
STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "svg.fonttype": "none",
}


@dataclass(frozen=True)
class Line:
    """A measured line.

    Attributes:
        label: its name.
        agent: that plays or is fitted, or the label.
        x: shape (c,); both ends of the panel for a level.
        mean: over replications, shape (c,).
        half_width: of the 95 % interval of the mean, shape (c,); NaN for one replication.
        replications: the fewest that a point has.
        level: whether it has no x of its own.
    """

    label: str
    agent: str
    x: Floats
    mean: Floats
    half_width: Floats
    replications: int
    level: bool = False


@contextmanager
def picture(path: str | Path, panels: int, characters: int = 0) -> Iterator[tuple[Figure, list[Axes]]]:
    """Yield an empty figure with this many panels, in two columns; write it as a PNG when all is drawn.

    Args:
        path: of the PNG.
        panels: how many.
        characters: of the longest label beside a panel; panels are wider for those that are not short.
    """
    columns = min(panels, 2)
    rows = math.ceil(panels / columns)
    with matplotlib.rc_context(STYLE):
        width = 5.6 + 0.08 * max(0, min(characters, LONGEST) - 30)  # inches
        figure = Figure(figsize=(width * columns, 3.7 * rows), layout="constrained", dpi=160)
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for spare in axes[panels:]:
            spare.remove()
        yield figure, axes[:panels]
        with atomic(Path(path), "wb") as file:
            figure.savefig(file, format="png")


def styles_of(panels: Sequence[Sequence[Line]]) -> dict[str, dict[str, Any]]:
    """Return the line style of every label: the same in all panels, and no colour twice in one if it can be helped.

    The labels with the most neighbours choose first; the zoo's order breaks ties.
    """
    agents = {line.label: line.agent for lines in panels for line in lines}
    neighbours = {
        label: {other.label for lines in panels if label in {line.label for line in lines} for other in lines}
        for label in agents
    }
    zoo = {name: place for place, name in enumerate(AGENTS)}
    order = sorted(agents, key=lambda label: (-len(neighbours[label]), zoo.get(agents[label], len(zoo))))
    chosen: dict[str, int] = {}
    styles = {label: UNIFORM for label in agents}
    for label in order:
        if agents[label] == "uniform":
            continue
        uses = list(chosen.values())
        beside = [chosen[other] for other in neighbours[label] if other in chosen]
        chosen[label] = min(range(len(PALETTE)), key=lambda i: (beside.count(i), uses.count(i)))
        dash = DASHES[uses.count(chosen[label]) % len(DASHES)]
        styles[label] = {"color": PALETTE[chosen[label]], "linestyle": dash}
    return styles


def caption(panels: Iterable[Sequence[Line]], shown: str, unit: str) -> str:
    """Return what the lines of panels are, and what is ``shown`` around them; a replication is a ``unit``."""
    counts = sorted({line.replications for lines in panels for line in lines})
    return f"one {unit}" if counts == [1] else f"mean and 95 % {shown} over {span(counts)} {unit}s"


def span(counts: Sequence[int]) -> str:
    """Return ``"8"`` or ``"2-8"`` for increasing counts."""
    return str(counts[0]) if counts[0] == counts[-1] else f"{counts[0]}-{counts[-1]}"


class Label(NamedTuple):
    """A text and the point (x, y) of a panel that it names."""

    x: float
    y: float
    text: str
    color: str


def label_points(axis: Axes, labels: Sequence[Label]) -> None:
    """Write labels to the right of a panel, tied to their points."""
    to_axes = axis.transData + axis.transAxes.inverted()
    points = to_axes.transform([(label.x, label.y) for label in labels])
    order = points[:, 1].argsort(kind="stable")
    heights = spread([float(points[i, 1]) for i in order], gap=0.062)
    for i, height in zip(order, heights, strict=True):
        text, color = shortened(labels[i].text), labels[i].color
        tie = {"arrowstyle": "-", "color": color, "lw": 0.7, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)}
        how: Any = {"xycoords": "axes fraction", "textcoords": "axes fraction", "va": "center", "arrowprops": tie}
        axis.annotate(text, points[i], (1.04, height), color=color, annotation_clip=False, **how)


def shortened(text: str) -> str:
    """Return a label without its middle if it is very long."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}...{text[3 - LONGEST // 2 :]}"


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """Return increasing positions moved as little as needed to be ``gap`` apart (least squares)."""
    if (np.diff(positions) >= gap).all():  # also of one label, or none
        return list(positions)
    steps = gap * np.arange(len(positions))
    # without i gap it is isotonic regression
    return [float(place) for place in scipy.optimize.isotonic_regression(np.asarray(positions) - steps).x + steps]
