"""Files of offline comparisons: worlds x methods x budgets, figures, tables and statements."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from privbandit_agents.experiments.experiment import Claim, Model, as_list, content_of, explained
from privbandit_agents.experiments.measure import OneOf
from privbandit_agents.experiments.offline.method import Method
from privbandit_agents.experiments.offline.world import World
from privbandit_agents.experiments.plan import Positive
from privbandit_agents.experiments.usage import UsageError
from privbandit_envs.datasets import bundled, load
from privbandit_envs.datasets.tables import state
from privbandit_envs.datasets.tables.sources import SOURCES

Pick = Literal["best", "honest"]
Axis = Literal["linear", "log", "categories"]


class Worlds(BaseModel):
    """Settings of a world, lists of values under ``grid``; or all data sets that are there, with ``sources: present``.

    Attributes:
        sources: ``present``: those that come with scikit-learn, with ``n_public`` public rows but at most a quarter,
            and those of the paper's Table 1 that are on this machine, with its own numbers.
        grid: lists of values, of which all combinations are worlds.
    """

    model_config = ConfigDict(extra="allow")
    sources: Literal["present"] | None = None
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default={})

    def worlds(self) -> list[World]:
        """Return the worlds, whether or not their data are there."""
        given = self.model_extra or {}
        if twice := sorted(self.grid.keys() & given.keys()):
            raise ValueError(f"{twice[0]} must be given once; got it in the grid and beside it.")
        if self.sources is None:
            points = product(*self.grid.values())
            return [world_of({**given, **dict(zip(self.grid, values, strict=True))}) for values in points]
        common = world_of({"source": bundled.NAMES[0], **given})
        small = [(name, most(common.n_public, len(load(name).y) // 4)) for name in bundled.NAMES]
        paper = [(name, source.n_public) for name, source in SOURCES.items()]
        return [World(source=name, n_public=n) for name, n in (*small, *paper)]


def world_of(settings: Mapping[str, Any]) -> World:
    """Return a world, or say in a sentence which setting is wrong."""
    try:
        return World.model_validate(settings)
    except ValidationError as error:
        raise ValueError(f"{explained(error, World)}.") from None


def absent(source: str) -> str:
    """Return why a data set is not on this machine and how to get it, or nothing; nothing is downloaded."""
    if source in bundled.NAMES:
        return ""
    if source not in SOURCES:
        return ""
    found = state(source)
    return "" if "is there" in found else f"{found['to get it']}."


def most(asked: int | None, bound: int) -> int:
    """Return the number asked for, at most the bound."""
    return bound if asked is None else min(asked, bound)


def distinct(what: str, names: Sequence[str]) -> None:
    """Raise ValueError if a name occurs twice."""
    if twice := [name for at, name in enumerate(names) if name in names[:at]]:
        raise ValueError(f"{what} must differ; {twice[0]!r} is taken twice")


class Block(Model):
    """Worlds x methods x budgets x replications; methods without a budget run once."""

    worlds: Annotated[list[Worlds], Field(min_length=1)]
    methods: Annotated[list[Method], Field(min_length=1)]
    epsilons: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=1)]
    replications: Positive

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        distinct("method names", [method.name for method in self.methods])
        return self


class Blocks(Model):
    """Several blocks, run together."""

    parts: Annotated[list[Block], Field(min_length=1)]


class Scale(Model):
    """What a scale changes.

    Attributes:
        replications: of every block.
        shrink: private and test rows are divided by it.
    """

    replications: Positive | None = None
    shrink: Positive = 1


class Scales(Model):
    """``smoke`` shows that all of it runs; ``paper`` decides the statements."""

    smoke: Scale
    paper: Scale = Scale()


class Selection(BaseModel):
    """A cell: ``method``, ``epsilon`` and settings of the world; and what is read of it.

    Attributes:
        pick: the point of the grid: the one of the best mean, or chosen on one half of the replications and scored on
            the other, both ways.
        y: accuracy, or seconds of the fit.
        fixed: values of the grid; the pick is among the points that have them.
    """

    model_config = ConfigDict(extra="allow")
    pick: Pick = "best"
    y: Literal["accuracy", "seconds"] = "accuracy"
    fixed: dict[str, Any] = Field(default={})

    @property
    def settings(self) -> dict[str, Any]:
        """What the cell must have."""
        return self.model_extra or {}


class Lead(Model):
    """The least lead of one method over the best of others along a key: the statement holds at every value."""

    of: Selection
    over: Annotated[list[Selection], Field(min_length=1)]
    along: str


class Steps(Model):
    """A line: the cells of a selection along a key, which is ``epsilon``, a setting of the world or one of the grid."""

    of: Selection
    along: str


class Measure(OneOf):
    """One of: a mean, a difference of two, the least lead, the least or the greatest step of a line, its peak.

    Attributes:
        mean: over replications.
        difference: of two means.
        lead: least over the values of a key.
        least_step: of the means of a line from one value to the next; at least 0 if it never falls.
        greatest_step: likewise; at most 0 if it never rises.
        peak: value of the key at which the line is highest.
    """

    mean: Selection | None = None
    difference: Annotated[list[Selection], Field(min_length=2, max_length=2)] | None = None
    lead: Lead | None = None
    least_step: Steps | None = None
    greatest_step: Steps | None = None
    peak: Steps | None = None


class Statement(Claim):
    """A claim, and the number that it is about.

    Attributes:
        measure: the number.
    """

    measure: Measure


class Figure(Model):
    """One picture: panels, lines in them, means and 95 % bands over replications.

    Attributes:
        name: of the file.
        title: above it; default: none.
        x: ``epsilon``, a setting of the worlds, or one of the grids.
        y: accuracy or seconds.
        axis: of x: linear, logarithmic, or one step a value.
        pick: as in a selection.
        select: settings of the cells that are drawn, where a list stands for any of its values; or several of these.
        panels: what a panel has in common: keys; methods without it are in all panels that they fit.
        lines: what a line has in common, likewise.
    """

    name: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    title: str = ""
    x: str = "epsilon"
    y: Literal["accuracy", "seconds"] = "accuracy"
    axis: Axis = "linear"
    pick: Pick = "best"
    select: Annotated[list[dict[str, Any]], BeforeValidator(as_list)] = Field(default=[{}])
    panels: Annotated[list[str], BeforeValidator(as_list)] = Field(default=[])
    lines: Annotated[list[str], BeforeValidator(as_list)] = Field(default=["method"])


class TableSpec(Model):
    """A table of data sets x methods at every budget.

    Attributes:
        name: of the files.
        y: accuracy, with the best and what is not significantly worse marked, ranks and wins; or seconds.
        methods: its columns; default: all.
        reference: methods that are shown, but do not compete, such as those that see private rows in the clear.
    """

    name: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    y: Literal["accuracy", "seconds"] = "accuracy"
    methods: list[str] = Field(default=[])
    reference: list[str] = Field(default=[])


class OfflineExperiment(Model):
    """A file of an offline comparison.

    Attributes:
        title: one line.
        about: citation, and what it shows.
        offline: a block, or ``parts``.
        scales: what they change.
        figures: what is drawn.
        tables: what is tabulated.
        statements: what is checked.
    """

    title: str
    about: str
    offline: Blocks
    scales: Scales
    figures: list[Figure] = Field(default=[])
    tables: list[TableSpec] = Field(default=[])
    statements: list[Statement] = Field(default=[])

    @model_validator(mode="before")
    @classmethod
    def _blocks(cls, content: Any) -> Any:
        """Take a single block as one part."""
        if isinstance(content, dict) and isinstance(content.get("offline"), dict) and "parts" not in content["offline"]:
            return {**content, "offline": {"parts": [content["offline"]]}}
        return content

    @model_validator(mode="after")
    def _named(self) -> Self:
        """Names of pictures and tables are those of files."""
        distinct("names of figures", [figure.name for figure in self.figures])
        distinct("names of tables", ["table", "verdicts", *(table.name for table in self.tables)])
        return self

    @property
    def parts(self) -> Sequence[Block]:
        """The blocks."""
        return self.offline.parts


def is_offline(content: Any) -> bool:
    """Return whether the content of a file is of an offline comparison."""
    return isinstance(content, dict) and "offline" in content


def read_offline(path: str | Path) -> OfflineExperiment:
    """Read a file.

    Raises:
        UsageError: it cannot be read, or is not an offline comparison; the message names the place.
    """
    path = Path(path)
    return parse_offline(content_of(path), path.name)


def parse_offline(content: Any, source: str) -> OfflineExperiment:
    """Validate what a file says."""
    try:
        return OfflineExperiment.model_validate(content)
    except ValidationError as error:
        raise UsageError(f"{source}: {explained(error, OfflineExperiment)}.") from None
