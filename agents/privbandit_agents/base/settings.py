"""Settings of agents: a field's type sets its range, and the base class checks it."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from privbandit_agents.privacy import _validate
from privbandit_envs import validate
from privbandit_envs.changing.delay import Delay

LEAST, MOST = 1e-9, 1e9
"""Ends of the range of a number that has no narrower one; agents are tested at both."""


@dataclass(frozen=True)
class Range:
    """The range of a setting.

    Attributes:
        check: takes the setting as its one keyword; raises ValueError if it is out of range.
        ends: the smallest and the largest number for which all arithmetic of an agent holds; None: no number.
        infinity: whether infinity is allowed besides.
    """

    check: Callable[..., Any]
    ends: tuple[float, float] | None = None
    infinity: bool = False

    def __call__(self, name: str, value: Any) -> None:
        if self.infinity and value == math.inf:
            return
        self.check(**{name: value})
        if self.ends is not None and not self.ends[0] <= value <= self.ends[1]:
            besides = " or be infinite" if self.infinity else ""
            raise ValueError(
                f"{name} must lie in [{self.ends[0]:.10g}, {self.ends[1]:.10g}]{besides}; got {validate.shown(value)}."
            )


def Above(limit: float) -> Range:  # noqa: N802 (reads as a type: Annotated[float, Above(1)])
    """Return the range of numbers > ``limit``, from a billionth above it to a billion."""
    return Range(partial(validate.above, limit), (limit + LEAST, MOST))


def AtLeast(limit: float) -> Range:  # noqa: N802
    """Return the range of numbers >= ``limit``, up to a billion."""
    return Range(partial(validate.at_least, limit), (limit, MOST))


def Within(low: float, high: float) -> Range:  # noqa: N802
    """Return the range of numbers in [``low``, ``high``]."""
    return Range(partial(_validate.within, low, high), (low, high))


def CountUpTo(limit: int) -> Range:  # noqa: N802
    """Return the range of integers from 1 to ``limit``."""

    def check(**named: int) -> None:
        ((name, value),) = named.items()
        if validate.count(**named) > limit:
            raise ValueError(f"{name} must be at most {limit}; got {value!r}.")

    return Range(check, (1, limit))


def half_open(**named: float) -> None:
    """Raise ValueError unless the one keyword's value lies in (0, 1]."""
    ((name, value),) = named.items()
    if not 0 < validate.number(**named) <= 1:
        raise ValueError(f"{name} must lie in (0, 1]; got {value!r}.")


def OneOf(options: Iterable[str]) -> Range:  # noqa: N802
    """Return the range of the given words; for words that a ``Literal`` cannot list."""
    return Range(partial(validate.one_of, tuple(options)))


Positive = Annotated[float, Above(0)]
NonNegative = Annotated[float, AtLeast(0)]
PositiveOrInfinite = Annotated[float, Range(validate.positive, (LEAST, MOST), infinity=True)]
Count = Annotated[int, CountUpTo(10**12)]
People = Annotated[int, CountUpTo(10**9)]  # a bit of memory each
Fraction = Annotated[float, Range(validate.fraction, (0, 1))]  # in [0, 1]
Open01 = Annotated[float, Range(_validate.failure, (1e-12, 1 - 1e-6))]  # in (0, 1)
HalfOpen01 = Annotated[float, Range(half_open, (LEAST, 1))]  # in (0, 1]
Budget = Annotated[float, Range(_validate.budget, (LEAST, MOST), infinity=True)]  # > 0; infinity means no noise
Growth = Annotated[float, Above(1)]  # by which the number of users grows between two changes of a policy
Calibration = Literal["correct", "published"]


@dataclass(frozen=True)
class Settings:
    """The settings of an agent: a subclass is a frozen dataclass with annotations that set the ranges.

    >>> @dataclass(frozen=True)
    ... class Config(Settings):
    ...     epsilon: Budget = 1.0
    ...     growth: Growth = 1.05
    ...     noise: Literal["gaussian", "laplace"] = "gaussian"
    >>> Config(growth=0.5)
    Traceback (most recent call last):
    ...
    ValueError: growth must be > 1; got 0.5.

    Raises:
        ValueError: a setting is out of range; None is in range where the annotation allows it.
    """

    def __post_init__(self) -> None:
        """Check every setting; a subclass that relates several of them to each other does so after ``super()``."""
        for name, optional, in_range in ranges(type(self)):  # type: ignore[arg-type]  # a class is hashable
            value = getattr(self, name)
            if isinstance(value, np.number | np.bool_):  # a saved agent and a ledger have numbers of Python
                object.__setattr__(self, name, value := value.item())
            if not (optional and value is None):
                in_range(name, value)


@dataclass(frozen=True)
class PrivateSettings(Settings):
    """Settings of every private agent.

    Attributes:
        people: n, a public bound on how many people come: the promise is then to persons, and the first visit of each
            counts. Visits of further people are served and not counted. None: the promise is to visits.
    """

    people: People | None = field(default=None, kw_only=True)

    def counted(self, users: int) -> int:
        """Return how many of that many visits count, at most."""
        return users if self.people is None else min(users, self.people)


@dataclass(frozen=True)
class LateSettings(Settings):
    """Settings of agents that prepare for late feedback.

    Attributes:
        feedback: the promise about when feedback comes, which is public: a ``Delay``, or what ``Delay.of`` takes. None:
            it comes at once. Default: the environment's.
    """

    feedback: Delay | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feedback is not None:
            object.__setattr__(self, "feedback", Delay.of(self.feedback))

    @property
    def batches(self) -> Delay | None:
        """The promise, if it is of batches; None if the first visits of people count, which no promise is about."""
        follows = self.feedback is not None and self.feedback.batches and getattr(self, "people", None) is None
        return self.feedback if follows else None


@cache
def ranges(config_class: type) -> tuple[tuple[str, bool, Range], ...]:
    """Return (name, whether None is allowed, range) of every setting that declares a range."""
    found = []
    for name, annotation in get_type_hints(config_class, include_extras=True).items():
        parts = get_args(annotation) if NoneType in get_args(annotation) else (annotation,)
        words = [OneOf(get_args(part)) for part in parts if get_origin(part) is Literal]
        extras = [extra for part in parts for extra in getattr(part, "__metadata__", ()) if isinstance(extra, Range)]
        found += [(name, len(parts) > 1, declared) for declared in words + extras]
    return tuple(found)
