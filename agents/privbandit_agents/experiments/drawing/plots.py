"""Figures of a table of results: regret along the users, and the frontier of regret and privacy."""

from typing import Any, Literal

import polars as pl
from matplotlib.figure import Figure

from privbandit_agents.experiments.drawing.bars import draw_bars
from privbandit_agents.experiments.drawing.figures import REGRET, composed, y_label
from privbandit_agents.experiments.drawing.layout import Panel
from privbandit_agents.experiments.drawing.lines import curves_of, frontiers_of, one_budget, panels_of, settings_of
from privbandit_agents.experiments.drawing.style import guarantees
from privbandit_agents.experiments.schema.figures import FigureSpec
from privbandit_envs.validate import one_of

Log = Literal["", "x", "y", "xy", "auto"]
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
    spec = REGRET.model_copy(update={"x": "users", "y": "regret", "log": log, "title": title})
    promises = promised(frame)
    panels = [(Panel(name, []), curves_of(rows)) for name, rows in panels_of(frame).items()]
    return composed(spec, panels, told=guarantees(promises), size=size)


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
    promises = promised(frame)
    spec = FigureSpec(name="frontier", x="epsilon", y="regret", log=log, title=title)
    if one_budget(panels):
        told, labels = guarantees(promises), {name: y_label(spec, users[name]) for name in panels}
        return draw_bars(panels, labels, title, told, size)
    kept = [(Panel(name, [], users=users[name]), lines) for name, lines in panels.items()]
    return composed(spec, kept, told=guarantees(promises, budgets=False), size=size)


def promised(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Return notion, epsilon and delta of the agents in a table; those that it does not have are None."""
    missing = [pl.lit(None).alias(name) for name in ("notion", "epsilon", "delta") if name not in frame.columns]
    return frame.with_columns(missing).select("notion", "epsilon", "delta").unique(maintain_order=True).rows()
