"""Users by counts: in a world with m contexts, any number of users costs the time of m of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_envs.problem import Array, Problem

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tally:
    """What happened to many users, grouped: ``counts[i]`` of them had the same context, action and feedback.

    Attributes:
        rows: which of the m contexts each group had, shape (r,).
        actions: shape (r, ...).
        feedback: shape (r,).
        counts: users in each group, shape (r,), all > 0.
        regret: summed over all users; exact in expectation, given who had which action.
        reward: summed over all users.
    """

    rows: NDArray[np.intp]
    actions: Array
    feedback: Array
    counts: Counts
    regret: float
    reward: float


class Population:
    """An endless supply of users of one world, drawn as counts.

    Args:
        problem: a world that has ``support`` and ``outcome_law``.
        users: draws who comes.
        outcomes: draws what happens to them.

    Raises:
        TypeError: the world has no finite set of contexts.

    Examples:
        >>> from numpy.random import default_rng
        >>> from privbandit_envs.families.linear import LinearProblem
        >>> world = LinearProblem(default_rng(0), n_arms=2, dim=2, design="case1", delta=0.1, support="all")
        >>> users = Population(world, default_rng(1), default_rng(2))
        >>> users.support.contexts.shape
        (4, 2, 2)
        >>> counts = users.draw(10**9)  # a billion users, as four counts
        >>> tally = users.serve(np.arange(4), np.zeros(4, int), counts)
        >>> int(counts.sum()), int(tally.counts.sum()), tally.regret >= 0
        (1000000000, 1000000000, True)
    """

    def __init__(self, problem: Problem, users: Generator, outcomes: Generator) -> None:
        support = problem.support()
        if support is None:
            raise TypeError(f"{type(problem).__name__} has no finite set of contexts.")
        self.problem, self.support = problem, support
        self.best_reward = problem.expected_reward(support.contexts, problem.best_action(support.contexts))
        self._users, self._outcomes = users, outcomes

    def draw(self, n: int) -> Counts:
        """Return how many of n users have each context, shape (m,)."""
        return self._users.multinomial(n, self.support.probabilities)

    def serve(self, rows: Array, actions: Array, counts: Array) -> Tally:
        """Realise actions: ``counts[i]`` users with the context ``rows[i]`` take ``actions[i]``."""
        contexts = self.support.contexts[rows]
        expected = self.problem.expected_reward(contexts, actions)
        values, chances = self.problem.outcome_law(contexts, actions)
        drawn = self._outcomes.multinomial(counts, chances)
        row, value = np.nonzero(drawn)
        number = drawn[row, value]
        feedback = values[row, value]
        regret = float(counts @ np.maximum(self.best_reward[rows] - expected, 0.0))
        return Tally(rows[row], actions[row], feedback, number, regret, float(number @ feedback))

    def state(self) -> tuple[Any, ...]:
        return self._users.bit_generator.state, self._outcomes.bit_generator.state

    def restore(self, states: Sequence[Mapping[str, object]]) -> None:
        self._users.bit_generator.state, self._outcomes.bit_generator.state = states
