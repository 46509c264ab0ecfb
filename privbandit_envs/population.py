"""Users by counts: a world with finitely many contexts serves any number of them at the price of one of each."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_envs.problem import Array, Problem

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tally:
    """What happened to many users: ``counts[i]`` of them had the same context, action and feedback.

    Attributes:
        rows: which of the m contexts, shape (r,).
        actions: shape (r, ...).
        feedback: shape (r,).
        counts: shape (r,), all > 0.
        regret: of all users together; exact in expectation, given who had which action.
        reward: of all users together.
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
        problem: with ``support`` and ``outcome_law``.
        users: generator of who comes.
        outcomes: generator of what happens to them.
    """

    def __init__(self, problem: Problem, users: Generator, outcomes: Generator) -> None:
        """Work out what each action is worth in each context."""
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

    def state(self) -> list[Any]:
        """Return the states of the generators."""
        return [self._users.bit_generator.state, self._outcomes.bit_generator.state]

    def restore(self, states: list[Any]) -> None:
        """Set the generators."""
        self._users.bit_generator.state, self._outcomes.bit_generator.state = states
