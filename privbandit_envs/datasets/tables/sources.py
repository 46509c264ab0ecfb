"""The eleven data sets of Ma and Yang, "Optimal Locally Private Nonparametric Classification with Public Data".

From the paper (Table 1, section 7.1, appendix C.1): which data sets, what is predicted, which rows are public, and the
sizes n_P, n_Q and d. It does not name the columns that are used nor their coding. These are our choice, made so that d
and, where a file's size is known, n_P and n_Q are those of Table 1; ``Source.ours`` says what remains open. The sizes
show what the paper's text does not say: n_P is 80 % of the private rows, the rest being its test set; Census takes both
files of Adult without the rows with missing values; Jobs takes men and women only; Employee's public rows are those of
2012, its first year. Table 1 has n_P and n_Q of Rice and Census the other way round than the text.

A column is found by its name whatever its case, spaces and punctuation; ``a|b`` is one that goes by two names. The
categories that occur in a file are treated as known to everyone, like the names of its columns.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from importlib import resources
from typing import Any, NamedTuple

from privbandit_envs.datasets.csv import is_number

FILE = "name of the file"
"""A column that every table has besides its own: the file that a row comes from."""


class Kind(Enum):
    """How a column becomes features."""

    NUMBER = "number"
    """Its number."""
    CODE = "code"
    """The number of its category, in sorted order."""
    ONE_HOT = "one-hot"
    """An indicator of every category."""


class Rule(NamedTuple):
    """Which rows are public.

    Attributes:
        column: it goes by this column.
        text: the rule in words.
        equal: the rows with this value are public, whatever its case.
        at_most: the rows with numbers up to this one are.
        of_size: the rows with the value are whose number of rows is nearest to this one.
    """

    column: str
    text: str
    equal: str | None = None
    at_most: float | None = None
    of_size: int | None = None

    def values(self, counts: Mapping[str, int]) -> set[str]:
        """Return the values whose rows are public, given how often each occurs."""
        if self.equal is not None:
            return {found for found in counts if found.casefold() == self.equal.casefold()}
        if self.at_most is not None:
            return {found for found in counts if is_number(found) and float(found) <= self.at_most}
        size = self.of_size or 0
        return set(sorted(counts, key=lambda found: (abs(counts[found] - size), found))[:1])


class Sizes(NamedTuple):
    """Sizes as printed in Table 1."""

    private: int
    public: int
    d: int


@dataclass(frozen=True)
class Source:
    """A data set: where it is, and what is done with it.

    Attributes:
        title: what it is about.
        page: where it is described and, by hand, to be had.
        files: the files that are read.
        label: the column to predict.
        sizes: n_P, n_Q and d as printed.
        n_public: public rows that the paper draws at random, or None where the rule decides.
        classes: values of the label, in the order of their codes; other rows are left out. None: the two commonest.
        features: the columns used; None: all, as numbers, that are not named otherwise.
        dropped: columns left out, where all are used.
        rule: which rows are public; None: drawn at random.
        keep: values of a column whose rows are kept.
        url: the archive to download; None: Kaggle, or another page that wants a login.
        sha256: checksums of files that are known beforehand.
        header: names of the columns, of files that do not name them.
        ours: what the paper leaves open and is chosen here.
    """

    title: str
    page: str
    files: tuple[str, ...]
    label: str
    sizes: Sizes
    n_public: int | None = None
    classes: tuple[str, ...] | None = ("0", "1")
    features: Mapping[str, Kind] | None = None
    dropped: tuple[str, ...] = ()
    rule: Rule | None = None
    keep: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    url: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)
    header: tuple[str, ...] = ()
    ours: str = ""


def read(entry: Mapping[str, Any]) -> Source:
    """Return the source that an entry of ``sources.toml`` describes."""
    plain: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    plain["sizes"] = Sizes(**entry["sizes"])
    if "classes" in entry:
        plain["classes"] = tuple(entry["classes"]) or None
    if "features" in entry:
        pairs = (text.partition(" = ") for text in entry["features"])
        plain["features"] = {name: Kind(kind or "number") for name, _, kind in pairs}
    if "rule" in entry:
        plain["rule"] = Rule(**entry["rule"])
    if "keep" in entry:
        plain["keep"] = {column: tuple(values) for column, values in entry["keep"].items()}
    return Source(**plain)


SOURCES = {
    name: read(entry)
    for name, entry in tomllib.loads(resources.files(__package__).joinpath("sources.toml").read_text("utf-8")).items()
}
