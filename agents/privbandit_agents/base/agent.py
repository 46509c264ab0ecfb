"""What every agent is: it selects actions, learns from feedback, and states its privacy guarantee."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, final

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.base.state import Stateful
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_envs.spaces import Assortments, top_k
from privbandit_envs.validate import above, at_least, count, fraction, one_of, positive
from privbandit_envs.wrappers import RegretCurve

if TYPE_CHECKING:
    from privbandit_agents.snapshots import Snapshots

__all__ = [
    "FOREVER",
    "Agent",
    "Array",
    "Assortments",
    "CentralAgent",
    "Guarantee",
    "LearningAgent",
    "Ledger",
    "LocalAgent",
    "Space",
    "Stateful",
    "above",
    "at_least",
    "count",
    "fraction",
    "many",
    "n_arms",
    "one_of",
    "plays_arms",
    "plays_assortments",
    "plays_labels",
    "positive",
    "top_k",
]

Array = NDArray[Any]
Space = gym.Space[Any]
Release = TypeVar("Release")
FOREVER = 2**62
"""``frozen_rounds`` of a policy that never changes again."""


@dataclass(frozen=True)
class Guarantee:
    """What an agent promises about the privacy of its users.

    Attributes:
        notion: ``"local"`` (the server never sees raw data), ``"joint"`` (trusted curator; the others' actions do not
            reveal a user's record), or ``"none"``.
        epsilon: of (epsilon, delta)-differential privacy, or None.
        delta: of (epsilon, delta)-differential privacy, or None.
        rho: of zero-concentrated differential privacy, or None.
        neighbours: the relation; one user's whole record (context, action, feedback) is replaced.
        protects: what is protected, in words.
        proven: False where the calibration is a published one without a valid proof.
        reference: where the proof is.
    """

    notion: Literal["local", "joint", "none"] = "none"
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    neighbours: str = "replace-one-user"
    protects: str = "nothing"
    proven: bool = True
    reference: str = ""


@dataclass(frozen=True)
class NoSettings:
    """An agent without settings."""


class Agent(Stateful, ABC):
    """An agent for contextual bandits; leading axes of contexts, actions and feedback are users.

    A subclass names its ``Config`` (a frozen dataclass beside it, if it has settings), checks in ``plays`` what it can
    play, and implements ``select_action`` and ``update``. All of its attributes but the ones in ``fixed`` are its
    state.

    Args:
        observation_space: of one user.
        action_space: of one user.
        config: an instance of ``Config``.
        rng: the agent's own randomness.
    """

    guarantee: Guarantee = Guarantee()
    Config: ClassVar[type[Any]] = NoSettings
    fixed: ClassVar[frozenset[str]] = frozenset({"observation_space", "action_space", "config", "name"})
    uses_public_data: ClassVar[bool] = False

    def __init__(self, observation_space: Space, action_space: Space, config: Any, rng: Generator) -> None:
        """Keep the arguments; ``make`` has checked that the agent plays these spaces."""
        self.name = type(self).__name__
        self.observation_space, self.action_space = observation_space, action_space
        self.config = config
        self.rng = rng

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        """Return "" if the agent can play these spaces, else what it needs, in words."""
        return ""

    @abstractmethod
    def select_action(self, context: Array) -> Any:
        """Choose an action for a context of shape (...), or n actions for contexts of shape (n, ...)."""

    @abstractmethod
    def update(self, context: Array, action: Any, feedback: Any) -> None:
        """Learn from one user, or from n users in order."""

    def frozen_rounds(self) -> int:
        """Return for how many further users the policy cannot change (>= 1)."""
        return 1

    def predict(self, contexts: Array) -> Array | None:
        """Return the estimated mean reward of every arm, contexts (m, K, d) to (m, K); None from agents without one."""
        return None

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        """Whether the agent takes users by counts; ``"normal"``: it draws sums of reports from their normal limit."""
        return ""

    def select_counts(self, contexts: Array, counts: Array) -> tuple[Array, Any, Array]:
        """Choose for users by counts: (rows, actions, counts), where ``counts[i]`` users of a row take an action.

        The policy that does not depend on chance gives all users of a context the same action.

        Args:
            contexts: that exist, shape (m, ...).
            counts: how many users have each, shape (m,).
        """
        rows = np.flatnonzero(counts)
        return rows, np.asarray(self.select_action(contexts[rows])), counts[rows]

    def update_counts(self, contexts: Array, actions: Any, feedback: Any, counts: Array) -> None:
        """Learn from users by counts: ``counts[i]`` of them have the same context, action and feedback."""
        raise TypeError(f"{self.name} learns from users one by one.")

    def restored(self) -> None:
        """Rebuild what is derived from the state; called after a load."""

    def one_by_one(self, context: Array, action: Any, feedback: Any) -> Iterator[tuple[Array, Any, Any]]:
        """Yield the users of an update, whether it is for one or for many."""
        assert self.observation_space.shape is not None
        if np.ndim(context) == len(self.observation_space.shape):
            yield context, action, feedback
        else:
            yield from zip(context, action, feedback, strict=True)


class LocalAgent(Agent):
    """An agent whose server never sees raw data: a user's device randomizes its record, the server absorbs the report.

    ``ledger`` holds the declared budget; every report is entered in it, under its user.
    """

    gaussian: ClassVar[bool] = False
    """Whether a report is a Gaussian mechanism, so that an audit may use the whole trade-off curve."""
    ledger: Ledger

    @final
    def update(self, context: Array, action: Any, feedback: Any) -> None:
        """Let the users report, and the server learn from the reports."""
        self.absorb(self.randomize(context, action, feedback))

    @abstractmethod
    def randomize(self, context: Array, action: Any, feedback: Any) -> Any:
        """Return all that leaves the devices of one user or of n users; read public state only, change none of it."""

    @abstractmethod
    def absorb(self, report: Any) -> None:
        """Learn from reports."""

    @final
    def update_counts(self, contexts: Array, actions: Any, feedback: Any, counts: Array) -> None:
        """Learn from the sum of the reports of users by counts."""
        self.absorb_sum(self.randomize_sum(contexts, actions, feedback, counts), int(np.sum(counts)))

    def randomize_sum(self, contexts: Array, actions: Any, feedback: Any, counts: Array) -> Any:
        """Return the sum of the users' reports, drawn at once: for simulation, by the law of ``randomize``."""
        raise TypeError(f"{self.name} has no law of summed reports.")

    def absorb_sum(self, total: Any, users: int) -> None:
        """Learn from the sum of so many users' reports."""
        raise TypeError(f"{self.name} has no law of summed reports.")


class CentralAgent(Agent, Generic[Release]):
    """An agent with a trusted curator: raw data stay in ``curate``, actions read ``release`` and nothing else learned.

    By the billboard lemma the agent is jointly private if the sequence of releases is private.
    ``ledger`` holds the declared budget; a release is entered before it is made. The object itself, and its saved
    state, hold raw data: they belong to the curator.
    """

    gaussian: ClassVar[bool] = False
    """Whether the releases are a Gaussian mechanism, so that an audit may use the whole trade-off curve."""
    ledger: Ledger
    release: Release

    @final
    def update(self, context: Array, action: Any, feedback: Any) -> None:
        """Hand the users' records to the curator; take over what it releases."""
        new = self.curate(context, action, feedback)
        if new is not None:
            self.release = new

    @abstractmethod
    def curate(self, context: Array, action: Any, feedback: Any) -> Release | None:
        """Take in raw records; return a release if one is due."""


class LearningAgent(Agent):
    """An agent that owns its loop, as reinforcement-learning libraries do; it is measured by RecordRegret."""

    @abstractmethod
    def learn(
        self,
        env: Any,
        steps: int,
        curve: RegretCurve | None = None,
        seed: int | None = None,
        snapshots: "Snapshots | None" = None,
    ) -> None:
        """Play and learn for ``steps`` users, recording them in ``curve``.

        An agent that can go on from the middle resumes from ``snapshots`` and offers its state to them.
        """

    def update(self, context: Array, action: Any, feedback: Any) -> None:
        """Refuse: the agent learns in ``learn`` alone."""
        raise TypeError(f"{self.name} learns inside learn(env, steps); update() is not for it.")


def many(rng: Generator, context: Array, single_shape: tuple[int, ...], *shape: int) -> Any:
    """Draw uniforms of the given shape for each user in ``context``; the same ones however users are grouped."""
    leading = context.shape[: context.ndim - len(single_shape)]
    return rng.random((*leading, *shape))


def plays_arms(observation_space: Space, action_space: Space, per_arm: bool = False) -> str:
    """Return "" for arms with real features (each its own, or one context for all unless ``per_arm``)."""
    dimensions = (2,) if per_arm else (1, 2)
    real = isinstance(observation_space, Box) and len(observation_space.shape) in dimensions
    fits = real and isinstance(action_space, Discrete) and action_space.start == 0
    return "" if fits else "arms with features of shape (K, d)" + ("" if per_arm else " or one context of shape (d,)")


def plays_labels(observation_space: Space, action_space: Space) -> str:
    """Return "" for classification: one context for all arms, which are labels."""
    fits = plays_arms(observation_space, action_space) == "" and len(observation_space.shape or ()) == 1
    return "" if fits else "classification: one context of shape (d,), the arms are labels"


def plays_assortments(observation_space: Space, action_space: Space) -> str:
    """Return "" for assortments with features and revenues of shape (N, d + 1)."""
    return "" if isinstance(action_space, Assortments) else "assortments"


def n_arms(action_space: Space) -> int:
    """Return the number of arms K."""
    assert isinstance(action_space, Discrete)
    return int(action_space.n)
