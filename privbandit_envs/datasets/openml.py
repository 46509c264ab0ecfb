"""Data sets from openml.org, through scikit-learn's ``fetch_openml`` and its cache on disk."""

import warnings
from functools import lru_cache

import numpy as np

from privbandit_envs.datasets.bundled import sklearn_datasets
from privbandit_envs.datasets.dataset import Dataset, encode


@lru_cache
def fetch(key: str, label: str | None = None) -> Dataset:
    """Download a data set once and keep it.

    A categorical column becomes the number of its category, in the order in which the data set declares them: trees and
    histograms can split it, and each column is one feature. Rows with missing values are left out, with a warning that
    counts them.

    Args:
        key: OpenML's number or name of the data set.
        label: the column to predict; default: OpenML's own target.

    Raises:
        ConnectionError: OpenML cannot be reached and the data set is not in the cache.
        ValueError: no such data set, one with text columns, or one without complete rows.
        ImportError: scikit-learn is missing.
    """
    datasets = sklearn_datasets(f"openml:{key}")
    name = {"data_id": int(key)} if key.isdigit() else {"name": key}
    try:
        target = label or "default-target"
        bunch = datasets.fetch_openml(**name, target_column=target, as_frame=False, parser="liac-arff")
    except OSError as error:
        raise ConnectionError(
            f"openml:{key} could not be downloaded ({error}); check the network or the name."
        ) from error
    except ValueError as error:
        raise ValueError(f"openml:{key} could not be read: {error}") from error
    if bunch.target is None or np.ndim(bunch.target) != 1:
        raise ValueError(f"openml:{key} has no single target; name the column to predict with label.")
    features = bunch.data if isinstance(bunch.data, np.ndarray) else bunch.data.toarray()
    complete = np.isfinite(features).all(axis=1)
    if not complete.any():
        raise ValueError(f"openml:{key} has no row without missing values; choose another data set.")
    if not complete.all():
        warnings.warn(f"openml:{key}: {(~complete).sum()} rows with missing values are left out.", stacklevel=2)
    y, label_names = encode(bunch.target[complete])
    return Dataset(features[complete].astype(np.float64), y, label_names, tuple(map(str, bunch.feature_names)))
