"""The real data sets of Ma and Yang (2023), Table 1, with the paper's public rows.

Three nouns: a *table*, its *public rows*, a *source*.

Data sets of the UCI repository are downloaded on first use; the others are prepared once from a file, by ``privbandit
data NAME PATH``. ``sources`` lists the steps for each.
"""

from collections.abc import Callable
from pathlib import Path

from privbandit_envs.datasets import store
from privbandit_envs.datasets.dataset import Dataset
from privbandit_envs.datasets.tables import data
from privbandit_envs.datasets.tables.data import PreparedTable as PreparedTable
from privbandit_envs.datasets.tables.sources import SOURCES as SOURCES

__all__: list[str] = []

NAMES = tuple(SOURCES)


def place(name: str) -> Path:
    """Return the file of a data set in the folder of prepared data."""
    return store.folder() / f"{name}.npz"


def load(name: str) -> Dataset:
    """Return one of ``NAMES``; reading it again is free.

    Raises:
        FileNotFoundError: the data set has to be prepared from a file first.
        ConnectionError: it cannot be downloaded.
        ValueError: a wrong checksum or a damaged file.
        OSError: it cannot be written.
    """
    path = place(name)
    if not path.is_file():
        get(name)
    return data.load(path).data


def prepare(name: str, path: Path, tick: Callable[[int], None] = lambda rows: None, called: str = "") -> PreparedTable:
    """Read the files of a data set and prepare it, as ``preparing.prepare`` does."""
    from privbandit_envs.datasets.tables import preparing  # readers that are seldom needed

    return preparing.prepare(name, path, tick, called)


def get(
    name: str, path: Path | None = None, out: Path | None = None, tick: Callable[[int], None] = lambda rows: None
) -> PreparedTable:
    """Prepare a data set and keep it.

    Args:
        name: one of ``NAMES``.
        path: the file, or a folder or .zip file with its files; None: download it.
        out: folder to keep it in; default: ``store.folder()``.
        tick: called with the number of rows read so far.

    Raises:
        FileNotFoundError: no such file, or no path for a data set that cannot be downloaded.
        ConnectionError: it cannot be downloaded.
        ValueError: a malformed file or a wrong checksum.
        OSError: it cannot be written.
    """
    from privbandit_envs.datasets.tables import download  # which is seldom needed

    folder, source = out or store.folder(), SOURCES[name]
    if path is None:
        if source.url is None:
            files = " and ".join(source.files)
            raise FileNotFoundError(
                f"{name} is prepared from a file; get {files} from {source.page} and run privbandit data {name} PATH."
            )
        with download.fetched(name, folder) as archive:
            prepared = prepare(name, archive, tick, called=source.url)
    else:
        prepared = prepare(name, path, tick)
    data.save(prepared, folder / f"{name}.npz")
    return prepared


def state(name: str) -> dict[str, str]:
    """Return where a data set is (``"is there"``), or how to get one that is not there (``"to get it"``)."""
    facts = data.facts_of(place(name))
    if facts is not None:
        return {"is there": f"from {facts.origin}{', a generated sample' if facts.generated else ''}"}
    source = SOURCES[name]
    if source.url is not None:
        return {"to get it": "it is downloaded on first use"}
    return {"to get it": f"privbandit data {name} PATH, with {' and '.join(source.files)} of {source.page}"}
