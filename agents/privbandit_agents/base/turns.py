"""Agents that learn from every user before the next one comes, yet are asked about many users in one call."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeGuard

from privbandit_agents.base.agent import AnyAgent, Array

Answer = Callable[[int, int], float]
"""``answer(i, arm)`` is the feedback of user i, a Python float; asked once a user, for the arm that the user gets."""


class InTurn(ABC):
    """An agent without privacy that serves a block's users in order by itself.

    Nobody else is asked to: an agent that promises privacy learns by ``update`` alone.
    """

    @abstractmethod
    def serve_in_turn(self, contexts: Array, answer: Answer) -> Array | None:
        """Choose for each of n users and learn from each, as the loop of ``select_action`` and ``update`` does.

        Args:
            contexts: shape (n, ...).
            answer: returns the feedback.

        Returns:
            The n actions; or None, and nothing has been done: the loop must be run.
        """


def serves_in_turn(agent: AnyAgent) -> TypeGuard[InTurn]:
    """Return whether the agent's ``serve_in_turn`` stands for its loop: no subclass has changed the loop since."""
    if not isinstance(agent, InTurn) or agent.guarantee.notion != "none":
        return False
    return unchanged(agent, "serve_in_turn", ("select_action", "update", "frozen_rounds"))


def unchanged(one: object, stands: str | type, names: Sequence[str]) -> bool:
    """Return whether a method, or a class, still stands for methods: no subclass, nor the object, has changed them."""
    kinds = type(one).__mro__
    defines = {name: place for place, kind in reversed([*enumerate(kinds)]) for name in vars(kind)}
    since = defines[stands] if isinstance(stands, str) else kinds.index(stands)
    return not any(name in vars(one) or defines[name] < since for name in names)
