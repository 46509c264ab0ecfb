"""What all figures share: colours, the empty picture, captions, and labels at the ends of lines."""

import base64
import html
import io
import math
import re
import textwrap
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import scipy
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from privbandit_agents.experiments.results.statistics import FEW_SEEDS, Floats, Interval
from privbandit_agents.experiments.usage import UsageError
from privbandit_envs.files import atomic

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B07D00", "#56B4E9", "#882255", "#332288")
"""Okabe and Ito's colors, one of them darker, and two of Tol's: distinct with any kind of color vision."""
COLORS = {
    name: place
    for place, names in enumerate(
        (
            "linucb sw-linucb sa-lasso ucb-mnl kernel-public",
            "prec-ts auto-local kernel-ldp ldp-mnl greedy input-perturbation",
            "jdp-linucb sw-jdp-linucb auto-joint private-pursuit newton-mnl",
            "lplr fliphat dpmnl lpct lpct-p lpct-q lpct-r epsilon-greedy psgd-network",
            "dp-dqn ppo dpmnl-approx tree-public lpct-prune",
            "dqn greedy-mnl psgd-linear logistic-public ldp-linucb sw-ldp-linucb ldp-oful shuffle-linucb warm-ldp-sgd",
            "ldp-greedy a2c squarecb reward-dp-linucb histogram phist pglm",
            "lints regcb ts-mnl tree-all ldp-sgd ldp-glm ldp-clicks lpdt",
        )
    )
    for name in names.split()
}
"""The place in the palette of each agent of the zoo; those that play together differ, or have other dashes."""
DASHES: dict[str, Any] = {
    "none": "-",
    "joint": (0, (6, 1.8)),
    "local": (0, (1.6, 1.2)),
    "shuffle": (0, (6, 1.5, 1, 1.5)),
    "reward": (0, (6, 1.5, 1, 1.5, 1, 1.5)),
    "shuffle-reward": (0, (6, 1.5, 1, 1.5, 1, 1.5, 1, 1.5)),
    "local-reward": (0, (1.6, 1.2, 4, 1.2)),
}
"""How a line is drawn by the privacy of its agent."""
NOTIONS = {
    "none": "not private",
    "reward": "privacy of rewards",
    "joint": "joint privacy",
    "shuffle": "shuffle privacy",
    "local": "local privacy",
    "shuffle-reward": "shuffle privacy of rewards",
    "local-reward": "local privacy of rewards",
}
MARKERS = ("", "o", "s", "^", "D", "v", "P", "X")
"""If there are more agents than colors, a marker separates those of one color."""
LONGEST_LABEL = 60
"""Characters of a label."""
LABEL_HEIGHT = 0.19
"""Inches of a label beside a panel."""
STAMP: dict[str, Any] = {"fontsize": "large", "color": "#B00020", "weight": "bold", "ha": "right", "va": "top"}
"""Style of the note in a figure's corner that it decides nothing."""
UNIFORM: dict[str, Any] = {"color": "#777777", "linestyle": "-"}
BEST = "best without privacy"
FIXED = {"uniform": UNIFORM}
"""Looks of agents that are the same in all figures."""
NUMBERED = re.compile(r"=(-?\d+(?:\.\d*)?(?:e[-+]?\d+)?)(?=,|$)")
FORMATS = ("png", "pdf", "svg", "eps", "ps", "pgf")
NARROW = 5.0
"""Inches: a figure of less width is a column of a paper."""
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
    "pdf.fonttype": 42,  # TrueType: conferences refuse type 3
    "ps.fonttype": 42,
}


@dataclass(frozen=True)
class Look:
    """What a user may choose of a figure.

    Attributes:
        title: above it.
        size: inches, width and height; None: as the panels need.
        formats: written beside the PNG.
        font: points of the text; None: matplotlib's ``font.size``, or 8 in a figure of less than 5 inches width.
    """

    title: str = ""
    size: tuple[float, float] | None = None
    formats: tuple[str, ...] = ()
    font: float | None = None

    @property
    def text(self) -> dict[Any, Any]:
        """The settings of matplotlib for the text."""
        return {} if self.font is None else {"font.size": self.font, "axes.titlesize": 1.1 * self.font}


@dataclass(frozen=True)
class Line:
    """A measured line.

    Attributes:
        label: its name.
        agent: that plays or is fitted, or the label.
        x: shape (c,); both ends of the panel for a level.
        mean: over replications, with its 95 % interval, shape (c,); without ends for one replication.
        replications: the fewest that a point has.
        level: whether it has no x of its own.
        each: the replications by themselves, each shape (c,); empty where there are many.
        notion: of privacy; ``"none"`` without.
    """

    label: str
    agent: str
    x: Floats
    mean: Interval[Floats]
    replications: int
    level: bool = False
    each: Sequence[Floats] = field(default=(), compare=False)
    notion: str = "none"

    def interval(self, log: bool, least: float = -math.inf, most: float = math.inf) -> tuple[Floats, Floats]:
        """Return the ends of the interval within the possible range; on logarithmic axes that of the logarithm."""
        found = self.mean.positive if log else self.mean
        return np.clip(found.low, least, most), np.clip(found.high, least, most)


def style(size: tuple[float, float] | None = None) -> dict[Any, Any]:
    """Return the style of figures but for what the user's rcParams set, for a figure of this many inches."""
    default, now = matplotlib.rcParamsDefault, matplotlib.rcParams
    own = {key: value for key, value in STYLE.items() if now[key] == default[key]}
    if {"font.size", "axes.titlesize"} <= own.keys() and narrow(size):
        own |= {"font.size": 8, "axes.titlesize": 8.8}
    return own


def narrow(size: tuple[float, float] | None) -> bool:
    return size is not None and size[0] < NARROW


def text_scale() -> float:
    """Return the size of the text relative to that of ``STYLE``."""
    return float(matplotlib.rcParams["font.size"]) / 10


def empty_picture(
    panels: int, characters: int = 0, labels: int = 0, size: tuple[float, float] | None = None
) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with this many panels, in two columns."""
    columns = min(panels, 2)
    rows = math.ceil(panels / columns)
    with matplotlib.rc_context(style(size)):
        width = 5.6 + 0.08 * max(0, min(characters, LONGEST_LABEL) - 30)  # inches
        height = max(3.7, LABEL_HEIGHT * labels + 0.9)  # inches of a panel
        figure = Figure(figsize=size or (width * columns, height * rows + 0.3), layout="constrained", dpi=160)
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[panels:]:
        spare.remove()
    return figure, axes[:panels]


def save(figure: Figure, path: Path, formats: Sequence[str] = (), follow: bool = False) -> None:
    """Write a figure as a PNG, and in other formats beside it; ``follow`` links if the user named the path.

    Raises:
        UsageError: the figure is too small for what is in it.
    """
    for kind in dict.fromkeys(("png", *formats)):
        with matplotlib.rc_context(style()), atomic(path.with_suffix(f".{kind}"), "wb", follow=follow) as file:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", "constrained_layout not applied")
                try:
                    figure.savefig(file, format=kind)
                except UserWarning:
                    width, height = figure.get_size_inches()
                    text = f"{width:g}x{height:g} inches are too few for its panels and labels"
                    raise UsageError(f"{text}: give a larger --size or a smaller --font.") from None


def embedded(figure: Figure, title: str) -> str:
    """Return a picture as markup of a page that needs no other file; its tables have the numbers."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    code = base64.b64encode(picture.getvalue()).decode()
    return f'<img src="data:image/png;base64,{code}" alt="{html.escape(title)}; the tables have the numbers.">'


def styles_of(panels: Sequence[Sequence[Line]]) -> dict[str, dict[str, Any]]:
    """Return the line style of every label: an agent has the same color in all figures.

    Its settings are shades of that color, in the order of the number in which they differ. Dashes show the notion of
    privacy; a marker separates lines of one color and one notion. Lines that are no agent's take colors in turn.
    """
    lines = {line.label: line for panel in panels for line in panel}
    own = [label for label, line in lines.items() if line.agent not in FIXED]
    styles = {label: FIXED.get(line.agent, UNIFORM) for label, line in lines.items()}
    places = places_of({label: lines[label].agent for label in own})
    seen: dict[tuple[int, str], int] = {}
    for ramp in ramps_of(own):
        place, notion = places[ramp[0]], lines[ramp[0]].notion
        again = seen[place, notion] = seen.get((place, notion), -1) + 1
        marker = MARKERS[again % len(MARKERS)]
        marks: dict[str, Any] = {"marker": marker, "markersize": 4, "markevery": 0.17} if marker else {}
        for label, color in zip(ramp, shades(PALETTE[place], len(ramp)), strict=True):
            styles[label] = {"color": color, "linestyle": DASHES.get(lines[label].notion, "-"), **marks}
    return styles


def places_of(agents: Mapping[str, str]) -> dict[str, int]:
    """Return the place of each label's color in the palette, given its agent.

    Agents of the zoo have a place of their own. Others, and lines that are none's, take those that are least in use,
    in the order of their names, so that a folder's figures of the same agents agree.
    """
    found = {label: COLORS[bare_name(agent)] for label, agent in agents.items() if bare_name(agent) in COLORS}
    by_agent: dict[str, int] = {}
    uses = list({agent: found[label] for label, agent in agents.items() if label in found}.values())
    for agent in sorted({agent for label, agent in agents.items() if label not in found}):
        by_agent[agent] = min(range(len(PALETTE)), key=lambda place: (uses.count(place), place))
        uses.append(by_agent[agent])
    return {label: found[label] if label in found else by_agent[agent] for label, agent in agents.items()}


def bare_name(agent: str) -> str:
    """Return an agent without its module; the agent behind a label such as ``"linucb alpha=0.5"``."""
    return agent.rpartition(":")[2].partition(" ")[0]


def ramps_of(labels: Sequence[str]) -> list[list[str]]:
    """Return labels in groups that differ in one number alone, in its order."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        groups.setdefault(NUMBERED.sub("=#", label), []).append(label)
    found = []
    for group in groups.values():
        numbers = np.array([[float(text) for text in NUMBERED.findall(label)] for label in group])
        if len(group) > 1 and ((numbers != numbers[0]).any(axis=0)).sum() == 1:
            found.append([group[i] for i in numbers.sum(axis=1).argsort(kind="stable")])
        else:
            found += [[label] for label in group]
    return found


def shades(color: str, n: int) -> list[str]:
    """Return n shades of a colour, from light to dark; the colour itself if n is 1."""
    if n == 1:
        return [color]
    base = np.array(to_rgb(color))
    return [
        to_hex(base + (1 - base) * 0.45 * (1 - 2 * t) if t < 0.5 else base * (1 - 1.2 * (t - 0.5)))
        for t in np.linspace(0, 1, n)
    ]


def write_title(figure: Figure, title: str, stamp: str = "") -> None:
    """Write a title above a figure, and a stamp in its corner; a long title goes on below; no panel is covered."""
    room = figure.get_figwidth() - (0.2 + 0.11 * len(stamp) if stamp else 0.0)  # inches
    if title or stamp:
        told = textwrap.fill(title, max(20, int(11 * room / text_scale()))) or " "
        figure.suptitle(told, fontsize="large", x=0.01, ha="left")
    if stamp:
        figure.text(0.99, 0.995, stamp, **STAMP)


def write_caption(figure: Figure, text: str, panels: Iterable[Sequence[Line]]) -> None:
    """Write a caption below a figure, with the dashes of each kind of privacy if it shows several."""
    told, points = textwrap.fill(text, int(15 * figure.get_figwidth() / text_scale())), 9 * text_scale()
    every = [line.notion for lines in panels for line in lines]
    shown = [notion for notion in NOTIONS if notion in every]
    if len(shown) < 2:
        figure.supxlabel(told, fontsize=points, color="#555555", x=0.01, ha="left")
        return
    samples = [Line2D([], [], color="#333333", linestyle=DASHES[notion], linewidth=1.6) for notion in shown]
    names = [NOTIONS[notion] for notion in shown]
    look: Any = {"frameon": False, "fontsize": points, "title_fontsize": points, "alignment": "left", "handlelength": 3}
    legend = figure.legend(samples, names, loc="outside lower left", ncols=min(len(shown), 3), title=told, **look)
    legend.get_title().set_color("#555555")


def caption(panels: Iterable[Sequence[Line]], shown: str, unit: str) -> str:
    """Return a sentence on the lines of panels and on the intervals ``shown``; a replication is a ``unit``."""
    counts = sorted({line.replications for lines in panels for line in lines})
    if counts == [1]:
        return f"one {unit}"
    if counts[-1] < FEW_SEEDS:
        return f"mean, and each of {span(counts)} {unit}s thin"
    few = f"; fewer than {FEW_SEEDS} {unit}s are thin" if counts[0] < FEW_SEEDS else ""
    return f"mean and 95 % {shown} over {span(counts)} {unit}s{few}"


def guarantees(promises: Iterable[tuple[str | None, float | None, float | None]], budgets: bool = True) -> list[str]:
    """Return the promises of a figure's agents for its caption, one for each notion of privacy.

    Args:
        promises: notion, epsilon and delta of each agent.
        budgets: whether epsilon is told; not if it is on an axis.
    """
    known: dict[str, tuple[set[float], set[float]]] = {}
    for notion, epsilon, delta in promises:
        if notion not in (None, "none") and epsilon is not None and math.isfinite(epsilon):
            epsilons, deltas = known.setdefault(str(notion), (set(), set()))
            epsilons.add(epsilon)
            deltas.update([delta] if delta else [])
    told = []
    for notion in (notion for notion in NOTIONS if notion in known):
        epsilons, deltas = known[notion]
        ends = f"{min(epsilons):.4g}" + (f" to {max(epsilons):.4g}" if len(epsilons) > 1 else "")
        parts = [f"epsilon = {ends}"] * budgets + [f"delta = {max(deltas):.2g}" for _ in [0] if deltas]
        told += [f"{NOTIONS[notion]}: {', '.join(parts)}"] if parts else []
    return told


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
    figure = axis.get_figure(root=True)
    inches = 1.0 if figure is None else figure.get_figheight() / axis.get_gridspec().nrows - 0.9  # type: ignore[union-attr]
    to_axes = axis.transData + axis.transAxes.inverted()
    points = to_axes.transform([(label.x, label.y) for label in labels])
    order = points[:, 1].argsort(kind="stable")
    gap = LABEL_HEIGHT * text_scale() / inches
    heights = spread([float(points[i, 1]) for i in order], gap, 0.4 * gap, most=1.0)
    for i, height in zip(order, heights, strict=True):
        text, color = shortened(labels[i].text), labels[i].color
        tie = {"arrowstyle": "-", "color": color, "lw": 0.7, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)}
        how: Any = {"xycoords": "axes fraction", "textcoords": "axes fraction", "va": "center", "arrowprops": tie}
        axis.annotate(text, points[i], (1.04, height), color=readable(color), annotation_clip=False, **how)


def write_legend(figure: Figure, labels: Mapping[str, Mapping[str, Any]]) -> None:
    """Write labels with the looks of their lines below the panels, in as many columns as fit."""
    longest = min(max(map(len, labels)), LONGEST_LABEL)
    columns = max(1, int(figure.get_figwidth() / (0.45 + 0.085 * text_scale() * longest)))
    lines = [Line2D([], [], **{"linewidth": 1.4, **look}) for look in labels.values()]
    look: Any = {"frameon": False, "handlelength": 2.2, "columnspacing": 1.0, "labelspacing": 0.25, "borderaxespad": 0}
    figure.legend(lines, [shortened(label) for label in labels], loc="outside lower center", ncols=columns, **look)


def readable(color: str, contrast: float = 4.6) -> str:
    """Return a colour dark enough on white: for text a contrast of 4.5 to 1, and a little (WCAG 2.1, 1.4.3)."""
    channels = np.array(to_rgb(color))
    while 1.05 / (luminance(channels) + 0.05) < contrast:
        channels = channels * 0.96
    red, green, blue = map(float, channels)
    return to_hex((red, green, blue))


def luminance(channels: Floats) -> float:
    """Return the relative luminance of red, green and blue in [0, 1] (WCAG 2.1)."""
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def shortened(text: str) -> str:
    """Return a label without its middle if it is very long."""
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL // 2]}...{text[3 - LONGEST_LABEL // 2 :]}"


def spread(positions: Sequence[float], gap: float, least: float = -math.inf, most: float = math.inf) -> list[float]:
    """Return increasing positions, moved as little as needed (least squares) to be ``gap`` apart, from least to most.

    If there is no room for all, the last ones are beyond ``most``.
    """
    if not len(positions):
        return []
    if positions[0] >= least and positions[-1] <= most and (np.diff(positions) >= gap).all():
        return list(positions)
    steps = gap * np.arange(len(positions))
    # without i gap it is isotonic regression
    places = scipy.optimize.isotonic_regression(np.asarray(positions) - steps).x
    return [float(place) for place in np.maximum(np.minimum(places, most - steps[-1]), least) + steps]
