"""Figures and tables as a file defines them."""

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from privbandit_agents.experiments.fields import FileName, Keys, Model, Real, Users, as_list
from privbandit_agents.experiments.schema.measures import Pick, Quantity, Selection


class Named(BaseModel):
    """A function by its name, with the arguments beside it.

    Attributes:
        function: ``"module:function"``.
    """

    model_config = ConfigDict(extra="allow")
    function: str

    @property
    def kwargs(self) -> dict[str, Any]:
        return self.model_extra or {}

    def load(self) -> Callable[..., Any]:
        """Return the function.

        Raises:
            ValueError: there is none of this name.
        """
        module, colon, name = self.function.partition(":")
        try:
            function: Any = resolve_name(self.function) if colon and module and name else None
        except AttributeError:
            function = None
        if not callable(function):
            raise ValueError(f"function must be 'module:function'; got {self.function!r}, which is none.")
        found: Callable[..., Any] = function
        return found


class Reference(Named):
    """A curve drawn over a figure, such as a bound.

    Attributes:
        function: of an array of x and of the settings beside it; returns the array of y.
        label: its name in the figure.
        through: scales the curve to end where the line of this selection ends, as bounds hold up to constants.
    """

    label: str
    through: Selection | None = None


class Picture(Named):
    """A picture of something that is not a result: a law, a partition.

    Attributes:
        function: of a matplotlib figure, on which it draws, and of the settings beside it.
        name: of the file.
        title: above it.
    """

    name: FileName
    title: str = ""


class FigureSpec(Model):
    """One picture: panels, lines in them, points on these.

    Attributes:
        name: of the file.
        title: above it; default: none.
        x: ``users`` (curves), a setting by which cells are selected, or one of a fit's grid (points with error bars);
            default: users for trials, ``epsilon`` for fits.
        y: the quantity.
        at: users, or a fraction of the horizon, when the points of trials are read.
        pick: the point of a fit's grid.
        log: the logarithmic axes: ``""``, ``"x"``, ``"y"`` or ``"xy"``; ``auto``: y in panels where the ends of lines
            are far apart.
        even: whether the values of x stand one step apart.
        select: settings of the cells that are drawn, where a list stands for any of its values; or a list of such
            selections, which are all drawn.
        panels: the common part of a panel: ``env`` (name and settings), ``agent``, ``variant``, a setting, or a list
            of these. Agents without this setting (no epsilon, say) appear in every panel. Default: ``env`` for trials.
        lines: the common part of a line, likewise; default: ``agent`` for trials, ``method`` for fits.
        fit: whether the labels give the slope of each line along the figure's axes.
        fit_from: the least x of the slope; default: a tenth of the users, or all values of a setting.
        curves: drawn over the panels.
        names: what axes and labels call settings and quantities, such as ``env.n_arms: K`` or ``users: T``; and what
            they call a setting at one value, such as ``env.design=case1: Case I``.
    """

    name: FileName
    title: str = ""
    x: str = ""
    y: Quantity | None = None
    at: Users = 1.0
    pick: Pick = "best"
    log: Literal["", "x", "y", "xy", "auto"] = ""
    even: bool = False
    select: Annotated[list[dict[str, Any]], BeforeValidator(as_list)] = Field(default=[{}])
    panels: Keys | None = None
    lines: Keys | None = None
    fit: bool = False
    fit_from: Real | None = None
    curves: list[Reference] = Field(default=[])
    names: dict[str, str] = Field(default={})

    @model_validator(mode="after")
    def _fitted(self) -> Self:
        if self.fit and self.log in ("y", "auto"):
            raise ValueError(f"fit has no slope for log: {self.log}; choose log: xy, x or none")
        if self.fit_from is not None and not self.fit:
            raise ValueError(f"fit_from needs fit: true; got fit_from: {self.fit_from:g} alone")
        return self


class TableSpec(Model):
    """A table of data sets x methods at every budget.

    Attributes:
        name: of the files.
        y: accuracy, with the best and those not significantly worse marked, ranks and wins; or seconds.
        methods: its columns; default: all.
        reference: methods that are shown, but do not compete, such as those that see private rows in the clear.
    """

    name: FileName
    y: Literal["accuracy", "seconds"] = "accuracy"
    methods: list[str] = Field(default=[])
    reference: list[str] = Field(default=[])
