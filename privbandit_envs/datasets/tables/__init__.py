"""The real data sets of Ma and Yang (2023), Table 1, with the paper's public rows.

Those of the UCI repository are downloaded on first use; the others are prepared once from a file, by ``privbandit data
NAME PATH``. What is done with each stands in ``sources``.
"""

from pathlib import Path

from privbandit_envs.datasets.dataset import Dataset
from privbandit_envs.datasets.tables import download, store
from privbandit_envs.datasets.tables.prepare import prepare
from privbandit_envs.datasets.tables.sources import SOURCES
from privbandit_envs.datasets.tables.store import Prepared
from privbandit_envs.datasets.tables.table import Tick

__all__ = ["NAMES", "SOURCES", "Prepared", "get", "load", "prepare", "state"]

NAMES = tuple(SOURCES)


def load(name: str) -> Dataset:
    """Return one of ``NAMES``; reading the same one again is free.

    Raises:
        FileNotFoundError: it has to be prepared from a file first.
        ConnectionError: it cannot be downloaded.
        ValueError: a wrong checksum or a damaged file.
    """
    path = store.place(name)
    if not path.is_file():
        if SOURCES[name].url is None:
            raise FileNotFoundError(how_to_get(name))
        get(name)
    return store.load(path).data


def get(name: str, path: Path | None = None, out: Path | None = None, tick: Tick = lambda rows: None) -> Prepared:
    """Prepare a data set and keep it.

    Args:
        name: one of ``NAMES``.
        path: the file, or a folder or .zip file with its files; None: download it.
        out: folder to keep it in; default: ``store.folder()``.
        tick: is told how many rows have been read.

    Raises:
        FileNotFoundError: no such file, or no path for a data set that cannot be downloaded.
        ConnectionError: it cannot be downloaded.
        ValueError: a malformed file or a wrong checksum.
    """
    folder = out or store.folder()
    if path is None:
        if SOURCES[name].url is None:
            raise FileNotFoundError(how_to_get(name))
        path = download.fetch(name, folder)
    prepared = prepare(name, path, tick)
    store.save(prepared, folder / f"{name}.npz")
    return prepared


def state(name: str) -> dict[str, str]:
    """Return where a data set is, or what to do about one that is not there."""
    facts = store.facts_of(store.place(name))
    if facts is not None:
        return {"is there": f"from {facts.origin}{', a generated sample' if facts.generated else ''}"}
    source = SOURCES[name]
    if source.url is not None:
        return {"to get it": "it is downloaded on first use"}
    return {"to get it": f"privbandit data {name} PATH, with {' and '.join(source.files)} of {source.page}"}


def how_to_get(name: str) -> str:
    """Return what to do about a data set that is not there."""
    source = SOURCES[name]
    files = " and ".join(source.files)
    return f"{name} is prepared from a file; get {files} from {source.page} and run privbandit data {name} PATH."
