"""Building agents by name."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from privbandit_agents.base.agent import Agent, AnyAgent, AnyEnv
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.guarantee import Guarantee
from privbandit_agents.base.local import Devices
from privbandit_agents.base.present import serving
from privbandit_agents.base.spaces import PublicData, Space
from privbandit_agents.privacy.accounting.conversions import rho_to_epsilon
from privbandit_agents.zoo.auto import Auto
from privbandit_agents.zoo.entries import AGENTS, Entry
from privbandit_agents.zoo.explore import Explored, explored_name
from privbandit_agents.zoo.plugins import load_plugins
from privbandit_agents.zoo.reading import import_named
from privbandit_envs.changing.delay import regime
from privbandit_envs.spaces import Units
from privbandit_envs.validate import did_you_mean, listed, unknown
from privbandit_envs.validate import seed as checked_seed

LEAVES = "0.5.0"  # the first version without the agents that are retired now
STRONGER = {"local": "auto-local", "shuffle": "auto-local", "joint": "auto-joint", "reward": "auto-joint"}
"""Which name builds the default agent that promises a notion of privacy, or a stronger one."""


@dataclasses.dataclass(frozen=True)
class Given(Entry):
    """A class that is not registered, as it was given."""

    cls: type[AnyAgent] | None = None

    def load(self) -> type[AnyAgent]:
        assert self.cls is not None
        return self.cls


@dataclasses.dataclass(frozen=True)
class Ready(Entry):
    """An agent that is there already, or a function of an environment and a seed that makes one.

    Attributes:
        build: returns the agent.
    """

    build: Callable[[AnyEnv, int | None], AnyAgent] | None = None

    def load(self) -> type[AnyAgent]:
        return Agent  # it has no settings; its spaces are checked when it is built


CLASSES: dict[str, type[AnyAgent]] = {}
"""Classes that ``make`` was given, by ``"module:Class"``: those of notebooks and functions have no other address."""


def named(agent: str | type[AnyAgent]) -> str:
    """Return the name of an agent; a class is known by ``"module:Class"`` from then on."""
    if isinstance(agent, str):
        return agent
    if not (isinstance(agent, type) and issubclass(agent, Agent)):
        raise TypeError(f"an agent is a name, 'file.py:Class', or a subclass of Agent; got {agent!r:.60}.")
    name = f"{agent.__module__}:{agent.__qualname__}"
    CLASSES[name] = agent
    return name


def find(name: str) -> Entry:
    """Return the entry of a name.

    ``"module:name"`` imports the module first, which registers its agents; ``"module:Class"`` and ``"file.py:Class"``
    need no registration. A name that is not known may be an installed package's, or ``"explore-NAME"``: NAME with
    ``Explore`` around it.

    Raises:
        ValueError: unknown name; the message has the nearest known one.
    """
    if name in CLASSES:
        return given(CLASSES[name], name)
    module, colon, short = name.rpartition(":")
    if colon:
        there = getattr(import_named(module), short, None)
        if isinstance(there, type) and issubclass(there, Agent) and short not in AGENTS:
            return given(there, f"{there.__module__}:{there.__qualname__}")
    if short not in AGENTS:
        load_plugins("privbandit.agents")
    if short not in AGENTS and (inner := explored_name(short)):
        return Explored(**vars(find(inner)))
    if short not in AGENTS:
        raise unknown("no agent", short, AGENTS, "privbandit list agents")
    return AGENTS[short]


def given(agent: type[AnyAgent], address: str) -> Entry:
    """Return the entry of a class that is not registered."""
    return Given(address, (agent.__doc__ or "").strip().partition("\n")[0], cls=agent)


def make(
    name: str | type[AnyAgent], env: AnyEnv, *, seed: int | None = None, warm: Any = None, **config: Any
) -> AnyAgent:
    """Build an agent for an environment.

    With ``warm`` the people of an old log are the agent's first users: it learns from what they were given and what
    came of it. Each row has the same promise as all other users, is counted among them, and is in the ledger; a horizon
    that is the environment's is longer by them. Their devices report as others' do. The promise is for a row of a log
    whose length, order and other rows do not depend on it: those of a jointly private agent, whose budget adds, or of
    one that learned from nobody. Who is in the log and comes again is covered once for each visit, or, with
    ``people=n`` and a log by ``log``, as a person.

    Args:
        name: one of ``AGENTS``; ``"module:name"`` for an agent that a module of yours registers; or a class of yours,
            by itself or as ``"file.py:Class"``. The name of the agent made is another one for ``auto-local`` and
            ``auto-joint``, which choose.
        env: a Gymnasium environment (single or vector); only its spaces, public data and auxiliary records are
            read.
        seed: of the agent's own randomness, for simulations; ``seed=3`` is the agent of a trial with seed 3. None:
            fresh keys from the operating system, as agents that meet real users need. With a seed that somebody
            knows or guesses the noise is no noise; one seed at two budgets reveals exact sums of the same users.
        warm: a ``Log`` of earlier decisions in the same world.
        **config: settings of the agent's Config; a ``horizon`` among them, and a regime of ``feedback``, are by default
            the environment's.

    Raises:
        ValueError: unknown name, a value out of range, an environment the agent cannot play, or secure noise that it
            has not, or not exactly.
        TypeError: a setting the agent does not have, or something that is no environment.

    Warns:
        DeprecationWarning: the agent is retired; the message names the one to take.
        UserWarning: the promise protects nobody in practice: epsilon is above 10, or delta at least 1 / horizon.
    """
    name = named(name)
    if after := find(name).successor:
        reason = f"{name} is retired and goes with version {LEAVES}; take {after} in its place."
        warnings.warn(reason, DeprecationWarning, stacklevel=2)
    if warm is not None and "horizon" in field_names(find(name).load().Config) and (users := horizon_of(env)):
        config = {"horizon": users + len(warm.actions)} | config
    agent = built(name, env, seed, config)
    users = horizon_of(env)
    for reason in weaknesses(agent.guarantee, users and users + (0 if warm is None else len(warm.actions))):
        warnings.warn(f"{agent.name} promises little: {reason}.", stacklevel=2)
    rows, learn = getattr(env.unwrapped, "auxiliary_data", None), getattr(agent, "learn_logged", None)
    if rows is not None and learn is not None:
        learn(*rows)
    if warm is not None:
        learn_from(agent, warm)
    return agent


def learn_from(agent: AnyAgent, log: Any) -> None:
    """Let the people of a log be an agent's first users.

    Raises:
        TypeError: the agent learns from what it chose alone.
        ValueError: the log has contexts of another shape, levels that come from its rows, or people's numbers that it
            made up, if these matter to a promise.
    """
    if not agent.learns_logs:
        raise TypeError(f"{agent.name} learns from arms that it chose itself, not from a log; leave warm out.")
    if log.contexts.shape[1:] != agent.context_shape:
        raise ValueError(
            f"the log has contexts of shape {log.contexts.shape[1:]}; {agent.name} plays {agent.context_shape}."
        )
    if agent.guarantee.notion != "none" and (columns := log.about.get("from_people")):
        read = f"the levels or bounds of {listed(columns)} come from the log's rows, so that one row moves others"
        raise ValueError(f"{read}; give Log.from_table a schema with public ones.")
    if agent.people_seen is not None and log.about.get("renumbered"):
        raise ValueError(
            "people=n counts persons by their numbers, and Log.from_table made numbers up; leave people out."
        )
    person = {} if agent.people_seen is None or log.people is None else {"person": log.people}
    with serving(agent, log.masks):
        agent.update(log.contexts, log.actions, log.feedback, **person)


def weaknesses(promise: Guarantee, users: int | None) -> list[str]:
    """Return why a proven promise to that many users protects nobody in practice, each reason in words.

    Who sees all that is released, and holds two records equally likely, tells them apart with a chance of at most
    1 / (1 + e^-epsilon), but for delta.
    """
    found: list[str] = []
    if promise.notion == "none" or not promise.proven:
        return found
    delta, epsilon = promise.delta or 0.0, promise.epsilon
    if epsilon is None:
        epsilon = rho_to_epsilon(promise.rho or 0.0, 1e-5)
    if epsilon > 10:
        adds = "no noise" if epsilon == math.inf else f"epsilon = {epsilon:.4g}"
        right = 100 / (1 + math.exp(-epsilon))
        found.append(f"with {adds} a guess which of two records a user has may be right {right:.7g} % of the time")
    if users is not None and delta * users >= 1:
        found.append(
            f"delta = {delta:g} may expose {delta * users:.3g} of {users:,} users; take one below {1 / users:.2g}"
        )
    return found


def built(name: str, env: AnyEnv, seed: int | None, config: Mapping[str, Any]) -> AnyAgent:
    """Return the agent of ``make`` before auxiliary records report: one that takes over a state has their reports."""
    if isinstance(ready := find(name), Ready) and ready.build is not None:
        return ready.build(env, seed)
    name, settings = resolved(name, env, config)
    agent_class = find(name).load()
    units, spaces = units_and_spaces(agent_class, env)
    public = (public_data(env, units),) if agent_class.uses_public_data else ()
    if public == (None,):
        raise ValueError(f"{name} learns from public data; the environment has public_data = None.")
    agent = agent_class(*spaces, settings, None if seed is None else generator(seed), *public)
    agent.name, agent.units = name, units
    promise, noise = agent.guarantee, getattr(settings, "noise", "numpy")
    if noise == "secure" and promise.notion in STRONGER and promise.arithmetic != "exact":
        reason = f"noise='secure' is for guarantees that are exact, and that of {name} with these settings is not"
        raise ValueError(f"{reason}; take {successor(name, promise.notion, env)}.")
    return agent


def successor(name: str, notion: str, env: AnyEnv) -> str:
    """Return which agent to take for secure noise in place of one that has none: the default one of the notion.

    Another notion's is named if none has it; "a larger budget" if it is the default agent itself.
    """
    for default in dict.fromkeys((STRONGER[notion], "auto-local")):
        if can_play(default, env):
            found = resolved(default, env, {"noise": "secure"})[0]
            return "a larger budget" if found == name else found
    return "an environment of another family"


def resolved(name: str, env: AnyEnv, config: Mapping[str, Any]) -> tuple[str, Any]:
    """Return name and settings of the agent that ``make`` builds, or raise: a name that chooses stands for another."""
    agent_class = find(name).load()
    units, spaces = units_and_spaces(agent_class, env)
    if needs := agent_class.plays(*spaces):
        raise ValueError(f"{name} plays {needs}; got contexts of shape {spaces[0].shape} and {spaces[1]} actions.")
    known, users = field_names(agent_class.Config), horizon_of(env)
    if config.get("noise") == "secure" and "noise" not in known and (notion := find(name).notion) in STRONGER:
        raise ValueError(f"{name} has no noise='secure'; take {successor(name, notion, env)}.")
    promised = {"horizon": users, "feedback": regime(env)}
    expected = {key: value for key, value in promised.items() if key in known and value is not None}
    settings = settings_of(name, {**expected, **config})
    if not issubclass(agent_class, Auto):
        return name, settings
    chosen = agent_class.chosen(*spaces, public_data(env, units), settings)
    return resolved(chosen, env, settings.handed_on(field_names(find(chosen).load().Config)))


def generator(seed: int) -> Generator:
    """Return an agent's generator, independent of that of a world with the same seed; long seeds count whole."""
    whole = checked_seed(seed=seed) or 0
    words = max(1, math.ceil(whole.bit_length() / 64))
    # apart from the generators of a world with the same seed
    own = SeedSequence(whole, spawn_key=(2**20,)).generate_state(words, np.uint64)
    return default_rng(SeedSequence(own.tolist(), spawn_key=(7_777_777,)))


def settings_of(name: str, config: Mapping[str, Any]) -> Any:
    """Return the agent's Config with the given settings, checked."""
    entry = find(name)
    config_class = entry.load().Config
    known = field_names(config_class)
    for key in config:
        if key not in known:
            found = f"{name} has no setting {key!r}{did_you_mean(key, known)}"
            raise TypeError(f"{found}; it has {', '.join(known) or 'none'}.")
    if None not in (epsilon := config.get("epsilon"), rho := config.get("rho")):
        raise ValueError(f"give rho or epsilon, not both; got rho={rho} and epsilon={epsilon}.")
    return config_class(**{**entry.defaults, **config})


def field_names(config_class: type[Any]) -> list[str]:
    return [f.name for f in dataclasses.fields(config_class)]


def can_play(name: str, env: AnyEnv) -> bool:
    """Return whether the agent can play the environment."""
    agent_class = find(name).load()
    units, spaces = units_and_spaces(agent_class, env)
    if agent_class.plays(*spaces):
        return False
    if issubclass(agent_class, Auto):
        chosen = agent_class.chosen(*spaces, public_data(env, units), agent_class.Config())
        return can_play(chosen, env)
    return not (agent_class.uses_public_data and public_data(env) is None)


def spaces_of(env: AnyEnv) -> tuple[Space, Space]:
    """Return the spaces of one user's context and action.

    Raises:
        TypeError: no Gymnasium environment.
    """
    if isinstance(env, gym.vector.VectorEnv):
        return env.single_observation_space, env.single_action_space
    if not isinstance(env, gym.Env):
        raise TypeError(f"env must be a Gymnasium environment, as gym.make returns it; got {env!r:.60}.")
    return env.observation_space, env.action_space


def horizon_of(env: AnyEnv) -> int | None:
    """Return how many users the environment has, or None."""
    return getattr(env.unwrapped, "horizon", None)


def units_of(env: AnyEnv) -> Units | None:
    """Return the public bounds that an environment declares, or the outermost of its wrappers that does; or None."""
    world: Any = env
    while world is not None and getattr(world, "units", None) is None:
        world = getattr(world, "env", None)
    return getattr(world, "units", None)


def units_and_spaces(agent_class: type[AnyAgent], env: AnyEnv) -> tuple[Units | None, tuple[Space, Space]]:
    """Return by what an agent scales, None if by nothing, and the spaces of what it then gets."""
    units, (contexts, actions) = units_of(env), spaces_of(env)
    if units is None or units.plain or not issubclass(agent_class, Auto | Devices | CentralAgent):
        return None, (contexts, actions)
    return units, (units.of_space(contexts), actions)


def public_data(env: AnyEnv, units: Units | None = None) -> PublicData | None:
    """Return the environment's public data in an agent's units, or None."""
    data: PublicData | None = getattr(env.unwrapped, "public_data", None)
    return data if data is None or units is None else (units.of_contexts(np.asarray(data[0])), data[1])
