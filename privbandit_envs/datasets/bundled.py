"""Small data sets that come with scikit-learn."""

from functools import lru_cache
from typing import Any

import numpy as np

from privbandit_envs.datasets.dataset import Dataset
from privbandit_envs.validate import one_of

NAMES = ("breast_cancer", "digits", "digits-binary", "wine")


@lru_cache
def read(name: str) -> Dataset:
    """Return one of ``NAMES``; ``"digits-binary"`` asks whether the digit is at least 5."""
    source = one_of(NAMES, source=name).removesuffix("-binary")
    bunch = getattr(sklearn_datasets(name), f"load_{source}")()
    y, label_names = bunch.target.astype(np.int64), tuple(str(label) for label in bunch.target_names)
    if name == "digits-binary":
        y, label_names = (y >= 5).astype(np.int64), ("0-4", "5-9")
    return Dataset(bunch.data.astype(np.float64), y, label_names, tuple(map(str, bunch.feature_names)))


def sklearn_datasets(source: str) -> Any:
    """Import scikit-learn's data sets, or raise an ImportError with the way to get them."""
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ImportError(f"source {source!r} needs scikit-learn; run pip install 'privbandit[data]'.") from error
    return datasets
