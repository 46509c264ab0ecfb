"""Comparisons of classifiers on rows at rest: worlds x methods x budgets x replications."""

from collections.abc import Mapping
from itertools import product
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from privbandit_agents.experiments.fields import MOST_ASKED, Grid, Model, Points, combinations, distinct, given_once
from privbandit_agents.experiments.jobs.fit import Fit
from privbandit_agents.experiments.jobs.method import Method
from privbandit_agents.experiments.jobs.rows import World, draw
from privbandit_agents.experiments.schema.validation import explained
from privbandit_agents.experiments.usage import UsageError, usage_errors
from privbandit_envs.datasets import bundled, load
from privbandit_envs.datasets.tables import state
from privbandit_envs.datasets.tables.sources import SOURCES


class Worlds(BaseModel):
    """Settings of a world, lists of values under ``grid``; or all data sets that are there, with ``sources: present``.

    Attributes:
        sources: ``present``: those that come with scikit-learn, with ``n_public`` public rows but at most a quarter,
            and those of the paper's Table 1 that are on this machine, with its own numbers.
        grid: settings to lists of values; all combinations are worlds.
    """

    model_config = ConfigDict(extra="allow")
    sources: Literal["present"] | None = None
    grid: Grid = Field(default={})

    def worlds(self) -> list[World]:
        given = self.model_extra or {}
        given_once(self.grid, given, "beside it.")
        if self.sources is None:
            return [world_of({**given, **point}) for point in combinations(self.grid)]
        common = world_of({"source": bundled.NAMES[0], **given})
        quarters = {name: len(load(name).y) // 4 for name in bundled.NAMES}
        small = [(name, min(common.n_public or quarter, quarter)) for name, quarter in quarters.items()]
        paper = [(name, source.n_public) for name, source in SOURCES.items()]
        return [World(source=name, n_public=n) for name, n in (*small, *paper)]


def world_of(settings: Mapping[str, Any]) -> World:
    """Return a world, or raise an error that names the wrong setting."""
    try:
        return World.model_validate(settings)
    except ValidationError as error:
        raise ValueError(f"{explained(error, World)}.") from None


def absent(source: str) -> str:
    """Return how to get a data set that is not on this machine, or nothing; nothing is downloaded."""
    if source in bundled.NAMES or source not in SOURCES:
        return ""
    found = state(source)
    return "" if "is there" in found else f"{found['to get it']}."


class ComparisonBlock(Model):
    """Worlds x methods x budgets x replications; methods without a budget run once."""

    worlds: Annotated[list[Worlds], Field(min_length=1)]
    methods: Annotated[list[Method], Field(min_length=1)]
    epsilons: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=1)]
    replications: Points

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        distinct("method names", [method.name for method in self.methods])
        return self


class Comparison(Model):
    """Blocks, run together."""

    parts: Annotated[list[ComparisonBlock], Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _blocks(cls, content: object) -> Any:
        return {"parts": [content]} if isinstance(content, dict) and "parts" not in content else content

    def fits(self, source: str, replications: int | None = None, shrink: int = 1) -> tuple[list[Fit], list[str]]:
        """Return the fits, after checking that all can be run, and a sentence for every data set that is not here.

        Args:
            source: the file, for error messages.
            replications: in place of those of every block.
            shrink: private and test rows are divided by it.

        Raises:
            UsageError: an unknown agent or setting, or no data set is here.
        """
        missing: dict[str, str] = {}
        fits: dict[tuple[str, str], Fit] = {}
        for i, block in enumerate(self.parts):
            place = f"{source}.parts[{i}]"
            for j, method in enumerate(block.methods):
                with usage_errors(f"{place}.methods[{j}]"):
                    method.check()
            worlds: list[World] = []
            for j, entry in enumerate(block.worlds):
                with usage_errors(f"{place}.worlds[{j}]"):
                    worlds += [world for world in entry.worlds() if is_here(world, missing, entry.sources is None)]
            plans = [(method, e) for method in block.methods for e in (block.epsilons if method.private else [None])]
            many = len(fits) + (replications or block.replications) * len(worlds) * len(plans)
            if many > MOST_ASKED:
                raise UsageError(f"{place}: these are {many:,} fits; {MOST_ASKED:,} are the most.")
            for replication, world in product(range(replications or block.replications), worlds):
                for method, epsilon in plans:
                    fit = Fit(world, method, epsilon, replication, shrink)
                    fits[fit.name, method.name] = fit
        if not fits:
            raise UsageError(f"{source}: none of its data sets is here. {' '.join(missing.values())}")
        return list(fits.values()), list(missing.values())


def is_here(world: World, missing: dict[str, str], fetch: bool) -> bool:
    """Return whether the data of a world can be drawn, for which they may be fetched; if not, note why."""
    why = "" if fetch else absent(world.source)
    if not why:
        try:
            draw(world, 0, shrink=10**9)  # the fewest rows
        except FileNotFoundError as error:
            why = str(error)
    if why:
        missing[world.source] = f"{world.source} is left out: {why}"
    return not why
