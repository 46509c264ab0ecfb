"""Tables of arms with features as a bandit: your own, or real choices."""

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_envs.changing.people import IN_ORDER, POPULATIONS, WITH, check_everyone_once, most_visits, rows_in_turn
from privbandit_envs.datasets import packaged
from privbandit_envs.datasets.frames import ArmTable
from privbandit_envs.families.classification import min_max, public_stream
from privbandit_envs.problem import ArmProblem, Array, Floats
from privbandit_envs.validate import count, did_you_mean, one_of, shown
from privbandit_envs.validate import seed as checked_seed


class TableProblem(ArmProblem):
    """People from a table, each with K arms of d features and the reward of every arm.

    The context has shape (K, d), each row in the unit ball. Public people, with rows that everybody may know, are
    drawn first, or are those that the table's own column makes public; they are no users. Features are scaled by the
    minimum and maximum of the public rows to [-1, 1], clipped, and divided by sqrt(d): the range of private rows would
    leak. The users are the other people, first each once in a random order, then independent draws. The oracle knows
    every arm's reward.

    Args:
        source: an ``ArmTable``, as ``from_table`` makes it; or real choices, of which the chosen alternative has
            reward 1: ``"electricity"``, ``"mode-canada"``, ``"swissmetro"``, ``"car"``, ``"train"``, ``"heating"``,
            ``"hc"`` (``privbandit data get NAME``).
        download: whether to download the choices if they are not there.
        n_public: number of public people; None: all that the table's own column makes public.
        public_seed: decides who is public.
        population: ``"with-replacement"``; ``"without-replacement"``: nobody comes twice in an episode; ``"in-order"``:
            nor does anybody, and people come in the order of the table.
        horizon: rounds an episode.
        dtype: of the contexts.

    Raises:
        ValueError: an argument out of range.
        FileNotFoundError: choices that were not downloaded.
    """

    def __init__(
        self,
        rng: Generator,
        *,
        source: ArmTable | str | None = None,
        download: bool = False,
        n_public: int | None = 50,
        public_seed: int = 0,
        population: str = WITH,
        horizon: int = 10_000,
        dtype: str = "float32",
    ) -> None:
        table = armed(source, download)
        seed = checked_seed(public_seed=public_seed) or 0
        self.population = one_of(POPULATIONS, population=population)
        known, self.people = divided(table, n_public, public_stream(seed))
        people, arms, dim = table.features.shape
        reference = table.features[known].reshape(-1, dim)
        if table.scaled:
            reference = np.eye(2)[:, :1] * np.ones(dim)  # rows of 1 and of 0
        scaled = (2 * min_max(table.features.reshape(-1, dim), reference) - 1) / np.sqrt(dim)
        contexts = scaled.reshape(people, arms, dim).astype(np.dtype(one_of(("float32", "float64"), dtype=dtype)))
        self.public_rows = contexts[known], table.rewards[known]
        self.records = np.concatenate([contexts[self.people], table.rewards[self.people][..., None]], axis=2)  # float64
        self.n_rows = len(self.records)
        check_everyone_once(horizon, self.n_rows, population)
        self.observation_space = Box(-1, 1, (arms, dim), contexts.dtype.type)
        self.action_space = Discrete(arms)

    def contexts(self, n: int, rng: Generator) -> Array:
        return self.observe(self.users(0, n, rng))

    def rows(self, start: int, n: int, rng: Generator) -> NDArray[np.int64]:
        rows = rows_in_turn(len(self.records), start, n, rng, self.population)
        return rows if self.population != IN_ORDER else np.argsort(self.people)[rows]

    def records_of(self, rows: Array, rng: Generator) -> Array:
        """Return records: the features of every arm, and its reward in a last column."""
        return np.asarray(self.records[rows])

    def people_of(self, rows: Array) -> NDArray[np.int64]:
        """Return the numbers of people in the table."""
        return np.asarray(self.people[rows])

    def observe(self, users: Array) -> Array:
        return users[..., :-1].astype(self.observation_space.dtype)

    def means(self, contexts: Array) -> Floats:
        means: Floats = contexts[..., -1]
        return means

    def rewards(self, means: Floats, rng: Generator) -> Floats:
        return means

    def visits(self, users: int) -> int:
        people = len(self.records)
        return 1 if users <= people or self.population != WITH else 1 + most_visits(users - people, people)


def armed(source: object, download: bool) -> ArmTable:
    """Return the table that a source names, or is."""
    if isinstance(source, ArmTable):
        return source
    names = [name for name, sheet in packaged.SHEETS.items() if sheet.kind == "choices"]
    if isinstance(source, str) and source in names:
        return packaged.choices(source, download)
    raise ValueError(
        f"source must be one of {', '.join(names)}, or an ArmTable, as privbandit_envs.from_table makes it; "
        f"got {shown(source)}{did_you_mean(source, names)}."
    )


def divided(table: ArmTable, n_public: int | None, rng: Generator) -> tuple[Array, Array]:
    """Return the numbers of the public people and of the users."""
    people = len(table.features)
    if n_public is not None:
        count(n_public=n_public)
    if table.public is None:
        if n_public is None or n_public >= people:
            raise ValueError(
                f"n_public must be a number below the {people} people of the table; got {shown(n_public)}."
            )
        order = rng.permutation(people)
        return order[:n_public], order[n_public:]
    known = np.flatnonzero(table.public)
    if n_public is not None and n_public > len(known):
        raise ValueError(f"n_public must be at most {len(known)}, or None for all public people; got {n_public}.")
    return rng.permutation(known)[:n_public], np.flatnonzero(~table.public)
