"""Which texts of a figure lie over each other, or stick out."""

from itertools import combinations
from typing import Any

from matplotlib.figure import Figure
from matplotlib.text import Text


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Return the texts of a figure that lie over another, by the boxes of the renderer, and those that stick out."""
    figure.draw_without_rendering()
    beyond = ticks_beyond(figure)
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    texts = [text for text in texts if text not in beyond]
    boxes = [(text.get_text(), Text.get_window_extent(text).shrunk(0.98, 0.9)) for text in texts]
    found = [(one, other) for (one, a), (other, b) in combinations(boxes, 2) if a.overlaps(b)]
    edge = figure.bbox.padded(2)
    return found + [
        (words, "the edge") for words, box in boxes if not (edge.contains(*box.min) and edge.contains(*box.max))
    ]


def ticks_beyond(figure: Figure) -> set[Any]:
    """Return the labels of ticks beyond the ends of an axis, which are not drawn."""
    found = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        slack = 1e-6 * (high - low)
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        found |= {tick.label1 for tick in ticks if not low - slack <= tick.get_loc() <= high + slack}
    return found
