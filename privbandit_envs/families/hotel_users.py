"""Users drawn from prepared hotel searches, for assortment problems."""

from pathlib import Path

import numpy as np

from privbandit_envs.datasets.hotels import data as hotels
from privbandit_envs.datasets.hotels.data import JOINS, SAMPLE, HotelData
from privbandit_envs.families.gaussians import Precision
from privbandit_envs.problem import Array
from privbandit_envs.validate import did_you_mean, one_of, shown

SYNTHETIC = "synthetic"


class HotelUsers:
    """Prepared searches as users: the features of hotel i for user t are products of h_i and u_t.

    Args:
        data: hotels, users and the fitted parameters.
        join: ``"outer"``, ``"concatenated"`` or ``"full"``.
        dtype: of the features.
    """

    def __init__(self, data: HotelData, join: str, dtype: Precision) -> None:
        self.data = data
        p, q = data.hotels.shape[1], data.users.shape[1]
        hotel, user = hotels.free(one_of(JOINS, join=join), p, q).nonzero()
        self.hotels = hotels.extended(data.hotels)[:, hotel].astype(dtype)
        self.users = hotels.extended(data.users)[:, user].astype(dtype)
        self.theta = data.theta[join].copy()

    def bounds(self) -> Array:
        """Return the largest absolute value of each feature (1 for one that is always 0), shape (d,)."""
        largest: Array = np.abs(self.hotels).max(axis=0) * np.abs(self.users).max(axis=0)
        return np.where(largest > 0, largest, np.ones_like(largest))

    def write(self, rows: Array, features: Array) -> None:
        """Write the features of the users in these rows, shape (n, N, d)."""
        np.multiply(self.hotels, self.users[rows][:, None], out=features)


def load(source: str) -> HotelData:
    """Return the prepared data that ``source`` names: a file, or the generated sample.

    Raises:
        ValueError: an unknown name, or a file of another kind.
        ImportError: the sample needs scikit-learn and it is missing.
    """
    if source == SAMPLE:
        from privbandit_envs.datasets.hotels import sample

        return sample.prepared()
    if not isinstance(source, str) or not Path(source).expanduser().is_file():
        raise ValueError(
            f"source must be {SYNTHETIC!r}, {SAMPLE!r} or the path of a file made by privbandit data expedia; "
            f"got {shown(source)}{did_you_mean(source, (SYNTHETIC, SAMPLE))}."
        )
    return hotels.load(Path(source).expanduser())
