"""Experiments as files: a source of jobs, the figures made of them, and the statements to check."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from privbandit_agents.experiments.fields import AS_IT_IS, Grid, Model, Points, Positive, distinct
from privbandit_agents.experiments.jobs.job import Job
from privbandit_agents.experiments.schema.comparison import Comparison
from privbandit_agents.experiments.schema.figures import FigureSpec, Picture, TableSpec
from privbandit_agents.experiments.schema.statements import Statement, spelled_out
from privbandit_agents.experiments.schema.sweep import Sweep, override, parse_sweep
from privbandit_agents.experiments.schema.validation import Place, place_of, validated
from privbandit_agents.experiments.schema.yaml_text import content_of
from privbandit_agents.experiments.shelf import shipped
from privbandit_agents.experiments.usage import UsageError, placed, usage_errors
from privbandit_envs.validate import one_of

SCALES = ("smoke", "quick", "paper")
DECIDING = "paper"
SHOWING = "smoke"


class Scale(Model):
    """The changes of a scale in every part of a sweep or a comparison.

    Attributes:
        seeds: of a sweep: how many, from the first seed of each part on; or a list.
        horizon: of a sweep: users of every trial.
        checkpoints: of a sweep: points of a regret curve.
        set: of a sweep: assignments as of ``--set``.
        only: of a sweep: ``env.KEY`` or ``agent.KEY`` to the values that stay of its grids; statements need theirs.
        replications: of a comparison: how many.
        shrink: the horizons of a sweep, or the private and test rows of a comparison, are divided by it.
    """

    seeds: Annotated[int | list[int] | None, AS_IT_IS] = None
    horizon: Positive | None = None
    checkpoints: Points | None = None
    set: list[str] = Field(default=[])
    only: Grid = Field(default={})
    replications: Points | None = None
    shrink: Positive = 1


class Scales(Model):
    """``smoke`` shows that all of it runs; ``paper`` decides the statements, ``quick`` does it with fewer seeds."""

    smoke: Scale
    quick: Scale | None = None
    paper: Scale = Scale()


class Experiment(Model):
    """An experiment file.

    Attributes:
        title: one line.
        about: citation, and the result shown.
        sweep: trials: one block, or ``parts``.
        offline: fits, in place of trials: one block, or ``parts``.
        variants: names for selections of cells, which have them as the setting ``variant`` then.
        names: how all figures call settings and quantities, ``FigureSpec.names``.
        scales: their changes to the jobs.
        figures: drawn from the results.
        pictures: drawn of the worlds themselves.
        tables: of fits.
        statements: checked against the results.
    """

    title: str
    about: str
    sweep: Annotated[Any, AS_IT_IS] = None
    offline: Comparison | None = None
    variants: dict[str, dict[str, Any]] = Field(default={})
    names: dict[str, str] = Field(default={})
    scales: Scales
    figures: list[FigureSpec] = Field(default=[])
    pictures: list[Picture] = Field(default=[])
    tables: list[TableSpec] = Field(default=[])
    statements: list[Statement] = Field(default=[])

    @model_validator(mode="after")
    def _named(self) -> Self:
        for figure in self.figures:
            figure.names = {**self.names, **figure.names}
        return self

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.sweep is None) == (self.offline is None):
            raise ValueError(f"needs either sweep or offline; got {'none' if self.sweep is None else 'both'}")
        if self.tables and self.offline is None:
            raise ValueError("tables are of fits; a sweep has none")
        distinct("names of figures", [each.name for each in self.figures] + [each.name for each in self.pictures])
        distinct("names of tables", ["table", "verdicts", *(table.name for table in self.tables)])
        foreign = {"replications"} if self.offline is None else {"seeds", "horizon", "checkpoints", "set", "only"}
        for name in SCALES:
            scale: Scale | None = getattr(self.scales, name)
            if given := sorted(foreign & scale.model_fields_set if scale else ()):
                raise ValueError(f"scales.{name}.{given[0]} is for {'offline' if self.offline is None else 'a sweep'}")
        return self

    def scaled(self, scale: str) -> Scale:
        with usage_errors("--scale"):
            chosen: Scale | None = getattr(self.scales, one_of(SCALES, scale=scale))
            if chosen is None:
                raise ValueError(f"this experiment has no {scale} scale; smoke and paper are there.")
        return chosen

    def jobs(
        self, scale: str, assignments: Sequence[str] = (), source: str = "", guest: str = ""
    ) -> tuple[Sequence[Job], list[str]]:
        """Return the jobs at a scale, or those of a guest, and a sentence for every data set that is not here.

        Args:
            scale: ``smoke``, ``quick`` or ``paper``.
            assignments: changes of a sweep's settings, as of ``--set``.
            source: the file, for error messages.
            guest: an agent that the file does not name.

        Raises:
            UsageError: the jobs or the scale are wrong, or the guest plays none of the worlds.
        """
        chosen = self.scaled(scale)
        if self.offline is None:
            sweep = self.sweep_at(scale, source)
            changed = override(sweep, list(assignments)) if assignments else sweep
            return changed.guests(guest) if guest else changed.trials(f"{source}: sweep"), []
        if assignments or guest:
            option = "--agent" if guest else "--set"
            raise UsageError(f"{option} is for sweeps; {source} compares offline: change a copy of the file.")
        return self.offline.fits(f"{source}: offline", chosen.replications, chosen.shrink)

    def sweep_at(self, scale: str, source: str = "") -> Sweep:
        chosen = self.scaled(scale)
        sweep = parse_sweep(self.sweep, f"{source}: sweep" if source else "sweep")
        with usage_errors(source or "the experiment"), placed(f"scales.{scale}"):
            many = chosen.seeds if isinstance(chosen.seeds, int) else None
            seeds = None if many is not None else chosen.seeds
            given = {"horizon": chosen.horizon, "checkpoints": chosen.checkpoints, "seeds": seeds}
            return override(sweep, chosen.set, chosen.shrink, chosen.only, many, **given)


def find_experiment(name: str) -> Path:
    """Return the file of a shipped experiment, or of one's own if the name ends in ``.yaml``."""
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    with usage_errors("reproduce"):
        return shipped(name)


def read_experiment(path: str | Path) -> Experiment:
    """Read an experiment file.

    Raises:
        UsageError: it cannot be read, or is not an experiment; the message names the place and the nearest valid key.
    """
    path = Path(path)
    return parse_experiment(content_of(path), path.name)


def parse_experiment(content: Any, source: str) -> Experiment:
    if isinstance(content, dict) and "statements" in content:
        content = {**content, "statements": spelled_out(content["statements"], source)}

    def named(place: Place) -> str:
        if place[:1] != ("statements",) or len(place) == 1:
            return place_of(place)
        return f"{content['statements'][place[1]]['place']}.{place_of(place[2:])}".removesuffix(".the file")

    return validated(Experiment, content, source, named)
