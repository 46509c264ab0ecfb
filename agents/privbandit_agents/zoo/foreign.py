"""Agents of other libraries in the loop of this one, by two functions."""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from privbandit_agents.base.agent import Agent, AnyEnv
from privbandit_agents.base.settings import Settings
from privbandit_agents.base.spaces import Action, Array, Feedback
from privbandit_agents.zoo.registry import spaces_of


class ForeignAgent(Agent[Settings]):
    """An agent of another library: it promises no privacy, and only that library can save its state.

    Args:
        env: gives the spaces that it plays.
        choose: returns the action of one user, given the context: (K, d), or (d,) where arms share it.
        learn: receives one user's context, action and feedback.
        name: of the agent in errors.

    Raises:
        TypeError: no environment, or no functions.

    Examples:
        >>> import gymnasium as gym
        >>> from privbandit_agents import play
        >>> env = gym.make("privbandit/Linear-v0", n_arms=3, dim=2, horizon=50)
        >>> first = ForeignAgent(env, choose=lambda context: 0, learn=lambda context, action, feedback: None)
        >>> play(env, first, seed=0).checkpoints[-1].item()
        50
    """

    fixed = Agent.fixed | {"choose", "learn"}

    def __init__(
        self,
        env: AnyEnv,
        choose: Callable[[Array], Any],
        learn: Callable[[Array, Any, Any], object],
        name: str = "foreign",
    ) -> None:
        for what, given in {"choose": choose, "learn": learn}.items():
            if not callable(given):
                raise TypeError(f"{what} must be a function; got {given!r:.60}.")
        super().__init__(*spaces_of(env), Settings())
        self.choose, self.learn, self.name = choose, learn, name

    def select_action(self, context: Array) -> Action:
        if np.ndim(context) > len(self.context_shape):
            return np.array([self.choose(one) for one in context])
        return self.choose(context)  # type: ignore[no-any-return]

    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        if np.ndim(context) > len(self.context_shape):
            for one in zip(context, np.asarray(action), np.asarray(feedback), strict=True):
                self.learn(*one)
        else:
            self.learn(context, action, feedback)

    def state(self) -> NoReturn:
        raise TypeError(f"{self.name} is an agent of another library: save it with that library.")
