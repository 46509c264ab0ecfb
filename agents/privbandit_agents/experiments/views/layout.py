"""The layout of drawings: the panels of a figure and the lines in them, found before anything runs."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from privbandit_agents.experiments.names import as_text, bare
from privbandit_agents.experiments.results.cells import VARIANT, Cell, Cells
from privbandit_agents.experiments.results.measures import numbered
from privbandit_agents.experiments.results.readings import Reading, curve, reading, users_of
from privbandit_agents.experiments.schema.figures import FigureSpec, Reference
from privbandit_agents.experiments.schema.measures import Selection
from privbandit_agents.experiments.usage import placed


@dataclass(frozen=True)
class Series:
    """A line to be drawn.

    Attributes:
        agent: that plays or is fitted, or the label if the line is not an agent's.
        readings: one along the users, one for each x, or one of a level.
        x: values of the setting, increasing; empty against users and for a level.
    """

    label: str
    agent: str
    readings: list[Reading]
    x: list[float] = field(default_factory=list)

    @property
    def level(self) -> bool:
        """Whether the line has no x of its own."""
        return not self.x and not self.readings[0].along

    @property
    def cells(self) -> list[Cell]:
        return [reading.cell for reading in self.readings]


@dataclass
class Panel:
    """A panel.

    Attributes:
        title: above it.
        series: its lines.
        references: curves over them, each with the line that it is scaled to.
        users: after how many its numbers are taken; None: along the users, or at several numbers.
    """

    title: str
    series: list[Series]
    references: list[tuple[Reference, Series | None]] = field(default_factory=list)
    users: int | None = None


def completed(spec: FigureSpec, cells: Cells) -> FigureSpec:
    """Return a figure with the defaults for trials or for fits."""
    fits = cells[0].job.kind == "fit"
    defaults = {
        "x": spec.x or ("epsilon" if fits else "users"),
        "y": spec.y or cells[0].job.quantities[0],
        "panels": ([] if fits else ["env"]) if spec.panels is None else spec.panels,
        "lines": (["method"] if fits else ["agent"]) if spec.lines is None else spec.lines,
    }
    if "$users" in spec.title:
        defaults["title"] = spec.title.replace("$users", f"{users_of(spec.at, cells[0]):,.0f}")
    return spec.model_copy(update=defaults)


def layout(spec: FigureSpec, cells: Cells) -> list[Panel]:
    """Return the panels of a completed figure.

    Raises:
        ValueError: nothing to draw, two cells at one point, no uniform for a ratio, an unknown setting or function.
    """
    names = {cell.name for wanted in spec.select for cell in cells.select(wanted)}
    drawn = Cells(cell for cell in cells if cell.name in names)
    panels, lines = spec.panels or [], spec.lines or []
    for key in [*panels, *lines]:
        drawn.check_setting(key)
    if spec.x != "users" and not any(spec.x in point for cell in drawn for point in cell.job.points):
        drawn.check_setting(spec.x)
    told = [spec.x, *panels, *lines]
    found = []
    for title, inside in panelled(drawn, panels, told, spec.names).items():
        groups = grouped(inside, lines, told, spec.names, or_agent=True)
        series = [series_of(spec, label, group, cells) for label, group in groups.items()]
        found.append(Panel(title, series, users=served(spec, inside)))
    for reference in spec.curves:
        place_reference(reference, found)
    return found


def beside_guest(spec: FigureSpec, cells: Cells, guest: str) -> list[Panel]:
    """Return the panels with an agent that the figure does not name, on the same settings; without it if that fails."""
    settings = {key: value for wanted in spec.select for key, value in wanted.items() if key.startswith("agent.")}
    for own in (settings, {}):  # first with settings of agents that the figure selects, then with all that it has
        worlds = [{key: value for key, value in wanted.items() if key.startswith("env")} for wanted in spec.select]
        select = [*spec.select, *({**world, **own, "agent": guest} for world in worlds)]
        try:
            return layout(spec.model_copy(update={"select": select}), cells)
        except ValueError:
            continue
    return layout(spec, Cells(cell for cell in cells if not cell.has("agent", guest)))


def served(spec: FigureSpec, cells: Sequence[Cell]) -> int | None:
    """Return after how many users the numbers of a panel are taken, if that is one number."""
    if spec.x in ("users", "horizon") or cells[0].job.kind == "fit":
        return None
    numbers = {users_of(spec.at, cell) for cell in cells}
    return int(numbers.pop()) if len(numbers) == 1 else None


def panelled(
    cells: Sequence[Cell], keys: Sequence[str], told: Sequence[str], names: Mapping[str, str]
) -> dict[str, list[Cell]]:
    """Return cells by the text of their keys; those that lack some are wherever the others are like them."""
    have = {cell.name: [key for key in keys if key in cell.settings] for cell in cells}
    most = max(map(len, have.values()))
    panels = grouped([cell for cell in cells if len(have[cell.name]) == most], keys, told, names)
    alone = []
    for cell in (cell for cell in cells if len(have[cell.name]) < most):
        own = [key_text(cell, key, told, names) for key in have[cell.name]]
        fitting = [
            inside
            for inside in panels.values()
            if own == [key_text(inside[0], key, told, names) for key in have[cell.name]]
        ]
        for inside in fitting:
            inside.append(cell)
        alone += [] if fitting else [cell]
    return {**panels, **(panelled(alone, keys, told, names) if alone else {})}


def grouped(
    cells: Iterable[Cell],
    keys: Sequence[str],
    told: Sequence[str],
    names: Mapping[str, str],
    or_agent: bool = False,
) -> dict[str, list[Cell]]:
    """Return cells by the text of their keys; if asked for, by their agent where they have none of them."""
    cells = list(cells)
    horizons = {cell.settings.get("horizon") for cell in cells}
    tell_horizon = "env" in keys and "horizon" not in told and len(horizons) > 1
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        parts = [key_text(cell, key, told, names) for key in keys]
        if tell_horizon:
            parts.append(f"{cell.settings['horizon']:,} users")
        text = ", ".join(part for part in parts if part)
        groups.setdefault(text or (key_text(cell, "agent", told, names) if or_agent else ""), []).append(cell)
    return groups


def key_text(cell: Cell, key: str, told: Sequence[str], names: Mapping[str, str]) -> str:
    """Return a cell's value under a key as the figure calls it, without the settings that it shows elsewhere."""
    value = cell.settings.get(key)
    if key in cell.settings and (own := names.get(f"{key}={bare(value)}")) is not None:
        return own
    called = cell.job.called(key, told, cell.swept)
    if called is not None or key not in cell.settings:
        return called or ""
    speaks = key in (VARIANT, "method", "source")  # the value speaks for itself
    return bare(value) if speaks else as_text({names.get(key, key.partition(".")[2] or key): value})


def series_of(spec: FigureSpec, label: str, group: Sequence[Cell], cells: Cells) -> Series:
    """Return the line of some cells; without the setting of x it is a level."""
    inside = Cells(group)
    agent = inside[0].settings["agent"] if spec.lines in (["agent"], ["method"]) else label
    wanted = Selection(**{key: getattr(spec, key) for key in ("y", "at", "pick") if key in spec.model_fields_set})
    with placed(f"line {label!r}"):
        if spec.x == "users":
            return Series(label, agent, [curve(inside.one({}), wanted, cells)])
        if spec.x in inside.keys or any(spec.x in point for cell in inside for point in cell.job.points):
            line = numbered(wanted, spec.x, inside, cells)
            return Series(label, agent, list(line.values()), list(line))
        return Series(label, agent, [reading(inside.one({}), wanted, cells)])


def place_reference(reference: Reference, panels: Sequence[Panel]) -> None:
    """Put a reference curve into the panels that it belongs to, after checking that it can be called."""
    check_call(reference)
    if reference.through is None:
        for panel in panels:
            panel.references.append((reference, None))
        return
    every = Cells(cell for panel in panels for series in panel.series for cell in series.cells)
    names = {cell.name for cell in every.select(reference.through.settings)}
    every_line = [(panel, series) for panel in panels for series in panel.series]
    lines = [(panel, series) for panel, series in every_line if names & {cell.name for cell in series.cells}]
    if len(lines) > 1:
        several = " and ".join(repr(series.label) for _, series in lines)
        raise ValueError(f"through must select one line; {as_text(reference.through.settings)} is on {several}.")
    panel, series = lines[0]
    panel.references.append((reference, series))


def check_call(reference: Reference) -> None:
    """Raise if a reference curve cannot be loaded or does not take its settings."""
    function = reference.load()
    try:
        signature = inspect.signature(function)
    except ValueError:
        return
    with placed(reference.function):
        signature.bind(None, **reference.kwargs)
