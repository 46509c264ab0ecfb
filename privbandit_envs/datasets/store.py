"""Hotels, users and a fitted choice model, in one ``.npz`` file without pickle."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
JOINS = ("outer", "concatenated", "full")
SAMPLE = "expedia-sample"
"""What the generated sample is called where data are named."""
ARRAYS = ("hotels", "users", "prices")
FORMAT = 1


@dataclass(frozen=True)
class Facts:
    """Where prepared data come from.

    Attributes:
        origin: name of the file, or what generated it.
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
class Prepared:
    """What an environment needs; the arrays are read-only, since they are shared.

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
    facts: Facts

    def __post_init__(self) -> None:
        """Check that sizes agree and numbers are finite."""
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
    """Return the features with a constant 1 before them."""
    return np.column_stack([np.ones(len(features)), features])


def save(prepared: Prepared, path: Path) -> None:
    """Write the file, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    arrays = {name: getattr(prepared, name) for name in ARRAYS}
    arrays |= {f"theta-{join}": prepared.theta[join] for join in JOINS}
    facts = json.dumps({"format": FORMAT, **asdict(prepared.facts)})
    with atomic(path) as file:
        np.savez(file, facts=np.array(facts), **arrays)


def load(path: Path) -> Prepared:
    """Read what ``save`` wrote; the file is read again only if it has changed.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a file of another kind, or a damaged one.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no file {str(path)!r}; privbandit data expedia makes one.")
    stat = path.stat()
    return _load(path.resolve(), (stat.st_mtime_ns, stat.st_size))


def is_prepared(path: Path) -> bool:
    """Return whether ``save`` wrote a file."""
    try:
        load(path)
    except (OSError, ValueError):
        return False
    return True


@lru_cache(maxsize=8)
def _load(path: Path, version: tuple[int, int]) -> Prepared:
    try:
        if not is_zipfile(path):
            raise ValueError("it is no .npz archive")
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            facts = json.loads(str(file["facts"]))
            if facts.pop("format") != FORMAT:
                raise ValueError("it is of another version")
            names: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in facts.items()}
            theta = {join: file[f"theta-{join}"] for join in JOINS}
            return Prepared(**{name: file[name] for name in ARRAYS}, theta=theta, facts=Facts(**names))
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile) as error:
        raise ValueError(
            f"{path} is no prepared file of hotels ({' '.join(str(error).split()).rstrip('.')}); "
            "make one with privbandit data expedia."
        ) from error


@contextmanager
def atomic(path: Path) -> Iterator[IO[Any]]:
    """Open a temporary file beside ``path`` and rename it onto ``path`` if the block succeeds."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
