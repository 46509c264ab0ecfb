"""The maths of one bandit world, vectorised over users."""

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import dataclass
from operator import index
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_envs.spaces import Units
from privbandit_envs.validate import shown

Array = NDArray[Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Served:
    """What happened to n users who were served together; the leading axis of every array is the user.

    ``feedback`` is all that an agent may learn from. ``expected_reward``, ``regret`` (best mean minus the mean of
    the chosen action, >= 0) and ``optimal_action`` belong to the oracle.
    """

    feedback: Array
    reward: Floats
    expected_reward: Floats
    regret: Floats
    optimal_action: Array

    def __getitem__(self, users: slice) -> "Served":
        return Served(*(getattr(self, name)[users] for name in self.__slots__))

    @classmethod
    def concatenate(cls, parts: list["Served"]) -> "Served":
        """Join users who were served one group after another."""
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__))


@dataclass(frozen=True, slots=True)
class Support:
    """The contexts that exist, and how likely a user is to have each.

    Attributes:
        contexts: shape (m, ...).
        probabilities: float64 of shape (m,), sum 1.

    Raises:
        ValueError: not one probability for each context, or they do not add up to 1.

    Examples:
        >>> Support(np.eye(2), np.array([0.5, 0.4]))
        Traceback (most recent call last):
        ValueError: probabilities must be >= 0 and add up to 1 in float64; their sum is 0.9.
    """

    contexts: Array
    probabilities: Floats

    def __post_init__(self) -> None:
        chances = np.asarray(self.probabilities, dtype=np.float64)  # the precision in which users are drawn
        if chances.shape != (len(self.contexts),):
            raise ValueError(f"probabilities must be {len(self.contexts)}, one for each context; got {chances.shape}.")
        if not (chances >= 0).all() or abs(chances.sum() - 1) > 1e-9:
            raise ValueError(f"probabilities must be >= 0 and add up to 1 in float64; their sum is {chances.sum():g}.")
        object.__setattr__(self, "probabilities", chances)


class Problem(ABC):
    """One bandit world: hidden parameters and no state; the leading axis of every array is the user.

    A subclass sets ``observation_space`` and ``action_space`` in ``__init__(self, rng, *, ...)``, draws its hidden
    parameters from ``rng``, and implements four methods. The keyword arguments of its ``__init__`` are the keyword
    arguments of the environment. Worlds with labelled public data set ``public_data`` = (X_Q, y_Q), which must not
    depend on ``rng``: agents get them before the world is drawn.
    """

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    hidden: ClassVar[tuple[str, ...]] = ()
    """Attributes drawn from ``rng``: the parameter, shape (d,), that jumps and drifts, and what hangs on it."""
    units: Units | None = None
    """Public bounds of rewards and features, by which private agents scale; None: not declared."""
    n_rows: int | None = None
    """Number of rows that users are drawn from, in families of finite data; None: every user is new."""

    @abstractmethod
    def contexts(self, n: int, rng: Generator) -> Array:
        """Draw the contexts of n users: shape (n, ...), as in ``observation_space``."""

    @abstractmethod
    def expected_reward(self, contexts: Array, actions: Array) -> Floats:
        """Return the mean reward of each user's action, shape (n,)."""

    @abstractmethod
    def best_action(self, contexts: Array) -> Array:
        """Return each user's best action (the exact oracle), shape (n, ...)."""

    @abstractmethod
    def outcome(self, contexts: Array, actions: Array, rng: Generator) -> tuple[Array, Floats]:
        """Draw the results of the actions: (feedback, reward), each with n rows."""

    def users(self, start: int, n: int, rng: Generator) -> Array:
        """Return the records of users ``start``, ..., ``start + n - 1`` of a stream.

        A record is the context and, in some families, a part hidden from the agent (a label). Families of finite data
        have ``n_rows`` and override ``rows`` and ``records_of``; for all others a record is a context.
        """
        return self.contexts(n, rng) if self.n_rows is None else self.records_of(self.rows(start, n, rng), rng)

    def rows(self, start: int, n: int, rng: Generator) -> NDArray[np.int64]:
        """Return the rows of finite data, 0, ..., n_rows - 1, that the users ``start``, ..., ``start + n - 1`` are."""
        raise NotImplementedError(f"{type(self).__name__} has no rows of data.")

    def records_of(self, rows: Array, rng: Generator) -> Array:
        """Return the records of users who are these rows; what a row does not say is drawn."""
        raise NotImplementedError(f"{type(self).__name__} has no rows of data.")

    def people_of(self, rows: Array) -> NDArray[np.int64]:
        """Return the persons that rows belong to, as numbers >= 0, shape (n,)."""
        return np.asarray(rows, dtype=np.int64)

    def again(self, own: Array, fresh: Array, spread: float) -> Array:
        """Return the records of visits, (n, ...), of people with records of their own; n new records are the noise.

        A context is (own + spread noise) / sqrt(1 + spread^2) about the middle of the space, cut to the space. Gaussian
        contexts keep their law. A family overrides this if its contexts hold more than bounds.

        Raises:
            ValueError: contexts that are no Box, or records with a part hidden from the agent.
        """
        space = self.observation_space
        if not isinstance(space, gym.spaces.Box) or type(self).observe is not Problem.observe:
            raise ValueError(f"person_spread is for contexts of numbers that are drawn; got {type(self).__name__}.")
        middle = space.low / 2 + space.high / 2
        return np.clip(middle + mixed(own - middle, fresh - middle, spread), space.low, space.high).astype(own.dtype)

    def visits(self, users: int) -> int:
        """Return how often one person comes at most among this number of users, but for a probability of 1 %.

        A promise to every user is a promise to every person if this is 1; else docs/privacy/definitions.md has it.
        """
        return 1

    def settle(self, first: "Problem") -> None:  # noqa: B027
        """Take over from the first world of a changing one what stays whatever changes, but for the parameter.

        A family overrides it if its features hang on anything that ``__init__`` draws; by default nothing does.
        """

    def at(self, user: int) -> "Problem":
        """Return the world as a user of this number meets it, 0 for the first; itself where nothing ever changes."""
        return self

    def unchanged(self, user: int) -> int:
        """Return how many users from this one on meet the same world, >= 1."""
        return 2**62  # more users than ever come

    def observe(self, users: Array) -> Array:
        """Return the part of the records that the agent may see: the contexts."""
        return users

    def rounds(self, users: Array, rng: Generator) -> "Rounds":
        """Prepare a block of users for serving; a family overrides it only to be faster."""
        return Rounds(self, users, rng)

    def support(self) -> Support | None:
        """Return the contexts that exist, if they are finitely many and users are independent draws of them.

        A family with this and ``outcome_law`` can serve users by counts: see ``privbandit_envs.population``.
        """
        return None

    def outcome_law(self, contexts: Array, actions: Array) -> tuple[Array, Floats]:
        """Return (values, probabilities) of the feedback, which is the reward: each of shape (n, number of values)."""
        raise NotImplementedError(f"{type(self).__name__} serves no users by counts.")


class Rounds:
    """A block of users, with everything worked out that does not depend on the actions."""

    def __init__(self, problem: Problem, users: Array, rng: Generator) -> None:
        self.problem, self.rng, self.records = problem, rng, users
        self.contexts = problem.observe(users)
        self.best = problem.best_action(users)
        alone = (slice(u, u + 1) for u in range(len(users)))  # one user at a time, for the reason that `serve` gives
        self.best_reward = np.concatenate([problem.expected_reward(users[u], self.best[u]) for u in alone])

    def check(self, actions: Array) -> Array:
        """Return n actions as an array, or raise ValueError; all are checked before anybody is served."""
        for action in actions:
            if not self.problem.action_space.contains(action):
                raise ValueError(f"action must lie in {self.problem.action_space}; got {shown(action)}.")
        return np.asarray(actions)

    def serve(self, rows: slice, actions: Array) -> Served:
        """Realise the checked actions of the users in ``rows``, one user at a time.

        The last bit of a matrix product depends on the number of rows, so a user who is served together with others
        would depend on them. A family for which this is too slow overrides ``Problem.rounds``.
        """
        if rows.stop - rows.start != 1:
            users = range(rows.start, rows.stop)
            parts = [self.serve(slice(u, u + 1), actions[u - rows.start :][:1]) for u in users]
            return Served.concatenate(parts) if parts else self.serve(slice(0, 1), actions[:0])[:0]
        user, expected_best = self.records[rows], self.best_reward[rows]
        expected = self.problem.expected_reward(user, actions)
        feedback, reward = self.problem.outcome(user, actions, self.rng)
        return Served(feedback, reward, expected, np.maximum(expected_best - expected, 0.0), self.best[rows])

    def answers(self) -> Floats | None:
        """Return the reward that every arm would give to each user, shape (block, K); None if not drawn in advance."""
        return None

    mask: NDArray[np.bool_] | None = None
    """Which arms are present for each user, shape (block, K); None: all."""

    def restrict(self, mask: NDArray[np.bool_]) -> None:
        """Let the arms outside of a mask be absent: the best action is the best of those that are present."""
        raise TypeError(f"{type(self).__name__} has no arms that could be absent.")

    def serve_one(self, row: int, action: object) -> tuple[float, dict[str, Any]]:
        """Realise one user's action: (reward, info)."""
        served = self.serve(slice(row, row + 1), self.check([action]))  # type: ignore[arg-type]
        return float(served.reward[0]), {
            "feedback": served.feedback[0],
            "regret": float(served.regret[0]),
            "expected_reward": float(served.expected_reward[0]),
            "optimal_action": served.optimal_action[0].copy(),
        }


class Spliced(Rounds):
    """A block of users in the middle of which the world changes: blocks of one world each, one after the other."""

    def __init__(self, parts: list[Rounds]) -> None:
        self.parts = parts
        self.contexts = np.concatenate([part.contexts for part in parts])
        self.starts = np.cumsum([0, *(len(part.contexts) for part in parts)]).tolist()

    def check(self, actions: Array) -> Array:
        return self.parts[0].check(actions)

    def restrict(self, mask: NDArray[np.bool_]) -> None:
        self.mask = mask
        for part, start, stop in zip(self.parts, self.starts, self.starts[1:], strict=False):
            part.restrict(mask[start:stop])

    def serve(self, rows: slice, actions: Array) -> Served:
        served, first = [], rows.start
        for part, start, stop in zip(self.parts, self.starts, self.starts[1:], strict=False):
            low, high = max(rows.start, start), min(rows.stop, stop)
            if low < high:
                served.append(part.serve(slice(low - start, high - start), actions[low - first : high - first]))
        return Served.concatenate(served) if served else self.parts[0].serve(slice(0, 0), actions)

    def answers(self) -> Floats | None:
        answers = [part.answers() for part in self.parts]
        return None if any(each is None for each in answers) else np.concatenate(answers)  # type: ignore[arg-type]

    def serve_one(self, row: int, action: object) -> tuple[float, dict[str, Any]]:
        place = bisect_right(self.starts, row) - 1
        return self.parts[place].serve_one(row - self.starts[place], action)


class ArmProblem(Problem):
    """A world with finitely many arms.

    A subclass implements ``contexts`` and ``means``, and may override ``rewards``.

    Examples:
        >>> class Coin(ArmProblem):  # heads or tails? the context is the coin's bias
        ...     def __init__(self, rng, *, dtype="float64"):
        ...         self.observation_space = gym.spaces.Box(0, 1, (1,), np.float64)
        ...         self.action_space = gym.spaces.Discrete(2)
        ...     def contexts(self, n, rng):
        ...         return rng.random((n, 1))
        ...     def means(self, contexts):
        ...         return np.hstack([contexts, 1 - contexts])
        >>> coin = Coin(np.random.default_rng(0))
        >>> coin.best_action(np.array([[0.9], [0.2]]))
        array([0, 1])
    """

    action_space: gym.spaces.Discrete
    noise_scale: float = 0.1

    @abstractmethod
    def means(self, contexts: Array) -> Floats:
        """Return the mean reward of every arm, shape (n, K)."""

    def rewards(self, means: Floats, rng: Generator) -> Floats:
        """Draw the reward that every arm would give, shape (n, K); the arms of a user share one Gaussian."""
        return means + self.noise_scale * rng.standard_normal((len(means), 1))

    def expected_reward(self, contexts: Array, actions: Array) -> Floats:
        return pick(self.means(contexts), actions)

    def best_action(self, contexts: Array) -> Array:
        best: Array = self.means(contexts).argmax(axis=1)
        return best

    def outcome(self, contexts: Array, actions: Array, rng: Generator) -> tuple[Array, Floats]:
        """Draw the rewards of the chosen arms; they are the feedback."""
        reward = pick(self.rewards(self.means(contexts), rng), actions)
        return reward, reward

    def rounds(self, users: Array, rng: Generator) -> Rounds:
        return ArmRounds(self, users, rng)


class CoinArms(ArmProblem):
    """Arms with rewards 0 and 1, whose contexts may be finitely many: those in ``kept``, each as likely.

    Attributes:
        kept: the contexts that exist; None: ``drawn`` draws new ones.
    """

    kept: Support | None = None

    def keep(self, number: int, rng: Generator) -> None:
        """Draw the contexts that exist."""
        self.kept = Support(self.drawn(number, rng), np.full(number, 1 / number))

    @abstractmethod
    def drawn(self, n: int, rng: Generator) -> Array:
        """Return n new contexts."""

    def contexts(self, n: int, rng: Generator) -> Array:
        if self.kept is None:
            return self.drawn(n, rng)
        rows: Array = self.kept.contexts[rng.integers(len(self.kept.contexts), size=n)]
        return rows

    def rewards(self, means: Floats, rng: Generator) -> Floats:
        return (rng.random((len(means), 1)) < means).astype(np.float64)  # one uniform a user, shared by the arms

    def support(self) -> Support | None:
        """Return the contexts that exist, if they are finitely many."""
        return self.kept

    def outcome_law(self, contexts: Array, actions: Array) -> tuple[Array, Floats]:
        """Return the rewards 1 and 0 and their probabilities, shape (n, 2) each."""
        chance = pick(self.means(contexts), actions)
        return np.tile([1.0, 0.0], (len(chance), 1)), np.stack([chance, 1 - chance], axis=1)


class ArmRounds(Rounds):
    """A block of users of an ArmProblem: means and rewards of all arms are drawn in advance, shape (block, K)."""

    def __init__(self, problem: ArmProblem, users: Array, rng: Generator) -> None:
        self.contexts = problem.observe(users)
        shape = (len(users), int(problem.action_space.n))
        self.means = checked(problem.means(users), shape, problem, "means")
        self.rewards = checked(problem.rewards(self.means, rng), shape, problem, "rewards")
        self.best = self.means.argmax(axis=1)
        self.best_reward = self.means.max(axis=1)
        self.n_arms = int(problem.action_space.n)
        self._rows: list[tuple[list[float], list[float], int, float]] | None = None

    def restrict(self, mask: NDArray[np.bool_]) -> None:
        self.mask = mask
        present = np.where(mask, self.means, -np.inf)
        self.best, self.best_reward = present.argmax(axis=1), present.max(axis=1)

    def serve(self, rows: slice, actions: Array) -> Served:
        expected, reward = pick(self.means[rows], actions), pick(self.rewards[rows], actions)
        return Served(reward, reward, expected, self.best_reward[rows] - expected, self.best[rows])

    def answers(self) -> Floats | None:
        return self.rewards

    def serve_one(self, row: int, action: object) -> tuple[float, dict[str, Any]]:
        if self._rows is None:  # Python lists: indexing an array costs several times as much
            tables = (self.means, self.rewards, self.best, self.best_reward)
            self._rows = list(zip(*(table.tolist() for table in tables), strict=True))
        means, rewards, best, best_reward = self._rows[row]
        try:
            arm = index(action)  # type: ignore[arg-type]
        except TypeError:
            arm = -1
        if not 0 <= arm < self.n_arms:
            raise ValueError(f"action must be an arm 0, ..., {self.n_arms - 1}; got {shown(action)}.")
        expected, reward, regret = means[arm], rewards[arm], best_reward - means[arm]
        return reward, {"feedback": reward, "regret": regret, "expected_reward": expected, "optimal_action": best}

    def check(self, actions: Array) -> NDArray[np.intp]:
        arms = np.asarray(actions)
        if arms.ndim != 1 or arms.dtype.kind not in "iu":
            raise ValueError(f"actions must be integers, one a user; got shape {arms.shape} of {arms.dtype}.")
        if arms.size and not (arms.min() >= 0 and arms.max() < self.n_arms):
            raise ValueError(f"actions must be arms 0, ..., {self.n_arms - 1}; got {arms.min()} to {arms.max()}.")
        return arms


def checked(array: Array, shape: tuple[int, ...], problem: Problem, method: str) -> Array:
    """Return what a method of a problem gave, or raise ValueError: it has another shape."""
    if np.shape(array) != shape:
        raise ValueError(f"{type(problem).__name__}.{method}() must return shape {shape}; got {np.shape(array)}.")
    return array


def mixed(own: Array, noise: Array, spread: float) -> Array:
    """Return (own + spread noise) / sqrt(1 + spread^2), of the variance of both if they have the same."""
    scale = 1 / math.hypot(1.0, spread)
    x = own * own.dtype.type(scale)
    x += noise * own.dtype.type(spread * scale)
    return np.asarray(x)


def pick(table: Array, columns: Array) -> Array:
    picked: Array = table[np.arange(len(table)), columns]
    return picked
