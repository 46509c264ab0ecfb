"""Statements as a file defines them: a sentence, the number that it is about, and the bounds of the number."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

from pydantic import model_validator

from privbandit_agents.experiments.fields import Model, Real, as_list, combinations
from privbandit_agents.experiments.names import as_text
from privbandit_agents.experiments.schema.measures import Measure
from privbandit_agents.experiments.schema.yaml_text import filled
from privbandit_agents.experiments.usage import usage_errors

Expected = Literal["holds", "fails"]


class Statement(Model):
    """A sentence of a paper or of ours, and the bounds of a number under which it holds.

    Attributes:
        says: the sentence.
        where: it is said.
        measure: the number.
        at_least: lower bound of the number.
        at_most: upper bound.
        expected: whether we know it to hold or to fail.
        because: why it fails, if that is expected; or how it is to be read.
        place: in the file; not written there.
    """

    says: str
    where: str
    measure: Measure
    at_least: Real | None = None
    at_most: Real | None = None
    expected: Expected = "holds"
    because: str = ""
    place: str = ""

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("needs at_least, at_most or both; got none")
        if None not in (self.at_least, self.at_most) and self.at_least > self.at_most:  # type: ignore[operator]
            raise ValueError(f"at_least must be <= at_most; got {self.at_least} > {self.at_most}")
        return self


def spelled_out(entries: object, source: str) -> Any:
    """Return the statements of a file, those under ``each`` once for each of its cases.

    ``each`` is a mapping, or a list of mappings, of names to values; all combinations of the values in lists are
    cases. A case replaces ``$name`` by its value, wherever it stands in the statement.

    Raises:
        UsageError: a name without a value.
    """
    if not isinstance(entries, list):
        return entries
    return [statement for i, entry in enumerate(entries) for statement in cases(entry, f"statements[{i}]", source)]


def cases(entry: object, place: str, source: str) -> Iterator[Any]:
    if not isinstance(entry, dict) or "each" not in entry:
        yield {**entry, "place": place} if isinstance(entry, dict) else entry
        return
    values = []
    with usage_errors(f"{source}: {place}.each"):
        for each in as_list(entry["each"]):
            if not isinstance(each, Mapping) or not each or [] in each.values():
                raise ValueError(f"must map names to values, or be a list of such mappings; got {each!r}.")
            values += combinations({name: as_list(value) for name, value in each.items()})
    rest = {key: value for key, value in entry.items() if key != "each"}
    for case in values:
        with usage_errors(f"{source}: {place}"):
            yield {**filled(rest, case), "place": f"{place} ({as_text(case)})"}
