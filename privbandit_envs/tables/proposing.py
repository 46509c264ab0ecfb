"""A schema that is read from a table: types, bounds, levels, and which columns are no features."""

import math
import re
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privbandit_envs.datasets.dataset import in_order
from privbandit_envs.tables.encoding import QUERY, batched, cells, check_width
from privbandit_envs.tables.reading import Table, Text, scan, source, told
from privbandit_envs.tables.schema import MISSING, Constraints, Field, Schema, Use, plain
from privbandit_envs.validate import did_you_mean, listed, shown

LEVELS = 64
"""A column of texts with more levels is hashed, or is an identity if more than half of the rows differ."""
HASHED = 32
"""Columns of a hash."""
FIRST = 2**14
"""Rows by which a column is identities."""
HEAD = 300
"""Rows by which types are tried first."""
STRANGE = 0.1
"""Share of cells that fit no number and no date, from which on a column holds levels."""
EMPTY = 1e-9
"""What stands for this share if there are no cells."""
COMMON = 3
"""Types that are tried before dates are: true or false, integers, numbers."""
NAMED = ("action", "label", "person")
"""Roles whose cells are names, also if they look like numbers."""
CALLED = {
    "action": "action|arm|treatment|item_id",
    "reward": "reward|click|clicked|conversion|outcome",
    "propensity": "propensity|propensity_score|pscore",
    "person": "person|(person|user|customer|client|patient|visitor)_?id",
}
"""Roles by names of columns."""
COUNTED = r"|unnamed: \d+|__index_level_\d+__|row_?(names?|index|number|nr|id)?|index|(.*[_\W])?id"
"""Names of columns whose integers count rows or name somebody."""
DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y")
TIMES = tuple(f"{date} %H:%M{seconds}" for date in DATES for seconds in ("", ":%S"))


def propose(table: Table, guessed: Collection[str] = (), **roles: str | None) -> Schema:
    """Return a schema that every cell of a table fits; its bounds and levels come from the data.

    Args:
        table: as for ``source``.
        guessed: roles that a column takes by its name, as in ``CALLED``, unless another one has the role.
        **roles: a column, by role, such as ``action="arm"``; all others are features, or ignored: numbers of rows,
            identities, columns without a value, lists.

    Raises:
        ValueError: no such column, or no table.

    Examples:
        >>> schema = propose({"age": ["31", "47", ""], "channel": ["mail", "app", "mail"], "won": [0, 1, 1]})
        >>> [(field.name, field.type, field.levels) for field in schema.fields]
        [('age', 'integer', []), ('channel', 'string', ['app', 'mail']), ('won', 'boolean', [])]
    """
    return proposed(table, guessed, **roles)[0]


def proposed(table: Table, guessed: Collection[str] = (), **roles: str | None) -> tuple[Schema, pl.LazyFrame]:
    """Return the schema of a table, and the table with its numbers as numbers."""
    found = source(table)
    texts = found.texts() if isinstance(found, Text) else found
    kinds = dict(texts.collect_schema())
    asked = {name: role for role, name in roles.items() if name is not None}
    for name, role in asked.items():
        if name not in kinds:
            near = did_you_mean(name, kinds)
            raise ValueError(f"{role} must be a column of the table: {listed(kinds)}; got {shown(name)}{near}.")
    if len(asked) < sum(name is not None for name in roles.values()):
        raise ValueError(f"{', '.join(roles)} must be different columns; got {shown(list(roles.values()))}.")
    for role in guessed:
        named = [name for name in kinds if re.fullmatch(CALLED[role], name, re.IGNORECASE) and name not in asked]
        if roles.get(role) is None and len(named) == 1:
            asked[named[0]] = role
            warnings.warn(f"column {shown(named[0])} has the role {role} by its name.", stacklevel=2)
    with told("the table"):
        try:
            head = texts.head(HEAD).collect()
        except pl.exceptions.PolarsError:
            if isinstance(found, Text):
                found.check()  # which names the line
            raise
        # types: of those that most of the first rows fit, the one that most rows fit; columns of numbers are counted
        numbers = [name for name in numbers_in(head) if asked.get(name) not in NAMED]
        check_width(len(kinds) - len(numbers))
        every = {name: candidates(name, kinds[name], asked.get(name, "context")) for name in kinds.keys() - {*numbers}}
        common = fitting(head.lazy(), {name: fits[:COMMON] for name, fits in every.items()}, kinds)
        left = {name: every[name] for name, fits in common.items() if fits[0][0] >= STRANGE or fits[0][0] == EMPTY}
        tried = {
            name: [one for share, one in fits if share <= max(STRANGE, fits[0][0])]
            for name, fits in (common | fitting(head.lazy(), left, kinds)).items()
        }
        frame = scan(found, [*numbers, *plain(fits[0] for fits in tried.values())], MISSING)
        kinds = dict(frame.collect_schema())
        for name in [name for name in numbers if not kinds[name].is_numeric()]:  # further down there are texts
            tried[name] = candidates(name, kinds[name], asked.get(name, "context"))
        tallies = tallied(frame, [name for name in numbers if name not in tried])
        fields = {name: fits[0] for name, fits in tried.items()}
        whole = fitting(frame, {name: [field] for name, field in fields.items() if field.type != "string"}, kinds)
        faulty = {name: tried[name] for name, fits in whole.items() if fits[0][0] > 0 and len(tried[name]) > 1}
        fields |= {name: fits[0][1] for name, fits in fitting(frame, faulty, kinds).items()}
        fields |= {name: tally.field(name, asked.get(name, "context")) for name, tally in tallies.items()}
        for name, field in {name: fields[name] for name in tried}.items():
            other = [one for one in tried[name] if one.format == field.format.replace("%d/%m", "%m/%d") != field.format]
            if other and fitting(frame, {name: other}, kinds)[name][0][0] == 0:
                warnings.warn(f"column {shown(name)}: day or month may come first; day is taken.", stacklevel=2)
        # bounds and levels
        facts = {name: tally.facts for name, tally in tallies.items()}
        for some in batched(tried):
            wanted = [fact for name in some for fact in facts_of(fields[name], kinds)]
            row = frame.select(pl.len().alias("\0"), *wanted).collect(engine="streaming").row(0, named=True)
            parts = ("rows", "blank", "empty", "least", "most")
            facts |= {name: {part: row.get(f"{name}\0{part}", row["\0"]) for part in parts} for name in some}
        leveled = [one for one in fields.values() if one.type == "string" or counted(one.name)]
        leveled = [one for one in leveled if one.use.role not in ("ignore", "person")]
        levels = levels_of(frame, leveled, kinds)
        none: tuple[set[Any], bool] = set(), False
        limited = [bounded(fields[name], facts[name], levels.get(name, none), frame, kinds) for name in kinds]
        return Schema(fields=limited), frame


def candidates(name: str, kind: pl.DataType, role: Any) -> list[Field]:
    """Return the types that a column may have, the narrowest first; texts fit whatever there is."""

    def field(type: Any, **others: Any) -> Field:
        return Field(name=name, type=type, use=Use(role=role), **others)

    if isinstance(kind, pl.List | pl.Array | pl.Struct | pl.Object) or kind in (pl.Binary, pl.Null, pl.Duration):
        return [Field(name=name, use=Use(role="ignore"))]
    if role in NAMED:
        return [field("string")]
    if kind == pl.Boolean:
        return [field("boolean")]
    if kind.is_numeric():
        return [field("boolean"), field("integer"), field("number")]
    if kind.is_temporal():
        return [field("date" if kind == pl.Date else "datetime")]
    if role in ("reward", "propensity"):
        return [field("number"), field("number", decimal=","), field("boolean")]
    found = [field("boolean"), field("integer"), field("number"), field("number", decimal=",")]
    found += [field("date"), field("datetime"), *(field("date", format=one) for one in DATES)]
    return [*found, *(field("datetime", format=one) for one in TIMES), field("string")]


def fitting(
    frame: pl.LazyFrame, tried: dict[str, list[Field]], kinds: dict[str, pl.DataType]
) -> dict[str, list[tuple[float, Field]]]:
    """Return for each type the share of cells that it does not fit, the best first; texts fit all but a few."""
    if len(tried) > QUERY:
        parts = (fitting(frame, {name: tried[name] for name in some}, kinds) for some in batched(tried))
        return {name: fits for part in parts for name, fits in part.items()}
    if not tried:
        return {}
    every = [(field, cells(field, kinds[name], MISSING)) for name, fields in tried.items() for field in fields]
    faults = [(~one.blank & one.fault).sum().alias(f"f{place}") for place, (_, one) in enumerate(every)]
    blanks = {field.name: one.blank for field, one in every}
    there = [(~blank).sum().alias(f"t{place}") for place, blank in enumerate(blanks.values())]
    found = frame.select(*faults, *there).collect(engine="streaming").row(0, named=True)
    sizes = {name: found[f"t{place}"] for place, name in enumerate(blanks)}
    shares: dict[str, list[tuple[float, Field]]] = {name: [] for name in tried}
    for place, (field, _) in enumerate(every):
        share = found[f"f{place}"] / sizes[field.name] if sizes[field.name] else EMPTY
        shares[field.name].append((STRANGE if field.type == "string" else share, field))
    return {name: sorted(fits, key=lambda fit: fit[0]) for name, fits in shares.items()}


def numbers_in(head: pl.DataFrame) -> list[str]:
    """Return the columns of numbers: by type, or texts of which all that are not missing are finite numbers."""
    words = [name for name, kind in head.schema.items() if kind == pl.String]
    read = head.select(pl.col(words).str.strip_chars().cast(pl.Float64, strict=False))
    good = read.select(pl.all().is_finite().fill_null(False).all()).row(0) if words and len(read) else ()
    found = {name for name, kind in head.schema.items() if kind.is_numeric()}
    for name, all_good in zip(words, good, strict=False):
        odd = [] if all_good else head[name].filter(~read[name].is_finite().fill_null(False)).to_list()
        if len(odd) < len(head) and all(cell is None or cell.strip() in MISSING for cell in odd):
            found.add(name)
    return [name for name in head.columns if name in found]


@dataclass
class Tally:
    """What the cells of a column of numbers are.

    Attributes:
        rows: all of them.
        blank, infinite, fraction: how many have no value, are no finite number, are no whole number.
        other: how many are neither 0 nor 1.
        least, most: of finite numbers.
    """

    rows: int = 0
    blank: int = 0
    infinite: int = 0
    fraction: int = 0
    other: int = 0
    least: float = math.inf
    most: float = -math.inf

    def add(self, values: NDArray[np.float64]) -> None:
        there = values[~np.isnan(values)]
        finite = there[np.isfinite(there)]
        self.rows, self.blank = self.rows + len(values), self.blank + len(values) - len(there)
        self.infinite += len(there) - len(finite)
        if len(finite):
            self.fraction += int(np.count_nonzero(finite != np.round(finite)))
            self.other += int(np.count_nonzero((finite != 0) & (finite != 1)))
            self.least = min(self.least, float(finite.min()))
            self.most = max(self.most, float(finite.max()))

    def field(self, name: str, role: Any) -> Field:
        """Return the field of a column in a role: rewards and propensities are numbers."""
        wrong = self.infinite + np.array([self.other, self.fraction, 0])
        kind = "number" if role in ("reward", "propensity") else ("boolean", "integer", "number")[int(wrong.argmin())]
        return Field(name=name, type=kind, use=Use(role=role))  # type: ignore[arg-type]

    @property
    def facts(self) -> dict[str, Any]:
        """As ``facts_of`` names them."""
        whole = not self.fraction and self.least <= self.most
        least, most = (int(self.least), int(self.most)) if whole else (self.least, self.most)
        empty = self.blank == self.rows
        return {"rows": self.rows, "blank": self.blank > 0, "empty": empty, "least": least, "most": most}


def tallied(frame: pl.LazyFrame, names: list[str]) -> dict[str, Tally]:
    """Count what is in columns of numbers, a block of rows at a time."""
    found = {name: Tally() for name in names}
    chosen = frame.select(pl.col(names).cast(pl.Float64)) if names else frame.head(0)
    for batch in chosen.collect_batches(chunk_size=FIRST, maintain_order=True, engine="streaming"):
        for tally, column in zip(found.values(), batch.iter_columns(), strict=False):
            tally.add(column.to_numpy())
    return found


def facts_of(field: Field, kinds: dict[str, pl.DataType]) -> list[pl.Expr]:
    """Return expressions for the least and the largest value, and whether cells are empty."""
    if field.use.role == "ignore":
        return []
    one, name = cells(field, kinds[field.name], MISSING), field.name
    found = [one.blank.any().alias(f"{name}\0blank"), one.blank.all().alias(f"{name}\0empty")]
    if field.type != "string":
        found += [one.value.min().alias(f"{name}\0least"), one.value.max().alias(f"{name}\0most")]
    return found


def levels_of(
    frame: pl.LazyFrame, fields: list[Field], kinds: dict[str, pl.DataType]
) -> dict[str, tuple[set[Any], bool]]:
    """Return the values of each column, those of features until they are too many, and whether most rows differ.

    Whether most differ is a matter of the first rows, so that a long file of identities is never held as a whole.
    """
    if not fields:
        return {}
    found: dict[str, tuple[set[Any], bool]] = {field.name: (set(), False) for field in fields}
    chosen = frame.select(cells(field, kinds[field.name], MISSING).value.alias(field.name) for field in fields)
    for batch in chosen.collect_batches(chunk_size=FIRST, maintain_order=True, engine="streaming"):
        for field, column in zip(fields, batch, strict=True):
            known, differ = found[field.name]
            if len(known) <= LEVELS or field.use.role != "context":
                new = set(column.drop_nulls().unique())
                differ = differ or (not known and 2 * len(new) > len(column))
                found[field.name] = known | new, differ
    return found


def bounded(
    field: Field,
    facts: dict[str, Any],
    levels: tuple[set[Any], bool],
    frame: pl.LazyFrame,
    kinds: dict[str, pl.DataType],
) -> Field:
    """Return a field with its bounds or levels, and without its role if it is no feature."""
    if field.use.role == "ignore":
        return field
    role, distinct = field.use.role, len(levels[0])
    index = counted(field.name) and field.type == "integer" and distinct > min(facts["rows"] - 1, LEVELS)
    constraints: dict[str, Any] = {"required": not facts["blank"]}
    if role == "context" and (facts["empty"] or index):
        return field.with_use(role="ignore")
    if role == "person":
        check_people(field, frame, kinds)
    elif field.type == "string":
        if role == "context" and distinct > LEVELS:
            return field.with_use(role="ignore") if levels[1] else field.with_use(columns=HASHED)
        constraints["enum"] = in_order(levels[0])
        check_twins(field.name, constraints["enum"])
    elif field.type in ("number", "integer"):
        constraints |= {"minimum": facts["least"], "maximum": facts["most"]}
    elif field.type in ("date", "datetime"):
        form = (
            field.format if field.format != "default" else "%Y-%m-%d" if field.type == "date" else "%Y-%m-%dT%H:%M:%S"
        )
        constraints |= {"minimum": f"{facts['least']:{form}}", "maximum": f"{facts['most']:{form}}"}
    return field.model_copy(update={"constraints": Constraints(**constraints)})


def counted(name: str) -> bool:
    return re.fullmatch(COUNTED, name, re.IGNORECASE) is not None


def check_people(field: Field, frame: pl.LazyFrame, kinds: dict[str, pl.DataType]) -> None:
    """Raise ValueError if the number of a person is written in two ways, such as 7 and 7.0."""
    name = cells(field, kinds[field.name], MISSING).value.alias("name")
    number = pl.col("name").str.replace(r"^\+?0*([0-9]+)(\.0*)?$", "$1").alias("number")
    ways = frame.select(name).unique().with_columns(number).group_by("number").agg("name")
    twins = ways.filter(pl.col("name").list.len() > 1).head(1).collect(engine="streaming")
    if len(twins):
        check_twins(field.name, sorted(twins["name"][0].to_list()))


def check_twins(name: str, levels: list[str]) -> None:
    """Raise ValueError if one number is written in two ways, such as 1 and 1.0."""
    written: dict[Decimal, str] = {}
    for level in levels:
        if (
            re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)", level)
            and (twin := written.setdefault(Decimal(level), level)) != level
        ):
            ways = f"{shown(twin)} and {shown(level)}"
            raise ValueError(f"column {shown(name)} has one number in two ways, {ways}: choose one.")
