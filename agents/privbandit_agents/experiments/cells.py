"""Cells of a sweep: what trials of different seeds have in common, and how one is picked."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from privbandit_agents.experiments.catalogue import agent_defaults, env_defaults
from privbandit_agents.experiments.labels import as_text, bare, short
from privbandit_agents.experiments.store import name_of
from privbandit_agents.experiments.trial import Trial, plain
from privbandit_envs.validate import did_you_mean

OWN = ("seed", "checkpoints")
VARIANT = "variant"
"""The setting that has the name under which an experiment speaks of a cell."""


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Put a place before the message of a bad name or value."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise ValueError(f"{place}: {error}") from error


class Settled(Protocol):
    """What has settings by which it is found."""

    @property
    def settings(self) -> Mapping[str, Any]: ...


Found = TypeVar("Found", bound=Settled)


@dataclass(frozen=True)
class Cell:
    """Trials that differ in their seed alone.

    Attributes:
        name: hash of what they share.
        trial: one of them.
        seeds: of all of them.
        settings: ``env``, ``agent`` and ``horizon``, and under ``env.KEY`` and ``agent.KEY`` every setting, given or by
            default.
    """

    name: str
    trial: Trial = field(compare=False)
    seeds: tuple[int, ...] = field(compare=False)
    settings: Mapping[str, Any] = field(compare=False)


def cell_name(trial: Trial) -> str:
    """Return the name of the cell that a trial is in."""
    return name_of({key: value for key, value in trial.spec.items() if key not in OWN})


def cells_of(trials: Iterable[Trial]) -> list[Cell]:
    """Return the cells of trials, in the order of their first trials."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(cell_name(trial), []).append(trial)
    return [
        Cell(name, group[0], tuple(trial.seed for trial in group), settings_of(group[0]))
        for name, group in groups.items()
    ]


def settings_of(trial: Trial) -> dict[str, Any]:
    """Return every setting of a trial under one flat name each."""
    env = {key: value for key, value in env_defaults(trial.env).items() if key != "horizon"} | dict(trial.env_kwargs)
    agent = agent_defaults(trial.agent) | dict(trial.config)
    return {
        "env": name_only("env", trial.env),
        "agent": name_only("agent", trial.agent),
        "horizon": trial.horizon,
        **{f"env.{key}": plain(value) for key, value in env.items()},
        **{f"agent.{key}": plain(value) for key, value in agent.items()},
    }


def with_variants(cells: Sequence[Cell], variants: Mapping[str, Mapping[str, Any]]) -> list[Cell]:
    """Return the cells, those that a variant selects with its name as the setting ``variant``.

    Raises:
        ValueError: a variant selects nothing, or a cell that another one has.
    """
    named: dict[str, str] = {}
    for name, wanted in variants.items():
        with placed(f"variants.{name}"):
            for cell in select(cells, wanted):
                if named.setdefault(cell.name, name) != name:
                    raise ValueError(f"{cell.trial.agent_label} is a {named[cell.name]!r} too; say what differs.")
    return [
        replace(cell, settings={**cell.settings, VARIANT: named[cell.name]}) if cell.name in named else cell
        for cell in cells
    ]


def name_only(key: str, value: Any) -> Any:
    """Return an environment's name without its namespace, an agent's without its module, other values as they are."""
    if key not in ("env", "agent") or not isinstance(value, str):
        return plain(value)
    return short(value) if key == "env" else value.rpartition(":")[2]


def select(cells: Sequence[Found], wanted: Mapping[str, Any]) -> list[Found]:
    """Return the cells with given settings; a list stands for any of its values.

    Raises:
        ValueError: there is none; the message has the nearest key, value or cell.
    """
    found = [cell for cell in cells if all(has(cell, key, value) for key, value in wanted.items())]
    if not found:
        raise ValueError(why_none(cells, wanted))
    return found


def one(cells: Sequence[Found], wanted: Mapping[str, Any]) -> Found:
    """Return the one cell with given settings.

    Raises:
        ValueError: there is none, or there are several; the message says in what they differ.
    """
    found = select(cells, wanted)
    if len(found) > 1:
        differ = " and ".join(f"{key} ({values_text(found, key)})" for key in differing(found))
        raise ValueError(
            f"{wanted_text(wanted)} matches {len(found)} agents or environments, which differ in {differ}."
        )
    return found[0]


def has(cell: Settled, key: str, value: Any) -> bool:
    """Return whether a cell has a setting of this value, or of one in this list."""
    options = [value, *value] if isinstance(value, list) else [value]
    return key in cell.settings and any(cell.settings[key] == name_only(key, option) for option in options)


def why_none(cells: Sequence[Settled], wanted: Mapping[str, Any]) -> str:
    """Return why nothing has the wanted settings."""
    for key, value in wanted.items():
        check_setting(key, cells)
        if not any(has(cell, key, value) for cell in cells):
            near = did_you_mean(value, {str(cell.settings[key]) for cell in cells if key in cell.settings})
            return f"no trial has {wanted_text({key: value})}{near}; there is {values_text(cells, key)}."
    nearest = max(cells, key=lambda cell: sum(has(cell, key, value) for key, value in wanted.items()))
    own = {key: nearest.settings[key] for key in wanted if key in nearest.settings}
    return f"no trial has {wanted_text(wanted)}; the nearest has {as_text(own)}."


def check_setting(key: str, cells: Iterable[Settled]) -> None:
    """Raise if no cell has a setting."""
    known = list(dict.fromkeys(known for cell in cells for known in cell.settings))
    if key not in known:
        raise ValueError(f"no trial has a setting {key!r}{did_you_mean(key, known)}.")


def wanted_text(wanted: Mapping[str, Any]) -> str:
    """Return a selection in words."""
    return as_text(wanted) or "a selection without settings"


def differing(cells: Sequence[Settled]) -> list[str]:
    """Return the settings that not all cells have with the same value; where names differ, those alone."""
    keys = list(dict.fromkeys(key for cell in cells for key in cell.settings))
    found = [key for key in keys if any(cell.settings.get(key) != cells[0].settings.get(key) for cell in cells)]
    names = [key for key in found if key in ("env", "agent")]
    return names or found


def values_text(cells: Iterable[Settled], key: str) -> str:
    """Return the values of a setting, each once."""
    values = dict.fromkeys(bare(cell.settings[key]) for cell in cells if key in cell.settings)
    return ", ".join(values)
