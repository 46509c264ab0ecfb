"""What is drawn where: the panels of a figure and the lines in them, found before anything runs."""

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from privbandit_agents.experiments.cells import VARIANT, Cell, check_setting, one, placed, select
from privbandit_agents.experiments.experiment import FigureSpec, Reference
from privbandit_agents.experiments.labels import as_text, short, with_settings
from privbandit_agents.experiments.measure import line_of, users_of
from privbandit_agents.experiments.measured import Reading, reading_of


@dataclass(frozen=True)
class Series:
    """A line to be drawn.

    Attributes:
        label: its name.
        agent: that plays, or the label if the line is not an agent's.
        readings: of one cell along its users, or of one cell for each x.
        x: values of the setting, increasing; empty against users, and for a cell without the setting, which is a level.
        users: when each reading is taken; empty against users.
    """

    label: str
    agent: str
    readings: list[Reading]
    x: list[float]
    users: list[float]

    @property
    def cells(self) -> list[Cell]:
        """The cells that are read."""
        return [reading.cell for reading in self.readings]


@dataclass
class Panel:
    """A panel: its title, its lines, and the reference curves over them, each with the line that it is scaled to."""

    title: str
    series: list[Series]
    references: list[tuple[Reference, Series | None]] = field(default_factory=list)


def layout(spec: FigureSpec, cells: Sequence[Cell]) -> list[Panel]:
    """Return the panels of a figure.

    Raises:
        ValueError: nothing to draw, two cells at one point, no uniform for a ratio, an unknown setting or function.
    """
    names = {cell.name for wanted in spec.select for cell in select(cells, wanted)}
    drawn = [cell for cell in cells if cell.name in names]
    told = [spec.x, *spec.panels, *spec.lines]
    for key in told[spec.x == "users" :]:
        check_setting(key, drawn)
    found = []
    for title, inside in panelled(drawn, spec.panels, told).items():
        lines = grouped(inside, spec.lines, told, or_agent=True)
        found.append(Panel(title, [series_of(spec, label, group, cells) for label, group in lines.items()]))
    for reference in spec.curves:
        place_reference(reference, found)
    return found


def panelled(cells: Sequence[Cell], keys: Sequence[str], told: Sequence[str]) -> dict[str, list[Cell]]:
    """Return cells by the text of their keys; those that lack some are wherever the others are like them."""
    have = {cell.name: [key for key in keys if key in cell.settings] for cell in cells}
    most = max(map(len, have.values()))
    panels = grouped([cell for cell in cells if len(have[cell.name]) == most], keys, told)
    alone = []
    for cell in (cell for cell in cells if len(have[cell.name]) < most):
        fitting = [inside for inside in panels.values() if alike(cell, inside[0], have[cell.name], told)]
        for inside in fitting:
            inside.append(cell)
        alone += [] if fitting else [cell]
    return {**panels, **grouped(alone, keys, told)}


def alike(cell: Cell, other: Cell, keys: Sequence[str], told: Sequence[str]) -> bool:
    """Return whether two cells have the same text under all keys."""
    return all(key_text(cell, key, told) == key_text(other, key, told) for key in keys)


def grouped(
    cells: Iterable[Cell], keys: Sequence[str], told: Sequence[str], or_agent: bool = False
) -> dict[str, list[Cell]]:
    """Return cells by the text of their keys; if asked for, by their agent where they have none of them."""
    cells = list(cells)
    tell_horizon = "horizon" not in told and len({cell.trial.horizon for cell in cells}) > 1
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        parts = [key_text(cell, key, told) for key in keys]
        if tell_horizon and "env" in keys:
            parts.append(f"{cell.trial.horizon:,} users")
        text = ", ".join(part for part in parts if part)
        groups.setdefault(text or (key_text(cell, "agent", told) if or_agent else ""), []).append(cell)
    return groups


def key_text(cell: Cell, key: str, told: Sequence[str]) -> str:
    """Return what a cell has under a key, without the settings that are told elsewhere in the figure."""
    trial = cell.trial
    if key == "env":
        kept = {name: value for name, value in trial.env_kwargs.items() if f"env.{name}" not in told}
        return short(with_settings(trial.env, kept)).replace("(", " (", 1)
    if key == "agent":
        kept = {name: value for name, value in trial.config.items() if f"agent.{name}" not in told}
        return f"{cell.settings['agent']} {as_text(kept)}".strip()
    if key == VARIANT:
        return str(cell.settings.get(key, ""))
    name = key.partition(".")[2] or key
    return as_text({name: cell.settings[key]}) if key in cell.settings else ""


def series_of(spec: FigureSpec, label: str, group: Sequence[Cell], cells: Sequence[Cell]) -> Series:
    """Return the line of some cells."""
    agent = group[0].settings["agent"] if spec.lines == ["agent"] else label
    with placed(f"line {label!r}"):
        if spec.x == "users":
            return Series(label, agent, [reading_of(one(group, {}), spec.y, cells)], [], [])
        if any(spec.x in cell.settings for cell in group):
            points = line_of({}, spec.x, group)
            used = [users_of(spec.at, cell) for cell in points.values()]
            return Series(label, agent, [reading_of(cell, spec.y, cells) for cell in points.values()], [*points], used)
        level = one(group, {})
        return Series(label, agent, [reading_of(level, spec.y, cells)], [], [users_of(spec.at, level)])


def place_reference(reference: Reference, panels: Sequence[Panel]) -> None:
    """Put a reference curve into the panels that it belongs to, after checking that it can be called."""
    check_call(reference)
    if reference.through is None:
        for panel in panels:
            panel.references.append((reference, None))
        return
    every = [cell for panel in panels for series in panel.series for cell in series.cells]
    names = {cell.name for cell in select(every, reference.through.settings)}
    lines = [(panel, series) for panel in panels for series in panel.series if {c.name for c in series.cells} & names]
    if len(lines) > 1:
        several = " and ".join(repr(series.label) for _, series in lines)
        raise ValueError(f"through must select one line; {as_text(reference.through.settings)} is on {several}.")
    lines[0][0].references.append((reference, lines[0][1]))


def check_call(reference: Reference) -> None:
    """Raise if a reference curve cannot be loaded or does not take its settings."""
    function = reference.load()
    try:
        signature = inspect.signature(function)
    except ValueError:
        return
    with placed(reference.function):
        signature.bind(None, **reference.kwargs)
