"""Kinds of fields in experiment files."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, StrictInt

from privbandit_envs.validate import count, number, shown

MOST_ASKED = 10**6
"""Most seeds, replications, combinations or jobs that a file or an option can ask for."""


def at_most(most: int, **named: int) -> int:
    """Return an integer from 1 to ``most``."""
    ((name, value),) = named.items()
    if count(**named) > most:
        raise ValueError(f"{name} must be at most {most:,}; got {shown(value)}.")
    return int(value)


def as_list(value: object) -> Any:
    """Wrap a single value in a list."""
    return value if isinstance(value, list) else [value]


def seed_list(value: object) -> Any:
    """Return 0, ..., N - 1 for a number N, and N seeds from F on for ``{first: F, number: N}``."""
    if isinstance(value, dict):
        if value.keys() != {"first", "number"}:
            raise ValueError(f"must have first and number; got {shown(value)}")
        first, number = value["first"], seed_list(value["number"])
        if isinstance(first, bool) or not isinstance(first, int) or not isinstance(number, list):
            raise ValueError(f"first and number must be integers; got {shown(value)}")
        return [first + seed for seed in number]
    if isinstance(value, str):
        raise ValueError(f"must be an integer >= 1 or a list of seeds; got {shown(value)}")
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if value < 1:
        raise ValueError(f"must be an integer >= 1 or a list of seeds; got {shown(value)}")
    if value > MOST_ASKED:
        raise ValueError(f"must be at most {MOST_ASKED:,} seeds; got {shown(value)}")
    return list(range(value))


def distinct_seeds(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"each seed must be given once; got {shown(seeds)}")
    at_most(MOST_ASKED, seeds=len(seeds))
    return seeds


def users_or_fraction(value: Any) -> float:
    """Return a number of users, or a fraction of the horizon (a number with a decimal point)."""
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not (whole or (isinstance(value, float) and 0 < value <= 1)):
        raise ValueError(f"must be users, an integer >= 1, or a fraction of the horizon in (0, 1]; got {value!r}")
    return float(value) if isinstance(value, float) else min(value, 10**18)  # beyond every horizon, and still a float


def real(value: float) -> float:
    return number(value=value)


AS_IT_IS: Any = PlainValidator(lambda value: value)
Positive = Annotated[StrictInt, Field(ge=1, le=10**15)]
Points = Annotated[StrictInt, Field(ge=1, le=MOST_ASKED)]
Seed = Annotated[StrictInt, Field(ge=0, lt=2**63)]
Seeds = Annotated[list[Seed], Field(min_length=1), BeforeValidator(seed_list), AfterValidator(distinct_seeds)]
Users = Annotated[float, PlainValidator(users_or_fraction)]
Real = Annotated[float, PlainValidator(real)]
FileName = Annotated[str, Field(pattern=r"^[\w.-]+$")]
Keys = Annotated[list[str], BeforeValidator(as_list)]
Grid = dict[str, Annotated[list[Any], Field(min_length=1)]]
"""Settings to lists of values; all combinations are run."""


class Model(BaseModel):
    """A part of a file; unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid")


def combinations(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return all combinations of the values of a grid; one without settings if the grid is empty.

    Raises:
        ValueError: there are more than ``MOST_ASKED``.
    """
    if (many := prod(map(len, grid.values()))) > MOST_ASKED:
        raise ValueError(f"the grid has {many:,} combinations; {MOST_ASKED:,} are the most.")
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def given_once(grid: Mapping[str, Any], beside: Mapping[str, Any], where: str = "beside it") -> None:
    """Raise if a setting is both in the grid and beside it."""
    if twice := sorted(grid.keys() & beside.keys()):
        raise ValueError(f"{twice[0]} must be given once; got it in the grid and {where}")


def distinct(what: str, names: Sequence[str]) -> None:
    if twice := [name for place, name in enumerate(names) if name in names[:place]]:
        raise ValueError(f"{what} must differ; {twice[0]!r} is taken twice")
