"""Hotels, users and a fitted choice model, as an environment needs them."""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from privbandit_envs.datasets import store

Floats = NDArray[np.float64]
JOINS = ("outer", "concatenated", "full")
SAMPLE = "expedia-sample"  # the generated sample, wherever data are named
ARRAYS = ("hotels", "users", "prices")


@dataclass(frozen=True)
class HotelFacts:
    """Where prepared hotels come from.

    Attributes:
        origin: name of the file or of the generated sample.
        generated: whether the searches are a generated sample, no real data.
        destination: number of the destination.
        bookings: searches that ended in a booking of one of the hotels.
        hotel_features: names of the columns of ``hotels``.
        user_features: names of the columns of ``users``.
        dropped: columns of the file left out because most values are missing.
    """

    origin: str
    generated: bool
    destination: int
    bookings: int
    hotel_features: tuple[str, ...]
    user_features: tuple[str, ...]
    dropped: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class HotelData:
    """Hotels, users and the choice model between them; the arrays are read-only, because they are shared.

    Attributes:
        hotels: features, each of mean 0 and variance 1 over the hotels, shape (N, p).
        users: features, each of mean 0 and variance 1 over the searches, shape (n, q).
        prices: mean price of each hotel in US dollars, shape (N,).
        theta: the fitted parameters for each way to join the features, in the order of ``free(join, p, q)``.
        facts: where the data come from.
    """

    hotels: Floats
    users: Floats
    prices: Floats
    theta: dict[str, Floats]
    facts: HotelFacts

    def __post_init__(self) -> None:
        p, q = len(self.facts.hotel_features), len(self.facts.user_features)
        shapes = {"hotels": (len(self.prices), p), "users": (len(self.users), q), "prices": (len(self.prices),)}
        arrays = {name: getattr(self, name) for name in ARRAYS} | {f"theta for {j}": self.theta[j] for j in JOINS}
        shapes |= {f"theta for {join}": (int(free(join, p, q).sum()),) for join in JOINS}
        for name, array in arrays.items():
            if array.shape != shapes[name] or array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite numbers of shape {shapes[name]}; got shape {array.shape}.")
            array.flags.writeable = False


def free(join: str, p: int, q: int) -> NDArray[np.bool_]:
    """Return which products of (1, hotel) and (1, user) are features, shape (1 + p, 1 + q).

    ``"outer"``: all products of a hotel and a user feature; ``"concatenated"``: the features themselves; ``"full"``:
    both, and the constant.
    """
    chosen = np.full((1 + p, 1 + q), join != "concatenated")
    chosen[0, :] = chosen[:, 0] = join != "outer"
    chosen[0, 0] = join == "full"
    return chosen


def extended(features: Floats) -> Floats:
    """Return the features with a constant 1 in front."""
    return np.column_stack([np.ones(len(features)), features])


def save(data: HotelData, path: Path) -> None:
    """Write the file, whole or not at all; raise OSError if it cannot be written."""
    arrays = {name: getattr(data, name) for name in ARRAYS}
    store.save(path, asdict(data.facts), arrays | {f"theta-{join}": data.theta[join] for join in JOINS})


def load(path: Path) -> HotelData:
    """Read what ``save`` wrote; the errors are those of ``store.load``."""
    return store.load(path, _build, "file of hotels", "privbandit data expedia")


def _build(facts: store.Facts, arrays: store.Arrays) -> HotelData:
    named: store.Facts = {key: tuple(fact) if isinstance(fact, list) else fact for key, fact in facts.items()}
    theta = {join: arrays[f"theta-{join}"] for join in JOINS}
    return HotelData(**{name: arrays[name] for name in ARRAYS}, theta=theta, facts=HotelFacts(**named))


def is_prepared(path: Path) -> bool:
    try:
        load(path)
    except (OSError, ValueError):
        return False
    return True
