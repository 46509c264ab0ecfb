"""Real data: for classification bundled with scikit-learn, from OpenML, or a file of your own; hotel searches.

``load`` reads data sets for classification; ``lpct`` has those of a paper, with its public rows. Hotel searches are
read by ``expedia``, prepared by ``hotels`` and kept by ``prepared``; ``expedia_sample`` generates some.
"""

from pathlib import Path

from privbandit_envs.datasets import bundled, csv, openml
from privbandit_envs.datasets import tables as lpct
from privbandit_envs.datasets.dataset import Dataset
from privbandit_envs.validate import did_you_mean

__all__ = ["Dataset", "load"]

OPENML = "openml:"
NAMES = (*bundled.NAMES, *lpct.NAMES)


def load(source: str, label: str | None = None) -> Dataset:
    """Return a data set; reading the same one again is free.

    Args:
        source: ``"breast_cancer"``, ``"digits"``, ``"digits-binary"`` (is the digit >= 5?) or ``"wine"``;
            one of ``lpct.NAMES``; ``"openml:<id or name>"``; or the path of a CSV file, or of a file that
            ``privbandit data NAME PATH`` wrote (``.npz``).
        label: the column to predict, for CSV files (default: the last one) and OpenML (default: its own target).

    Raises:
        ValueError: an unknown source or column, or data that cannot be read.
        FileNotFoundError: no such file, or a data set that must be prepared from a file first.
        ConnectionError: OpenML, or the UCI repository, cannot be reached.
        ImportError: scikit-learn is needed and missing.
    """
    own = source in NAMES or source.endswith(".npz")
    if own and label is not None:
        raise ValueError(f"label is for CSV files and OpenML; {source} has its own, got {label!r}.")
    if source in bundled.NAMES:
        return bundled.read(source)
    if source in lpct.NAMES:
        return lpct.load(source)
    if source.startswith(OPENML):
        return openml.fetch(source.removeprefix(OPENML), label)
    path = Path(source).expanduser()
    if path.suffix == ".npz":
        return lpct.store.load(path).data
    if path.suffix != ".csv" and not path.is_file():
        raise ValueError(
            f"source must be one of {', '.join(NAMES)}, {OPENML}<id or name>, or the path of a CSV file; "
            f"got {source!r}{did_you_mean(source, NAMES)}."
        )
    return csv.read(path, label)
