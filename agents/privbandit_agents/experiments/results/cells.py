"""Cells: jobs that differ in their replication alone, and the four doors by which they are found."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from privbandit_agents.experiments.jobs.job import Job
from privbandit_agents.experiments.names import as_text, bare, plain, short, swept
from privbandit_agents.experiments.usage import placed
from privbandit_envs.validate import did_you_mean

VARIANT = "variant"
"""The setting that has the name under which an experiment speaks of a cell."""


@dataclass(frozen=True)
class Cell:
    """Jobs that differ in their replication alone, in its order; ``name`` is the hash of their common settings.

    ``swept`` are the settings of its agent that any cell was given: labels show them, defaults too.
    """

    name: str
    jobs: tuple[Job, ...] = field(compare=False)
    settings: Mapping[str, Any] = field(compare=False)
    swept: tuple[str, ...] = field(default=(), compare=False)

    @property
    def job(self) -> Job:
        return self.jobs[0]

    @property
    def replications(self) -> tuple[int, ...]:
        return tuple(job.replication for job in self.jobs)

    def has(self, key: str, value: object) -> bool:
        """Return whether a setting has this value, or one of this list."""
        options = [value, *value] if isinstance(value, list) else [value]
        return key in self.settings and any(self.settings[key] == bare_name(key, option) for option in options)


def bare_name(key: str, value: object) -> Any:
    """Return an environment's name without its namespace, an agent's without its module, other values as they are."""
    if key not in ("env", "agent") or not isinstance(value, str):
        return plain(value)
    return short(value) if key == "env" else value.rpartition(":")[2]


class Cells(tuple[Cell, ...]):
    """Cells, in the order of their first jobs, with four doors: ``one``, ``select``, ``along`` and ``beside``."""

    @classmethod
    def of(cls, jobs: Iterable[Job], traits: Callable[[Job], Mapping[str, Any]] = attrgetter("traits")) -> "Cells":
        """Return the cells of jobs in any order; ``traits`` are the settings by which a job's cell is found."""
        groups: dict[str, list[Job]] = {}
        for job in jobs:
            groups.setdefault(job.cell, []).append(job)
        ordered = {name: sorted(group, key=lambda job: job.replication) for name, group in groups.items()}
        given = swept((job.spec["agent"], job.spec["config"]) for job, *_ in ordered.values() if job.kind == "trial")
        return cls(
            Cell(name, tuple(group), traits(group[0]), tuple(given.get(group[0].spec.get("agent", ""), ())))
            for name, group in ordered.items()
        )

    @property
    def keys(self) -> list[str]:
        return list(dict.fromkeys(key for cell in self for key in cell.settings))

    def select(self, wanted: Mapping[str, Any]) -> "Cells":
        """Return the cells with given settings; a list stands for any of its values.

        Raises:
            ValueError: there is none; the message has the nearest key, value or cell.
        """
        found = [cell for cell in self if all(cell.has(key, value) for key, value in wanted.items())]
        if not found:
            raise ValueError(self._why_none(wanted))
        return Cells(found)

    def one(self, wanted: Mapping[str, Any]) -> Cell:
        """Return the one cell with given settings.

        Raises:
            ValueError: there is none, or there are several; the message lists their differences.
        """
        found = self.select(wanted)
        if len(found) > 1:
            differ = " and ".join(f"{key} ({found.values_text(key)})" for key in found.differing())
            several = f"{len(found)} agents or environments"
            raise ValueError(f"{wanted_text(wanted)} matches {several}, which differ in {differ}.")
        return found[0]

    def along(self, wanted: Mapping[str, Any], key: str) -> dict[Any, Cell]:
        """Return the selected cells that have a setting, by its increasing values; each value must select one.

        Raises:
            ValueError: no cell has the setting, its values have no order, or several cells share one.
        """
        self.check_setting(key)
        found = Cells(cell for cell in self.select(wanted) if key in cell.settings)
        return {value: found.one({**wanted, key: value}) for value in in_order(key, found.values(key))}

    def beside(self, cell: Cell) -> Cell:
        """Return the cell in which ``uniform`` plays the same environment.

        Raises:
            ValueError: there is none, or it has no seed in common with the cell.
        """
        own = {key: value for key, value in cell.settings.items() if key in ("env", "horizon") or key[:4] == "env."}
        for other in self:
            if other.settings["agent"] == "uniform" and own == {key: other.settings.get(key) for key in own}:
                if set(cell.replications) & set(other.replications):
                    return other
                seeds = f"{called(cell)} has {cell.replications}."
                raise ValueError(f"a ratio needs a seed in common with uniform's; {seeds}")
        raise ValueError(f"a ratio needs the agent 'uniform' in {world(cell)}, {cell.settings['horizon']} users.")

    def named(self, variants: Mapping[str, Mapping[str, Any]]) -> "Cells":
        """Return the cells, those that a variant selects with its name as the setting ``variant``.

        Raises:
            ValueError: a variant selects nothing, or a cell that another one has.
        """
        names: dict[str, str] = {}
        for name, wanted in variants.items():
            with placed(f"variants.{name}"):
                for cell in self.select(wanted):
                    if names.setdefault(cell.name, name) != name:
                        raise ValueError(f"{called(cell)} is a {names[cell.name]!r} too; name a setting that differs.")
        return Cells(
            replace(cell, settings={**cell.settings, VARIANT: names[cell.name]}) if cell.name in names else cell
            for cell in self
        )

    def values(self, key: str) -> list[Any]:
        return list({bare(cell.settings[key]): cell.settings[key] for cell in self if key in cell.settings}.values())

    def values_text(self, key: str) -> str:
        return ", ".join(map(bare, self.values(key)))

    def check_setting(self, key: str) -> None:
        if key not in self.keys:
            raise ValueError(f"no trial has a setting {key!r}{did_you_mean(key, self.keys)}.")

    def differing(self) -> list[str]:
        """Return the settings that not all cells have with the same value; where names differ, those alone."""
        first = self[0].settings
        found = [key for key in self.keys if any(cell.settings.get(key) != first.get(key) for cell in self)]
        return [key for key in found if key in ("env", "agent")] or found

    def _why_none(self, wanted: Mapping[str, Any]) -> str:
        for key, value in wanted.items():
            self.check_setting(key)
            if not any(cell.has(key, value) for cell in self):
                near = did_you_mean(value, set(map(str, self.values(key))))
                return f"no trial has {wanted_text({key: value})}{near}; there is {self.values_text(key)}."
        nearest = max(self, key=lambda cell: sum(cell.has(key, value) for key, value in wanted.items()))
        own = {key: nearest.settings[key] for key in wanted if key in nearest.settings}
        return f"no trial has {wanted_text(wanted)}; the nearest has {as_text(own)}."


def called(cell: Cell) -> str:
    """Return a cell's agent or method with its settings."""
    return cell.job.label.partition(" on ")[0]


def world(cell: Cell) -> str:
    """Return a cell's environment or rows with their settings."""
    return cell.job.label.partition(" on ")[2]


def in_order(key: str, values: Iterable[Any]) -> list[Any]:
    """Return values increasing; raise ValueError if they have no order."""
    values = list(values)
    try:
        return sorted(values)
    except TypeError:
        raise ValueError(f"{key} needs values that can be ordered; got {values}.") from None


def wanted_text(wanted: Mapping[str, Any]) -> str:
    return as_text(wanted) or "a selection without settings"
