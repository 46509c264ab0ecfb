"""The eleven data sets of Ma and Yang, "Optimal Locally Private Nonparametric Classification with Public Data".

The paper (Table 1, section 7.1, appendix C.1) gives the data sets, labels, public rows, and the
sizes n_P, n_Q and d. It names neither the columns that are used nor their coding. We choose them so that d and, where a
file's size is known, n_P and n_Q are those of Table 1; ``Source.ours`` lists the rest. The sizes show facts that the
paper's text leaves out: n_P is 80 % of the private rows, and the other 20 % are the test set; Census takes both files
of Adult without the rows with missing values; Jobs takes men and women only; Employee's public rows are those of 2012,
its first year. For Rice and Census, Table 1 and the text exchange n_P and n_Q.

A column is found by its name whatever its case, spaces and punctuation; ``a|b`` is a column that has either name. The
categories in a file are treated as known to everyone, like the names of its columns.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from importlib import resources
from typing import Any, NamedTuple

from privbandit_envs.validate import is_number

FILE = "name of the file"
"""An extra column of every table: the file that a row comes from."""


class Coding(Enum):
    """How a column becomes features: its number, its category's number in sorted order, or an indicator of each."""

    NUMBER = "number"
    CODE = "code"
    ONE_HOT = "one-hot"


class Rule(NamedTuple):
    """Which rows are public.

    Attributes:
        column: the column that decides.
        text: the rule in words.
        equal: rows with this value are public, whatever its case.
        at_most: rows with numbers up to this one are public.
        of_size: rows with one value are public: the value that has nearly this many rows.
    """

    column: str
    text: str
    equal: str | None = None
    at_most: float | None = None
    of_size: int | None = None

    def values(self, counts: Mapping[str, int]) -> set[str]:
        """Return the values that make rows public, given how often each occurs."""
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
    """A data set: its source, and its preparation.

    Attributes:
        title: the data set's subject.
        page: describes the data set and offers it for download by hand.
        files: names of the files to read.
        label: the column to predict.
        sizes: n_P, n_Q and d as printed.
        n_public: number of public rows that the paper draws at random; None: the rule decides.
        classes: values of the label, in the order of their codes; other rows are left out. None: the two commonest.
        features: the columns used; None: all columns that no other attribute names, as numbers.
        dropped: columns left out if ``features`` is None.
        rule: which rows are public; None: drawn at random.
        keep: for some columns, the values that rows are kept for.
        url: the archive to download; None: a page such as Kaggle that wants a login.
        sha256: checksums of files, where they are known beforehand.
        header: names of the columns, for files that do not name them.
        megabytes: how large the files may be together, unpacked; larger ones are not read.
        ours: our choices that the paper leaves open.
    """

    title: str
    page: str
    files: tuple[str, ...]
    label: str
    sizes: Sizes
    n_public: int | None = None
    classes: tuple[str, ...] | None = ("0", "1")
    features: Mapping[str, Coding] | None = None
    dropped: tuple[str, ...] = ()
    rule: Rule | None = None
    keep: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    url: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)
    header: tuple[str, ...] = ()
    megabytes: int = 16
    ours: str = ""


def read(entry: Mapping[str, Any]) -> Source:
    """Return the source that an entry of ``sources.toml`` describes."""
    plain: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    plain["sizes"] = Sizes(**entry["sizes"])
    if "classes" in entry:
        plain["classes"] = tuple(entry["classes"]) or None
    if "features" in entry:
        pairs = (text.partition(" = ") for text in entry["features"])
        plain["features"] = {name: Coding(coding or "number") for name, _, coding in pairs}
    if "rule" in entry:
        plain["rule"] = Rule(**entry["rule"])
    if "keep" in entry:
        plain["keep"] = {column: tuple(values) for column, values in entry["keep"].items()}
    return Source(**plain)


SOURCES = {
    name: read(entry)
    for name, entry in tomllib.loads(resources.files(__package__).joinpath("sources.toml").read_text("utf-8")).items()
}
