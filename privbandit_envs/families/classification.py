"""Classification as a bandit: predict a label and learn only whether it was right."""

from functools import lru_cache

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from privbandit_envs.changing.people import IN_ORDER, POPULATIONS, WITH, check_everyone_once, most_visits, rows_in_turn
from privbandit_envs.datasets import Dataset, load
from privbandit_envs.datasets.dataset import row_blocks
from privbandit_envs.families.gaussians import Precision
from privbandit_envs.problem import ArmProblem, Array, Floats
from privbandit_envs.spaces import Units
from privbandit_envs.validate import count, one_of, positive
from privbandit_envs.validate import seed as checked_seed

SYNTHETIC = "lpct-synthetic"


class ClassificationProblem(ArmProblem):
    """Predict the label of every user; the reward is 1 if the prediction is right, else 0.

    The context is x in [0, 1]^d, shape (d,); the action is one of K labels; the feedback is the reward. Besides the
    private users (P) there are labelled public data (Q): ``public_data`` = (X_Q, y_Q) of shapes (n_public, d) and
    (n_public,). They depend on ``public_seed`` alone, so they are the same in every world and known before the first
    ``reset``. Public data of different ``n_public`` are nested.

    This is the setting of Ma and Yang, "Optimal Locally Private Nonparametric Classification with Public Data",
    sections 6 and 7.

    Synthetic source: x is uniform on [0, 1]^2 and label 1 has probability eta_P(x) = 1/2 + 0.4 s g^0.1 for a user,
    eta_Q(x) = 1/2 + 0.4 s g^(0.1 gamma) for a public row, with s = sign(x_1 - 1/3) sign(x_2 - 1/3) and
    g = |1.5 x_1 - 0.5| |1.5 x_2 - 0.5| max(0, 1 - |2 x_2 - 1|). The Bayes classifier is right with probability 0.786;
    regret is relative to it.

    Data sets: the public rows are drawn without replacement. The users are the other rows, first each once in a random
    order that the seed decides, then independent draws with replacement; with ``population="without-replacement"`` they
    come in that order only, and an episode has everyone at most once. Some data sets have a rule that makes rows
    public (``Dataset.public``): then public rows are drawn from those, all of them if ``n_public`` is None; public
    rows that are not drawn are left out, and the users are the rows that are not public by the rule. Features are
    scaled by the minimum and maximum of the public rows (the range of private rows would leak) and clipped to [0, 1].
    Where all public rows agree, a feature is 0, 0.5 or 1 as it lies below, at or above their value. The oracle knows
    the labels, so regret is 1 for a wrong prediction.

    Deviations:
        Synthetic source: the printed eta_P = 1/2 + s (|(3 x_1 - 1)(3 x_2 - 1)| max(0, 1 - |2 x_2 - 1|) / 10)^0.1
        leaves [0, 1] on most of the square. With the factor 0.4 and 1/4 in place of 1/10, as here, it is a probability
        and the printed relation eta_Q - 1/2 = 0.4 ((eta_P - 1/2) / 0.4)^gamma (up to the sign) holds.
        Data sets: those outside the paper are split at random, so that P = Q.

    Args:
        source: ``"lpct-synthetic"``; or a data set: ``"breast_cancer"``, ``"digits"`` (10 labels),
            ``"digits-binary"`` (is the digit >= 5?), ``"wine"``; the paper's ``"anonymity"``, ``"diabetes"``,
            ``"email"``, ``"employ"``, ``"rice"``, ``"census"``, ``"election"``, ``"employee"``, ``"jobs"``,
            ``"landcover"``, ``"taxi"`` (``privbandit data`` shows how to get them); ``"shuttle"``, ``"yeast"``,
            ``"phishing"``, ``"segment"`` (``privbandit data get NAME``); ``"openml:<id or name>"``; the path
            of a CSV file; or a ``Dataset``, as ``from_table`` makes it.
        gamma: relative signal of the synthetic public data, > 0; below 1 their labels are less noisy than the users'.
        n_public: number of public rows; None: all that the data set's own rule makes public.
        public_seed: seed of the public data.
        label: the column to predict, for CSV files (default: the last) and OpenML (default: its target).
        deduplicate: whether a named data set keeps one of every set of equal rows; with copies it warns.
        download: whether to download a data set that ``privbandit data get`` would.
        schema: of a file of a table, the path of its file: it scales features by public bounds.
        population: of a data set's users: ``"with-replacement"``; ``"without-replacement"``, so that nobody comes twice
            in an episode; or ``"in-order"``: nor does anybody, and users come in the order of the rows.
        horizon: rounds an episode; at most the number of private rows if nobody comes twice.
        dtype: of the contexts.

    Raises:
        ValueError: an argument out of range or data that cannot be read.
        ImportError: the source needs scikit-learn and it is missing.

    Examples:
        >>> import gymnasium as gym
        >>> env = gym.make("privbandit/Classification-v0", source="wine", n_public=20)
        >>> features, labels = env.unwrapped.public_data
        >>> features.shape, labels.shape, int(env.action_space.n)
        ((20, 13), (20,), 3)
    """

    units = Units()

    def __init__(
        self,
        rng: Generator,
        *,
        source: str | Dataset = SYNTHETIC,
        gamma: float = 0.5,
        n_public: int | None = 50,
        public_seed: int = 0,
        label: str | None = None,
        deduplicate: bool = False,
        download: bool = False,
        schema: str | None = None,
        population: str = WITH,
        horizon: int = 10_000,
        dtype: str = "float32",
    ) -> None:
        self.dtype = np.dtype(one_of(("float32", "float64"), dtype=dtype))
        positive(gamma=gamma)
        self.population = one_of(POPULATIONS, population=population)
        if n_public is not None:
            count(n_public=n_public)
        seed = checked_seed(public_seed=public_seed) or 0  # of the public data; no parameter is drawn from `rng`
        self.data: PosteriorDrift | Split
        if source == SYNTHETIC:
            if n_public is None:
                raise ValueError(f"n_public must be a number for {SYNTHETIC}, which has no rows of its own; got None.")
            if population != WITH:
                raise ValueError(
                    f"population must be {WITH!r} for {SYNTHETIC}, where all users are new; got {population!r}."
                )
            self.data = PosteriorDrift(gamma, n_public, public_stream(seed), self.dtype)
        else:
            data = source if isinstance(source, Dataset) else load(source, label, deduplicate, download, schema)
            self.data = split_of(data, n_public, seed, self.dtype)
            self.n_rows = len(self.data.records)
            check_everyone_once(horizon, self.n_rows, population)
        self.public_data: tuple[Array, NDArray[np.int64]] = self.data.public_data
        self.dim = self.public_data[0].shape[1]
        self.observation_space = Box(0, 1, (self.dim,), self.dtype)
        self.action_space = Discrete(self.data.n_labels)

    def contexts(self, n: int, rng: Generator) -> Array:
        return self.data.users(n, rng) if isinstance(self.data, PosteriorDrift) else self.observe(self.users(0, n, rng))

    def rows(self, start: int, n: int, rng: Generator) -> NDArray[np.int64]:
        rows = rows_in_turn(len(self._split.records), start, n, rng, self.population)
        return rows if self.population != IN_ORDER else self._split.in_order[rows]

    def records_of(self, rows: Array, rng: Generator) -> Array:
        """Return records of a data set: the features, and the label in a last column."""
        return np.asarray(self._split.records[rows])

    def people_of(self, rows: Array) -> NDArray[np.int64]:
        """Return the numbers of rows in the data set."""
        return self._split.private_rows[rows]

    def again(self, own: Array, fresh: Array, spread: float) -> Array:
        """Return contexts of people with contexts of their own: noise is added, reflected at the square's sides.

        So every visit's context is uniform on the square, whatever the spread.
        """
        if isinstance(self.data, Split):
            return super().again(own, fresh, spread)
        return np.asarray(np.abs((own + spread * (fresh - 0.5) + 1) % 2 - 1, dtype=self.dtype))

    @property
    def _split(self) -> "Split":
        assert isinstance(self.data, Split)
        return self.data

    def visits(self, users: int) -> int:
        if self.n_rows is None or self.population != WITH:
            return 1
        return 1 if users <= self.n_rows else 1 + most_visits(users - self.n_rows, self.n_rows)

    def observe(self, users: Array) -> Array:
        return users[:, : self.dim]

    def means(self, contexts: Array) -> Floats:
        """Return the probability of every label given the users' records, shape (n, K)."""
        return self.data.probabilities(contexts)

    def rewards(self, means: Floats, rng: Generator) -> Floats:
        """Draw every user's label by one uniform; return 1 for it and 0 for the others."""
        drawn = rng.random((len(means), 1)) < np.cumsum(means[:, :-1], axis=1)
        labels = means.shape[1] - 1 - np.count_nonzero(drawn, axis=1)
        return one_hot(labels, means.shape[1])


class PosteriorDrift:
    """The paper's synthetic pair: P and Q share the law of x and the Bayes classifier but not the labels' noise."""

    n_labels = 2

    def __init__(self, gamma: float, n_public: int, public: Generator, dtype: Precision) -> None:
        self.dtype = dtype
        draws = public.random((n_public, 3))
        x = draws[:, :2].astype(dtype)
        self.public_data = x, (draws[:, 2] < eta(x, gamma)).astype(np.int64)

    def users(self, n: int, rng: Generator) -> Array:
        return rng.random((n, 2), dtype=self.dtype.type)

    def probabilities(self, users: Array) -> Floats:
        one = eta(users)
        return np.stack([1 - one, one], axis=1)


def eta(x: Array, gamma: float = 1.0) -> Floats:
    """Return the probability of label 1, for x of shape (n, 2): eta_P if gamma is 1, else eta_Q.

    Examples:
        >>> eta(np.array([[0.5, 0.5], [0.0, 0.5]])).round(2)
        array([0.8 , 0.18])
    """
    first, second = np.moveaxis(x.astype(np.float64), -1, 0)
    sign = np.sign(3 * first - 1) * np.sign(3 * second - 1)
    size = np.abs(1.5 * first - 0.5) * np.abs(1.5 * second - 0.5) * np.maximum(0, 1 - np.abs(2 * second - 1))
    probability: Floats = 0.5 + 0.4 * sign * size ** (0.1 * gamma)
    return probability


class Split:
    """A data set cut in two: public rows, and private rows that become users."""

    def __init__(self, data: Dataset, n_public: int | None, public: Generator, dtype: Precision) -> None:
        self.public_rows, self.private_rows = split(data, n_public, public)
        self.in_order = np.argsort(self.private_rows)
        self.n_labels = len(data.label_names)
        known = data.X[self.public_rows]
        reference = np.eye(2)[:, :1] * np.ones(known.shape[1]) if data.scaled else known  # rows of 1 and of 0
        self.public_data = min_max(known, reference).astype(dtype), data.y[self.public_rows]
        self.records = np.empty((len(self.private_rows), data.X.shape[1] + 1), dtype=dtype)
        for block in row_blocks(len(self.private_rows)):
            rows = self.private_rows[block]
            self.records[block, :-1] = min_max(data.X[rows], reference)
            self.records[block, -1] = data.y[rows]

    def probabilities(self, users: Array) -> Floats:
        return one_hot(users[:, -1].astype(np.int64), self.n_labels)


def public_stream(seed: int) -> Generator:
    return default_rng([20231025, seed])  # no other generator has this key


@lru_cache(maxsize=2)
def split_of(data: Dataset, n_public: int | None, seed: int, dtype: Precision) -> Split:
    """Return a split; worlds that differ only in their own seed share it."""
    return Split(data, n_public, public_stream(seed), dtype)


def split(data: Dataset, n_public: int | None, rng: Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of the public rows, in the order in which they are drawn, and of the private rows."""
    if data.public is None:
        if n_public is None:
            raise ValueError("n_public must be a number for a data set without a rule of its own; got None.")
        if n_public >= len(data.y):
            raise ValueError(f"n_public must be below the {len(data.y)} rows of the data set; got {n_public}.")
        rows = rng.permutation(len(data.y))
        return rows[:n_public], rows[n_public:]
    public = np.flatnonzero(data.public)
    if n_public is not None and n_public > len(public):
        raise ValueError(f"n_public must be <= {len(public)}, or None for all public rows there are; got {n_public}.")
    return rng.permutation(public)[:n_public], np.flatnonzero(~data.public)


def min_max(x: NDArray[np.floating], reference: NDArray[np.floating]) -> Floats:
    """Scale columns so that the reference spans [0, 1], and clip; a constant reference column sits at 0.5.

    Examples:
        >>> min_max(np.array([[0.0], [3.0], [9.0]]), reference=np.array([[2.0], [4.0]])).ravel()
        array([0. , 0.5, 1. ])
    """
    low = reference.min(axis=0).astype(np.float64) / 2  # halves, whose difference is a number, too
    span = reference.max(axis=0).astype(np.float64) / 2 - low
    x = x / 2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scaled = np.where(span > 0, (x - low) / span, 0.5 + 0.5 * np.sign(x - low))
    clipped: Floats = np.clip(scaled, 0, 1)
    return clipped


def one_hot(labels: NDArray[np.int64], n_labels: int) -> Floats:
    """Return rows with a single 1, shape (n, K)."""
    rows = np.zeros((len(labels), n_labels))
    rows[np.arange(len(labels)), labels] = 1
    return rows
