"""What every agent is: it selects actions, learns from feedback, and states its privacy guarantee."""

import copy
import math
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from inspect import isfunction, signature
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar, final
from weakref import WeakValueDictionary

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.base import law as laws
from privbandit_agents.base.people import Seen, chosen_for
from privbandit_agents.base.present import are_masks, owned
from privbandit_agents.base.publish import Publisher
from privbandit_agents.base.records import Floats, Records, contexts_of, dtype_of, records_of
from privbandit_agents.base.reports import Arithmetic, InOrder, Inputs
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.settings import Settings
from privbandit_agents.base.state import Arrays, changed, rekey, restore_into, state_of
from privbandit_agents.base.ties import Ties
from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon, rho_to_epsilon
from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.keys import Unseeded
from privbandit_envs.changing.masks import uniform_over
from privbandit_envs.spaces import Assortments, Units
from privbandit_envs.validate import one_of

Array = NDArray[Any]
Space = gym.Space[Any]
Action: TypeAlias = "int | np.integer[Any] | Array"
"""What one user gets, or the n users of a group get."""
Feedback: TypeAlias = "float | np.number[Any] | Array"
"""What one user answers, or the n users of a group answer: a reward, or the purchased item."""
PublicData: TypeAlias = tuple[Array, NDArray[np.int64]]
"""Features (n, d) and labels (n,) that everybody may know."""
C = TypeVar("C")
Report = TypeVar("Report")
Release = TypeVar("Release")
NEVER = 2**62  # ``frozen_rounds`` of a policy that never changes again
RECORD, SAME = "context, action and reward of every user", "replace-one-user"
REWARD, ONE_REWARD = "reward of every user", "replace-one-reward"
OF_A_PERSON = {SAME: "replace-one-person", ONE_REWARD: "replace-rewards-of-one-person"}
"""The relation for people who come again: all visits of one person change, however many there are."""
Notion: TypeAlias = Literal["local", "shuffle", "joint", "reward", "none"]


class UnprovenCalibration(UserWarning):
    """An agent plays by a published calibration that has no valid proof."""


@dataclass(frozen=True)
class Guarantee:
    """An agent's promise about the privacy of its users.

    Attributes:
        notion: ``"local"`` (the server never sees raw data), ``"shuffle"`` (it sees what a batch of devices sent, and
            not who sent what), ``"joint"`` (trusted curator; the others' actions do not reveal a user's record),
            ``"reward"`` (trusted curator; rewards alone are private, contexts and actions are public), or ``"none"``.
        epsilon, delta, rho: of (epsilon, delta)- and of zero-concentrated differential privacy, or None.
        neighbours: the relation; one user's whole record (context, action, feedback) is replaced, or the reward alone:
            then contexts and actions are public, also of a local agent.
        protects: the protected data, in words; of a promise without any, by the relation.
        proven: False where the calibration is a published one without a valid proof.
        reference: where the proof is.
        arithmetic: ``"exact"``: it holds for the floats and integers that leave. ``"real"``: it holds for real numbers,
            which floats only approximate: to simulate.
        unit: whose records the numbers are for: one ``"visit"``'s, or all those of a ``"person"``, however often the
            person comes.
    """

    notion: Notion = "none"
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    neighbours: str = SAME
    protects: str = "nothing"
    proven: bool = True
    reference: str = ""
    arithmetic: Arithmetic = "real"
    unit: Literal["visit", "person"] = "visit"

    def __post_init__(self) -> None:
        one_of((*OF_A_PERSON, *OF_A_PERSON.values()), neighbours=self.neighbours)
        others = "the server and everyone else" if self.notion == "local" else "all others"
        public = ", who may know every context and every action"
        usual = f"{RECORD}, from {others}", f"{REWARD}, from {others}{public}"
        if self.notion != "none" and self.protects in ("nothing", *usual):  # also those of what this one replaces
            object.__setattr__(self, "protects", usual[self.of_rewards])

    @property
    def of_rewards(self) -> bool:
        """Whether rewards alone are protected."""
        return self.notion == "reward" or self.neighbours in (ONE_REWARD, OF_A_PERSON[ONE_REWARD])

    @property
    def kind(self) -> str:
        """The promise that is compared with its like: the notion, or ``"local-reward"`` or ``"shuffle-reward"``."""
        if not self.of_rewards or self.notion == "none":
            return self.notion
        return f"{self.notion}-reward" if self.notion in ("local", "shuffle") else "reward"

    def per_person(self, public: str = "") -> "Guarantee":
        """Return the same numbers for all records of a person; ``public`` says what is not hidden.

        By default that is who comes, and when the first report of each does; if contexts and actions are public, all
        visits are.
        """
        when = "when" if self.of_rewards else "when the first report of each comes"
        public = public or f"who comes, and {when}, is public"
        protects = self.protects.replace("of every user", "of all visits of every person", 1)
        relation = OF_A_PERSON.get(self.neighbours, self.neighbours)
        return replace(self, unit="person", neighbours=relation, protects=f"{protects}; {public}")

    def for_visits(self, visits: int, gaussian: bool = False) -> float:
        """Return the epsilon that a person has at most who comes so often, at ``delta``; infinity if none is known.

        Args:
            visits: how often.
            gaussian: whether all that is released is one Gaussian mechanism: then all visits in one term are the worst.
        """
        epsilon = math.inf if self.epsilon is None else self.epsilon
        if self.unit == "person" or visits == 1:
            return epsilon
        if self.notion == "local":
            return visits * epsilon if not self.delta else math.inf
        if gaussian and self.rho is not None and self.delta:
            return gaussian_epsilon(mu=visits * math.sqrt(2 * self.rho), delta=self.delta)
        return visits * epsilon if not self.delta else math.inf

    @property
    def words(self) -> str:
        """What is promised in a few words; zCDP alone with the epsilon that it implies at delta = 1e-5."""
        if self.notion == "none":
            return "none"
        if self.epsilon is not None:
            pair = f"{self.epsilon:.4g}, {self.delta:.4g}" if self.delta else f"{self.epsilon:.4g}"
            also = "" if self.rho is None else f" (rho {self.rho:.3g})"
        else:
            implied = rho_to_epsilon(self.rho or 0.0, 1e-5)
            pair, also = f"rho {self.rho:.4g}", f" (epsilon {implied:.3g} at delta 1e-05)"
        whose = f"{self.kind} {pair} a {self.unit}{also}, {self.arithmetic}"
        return whose + ("" if self.proven else ", unproven")

    @classmethod
    def local(
        cls,
        epsilon: float,
        delta: float,
        reference: str,
        proven: bool = True,
        arithmetic: Arithmetic = "real",
        neighbours: str = SAME,
    ) -> "Guarantee":
        """Return (epsilon, delta)-local DP of every user's record; ``reference`` names the place of the proof."""
        return cls("local", epsilon, delta, None, neighbours, "nothing", proven, reference, arithmetic)

    @classmethod
    def joint(
        cls,
        epsilon: float | None,
        delta: float | None,
        rho: float | None,
        reference: str,
        proven: bool = True,
        record: str = RECORD,
        arithmetic: Arithmetic = "real",
    ) -> "Guarantee":
        """Return joint DP of every user's record, by the numbers that are not None."""
        return cls("joint", epsilon, delta, rho, SAME, f"{record}, from all others", proven, reference, arithmetic)


ALIVE: WeakValueDictionary[int, "Agent[Any]"] = WeakValueDictionary()
"""All agents of this process by their ``id``, however they were made: each process that is forked off looks here."""


def part_after_fork() -> None:
    """Let a child process's copies of unseeded agents share no noise with their parent's."""
    for agent in list(ALIVE.values()):
        if not vars(agent).get("seeded", True):
            agent.parted()


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
                units.note(self, *own, given[2] if method.__name__ == "update_counts" else 1)
                return method(self, *own, *given[2:], **named)
            result = method(self, units.of_contexts(self.contexts_of(context)), *given, **named)
            back = method.__name__ == "predict" and result is not None
            return units.of_rewards(result, signed, back=True) if back else result
        finally:
            self.units = units

    return within


DOORS = (
    "randomize",
    "inputs",
    "predict",
    "law",
    "chances",
    "update_counts",
    "update_sum",
    "learn_logged",
    "learn_labels",
)
"""Methods that get contexts or records, beside ``select_action`` and ``update``."""


def reading(select_action: Callable[..., Any]) -> Callable[..., Any]:
    """Return a ``select_action`` that gets contexts as the agent's ``contexts_of`` makes them."""

    def select(self: "Agent[Any]", context: object) -> Any:
        if self.units is not None:
            return scaled(self, context)
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
            "public_data",
            "present",
            "person",
            "seeded",
            "units",
            "context_shape",
            "context_dtype",
        }
    )
    uses_public_data: ClassVar[bool] = False
    people_seen: Seen | None = None
    """Who has been counted, of a private agent with ``people=n``; None: every visit counts."""
    units: Units | None = None
    """By what contexts and rewards are scaled at the door: public bounds of the environment; None: by nothing."""
    person: object = None
    """With ``people=n``: who is served now, integers; None: people who report, until n have."""
    gaussian: ClassVar[bool] = False
    """Whether all that is let be seen is one Gaussian mechanism: an audit then looks at its trade-off curve besides."""

    def __init_subclass__(cls, **named: Any) -> None:
        """Let a subclass's ``select_action`` get contexts as numbers, whatever users send.

        Raises:
            TypeError: the class defines ``present`` itself, or a method under the name of a base's value.
        """
        super().__init_subclass__(**named)
        if "present" in vars(cls):
            raise owned(cls)
        for base in cls.__mro__[1:]:
            named_there = vars(base).get("__annotations__", {}) if base.__module__.startswith(f"{__package__}.") else {}
            for name in named_there.keys() & {key for key, value in vars(cls).items() if isfunction(value)}:
                raise TypeError(f"{cls.__name__}.{name}() hides {base.__name__}.{name}, which is a value: rename it.")
        if "select_action" in vars(cls):
            cls.select_action = reading(vars(cls)["select_action"])  # type: ignore[method-assign]
        if "randomize" in vars(cls):  # no record decides whether a device warns, or stops at a warning
            cls.randomize = np.errstate(all="ignore")(vars(cls)["randomize"])  # type: ignore[attr-defined]
        for name in set(DOORS) & vars(cls).keys():
            setattr(cls, name, in_units(vars(cls)[name]))

    @property
    def present(self) -> Array | None:
        """Which arms are present for the users who are served now, shape (..., K); public. None: all."""
        return vars(self).get("present")

    @present.setter
    def present(self, masks: Array | None) -> None:
        if masks is not None and not are_masks(masks, vars(self).get("action_space")):
            raise owned(type(self))
        vars(self)["present"] = masks
        if "ties" in vars(self):
            self.ties.present = masks

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
        ALIVE[id(self)] = self  # old protocols of pickle make no new object by its class
        if not attributes.get("seeded", True):
            self.parted()

    def __copy__(self) -> Self:
        """Return a deep copy: agents that share parts would learn from one person in one sum, and pay for it once."""
        return copy.deepcopy(self)

    def parted(self) -> None:
        """Share no noise with the agent that this one is a copy of: take fresh keys."""
        self.rekey()

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
        return state_of(self)

    def restore(self, arrays: Arrays, values: dict[str, Any]) -> None:
        """Take over a state that an agent of the same construction returned."""
        restore_into(self, arrays, values)

    def restored(self) -> None:
        """Rebuild what is derived from the state; called after a load."""

    def rekey(self) -> None:
        """Take fresh keys from the operating system for all randomness to come; what was released stays as it is.

        From then on the agent is one without a seed.
        """
        self.seeded = False
        rekey(self)

    def contexts_of(self, context: object) -> Array:
        """Return contexts as numbers, NaN where there is none, as ``base.records`` does."""
        shape = self.observation_space.shape
        return context if shape is None else contexts_of(context, shape, self.context_dtype)  # type: ignore[return-value]

    def records_of(self, context: object, action: object, feedback: object) -> Records:
        """Return records as arrays, one row a user, NaN where there is no number, as ``base.records`` does."""
        return records_of(context, action, feedback, self.context_shape, self.action_space, self.context_dtype)

    def first_visits(self, records: tuple[Array, ...], person: object) -> tuple[Array, ...]:
        """Return the records that are learned from: with ``people=n`` the first one of each of n people, else all.

        Args:
            records: contexts, actions, feedback, and whatever else has a row a visit.
            person: the ids of the visits' people; None: everyone is new.
        """
        if self.people_seen is not None:
            return self.people_seen.taken(records, person, self.refuse)
        self.refuse(len(records[-1]))
        return records

    def refuse(self, users: int) -> None:
        """Raise an error if n more users cannot be learned from; nobody is counted then, and nothing changes.

        Raises:
            RuntimeError: they would be more than the horizon, or spend more than the ledger has.
        """

    def refuse_people(self) -> None:
        """Raise where rows without names would report: who has reported is asked by ``update`` alone.

        Raises:
            TypeError: the promise is to people.
        """
        if self.people_seen is not None:
            way_out = "call update(context, action, feedback, person=ids), or make it without people"
            raise TypeError(f"{self.name} promises to people, who have no names here; {way_out}.")

    @cached_property
    def context_shape(self) -> tuple[int, ...]:
        return self.observation_space.shape or ()

    @cached_property
    def context_dtype(self) -> Floats:
        return dtype_of(self.observation_space)

    def warn_unproven(self) -> None:
        """Warn that the published calibration is in use; call it in ``begin``."""
        text = f"{self.name}: the published calibration is kept for comparison only."
        warnings.warn(text, UnprovenCalibration, stacklevel=5)


AnyAgent: TypeAlias = Agent[Any]


class Devices:
    """Users have devices, and ``rng`` is theirs: reports are drawn from it, and it is no part of the server's state.

    A simulation that goes on bit for bit keeps ``devices_state()`` beside the server's state.
    """

    rng: Generator
    people_seen: Seen | None

    def devices_state(self) -> dict[str, Any]:
        """Return the state of the devices' generator, JSON values: for simulations, never for a server."""
        state: dict[str, Any] = {"rng": self.rng.bit_generator.state}
        if self.people_seen is not None:
            arrays, numbers = self.people_seen.state()
            state["people_seen"] = numbers | {name: array.tolist() for name, array in arrays.items()}
        return state

    def restore_devices(self, values: dict[str, Any]) -> None:
        """Let simulated devices go on with what ``devices_state`` returned."""
        self.rng.bit_generator.state = values["rng"]
        if self.people_seen is not None:
            kinds = {name: array.dtype for name, array in self.people_seen.state()[0].items()}
            self.people_seen.restore(
                {name: np.array(values["people_seen"][name], kind) for name, kind in kinds.items()},
                values["people_seen"],
            )

    def restore(self, arrays: Arrays, values: dict[str, Any]) -> None:
        """Take over the server's state; who has reported is on the devices, so nobody may until they are restored."""
        super().restore(arrays, values)  # type: ignore[misc]
        if self.people_seen is not None:
            self.people_seen.lost = True

    def rekey(self) -> None:
        """Take fresh keys from the operating system, the server's and the devices'."""
        super().rekey()  # type: ignore[misc]
        self.rng = Unseeded()


class LocalAgent(Devices, Agent[C], Generic[C, Report]):
    """An agent whose server never sees raw data: a user's device randomizes its record, the server absorbs the report.

    ``ledger`` holds the declared budget, and ``cost`` is that of one report. ``absorb`` enters each report first of
    all, under its own user, by ``pay``. ``update`` hands ``randomize`` the records as ``records_of`` makes them: any
    record reports, whatever is in it.

    ``rng`` belongs to the users' devices: reports are drawn from it, and nothing else is. The server draws from
    generators that ``begin`` spawns from it (``self.rng_choices = self.rng.spawn(1)[0]``). So ``state()``, what the
    server knows, holds nothing with which a report could be undone, and a loaded agent has devices with a fresh key.
    A simulation that goes on bit for bit keeps ``devices_state()`` beside the server's state.
    """

    ledger: Ledger
    cost: Cost
    fixed: ClassVar[frozenset[str]] = Agent.fixed | {"rng", "people_seen"}
    reports_late: ClassVar[bool] = False
    """Whether users by counts may report together when the policy changes, and not at every checkpoint before: for
    simulation, where nothing but a change of policy depends on their reports."""

    @property
    def at_once(self) -> int:
        """How many users' reports are made and absorbed at once: a bound on memory, by a report's size alone."""
        return NEVER

    @property
    def fewest_summed(self) -> int:
        """From how many users on a simulation may draw a block's sum of reports at once; ``NEVER``: not at all."""
        return NEVER

    @final
    @in_units
    def update(self, context: Array, action: Action, feedback: Feedback, person: object = None) -> None:
        rows: tuple[Array, ...] = self.records_of(context, action, feedback)
        masks = self.present
        if masks is None and self.people_seen is None and len(rows[-1]) == 1:
            with self.paying(1):
                self.absorb(self.randomize(*rows))
            return
        if masks is not None:
            rows += (np.broadcast_to(masks, (len(rows[-1]), masks.shape[-1])),)
        try:
            for part in blocks(lambda: self.at_once, *self.first_visits(rows, person)):
                if masks is not None:
                    self.present = part[3]
                with self.paying(len(part[2])):
                    self.absorb(self.randomize(*part[:3]))
        finally:
            self.present = masks

    def refuse(self, users: int) -> None:
        with self.paying(users):  # the ledger is asked, and nothing is drawn
            pass

    def paying(self, users: int) -> AbstractContextManager[object]:
        """Draw reports of n new users, and absorb them, within this: what the ledger refuses is not drawn.

        ``absorb`` enters reports, as on a server that gets them from devices. What was drawn and not entered, since an
        error came first, is entered afterwards. An agent without ``cost`` has its own way to pay.
        """
        return Paying(self, users) if users and hasattr(self, "cost") else nullcontext()

    def pay(self, users: int) -> None:
        """Enter the reports of n new users in the ledger, at ``cost`` each."""
        if users:
            self.ledger.spend(self.cost, group=self.ledger.group + 1, groups=users)

    @final
    def update_sum(self, contexts: Array, actions: Action, feedback: Feedback) -> None:
        """Learn from the sum of n users' reports, drawn at once: for simulation, from ``fewest_summed`` users on.

        Raises:
            TypeError: the law of the sum is not that of reports whose noise is drawn one by one.
        """
        self.refuse_people()
        if self.fewest_summed == NEVER:
            raise TypeError(f"{self.name} has no law of summed reports.")
        records = self.records_of(contexts, actions, feedback)
        with self.paying(len(records[-1])):
            self.absorb_sum(self.randomize_block(*records), len(records[-1]))

    def randomize_block(self, contexts: Array, actions: Action, feedback: Feedback) -> Array:
        """Return the sum of n users' reports, drawn at once by the law of ``randomize``: for simulation."""
        raise TypeError(f"{self.name} has no law of summed reports.")

    @abstractmethod
    def randomize(self, context: Array, action: Action, feedback: Feedback) -> Report:
        """Return all that leaves the devices of one user or of n; draw from ``rng``, and read public state only."""

    def in_turn(self, contexts: Array) -> InOrder | None:
        """Return the next n users in order, each with its device: for simulation, where the policy never rests.

        What does not depend on the server may be computed for all of them at once; each chooses, reports and is
        absorbed as by ``select_action``, ``randomize`` and ``absorb``, bit for bit. All of them must then be served.

        Args:
            contexts: shape (n, ...).

        Returns:
            The users; or None, and nothing has been done: the loop must be run.
        """
        return None

    def inputs(self, context: Array, action: Action, feedback: Feedback) -> Inputs | None:
        """Return what devices randomize and by what, for tests and audits, if ``randomize`` is that one call."""

    @abstractmethod
    def absorb(self, report: Report) -> None:
        """Learn from reports."""

    @final
    def update_counts(self, contexts: Array, actions: Action, feedback: Feedback, counts: Array) -> None:
        self.refuse_people()
        if not self.by_counts:
            raise TypeError(f"{self.name} learns from users one by one.")
        with self.paying(users := int(np.sum(counts))):
            self.absorb_sum(self.randomize_sum(contexts, actions, feedback, counts), users)

    def randomize_sum(self, contexts: Array, actions: Action, feedback: Feedback, counts: Array) -> Array:
        """Return the sum of the users' reports, drawn at once: for simulation, by the law of ``randomize``.

        Users by counts exist in simulations only; so this draws from ``rng`` too, as ``select_counts`` may.
        """
        raise TypeError(f"{self.name} has no law of summed reports.")

    def absorb_sum(self, total: Array, users: int) -> None:
        """Learn from the sum of the reports of ``users`` users."""
        raise TypeError(f"{self.name} has no law of summed reports.")


class Paying:
    """The reports of n new users of a local agent are drawn and absorbed within this, as ``LocalAgent.paying`` says."""

    __slots__ = "agent", "entered", "users"

    def __init__(self, agent: LocalAgent[Any, Any], users: int) -> None:
        self.agent, self.users, self.entered = agent, users, agent.ledger.releases

    def __enter__(self) -> None:
        ledger = self.agent.ledger
        ledger.check(self.agent.cost, ledger.group + 1, self.users)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.agent.pay(max(self.users - (self.agent.ledger.releases - self.entered), 0))


class CentralAgent(Publisher, Agent[C], Generic[C, Release]):
    """An agent with a trusted curator: raw data stay in ``curate``, actions read ``release`` and nothing else learned.

    ``update`` hands ``curate`` the records as ``records_of`` makes them: one row a user, and any record counts.

    By the billboard lemma the agent is jointly private if the sequence of releases is private.
    ``ledger`` holds the declared budget; ``publish`` enters a release before it is made. Take an exact value out of the
    state, and set when the next release is due, before you publish it: then an interrupted agent uses no record again,
    and goes on. The object itself, and its saved state, hold raw data and the keys of noise to come: they belong to the
    curator.
    """

    release: Release
    fixed: ClassVar[frozenset[str]] = Agent.fixed | {"watcher"}

    @final
    @in_units
    def update(self, context: Array, action: Action, feedback: Feedback, person: object = None) -> None:
        records = self.first_visits(self.records_of(context, action, feedback), person)
        new = self.curate(*records) if len(records[-1]) or self.people_seen is None else None
        if new is not None:
            self.release = new

    @abstractmethod
    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Release | None:
        """Take in the raw records of n users; return a release if one is due."""


def next_change(users: int, growth: float, least: int = 1) -> int:
    """Return after how many users a policy changes next that has changed at ``users``: grown by a factor."""
    return max(users + least, math.ceil(min(users * growth, NEVER)))


def arms_or_context(observation_space: Space, action_space: Space, dimensions: tuple[int, ...] = (1, 2)) -> str:
    """Return "" for arms with real features, each its own or one context for all."""
    real = isinstance(observation_space, Box) and len(observation_space.shape) in dimensions
    fits = real and isinstance(action_space, Discrete) and action_space.start == 0
    return "" if fits else "arms with features of shape (K, d)" + " or one context of shape (d,)" * (1 in dimensions)


def arms_with_features(observation_space: Space, action_space: Space) -> str:
    """Return "" for arms that each have real features of their own."""
    other = arms_or_context(observation_space, action_space, (2,))
    shared = other and not arms_or_context(observation_space, action_space, (1,))
    return f"{other}, which privbandit_envs.PerArm(env) makes of one context for all" if shared else other


def one_context(observation_space: Space, action_space: Space) -> str:
    """Return "" for arms that share one context of real features."""
    return "arms that share one context of shape (d,)" if arms_or_context(observation_space, action_space, (1,)) else ""


def no_context(observation_space: Space, action_space: Space) -> str:
    """Return "" for arms without a context, which is always 0."""
    alone = isinstance(observation_space, Discrete) and observation_space.n == 1
    fits = alone and isinstance(action_space, Discrete) and action_space.start == 0
    return "" if fits else "arms without a context, which is Discrete(1)"


def labels_of_contexts(observation_space: Space, action_space: Space) -> str:
    """Return "" for classification: one context for all arms, which are labels."""
    fits = arms_or_context(observation_space, action_space, (1,)) == ""
    return "" if fits else "classification: one context of shape (d,), the arms are labels"


def assortments(observation_space: Space, action_space: Space) -> str:
    """Return "" for assortments with features and revenues of shape (N, d + 1)."""
    items = action_space.n_items if isinstance(action_space, Assortments) else 0
    shape = (observation_space.shape or ()) if isinstance(observation_space, Box) else ()
    fits = len(shape) == 2 and shape[0] == items and shape[1] > 1
    return "" if fits else "assortments of items with features and a revenue"


def n_arms(action_space: Space) -> int:
    """Return how many arms there are to choose from."""
    assert isinstance(action_space, Discrete)
    return int(action_space.n)
