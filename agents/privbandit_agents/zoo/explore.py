"""A share of uniform play on top of any agent, so that every action has a known probability above 0."""

import dataclasses
from functools import cache
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.random import Generator, default_rng

from privbandit_agents.base.agent import Agent, AnyAgent, LearningAgent
from privbandit_agents.base.choices import random_sets
from privbandit_agents.base.law import DRAWS, Probabilities, checked, mixed, uniform_propensity
from privbandit_agents.base.rows import uniforms_per_user
from privbandit_agents.base.settings import Fraction
from privbandit_agents.base.spaces import Action, Array, n_arms
from privbandit_agents.zoo.entries import Entry
from privbandit_envs.changing.masks import uniform_over
from privbandit_envs.spaces import Assortments
from privbandit_envs.validate import fraction

A = TypeVar("A", bound=AnyAgent)
PREFIX = "explore-"
"""``explore-NAME`` is the agent NAME with ``Explore``, wherever agents have names."""


class Exploring(Agent[Any]):
    """A mixin in front of an agent's class: with probability ``share`` a user gets a uniformly random action.

    *Formal guarantees.* Those of the agent. Whether a user gets a random action, and which, is drawn from a generator
    that no record enters. So a joint agent's action is a function of releases, of the user's own context and of
    independent random numbers, and the billboard lemma holds as before. A local agent's report is randomized by the
    same device, and the bound on it holds for every record, whatever action is in it. All that is learned, released and
    entered in the ledger is the agent's own. Proof: docs/privacy/off-policy-values.md.
    """

    share: float
    rng_exploring: Generator
    rng_sets: Generator

    def begin(self) -> None:
        super().begin()
        start(self, self.config.share, self.rng.spawn(1)[0])

    def select_action(self, context: Array) -> Action:
        """Return the agent's own action, or a random one; both are drawn for every user."""
        own = np.asarray(super().select_action(context))  # type: ignore[safe-super]
        coins = uniforms_per_user(self.rng_exploring, context, self.context_shape, 2)
        explores = coins[..., 0] < self.share
        if isinstance(self.action_space, Assortments):
            sets = random_sets(self.rng_sets, context, self.action_space.capacity)
            return np.where(explores[..., None], sets, own)
        random = coins[..., 1] * n_arms(self.action_space)
        if self.visit.mask is not None:
            here = np.asarray(self.visit.mask, bool)
            nth = (coins[..., 1] * here.sum(axis=-1)).astype(int)[..., None]
            random = np.take_along_axis(np.argsort(~here, axis=-1, kind="stable"), nth, axis=-1)[..., 0]
        chosen = np.where(explores, random.astype(own.dtype), own)
        return chosen if chosen.ndim else chosen[()]

    def law(self, contexts: Array, draws: int, rng: Generator) -> Probabilities:
        own = self._own().law(contexts, draws, rng)
        random = uniform_propensity(self.action_space) if self.visit.mask is None else uniform_over(self.visit.mask)
        return mixed(own, self.share, random)

    def propensities(
        self,
        contexts: Array,
        actions: Any,
        draws: int = DRAWS,
        rng: Generator | None = None,
        mask: Array | None = None,
    ) -> Probabilities:
        own = self._own().propensities(contexts, actions, draws, rng, mask)
        random: Any = uniform_propensity(self.action_space)
        if isinstance(self.action_space, Assortments):
            random = random * (np.asarray(actions).sum(axis=-1) == self.action_space.capacity)
        elif mask is not None or self.arm_states:
            random = uniform_over(checked(self, mask, len(own)))[np.arange(len(own)), np.atleast_1d(actions)]
        return mixed(own, self.share, random)

    def _own(self) -> AnyAgent:
        """Return the agent as it chooses by itself, on the same state."""
        return face_of(self, type(self).__bases__[1])

    @property
    def least_propensity(self) -> float:
        """A public number below which no action's probability falls that this policy can take."""
        return self.share * uniform_propensity(self.action_space)

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        """Users of one context get different actions: nobody comes by counts."""
        return ""


def start(agent: AnyAgent, share: float, rng: Generator) -> None:
    """Give an agent its share, and generators that nothing else draws from."""
    agent.share = fraction(share=share)  # type: ignore[attr-defined]
    agent.rng_exploring, agent.rng_sets = rng.spawn(2)  # type: ignore[attr-defined]


@cache
def explored(kind: type[AnyAgent]) -> type[AnyAgent]:
    """Return the class of an agent that explores: its own with ``Exploring`` in front, and a setting ``share``.

    Raises:
        TypeError: it owns its loop, or explores already.
    """
    if issubclass(kind, LearningAgent) or getattr(kind.select_action, "__isabstractmethod__", False):
        raise TypeError(f"{kind.__name__} owns its loop, or stands for others: it takes no share of uniform play.")
    if issubclass(kind, Exploring):
        raise TypeError(f"{kind.__name__} explores already; give it the share that you want.")
    added = [("share", Fraction, dataclasses.field(default=0.1))]
    meaning = "share: of users who get a uniformly random action, in [0, 1]."
    documented = {"__doc__": f"{(kind.Config.__doc__ or '').rstrip()}\n        {meaning}\n"}
    config = dataclasses.make_dataclass(
        "Config", added, bases=(kind.Config,), frozen=True, namespace={**documented, "__module__": kind.__module__}
    )
    body = {"__doc__": kind.__doc__, "__module__": kind.__module__, "Config": config}
    return type(f"Explored{kind.__name__}", (Exploring, kind), body)


def Explore(agent: A, share: float = 0.1, seed: int | None = None) -> A:  # noqa: N802 (it wraps, as classes do)
    """Return an agent that gives a share of its users a uniformly random action.

    The result is of the agent's own kind, local, joint or neither, and has its guarantee and its ledger. It is the same
    agent with another choice of actions: what one learns the other knows.

    With ``people``, a person whose visit is not counted gets the action of the best estimate and no random one, as
    without ``Explore``: ``probabilities`` are those of visits that count.

    Args:
        agent: any that does not own its loop.
        share: of users, in [0, 1].
        seed: of the exploration, for simulations; None: a fresh key from the operating system.

    Raises:
        ValueError: a share outside of [0, 1].
        TypeError: something that is no agent, or that cannot be wrapped.

    Examples:
        >>> import gymnasium as gym, privbandit_envs
        >>> from privbandit_agents import make
        >>> env = gym.make("privbandit/Linear-v0", n_arms=4, dim=2, horizon=100)
        >>> agent = Explore(make("linucb", env, seed=0), 0.2, seed=0)
        >>> context, _ = env.reset(seed=0)
        >>> sorted(agent.probabilities(context[None])[0].round(2).tolist())
        [0.05, 0.05, 0.05, 0.85]
    """
    if not isinstance(agent, Agent):
        raise TypeError(f"agent must be an Agent, as make returns it; got {agent!r:.60}.")
    fraction(share=share)
    face = face_of(agent, explored(type(agent)))
    start(face, share, default_rng(seed))
    face.name = f"{PREFIX}{agent.name}"
    return face  # type: ignore[return-value]


def face_of(agent: AnyAgent, kind: type[AnyAgent]) -> AnyAgent:
    """Return an agent of another class on the same state: what one learns the other knows."""
    face: AnyAgent = kind.__new__(kind)
    face.__dict__ = vars(agent)
    return face


def explored_name(name: str) -> str:
    """Return the name of the agent that ``explore-NAME`` wraps, or ""."""
    inner = name.removeprefix(PREFIX)
    return "" if inner == name or inner.startswith(PREFIX) else inner


class Explored(Entry):
    """The entry of an agent with ``Explore`` around it: ``explore-NAME``, with a setting ``share``."""

    def load(self) -> type[AnyAgent]:
        return explored(super().load())
