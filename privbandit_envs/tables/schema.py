"""A public schema of a table: Frictionless Table Schema, with one key for the role of a column.

The format is that of https://specs.frictionlessdata.io/table-schema/. The key ``privbandit`` of a field says what a
bandit makes of its column, and whether its bounds or levels are public. A level that stands in the schema because one
person has it tells that this person is in the table; so whoever serves people asks ``check_public``.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from pydantic import AliasChoices, BaseModel, ConfigDict, ValidationError, model_validator
from pydantic import Field as PydanticField

from privbandit_envs.files import atomic, regular
from privbandit_envs.validate import did_you_mean, listed, shown

Role: TypeAlias = Literal["context", "action", "reward", "propensity", "person", "time", "label", "public", "ignore"]
Type: TypeAlias = Literal["number", "integer", "boolean", "string", "date", "datetime"]
MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "NaT"]
"""Texts that are no value, unless a schema has others."""
TRUE, FALSE = ["true", "True", "TRUE", "yes", "Yes", "1"], ["false", "False", "FALSE", "no", "No", "0"]


def also(default: Any, name: str, written: str) -> Any:
    """Return a field that has another name in files."""
    return PydanticField(default, validation_alias=AliasChoices(written, name), serialization_alias=written)


class Part(BaseModel):
    """A part of a schema, of which nothing is converted in silence."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Constraints(Part):
    """Bounds or levels of a column; a value beyond a bound counts as the bound.

    Attributes:
        minimum: least value, in the format of the column if it holds dates.
        maximum: largest value.
        enum: the levels, or the arms.
        required: whether a cell without a value is refused.
    """

    minimum: float | str | None = None
    maximum: float | str | None = None
    enum: list[str] | None = None
    required: bool = False


class Use(Part):
    """What a bandit makes of a column.

    Attributes:
        role: of the column.
        public: whether its bounds and levels are known without the people in the table.
        unseen: whether a level that the schema does not name counts as ``"other"``, or is refused.
        columns: number of columns that a hash of the level is spread over; None: each level has its own.
        fill: stands for a number that is missing; default: the middle of the bounds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Role = "context"
    public: bool = False
    unseen: Literal["other", "refuse"] = "other"
    columns: int | None = None
    fill: float | None = None


class Field(Part):
    """A column: its type as in Table Schema, its constraints and its use.

    Attributes:
        name: of the column.
        type: of its cells.
        format: of dates, as ``strptime`` has it; ``"default"`` is that of ISO 8601.
        constraints: bounds, levels, and whether a cell may be empty.
        decimal: the decimal mark of numbers in texts, ``decimalChar`` in the file.
        true: words for true, ``trueValues``; and ``false``.
        use: what a bandit makes of it, ``privbandit``.
    """

    name: str
    type: Type = "string"
    format: str = "default"
    constraints: Constraints = Constraints()
    decimal: str = also(".", "decimal", "decimalChar")
    true: list[str] = also(TRUE, "true", "trueValues")
    false: list[str] = also(FALSE, "false", "falseValues")
    use: Use = also(Use(), "use", "privbandit")

    @model_validator(mode="after")
    def check(self) -> Self:
        """Refuse bounds that are none, levels of a column that has bounds, and a hash of one."""
        bounds = (self.constraints.minimum, self.constraints.maximum)
        if self.type in ("number", "integer"):
            numbers = [bound for bound in bounds if bound is not None]
            if any(not isinstance(bound, float | int) for bound in numbers) or sorted(numbers) != numbers:
                raise ValueError(f"minimum and maximum of {shown(self.name)} must be numbers in order; got {bounds}")
        if self.constraints.enum is not None and len(set(self.constraints.enum)) < len(self.constraints.enum):
            raise ValueError(f"enum of {shown(self.name)} must have each level once")
        if self.use.columns is not None and not 1 <= self.use.columns <= 4096:
            raise ValueError(f"columns of {shown(self.name)} must be between 1 and 4096; got {self.use.columns}")
        return self

    @property
    def levels(self) -> list[str]:
        """The levels that it names."""
        return self.constraints.enum or []

    @property
    def bounded(self) -> bool:
        """Whether its bounds, or its levels, are all there."""
        ends = self.constraints.minimum is not None and self.constraints.maximum is not None
        return {"boolean": True, "string": bool(self.levels) or self.use.columns is not None}.get(self.type, ends)

    def with_use(self, **changes: Any) -> "Field":
        """Return it with another use."""
        return self.model_copy(update={"use": self.use.model_copy(update=changes)})


class Schema(Part):
    """The columns of a table, in order.

    Attributes:
        fields: the columns; a table may have others, which are left out.
        missing: texts that are no value, ``missingValues``.

    Raises:
        ValueError: two fields with one name, or something that no field has; pydantic names it.

    Examples:
        >>> age = {"name": "age", "type": "number", "constraints": {"minimum": 18, "maximum": 90}}
        >>> channel = {"name": "channel", "constraints": {"enum": ["mail", "app"]}, "privbandit": {"public": True}}
        >>> schema = Schema.of({"fields": [age, channel]})
        >>> schema["channel"].levels, schema.private
        (['mail', 'app'], ['age'])
    """

    fields: list[Field]
    missing: list[str] = also(MISSING, "missing", "missingValues")

    @model_validator(mode="after")
    def check(self) -> Self:
        """Refuse two fields with one name, and two columns in a role that takes one."""
        names = [field.name for field in self.fields]
        if len(set(names)) < len(names):
            raise ValueError(f"every field must have a name of its own; got {listed(names)}")
        for role in ("action", "reward", "propensity", "person", "time", "label", "public"):
            if len(found := self.of_role(role)) > 1:
                raise ValueError(f"one column has the role {role}; got {listed(field.name for field in found)}")
        return self

    @classmethod
    def of(cls, schema: "Schema | dict[str, Any] | str | Path") -> "Schema":
        """Return a schema from its file, or as ``json.load`` returns it.

        Raises:
            ValueError: it is none; the sentence names the first place.
            OSError: the file cannot be read.
        """
        if isinstance(schema, Schema):
            return schema
        where = "the schema" if isinstance(schema, dict) else str(schema)
        try:
            if not isinstance(schema, dict):
                with regular(Path(schema).expanduser()) as file:
                    schema = json.loads(file.read())
            return cls.model_validate(schema)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise ValueError(f"{where}: {place or 'it'}: {first['msg']}; got {shown(first['input'])}.") from None
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"{where} is no JSON: {error}.") from None

    @property
    def written(self) -> dict[str, Any]:
        """What its file holds; ``public`` is there to be changed where bounds or levels come from people's data."""
        content = self.model_dump(by_alias=True, exclude_defaults=True)
        for field in content["fields"]:
            if field["name"] in self.private:
                field["privbandit"] = {"public": False} | field.get("privbandit", {})
        return content

    def write(self, path: Path | str) -> None:
        """Write it as JSON, whole or not at all."""
        with atomic(Path(path), follow=True) as file:
            json.dump(self.written, file, indent=1, ensure_ascii=False)
            file.write("\n")

    def __getitem__(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)

    def of_role(self, role: str) -> list[Field]:
        """Return the columns with a role."""
        return [field for field in self.fields if field.use.role == role]

    @property
    def private(self) -> list[str]:
        """The columns that are used and whose bounds or levels are not public, or not all there."""
        told = ("context", "action", "reward", "label")
        used = [field for field in self.fields if field.use.role in told and field.type != "boolean"]
        return [field.name for field in used if not (field.use.public and field.bounded)]

    def check_public(self) -> None:
        """Raise ValueError if a bound or a level comes from people's data."""
        if self.private:
            private = listed(self.private, "columns")
            raise ValueError(
                f"the bounds or levels of {private} come from people's data, or are not all there: "
                'write those that you know without the data into the schema, with `"public": true` in `privbandit`.'
            )

    def roles(self, **given: str | None) -> "Schema":
        """Return it with columns in other roles, by role; a role that is given to one column leaves another.

        Raises:
            ValueError: no such column.
        """
        asked = {name: role for role, name in given.items() if name is not None}
        known = [field.name for field in self.fields]
        for name, role in asked.items():
            if name not in known:
                near = did_you_mean(name, known)
                raise ValueError(f"{role} must be a column of the table: {listed(known)}; got {shown(name)}{near}.")
        fields = [
            field.with_use(role=asked[field.name])
            if field.name in asked
            else field.with_use(role="ignore")
            if field.use.role in asked.values()
            else field
            for field in self.fields
        ]
        return self.model_copy(update={"fields": fields})

    def with_features(self, names: Sequence[str]) -> "Schema":
        """Return it with these columns alone for contexts.

        Raises:
            ValueError: none, or a column that has another role.
        """
        free = [field.name for field in self.fields if field.use.role in ("context", "ignore")]
        if strange := [name for name in names if name not in free]:
            raise ValueError(f"features must be columns without another role: {listed(free)}; got {shown(strange)}.")
        if not names:
            raise ValueError("features must name at least one column; got none.")
        fields = [
            field.with_use(role="context" if field.name in names else "ignore") if field.name in free else field
            for field in self.fields
        ]
        return self.model_copy(update={"fields": fields})


def plain(fields: Iterable[Field]) -> list[str]:
    """Return the columns whose texts are numbers with a decimal point."""
    return [field.name for field in fields if field.type in ("number", "integer") and field.decimal == "."]
