"""Measures as a file defines them: numbers that a statement bounds, each a function of means over replications."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from privbandit_agents.experiments.fields import Model, Real, Users

Quantity = Literal[
    "regret",
    "static",
    "ratio",
    "regret_per_round",
    "reward",
    "mad",
    "mse",
    "calls",
    "claimed",
    "accuracy",
    "excess",
    "seconds",
]
"""Of trials: cumulative regret; that against the best fixed policy, in worlds that change; regret over uniform's in the
same environment; regret per user; reward per user; mean absolute and mean squared error of the predicted mean rewards;
at the end, how often an agent called its estimator and
what these calls claim of the budget set aside for them (1 is all of it). Of fits: accuracy; on the synthetic law, what
it lacks of the best classifier's; seconds of one fit."""
Pick = Literal["best", "honest"]
"""The point of a fit's grid: the one of the best mean; or chosen on one half of the replications and scored on the
other, both ways."""
Average = Literal["mean", "median"]
"""Over replications."""
Axes = Literal["log", "semilog", "linear"]
"""``log``: log y against log x; ``semilog``: y against log x; ``linear``: y against x."""


class Selection(BaseModel):
    """A cell by its settings, and its reading.

    Trials have ``agent``, ``env``, ``horizon``, ``agent.KEY`` and ``env.KEY``; fits ``method``, ``agent``, ``epsilon``
    and the settings of the world.

    Attributes:
        y: the quantity; default: regret of a trial, accuracy of a fit.
        at: users, or a fraction of the horizon, when a trial is read; default: the horizon.
        pick: the point of a fit's grid; default: ``best``.
        fixed: values of the grid; the pick is among the points that have them.
    """

    model_config = ConfigDict(extra="allow")
    y: Quantity | None = None
    at: Users = 1.0
    pick: Pick = "best"
    fixed: dict[str, Any] = Field(default={})

    @property
    def settings(self) -> dict[str, Any]:
        return self.model_extra or {}


class Slope(Model):
    """A least-squares slope along the users of one cell, or along the cells that differ in one setting.

    Attributes:
        of: one cell, or all those of a line.
        against: ``users``, or a setting by which cells are selected.
        start: ``from`` in a file; users or a fraction of the horizon (default: a tenth), or a value of the setting.
        end: ``to`` in a file; default: the last.
        axes: which axes are logarithmic.
        worst_along: a setting; at each place the largest average over its values is read, as theorems do that are about
            the worst world.
    """

    of: Selection
    against: str = "users"
    start: Annotated[Real | None, Field(alias="from")] = None
    end: Annotated[Real | None, Field(alias="to")] = None
    axes: Axes = "log"
    worst_along: str | None = None

    @model_validator(mode="after")
    def _along_cells(self) -> Self:
        if self.worst_along is not None and self.against == "users":
            raise ValueError("worst_along needs against: a setting")
        return self


class Lead(Model):
    """The least lead of one line over the best of others along a key: the statement holds at every value."""

    of: Selection
    over: Annotated[list[Selection], Field(min_length=1)]
    along: str


class OverBest(Model):
    """One cell over the best of others, each a cell or a number that was measured once."""

    of: Selection
    over: Annotated[list[Selection | Real], Field(min_length=1)]

    @model_validator(mode="after")
    def _a_cell_beside(self) -> Self:
        if not any(isinstance(other, Selection) for other in self.over):
            raise ValueError("over must have a selection; numbers alone are a bound of a mean")
        return self


class Steps(Model):
    """A line: the cells of a selection along a key, which is a setting of cells or one of a fit's grid."""

    of: Selection
    along: str


Pair = Annotated[list[Selection], Field(min_length=2, max_length=2)]


class Measure(Model):
    """One number: just one of the fields is given, besides ``average``.

    Attributes:
        average: of every cell, over replications; the median is not moved by a few wild seeds.
        mean: of a cell, over replications.
        share: of uniform play's regret: the mean regret of a cell over that of ``uniform`` on the same seeds.
        worst: the largest mean along a line; along ``seeds`` the largest seed of one cell over the mean of its seeds.
        over_best: the average of a cell over the least average of others.
        ratio: of two means.
        difference: of two means.
        slope: of a line.
        lead: the least over the values of a key.
        least_step: of the means of a line from one value to the next; at least 0 if it never falls.
        greatest_step: likewise; at most 0 if it never rises.
        peak: the value of the key at which the line is highest.
    """

    average: Average = "mean"
    mean: Selection | None = None
    share: Selection | None = None
    worst: Steps | None = None
    over_best: OverBest | None = None
    ratio: Pair | None = None
    difference: Pair | None = None
    slope: Slope | None = None
    lead: Lead | None = None
    least_step: Steps | None = None
    greatest_step: Steps | None = None
    peak: Steps | None = None

    @property
    def given(self) -> list[str]:
        return [name for name in type(self).model_fields if name != "average" and getattr(self, name) is not None]

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.given) != 1:
            known = ", ".join(name for name in type(self).model_fields if name != "average")
            raise ValueError(f"needs one of {known}; got {' and '.join(self.given) or 'none'}")
        return self
