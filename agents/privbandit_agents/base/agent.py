"""What every agent is: it selects actions, learns from feedback, and states its privacy guarantee."""

import copy
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property, wraps
from inspect import isfunction, signature
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from gymnasium import Env
from gymnasium.vector import VectorEnv
from numpy.random import Generator

from privbandit_agents.base import law as laws
from privbandit_agents.base import present
from privbandit_agents.base.guarantee import Guarantee
from privbandit_agents.base.people import Seen, chosen_for
from privbandit_agents.base.present import NOBODY, Visit, alone
from privbandit_agents.base.records import Floats, Records, contexts_of, dtype_of, records_of
from privbandit_agents.base.settings import Settings
from privbandit_agents.base.spaces import Action, Array, Feedback, PublicData, Space, n_arms
from privbandit_agents.base.spaces import arms_with_features as arms_with_features  # its place in version 0.2
from privbandit_agents.base.state import Arrays, changed, rekey, restore_into, state_of
from privbandit_agents.base.ties import Ties
from privbandit_agents.privacy.keys import Unseeded
from privbandit_envs.changing.masks import uniform_over
from privbandit_envs.spaces import Assortments, Units
from privbandit_envs.wrappers import RegretCurve

C = TypeVar("C")
AnyEnv = Env[Any, Any] | VectorEnv[Any, Any, Any]
NEVER = 2**62  # ``frozen_rounds`` of a policy that never changes again


ALIVE: WeakValueDictionary[int, "Agent[Any]"] = WeakValueDictionary()
"""All agents of this process by their ``id``, however they were made: each process that is forked off looks here."""


def part_after_fork() -> None:
    """Let a child process's copies of unseeded agents share no noise with their parent's."""
    for agent in list(ALIVE.values()):
        if not vars(agent).get("seeded", True):
            agent.rekey()


os.register_at_fork(after_in_child=part_after_fork)


def in_units(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that takes contexts, or records, as the environment states them.

    Whatever it calls in turn has them in the agent's own units.
    """
    records = method.__name__ not in ("select", "predict", "law", "chances", "learn_labels")
    others = [*signature(method).parameters][2:]

    @wraps(method)
    def within(self: "Agent[Any]", context: object, *given: Any, **named: Any) -> Any:
        units = self.units
        if units is None:
            return method(self, context, *given, **named)
        self.units, signed = None, len(self.context_shape) == 2
        try:
            given = (*given, *(named.pop(other) for other in others[len(given) :] if records and other in named))
            if records:
                contexts, actions, feedback = self.records_of(context, *given[:2])
                if not isinstance(self.action_space, Assortments):  # which items are bought has no unit
                    feedback = units.of_rewards(feedback, signed)
                own = units.of_contexts(contexts), actions, feedback
                counts = given[2] if method.__name__ == "update_counts" and given[2:] else None
                units.note(self, *own, 1 if counts is None else counts)
                return method(self, *own, *given[2:], **named)
            result = method(self, units.of_contexts(self.contexts_of(context)), *given, **named)
            back = method.__name__ == "predict" and result is not None
            return units.of_rewards(result, signed, back=True) if back else result
        finally:
            self.units = units

    return within


DOORS = "randomize", "inputs", "predict", "law", "chances", "update_counts", "learn_logged", "learn_labels"
"""Methods that get contexts or records, beside ``select_action`` and ``update``."""


def reading(select_action: Callable[..., Any]) -> Callable[..., Any]:
    """Return a ``select_action`` that gets contexts as the agent's ``contexts_of`` makes them."""

    def select(self: "Agent[Any]", context: object) -> Any:
        if self.units is not None:
            return scaled(self, context)
        if self.arm_states and self.visit.mask is None:
            return present.choose_present(self, context, None, self.visit.person)[1]
        contexts = self.contexts_of(context)
        return select_action(self, contexts) if self.people_seen is None else chosen_for(self, select_action, contexts)

    scaled = in_units(select)
    return wraps(select_action)(select)


class Agent(ABC, Generic[C]):
    """An agent for contextual bandits; leading axes of contexts, actions and feedback are users.

    A subclass names its ``Config`` (a frozen dataclass of ``Settings`` beside it, if it has settings), says in
    ``plays`` what it can play, prepares itself in ``begin``, and implements ``select_action`` and ``update``. All of
    its attributes but the ones in ``fixed`` are its state. Its ``select_action`` gets contexts as ``contexts_of``
    makes them: arrays of the space's shape, one row a user, NaN in place of whatever is no number.

    Args:
        observation_space: of one user.
        action_space: of one user.
        config: an instance of ``Config``.
        rng: the agent's own randomness, for simulations and tests; None: fresh keys from the operating system, and in
            every copy, unpickled object and forked process of a private agent others.
        public_data: features (n, d) and labels (n,), for agents with ``uses_public_data``.
    """

    guarantee: Guarantee = Guarantee()
    Config: ClassVar[type[Any]] = Settings
    fixed: ClassVar[frozenset[str]] = frozenset(
        {
            "observation_space",
            "action_space",
            "config",
            "name",
            "arm_states",
            "public_data",
            "visit",
            "seeded",
            "units",
            "context_shape",
            "_context_dtype",
        }
    )
    uses_public_data: ClassVar[bool] = False
    people_seen: Seen | None = None
    """Who has been counted, of a private agent with ``people=n``; None: every visit counts."""
    units: Units | None = None
    """By what contexts and rewards are scaled at the door: public bounds of the environment; None: by nothing."""
    visit: Visit = NOBODY
    """Whoever is served now, or learned from."""
    arm_states: Mapping[str, str] = present.ALL
    """The names of arms in the order of their numbers, each "active" or "retired"; empty: all arms are there."""
    learns_logs: ClassVar[bool] = True
    """Whether it learns from an arm that others chose; False: from the arm of its run alone."""
    gaussian: ClassVar[bool] = False
    """Whether all that is let be seen is one Gaussian mechanism: an audit then looks at its trade-off curve besides."""

    def __init_subclass__(cls, **named: Any) -> None:
        """Let a subclass's ``select_action`` get contexts as numbers, whatever users send.

        Raises:
            TypeError: the class defines a method under the name of a base's value.
        """
        super().__init_subclass__(**named)
        for base in cls.__mro__[1:]:
            named_there = vars(base).get("__annotations__", {}) if base.__module__.startswith(f"{__package__}.") else {}
            for name in named_there.keys() & {key for key, value in vars(cls).items() if isfunction(value)}:
                raise TypeError(f"{cls.__name__}.{name}() hides {base.__name__}.{name}, which is a value: rename it.")
        if "select_action" in vars(cls):
            cls.select_action = reading(vars(cls)["select_action"])  # type: ignore[method-assign]
        for name in {"randomize", "curate"} & vars(cls).keys():
            # no record decides whether a device or a curator warns, or stops at a warning
            setattr(cls, name, np.errstate(all="ignore")(vars(cls)[name]))
        for name in set(DOORS) & vars(cls).keys():
            setattr(cls, name, in_units(vars(cls)[name]))

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Return an agent that a forked process finds, whether a constructor, a copy or another agent made it."""
        made = super().__new__(cls)
        ALIVE[id(made)] = made
        return made

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        config: C,
        rng: Generator | None = None,
        public_data: PublicData | None = None,
    ) -> None:
        """Keep the arguments, which ``make`` has checked against ``plays``, and begin."""
        self.name = type(self).__name__
        self.observation_space, self.action_space = observation_space, action_space
        self.config, self.rng = config, Unseeded() if rng is None else rng
        if self.uses_public_data:
            if public_data is None:
                raise ValueError(f"{self.name} needs an environment with public_data; got None.")
            self.public_data = public_data
        people = getattr(config, "people", None)
        if people is not None:
            self.people_seen = Seen(people)
        self.begin()
        for name in vars(self):
            if isfunction(method := getattr(type(self), name, None)) and method.__module__.startswith(
                f"{__package__}."
            ):
                raise TypeError(f"self.{name} hides {self.name}.{name}(), which others call: rename the attribute.")
        if self.people_seen is not None and self.guarantee.unit == "visit":
            self.guarantee = self.guarantee.per_person()
        self.ties = Ties(int(self.rng.spawn(1)[0].integers(2**62)))
        self.seeded = rng is not None or self.guarantee.notion == "none"
        if not self.seeded:
            self.rekey()  # now no generator tells of another one that it was spawned from, or with

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Take over the attributes of the agent that this one is a copy of; without a seed it has noise of its own."""
        self.__dict__.update(attributes)
        if "ties" in attributes:
            alone(self)  # whoever was served when the copy was made is not served by it
        ALIVE[id(self)] = self  # old protocols of pickle make no new object by its class
        if not attributes.get("seeded", True):
            self.rekey()

    def __copy__(self) -> Self:
        """Return a deep copy: agents that share parts would learn from one person in one sum, and pay for it once."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        """Return the name, the settings that are no defaults, and the guarantee: nothing that was learned."""
        named = vars(self).get("name", type(self).__name__)
        return f"<{named}{changed(vars(self).get('config'))}: {self.guarantee.words}>"

    def begin(self) -> None:
        """Prepare for the first user; everything the constructor got is an attribute by now."""

    @staticmethod
    def plays(observation_space: Space, action_space: Space) -> str:
        """Return "" if the agent can play these spaces, else its requirement, in words."""
        return ""

    @abstractmethod
    def select_action(self, context: Array) -> Action:
        """Choose an action for a context of shape (...), or n actions for contexts of shape (n, ...)."""

    @abstractmethod
    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        """Learn from one user, or from n users in order."""

    def frozen_rounds(self) -> int:
        """Return for how many further users the policy cannot change (>= 1)."""
        return 1

    def predict(self, contexts: Array) -> Array | None:
        """Return the estimated mean reward of every arm, contexts (m, K, d) to (m, K); None from agents without one."""
        return None

    law, probabilities, propensities = laws.law, laws.probabilities, laws.propensities
    add_arms, retire_arms = present.add_arms, present.retire_arms

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        """Whether the agent takes users by counts; ``"normal"``: it draws sums of reports from their normal limit."""
        return ""

    def select_counts(self, contexts: Array, counts: Array) -> tuple[Array, Action, Array]:
        """Choose for users by counts: (rows, actions, counts), where ``counts[i]`` users of a row take an action.

        This default is for policies that draw nothing but who gets which of several best arms.

        Args:
            contexts: that exist, shape (m, ...).
            counts: how many users have each, shape (m,).
        """
        rows = np.flatnonzero(counts)
        actions = laws.choices(self, contexts[rows])
        if len(actions) == 1:
            return rows, actions[0], counts[rows]
        equal = (actions[..., None] == np.arange(n_arms(self.action_space))).any(axis=0)
        shared = self.rng.multinomial(counts[rows], uniform_over(equal))
        places, arms = np.nonzero(shared)
        return rows[places], arms, shared[places, arms]

    def update_counts(self, contexts: Array, actions: Action, feedback: Feedback, counts: Array) -> None:
        """Learn from users by counts: ``counts[i]`` of them have the same context, action and feedback."""
        raise TypeError(f"{self.name} learns from users one by one.")

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the agent's state: (arrays, JSON values) under dotted names."""
        arrays, values = state_of(self)
        return arrays, values | ({"arm_states": dict(self.arm_states)} if self.arm_states else {})

    def restore(self, arrays: Arrays, values: dict[str, Any]) -> None:
        """Take over a state that an agent of the same construction returned."""
        if states := values.get("arm_states"):
            self.add_arms([*states])
            if gone := [name for name, state in states.items() if state != "active"]:
                self.retire_arms(gone)
        restore_into(self, arrays, {name: value for name, value in values.items() if name != "arm_states"})

    def restored(self) -> None:
        """Rebuild what is derived from the state; called after a load."""

    def rekey(self) -> None:
        """Take fresh keys from the operating system for all randomness to come; what was released stays as it is.

        A copy of an agent without a seed does so, to share no noise with the agent that it is a copy of. From then on
        the agent is one without a seed.
        """
        self.seeded = False
        rekey(self)

    def contexts_of(self, context: object) -> Array:
        """Return contexts as numbers, NaN where there is none, as ``base.records`` does."""
        shape = self.observation_space.shape
        return context if shape is None else contexts_of(context, shape, self._context_dtype)  # type: ignore[return-value]

    def records_of(self, context: object, action: object, feedback: object) -> Records:
        """Return records as arrays, one row a user, NaN where there is no number, as ``base.records`` does."""
        return records_of(context, action, feedback, self.context_shape, self.action_space, self._context_dtype)

    def refuse(self, users: int) -> None:
        """Raise an error if n more users cannot be learned from; nobody is counted then, and nothing changes.

        Raises:
            RuntimeError: they would be more than the horizon, or spend more than the ledger has.
        """

    @cached_property
    def context_shape(self) -> tuple[int, ...]:
        return self.observation_space.shape or ()

    @cached_property
    def _context_dtype(self) -> Floats:
        return dtype_of(self.observation_space)


AnyAgent: TypeAlias = Agent[Any]


def first_visits(agent: AnyAgent, records: tuple[Array, ...], person: object) -> tuple[Array, ...]:
    """Return the records that an agent learns from: with ``people=n`` the first one of each of n people, else all.

    Args:
        agent: refuses what it cannot learn from, before anybody is counted.
        records: contexts, actions, feedback, and whatever else has a row a visit.
        person: the ids of the visits' people; None: everyone is new.
    """
    if agent.people_seen is not None:
        return agent.people_seen.taken(records, person, agent.refuse)
    agent.refuse(len(records[-1]))
    return records


def refuse_people(agent: AnyAgent) -> None:
    """Raise where rows without names would report: who has reported is asked by ``update`` alone.

    Raises:
        TypeError: the agent's promise is to people.
    """
    if agent.people_seen is not None:
        way_out = "call update(context, action, feedback, person=ids), or make it without people"
        raise TypeError(f"{agent.name} promises to people, who have no names here; {way_out}.")


class Saves(Protocol):
    """Keeps the state of a run, so that a killed run goes on from there, as ``playing.snapshots`` does."""

    def resume(self, env: AnyEnv, agent: AnyAgent, curve: RegretCurve) -> Array | None:
        """Bring a run to where it was saved; return the contexts to go on with, None if there is nothing to use."""

    def offer(self, env: AnyEnv, agent: AnyAgent, curve: RegretCurve) -> None:
        """Save the run if it is time to."""


class LearningAgent(Agent[C]):
    """An agent that owns its loop; its regret is measured by RecordRegret, as everybody's."""

    learns_logs = False

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


def next_change(users: int, growth: float, least: int = 1) -> int:
    """Return after how many users a policy changes next that has changed at ``users``: grown by a factor."""
    return max(users + least, math.ceil(min(users * growth, NEVER)))
