"""The regret figure: a panel per environment, mean and 95 % band over seeds."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from privbandit_agents.experiments.labels import as_text, short
from privbandit_agents.experiments.report import interval_factor
from privbandit_agents.experiments.trial import Outcome
from privbandit_agents.zoo import AGENTS
from privbandit_envs.files import atomic

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#332288")
"""Okabe and Ito's colours, and two of Tol's: told apart with any kind of colour vision."""
DASHES: tuple[Any, ...] = ("-", (0, (6, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
UNIFORM: dict[str, Any] = {"color": "#777777", "linestyle": (0, (4, 3))}
LOG_FROM = 8.0
"""Ratio of the largest to the smallest final regret from which a panel has a logarithmic axis."""
GAP = 0.062
"""Smallest distance between two labels, as a fraction of a panel's height."""
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


class Labelled(Protocol):
    """A line: the agent that plays, the line's name, and how many seeds it is the mean of."""

    @property
    def agent(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def seeds(self) -> int: ...


@dataclass(frozen=True)
class Curve:
    """The mean regret of one agent in one environment.

    Attributes:
        agent: its name.
        label: its name and what tells it from others of that name.
        users: numbers of users, shape (c,).
        mean: cumulative regret, mean over seeds, shape (c,).
        half_width: of the 95 % interval of the mean, shape (c,); NaN for one seed.
        seeds: how many.
    """

    agent: str
    label: str
    users: NDArray[np.int64]
    mean: NDArray[np.float64]
    half_width: NDArray[np.float64]
    seeds: int


def draw_regret(outcomes: Sequence[Outcome], path: str | Path) -> None:
    """Draw the regret of all outcomes and write a PNG.

    Args:
        outcomes: of trials with the same horizon within an environment, or they get panels of their own.
        path: of the file.
    """
    panels = panels_of(outcomes)
    styles = styles_of(list(panels.values()))
    with picture(path, len(panels)) as (figure, axes):
        for axis, ((env, horizon), curves) in zip(axes, panels.items(), strict=True):
            draw_panel(axis, short(env).replace("(", " (", 1), horizon, curves, styles)
        write_caption(figure, caption(panels.values()))


@contextmanager
def picture(path: str | Path, panels: int) -> Iterator[tuple[Figure, list[Axes]]]:
    """Yield an empty figure with this many panels, in two columns; write it as a PNG when all is drawn."""
    columns = min(panels, 2)
    rows = math.ceil(panels / columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.6 * columns, 3.7 * rows), layout="constrained", dpi=160)
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for spare in axes[panels:]:
            spare.remove()
        yield figure, axes[:panels]
        with atomic(Path(path), "wb") as file:
            figure.savefig(file, format="png")


def write_caption(figure: Figure, text: str) -> None:
    """Write a line below the panels."""
    figure.supxlabel(text, fontsize=9, color="#555555", x=0.99, ha="right")


def panels_of(outcomes: Sequence[Outcome]) -> dict[tuple[str, int], list[Curve]]:
    """Return the curves of every environment and horizon."""
    groups: dict[tuple[str, int], dict[str, list[Outcome]]] = {}
    for outcome in outcomes:
        trial = outcome.trial
        agents = groups.setdefault((trial.env_label, trial.horizon), {})
        agents.setdefault(trial.agent_label, []).append(outcome)
    return {panel: [curve_of(runs) for runs in agents.values()] for panel, agents in groups.items()}


def curve_of(runs: Sequence[Outcome]) -> Curve:
    """Return the mean over seeds, and its interval, at the checkpoints that all runs have."""
    trial = runs[0].trial
    users = runs[0].result.checkpoints
    for run in runs[1:]:
        users = np.intersect1d(users, run.result.checkpoints)
    regret = np.stack([run.result.regret[np.isin(run.result.checkpoints, users)] for run in runs])
    deviation = regret.std(axis=0, ddof=1) if len(runs) > 1 else np.full(len(users), np.nan)
    label = f"{trial.agent} {as_text(trial.config)}".strip()
    return Curve(trial.agent, label, users, regret.mean(axis=0), interval_factor(len(runs)) * deviation, len(runs))


def styles_of(panels: Sequence[Sequence[Labelled]]) -> dict[str, dict[str, Any]]:
    """Return the line style of every label: the same in all panels, and no colour twice in one if it can be helped.

    The labels with the most neighbours choose first; the zoo's order breaks ties.
    """
    agents = {curve.label: curve.agent for curves in panels for curve in curves}
    neighbours = {
        label: {c.label for curves in panels if label in {c.label for c in curves} for c in curves} for label in agents
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


def caption(panels: Iterable[Sequence[Labelled]], shown: str = "band") -> str:
    """Return what lines and bands (or what else is shown) are."""
    seeds = sorted({curve.seeds for curves in panels for curve in curves})
    if seeds == [1]:
        return "one seed"
    return f"mean and 95 % {shown} over {'-'.join(str(n) for n in {seeds[0]: 0, seeds[-1]: 0})} seeds"


def draw_panel(
    axis: Axes, title: str, horizon: int, curves: Sequence[Curve], styles: dict[str, dict[str, Any]]
) -> None:
    """Draw one environment: lines, bands, and a label at the end of every line."""
    finals = [float(curve.mean[-1]) for curve in curves]
    logarithmic = min(finals) > 0 and max(finals) / min(finals) > LOG_FROM
    for curve in curves:
        style = styles[curve.label]
        axis.plot(curve.users, curve.mean, linewidth=1.8, zorder=3 if style is UNIFORM else 2, **style)
        low = curve.mean - curve.half_width
        high = curve.mean + curve.half_width
        axis.fill_between(curve.users, np.maximum(low, 1e-3 * curve.mean), high, color=style["color"], alpha=0.16, lw=0)
    axis.set_title(title)
    axis.set_xlabel("users served")
    axis.set_ylabel("cumulative regret")
    axis.grid(True, axis="y")
    axis.set_axisbelow(True)
    scale(axis, horizon, curves, logarithmic)
    label_ends(axis, horizon, curves, styles)


def scale(axis: Axes, horizon: int, curves: Sequence[Curve], logarithmic: bool) -> None:
    """Set the limits, and both axes to logarithms where the regrets differ by orders of magnitude."""
    axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.xaxis.set_major_formatter(lambda users, _: f"{users:,.0f}")
    top = max(float(curve.mean[-1]) for curve in curves)
    axis.set_xlim(0, horizon)
    axis.set_ylim(0, 1.08 * top or 1.0)
    if logarithmic:
        axis.set_yscale("log")
        start = min(float(np.interp(0.05 * horizon, curve.users, curve.mean)) for curve in curves)
        axis.set_ylim(max(0.7 * start, top * 1e-4), 1.5 * top)


def label_ends(axis: Axes, horizon: int, curves: Sequence[Curve], styles: dict[str, dict[str, Any]]) -> None:
    """Write each label beside the end of its line, moved apart where lines end close to each other."""
    label_points(axis, [Label(horizon, curve.mean[-1], curve.label, styles[curve.label]["color"]) for curve in curves])


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
    heights = spread([float(points[i, 1]) for i in order], GAP)
    for i, height in zip(order, heights, strict=True):
        color = labels[i].color
        axis.annotate(
            labels[i].text,
            xy=points[i],
            xytext=(1.04, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=color,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": color, "lw": 0.7, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)},
        )


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """Return increasing positions moved as little as needed to be ``gap`` apart (least squares).

    Subtracting i gap turns it into isotonic regression, solved by pooling neighbours out of order.
    """
    pools: list[list[float]] = []
    for i, position in enumerate(positions):
        pools.append([position - i * gap])
        while len(pools) > 1 and np.mean(pools[-2]) > np.mean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    levels = [float(np.mean(pool)) for pool in pools for _ in pool]
    return [level + i * gap for i, level in enumerate(levels)]
