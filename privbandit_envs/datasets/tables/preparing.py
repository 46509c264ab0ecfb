"""Turn a table into a data set: labels, features, public rows. Rows with missing values are left out and counted."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from privbandit_envs.datasets.dataset import Dataset
from privbandit_envs.datasets.tables import table
from privbandit_envs.datasets.tables.data import PreparedTable, TableFacts
from privbandit_envs.datasets.tables.files import GENERATED
from privbandit_envs.datasets.tables.sources import SOURCES, Coding, Source
from privbandit_envs.datasets.tables.table import Codes, Floats, Table, Tick
from privbandit_envs.validate import LONGEST

Mask = NDArray[np.bool_]


def prepare(name: str, path: Path, tick: Tick = lambda rows: None, called: str = "") -> PreparedTable:
    """Read the files of a data set and prepare it.

    Args:
        name: one of ``SOURCES``.
        path: the file, or a folder or .zip file with its files.
        tick: called with the number of rows read so far.
        called: names the path in errors and facts; default: the path itself.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a missing column or label, a malformed row, no public or no private rows.
    """
    source = SOURCES[name]
    called = called or str(path)
    found = table.read(path, source, lambda names: wanted(source, names), tick, called)
    y, label_names = labels(source, found)
    other = y < 0
    kept = np.ones(len(y), dtype=bool)
    for column, values in source.keep.items():
        kept &= np.isin(found.codes[column], [found.names[column].index(v) for v in values if v in found.names[column]])
    gaps = [np.isnan(numbers) for numbers in found.numbers.values()] + [codes < 0 for codes in found.codes.values()]
    complete: Mask = ~np.logical_or.reduce(gaps)
    rows = complete & kept & ~other
    if len(set(y[rows].tolist())) < 2:
        both = "both labels " + " and ".join(name[:LONGEST] for name in label_names) if label_names else "two labels"
        raise ValueError(f"{called}: rows with {both} are needed; got fewer.")
    x, feature_names = features(source, found, rows, called)
    public = public_rows(source, found, rows, called)
    others = int((complete & ~(kept & ~other)).sum())
    facts = TableFacts(name, Path(called).name, found.generated, incomplete=int((~complete).sum()), others=others)
    return PreparedTable(Dataset(x, y[rows], label_names, feature_names, public), facts)


def wanted(source: Source, names: list[str]) -> tuple[list[str], list[str]]:
    """Return the columns to read as numbers and those to read as categories."""
    categories = [source.label, *source.keep]
    if source.rule is not None:
        categories.append(source.rule.column)
    if source.features is not None:
        categories += [name for name, coding in source.features.items() if coding is not Coding.NUMBER]
        numbers = [name for name, coding in source.features.items() if coding is Coding.NUMBER]
        return numbers, list(dict.fromkeys(categories))
    others = set(table.find(names, (*categories, *source.dropped, GENERATED)).values())
    numbers = [name for at, name in enumerate(names) if at not in others]
    return numbers, categories


def labels(source: Source, found: Table) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the codes of the rows' labels and the labels' names; a missing or other label has the code -1."""
    names = found.names[source.label]
    classes = source.classes
    if classes is None:
        commonest = [name for name, _ in found.counts(source.label).most_common(2)]
        classes = tuple(name for name in names if name in commonest)
    of = {spelling.casefold(): at for at, spellings in enumerate(classes) for spelling in spellings.split("|")}
    code = np.array([of.get(name.casefold(), -1) for name in names] + [-1], dtype=np.int64)
    return code[found.codes[source.label]], tuple(spellings.partition("|")[0] for spellings in classes)


def features(source: Source, found: Table, rows: Mask, called: str) -> tuple[Floats, tuple[str, ...]]:
    """Return the features of the rows, in the order of the columns, and their names."""
    codings = source.features or dict.fromkeys(found.numbers, Coding.NUMBER)
    levels = {
        column: np.unique(found.codes[column][rows]) for column, coding in codings.items() if coding is Coding.ONE_HOT
    }
    for column, there in levels.items():
        if len(there) > 50:
            many = f"has {len(there):,} different values; this data set has at most 50"
            raise ValueError(f"{called}, column {column!r} {many}.")
    names: list[str] = []
    x = np.empty((int(rows.sum()), sum(len(levels.get(column, [0])) for column in codings)), dtype=np.float32)
    for column, coding in codings.items():
        title = column.partition("|")[0]
        if coding is Coding.ONE_HOT:
            codes: Codes = found.codes[column][rows]
            for level in levels[column]:
                x[:, len(names)] = codes == level
                names.append(f"{title}={found.names[column][level]}")
            continue
        x[:, len(names)] = (found.numbers if coding is Coding.NUMBER else found.codes)[column][rows]
        names.append(title)
    return x, tuple(names)


def public_rows(source: Source, found: Table, rows: Mask, called: str) -> Mask | None:
    """Return which of the rows are public by the rule; None without a rule."""
    if source.rule is None:
        return None
    rule = source.rule
    names = found.names[rule.column]
    codes = found.codes[rule.column][rows]
    counts = dict(zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True))
    chosen = rule.values({name: count for name, count in counts.items() if count})
    public: Mask = np.isin(codes, [names.index(name) for name in chosen])
    if public.all() or not public.any():
        which = "all rows are" if public.any() else "no row is"
        raise ValueError(
            f"{called}: {which} public by the rule ({rule.text}); both public and private rows are needed."
        )
    return public
