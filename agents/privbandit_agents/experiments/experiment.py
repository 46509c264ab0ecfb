"""Experiments as files: a sweep, the figures made of it, and the statements to check."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError, model_validator
from pydantic_core import ErrorDetails

from privbandit_agents.experiments.cells import placed
from privbandit_agents.experiments.measure import Measure, Real, Selection, Users
from privbandit_agents.experiments.measured import Quantity
from privbandit_agents.experiments.plan import Plan, Positive, described, override, parse_plan, place_of
from privbandit_agents.experiments.settings import from_yaml
from privbandit_agents.experiments.usage import UsageError, usage_errors
from privbandit_agents.experiments.verdict import Expected
from privbandit_envs.stream import load
from privbandit_envs.validate import did_you_mean, one_of

SCALES = ("smoke", "paper")
DECIDING = "paper"
AS_THEY_ARE: Any = PlainValidator(lambda value: value)


def as_list(value: Any) -> Any:
    """Return what is not a list as a list of it alone."""
    return value if isinstance(value, list) else [value]


class Model(BaseModel):
    """A part of a file; keys that are not its own are mistakes."""

    model_config = ConfigDict(extra="forbid")


class Scale(Model):
    """What a scale changes in every part of the sweep.

    Attributes:
        seeds: how many, or a list.
        horizon: users of every trial.
        shrink: the horizons that the parts have are divided by it.
        checkpoints: points of a regret curve.
        set: assignments as of ``--set``.
    """

    seeds: Annotated[int | list[int] | None, AS_THEY_ARE] = None
    horizon: Positive | None = None
    shrink: Positive = 1
    checkpoints: Positive | None = None
    set: list[str] = []


class Scales(Model):
    """``smoke`` shows that all of it runs; ``paper`` decides the statements."""

    smoke: Scale
    paper: Scale = Scale()


class Reference(BaseModel):
    """A curve drawn over a figure, such as a bound.

    Attributes:
        function: ``"module:function"`` of an array of x and of the settings beside it; returns the array of y.
        label: its name in the figure.
        through: it is scaled to end where the line of this selection ends, as bounds hold up to constants.
    """

    model_config = ConfigDict(extra="allow")
    function: str
    label: str
    through: Selection | None = None

    @property
    def kwargs(self) -> dict[str, Any]:
        """The settings of the function."""
        return self.model_extra or {}

    def load(self) -> Callable[..., Any]:
        """Return the function.

        Raises:
            ValueError: there is none of this name.
        """
        module, colon, name = self.function.partition(":")
        try:
            function = load(self.function) if colon and module and name else None
        except AttributeError:
            function = None
        if not callable(function):
            raise ValueError(f"function must be 'module:function'; got {self.function!r}, which is none.")
        return function


class FigureSpec(Model):
    """One picture: panels, lines in them, points on these.

    Attributes:
        name: of the file.
        title: above it; default: none.
        x: ``users`` (curves), or ``horizon``, ``env.KEY`` or ``agent.KEY`` (points with error bars).
        y: the quantity.
        at: users, or a fraction of the horizon, when points are read.
        log: the logarithmic axes: ``""``, ``"x"``, ``"y"`` or ``"xy"``.
        select: settings of the trials that are drawn, where a list stands for any of its values; or a list of such
            selections, which are all drawn.
        panels: what a panel has in common: ``env`` (name and settings), ``agent``, ``variant``, a setting, or a list
            of these. What lacks such a setting, as agents without epsilon do, is in all panels that it fits.
        lines: what a line has in common, likewise.
        fit: whether the labels tell the slope of each line along the figure's axes.
        fit_from: the least x of the slope; default: a tenth of the users, or all values of a setting.
        curves: drawn over the panels.
    """

    name: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    title: str = ""
    x: str = "users"
    y: Quantity = "regret"
    at: Users = 1.0
    log: Literal["", "x", "y", "xy"] = ""
    select: Annotated[list[dict[str, Any]], BeforeValidator(as_list)] = [{}]
    panels: Annotated[list[str], BeforeValidator(as_list)] = ["env"]
    lines: Annotated[list[str], BeforeValidator(as_list)] = ["agent"]
    fit: bool = False
    fit_from: Real | None = None
    curves: list[Reference] = []

    @model_validator(mode="after")
    def _fitted(self) -> Self:
        if self.fit and self.log == "y":
            raise ValueError("fit has no slope for log: y; choose log: xy, x or none")
        if self.fit_from is not None and not self.fit:
            raise ValueError(f"fit_from needs fit: true; got fit_from: {self.fit_from:g} alone")
        return self


class Claim(Model):
    """A sentence, and what a number must be for it to hold.

    Attributes:
        says: the sentence.
        where: it is said.
        at_least: lower bound of the number.
        at_most: likewise.
        expected: whether we know it to hold or to fail.
    """

    says: str
    where: str
    at_least: Real | None = None
    at_most: Real | None = None
    expected: Expected = "holds"

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("needs at_least, at_most or both; got none")
        if None not in (self.at_least, self.at_most) and self.at_least > self.at_most:  # type: ignore[operator]
            raise ValueError(f"at_least must be <= at_most; got {self.at_least} > {self.at_most}")
        return self


class Statement(Claim):
    """A claim, and the number that it is about.

    Attributes:
        measure: the number.
    """

    measure: Measure


class Experiment(Model):
    """An experiment file.

    Attributes:
        title: one line.
        about: citation, and what it shows.
        sweep: a plan: one block, or ``parts``.
        variants: names for selections of agents, which have them as the setting ``variant`` then.
        scales: what they change in the sweep.
        figures: what is drawn.
        statements: what is checked.
    """

    title: str
    about: str
    sweep: Annotated[Any, AS_THEY_ARE]
    variants: dict[str, dict[str, Any]] = {}
    scales: Scales
    figures: list[FigureSpec] = []
    statements: list[Statement] = []

    def plan(self, scale: str, source: str = "") -> Plan:
        """Return the sweep at a scale.

        Args:
            scale: ``smoke`` or ``paper``.
            source: the file, for error messages.

        Raises:
            UsageError: the sweep or the scale is wrong.
        """
        with usage_errors("--scale"):
            chosen: Scale = getattr(self.scales, one_of(SCALES, scale=scale))
        plan = parse_plan(self.sweep, f"{source}: sweep" if source else "sweep")
        with usage_errors(source or "the experiment"), placed(f"scales.{scale}"):
            given = {"horizon": chosen.horizon, "seeds": chosen.seeds, "checkpoints": chosen.checkpoints}
            return override(shrunk(plan, chosen.shrink), chosen.set, **given)


def shrunk(plan: Plan, divisor: int) -> Plan:
    """Return a plan whose parts have a fraction of their horizons."""
    if divisor == 1:
        return plan
    bare = [f"parts[{i}]" for i, block in enumerate(plan.parts) if block.horizon is None]
    if bare:
        raise ValueError(f"shrink needs the horizon of every part; {bare[0]} has none.")
    blocks = [block.model_copy(update={"horizon": max(1, block.horizon // divisor)}) for block in plan.parts]  # type: ignore[operator]
    return plan.model_copy(update={"parts": blocks})


@dataclass(frozen=True)
class Named:
    """An experiment at a scale.

    Attributes:
        name: of the file.
        scale: ``smoke`` or ``paper``.
    """

    name: str
    scale: str

    @property
    def decides(self) -> bool:
        """Whether the scale is one that decides the statements."""
        return self.scale == DECIDING

    @property
    def folder(self) -> Path:
        """Where results go by default."""
        return Path("runs") / (self.name if self.decides else f"{self.name}-{self.scale}")


def library() -> dict[str, Path]:
    """Return the experiments that come with the package: name to file."""
    folder = Path(str(files("privbandit_agents.experiments"))) / "library"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_experiment(name: str) -> Path:
    """Return the file of a shipped experiment, or of one's own if the name ends in ``.yaml``."""
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    with usage_errors("reproduce"):
        return library()[one_of(library(), experiment=name)]


def read_experiment(path: str | Path) -> Experiment:
    """Read an experiment file.

    Raises:
        UsageError: it cannot be read, or is not an experiment; the message names the place and the nearest valid key.
    """
    path = Path(path)
    return parse_experiment(content_of(path), path.name)


def content_of(path: Path) -> Any:
    """Return what a YAML file says."""
    try:
        return from_yaml(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path.name} cannot be read: {error}") from None


def parse_experiment(content: Any, source: str) -> Experiment:
    """Validate what an experiment file says."""
    try:
        return Experiment.model_validate(content)
    except ValidationError as error:
        raise UsageError(f"{source}: {explained(error, Experiment)}.") from None


def explained(error: ValidationError, model: type[BaseModel]) -> str:
    """Return the first mistake that a model found, with its place."""
    first = error.errors(include_url=False)[0]
    unknown = first["type"] == "extra_forbidden"
    return (unknown_key(first, model) if unknown else described(first, hide_part=False)).removesuffix(".")


def unknown_key(error: ErrorDetails, root: type[BaseModel]) -> str:
    """Return where an unknown key stands, the nearest known one, and all of them."""
    model: Any = root
    for step in error["loc"][:-1]:
        if isinstance(step, str):
            model = model_within(model.model_fields[step].annotation)
    known = [field.alias or name for name, field in model.model_fields.items()]
    key = error["loc"][-1]
    return f"{place_of(error['loc'])} is not a known key{did_you_mean(key, known)}; the keys are {', '.join(known)}"


def model_within(annotation: Any) -> Any:
    """Return the model that a field's type is made of: itself, a list of it, or it or None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in getattr(annotation, "__args__", ()) if (found := model_within(part))), None)
