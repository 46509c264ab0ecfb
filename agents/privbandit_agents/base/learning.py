"""Agents that own their loop, as those of reinforcement-learning libraries do."""

from abc import abstractmethod
from typing import Any, Protocol, TypeVar

from gymnasium import Env
from gymnasium.vector import VectorEnv

from privbandit_agents.base.agent import Action, Agent, Array, Feedback
from privbandit_envs.wrappers import RegretCurve

C = TypeVar("C")
AnyEnv = Env[Any, Any] | VectorEnv[Any, Any, Any]


class Saves(Protocol):
    """Keeps the state of a run, so that a killed run goes on from there, as ``playing.snapshots`` does."""

    def resume(self, env: AnyEnv, agent: Agent[Any], curve: RegretCurve) -> Array | None:
        """Bring a run to where it was saved; return the contexts to go on with, None if there is nothing to use."""

    def offer(self, env: AnyEnv, agent: Agent[Any], curve: RegretCurve) -> None:
        """Save the run if it is time to."""


class LearningAgent(Agent[C]):
    """An agent that owns its loop; its regret is measured by RecordRegret, as everybody's."""

    @abstractmethod
    def learn(
        self,
        env: AnyEnv,
        steps: int,
        curve: RegretCurve | None = None,
        seed: int | None = None,
        snapshots: Saves | None = None,
    ) -> None:
        """Play and learn for ``steps`` users.

        Args:
            env: one environment, or a vector of them.
            steps: number of users.
            curve: records the users' regret.
            seed: of the environment's ``reset``.
            snapshots: an agent that can go on from the middle resumes from them and offers its state to them.
        """

    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        raise TypeError(f"{self.name} learns inside learn(env, steps); update() is not for it.")
