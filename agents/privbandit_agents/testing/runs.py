"""Short runs of an agent, and its state before and after."""

import copy
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym

import privbandit_envs  # noqa: F401  (registers the environments)
from privbandit_agents.audits.views.reports import encoded
from privbandit_agents.audits.views.transcript import crowd
from privbandit_agents.base.agent import AnyAgent
from privbandit_agents.base.local import Devices
from privbandit_agents.playing.play import Result, play
from privbandit_agents.playing.saving import load, save
from privbandit_agents.privacy.accounting.ledger import PrivacyBudgetExceeded
from privbandit_agents.zoo.registry import make

Check = Callable[[str, str, int, dict[str, Any]], None]
"""A check of an agent of this name in an environment of this id, for a horizon, with settings."""
Parts = tuple[dict[str, Any], dict[str, Any]]


def environment(env_id: str, horizon: int, **world: Any) -> Any:
    return gym.make(env_id, horizon=2 * horizon, **world).unwrapped


def run(
    name: str,
    env_id: str,
    horizon: int,
    config: dict[str, Any],
    wrapper: Callable[[Any], Any] = lambda env: env,
    **world: Any,
) -> tuple[Result, AnyAgent]:
    env = wrapper(environment(env_id, horizon, **world))
    agent = make(name, env, seed=1, **config)
    return play(env, agent, horizon, seed=1, by_counts=False), agent


def go_on(env: Any, agent: AnyAgent, context: Any, rounds: int) -> Any:
    for _ in range(rounds):
        action = agent.select_action(context)
        following, _, _, _, info = env.step(action)
        agent.update(context, action, info["feedback"])
        context = following
    return context


def again(agent: AnyAgent, env: Any) -> AnyAgent:
    """Return the agent after it was saved and loaded, with the same generators."""
    with tempfile.TemporaryDirectory() as folder:
        save(agent, path := Path(folder) / "agent.npz")
        loaded = load(path, env, fork=False)
    if isinstance(agent, Devices) and isinstance(loaded, Devices):
        loaded.restore_devices(agent.devices_state())
    return loaded


def serve(env: Any, agents: Sequence[AnyAgent], users: int) -> None:
    """Let the first agent choose for n users, and all agents learn from the same records."""
    for block in crowd(env, agents[0], users):
        for agent in agents:
            agent.update(block.contexts, block.actions, block.feedback)


def released(agent: AnyAgent) -> Any:
    return getattr(agent, "release", None)


def parts(agent: AnyAgent) -> Parts:
    arrays, values = agent.state()
    return {key: array.copy() for key, array in arrays.items()}, copy.deepcopy(values)


def without_generators(agent: AnyAgent) -> Parts:
    """Return a copy of an agent's state but its generators, and how many users came before in the stream of ties."""
    arrays, values = parts(agent)
    drawn = {key for key, value in values.items() if isinstance(value, dict) and "bit_generator" in value}
    return arrays, {key: values[key] for key in values.keys() - drawn if not key.startswith("ties.")}


def same_parts(one: Parts, other: Parts) -> bool:
    return not differing_parts(one, other)


def differing_parts(one: Parts, other: Parts) -> list[str]:
    """Return the names of the parts that are not equal bit for bit, and of those lacking in one."""
    mine, theirs = (found[0] | found[1] for found in (one, other))
    both = mine.keys() & theirs.keys()
    return sorted((mine.keys() ^ theirs.keys()) | {key for key in both if encoded(mine[key]) != encoded(theirs[key])})


def differing(one: AnyAgent, other: AnyAgent) -> str:
    """Return the names of the parts of two agents' states that are not equal, and of those lacking in one."""
    return ", ".join(differing_parts(one.state(), other.state())) or "the devices' generator"


def same_state(one: AnyAgent, other: AnyAgent) -> bool:
    devices = [agent.devices_state() if isinstance(agent, Devices) else None for agent in (one, other)]
    return same_parts(one.state(), other.state()) and devices[0] == devices[1]


@contextmanager
def said_by(check: str, name: str, config: Mapping[str, Any]) -> Iterator[None]:
    """Say of whatever an agent raises in which check it did, with which settings, and what to do about it.

    Raises:
        AssertionError: in place of any other error; its text begins with the check. Warnings that are errors pass.
    """
    try:
        yield
    except AssertionError as error:
        if not str(error).startswith(check):
            error.args = (f"{check}: {error}".rstrip(": "),)
        raise
    except (Warning, KeyboardInterrupt):
        raise
    except BaseException as error:
        settings = ", ".join(f"{key} = {value}" for key, value in config.items()) or "its default settings"
        raise AssertionError(
            f"{check}: {name} raised an error at {settings}. {type(error).__name__}: {error}".rstrip(": .")
            + f". {way_out(error)}."
        ) from error


def way_out(error: BaseException) -> str:
    """Return the remedy for an error, for the author of an agent."""
    if isinstance(error, OverflowError | FloatingPointError | ZeroDivisionError):
        return "Epsilon may be 0.001, 1000 or infinity: use numpy's exp, which returns inf, or treat infinity by itself"
    if isinstance(error, AttributeError | TypeError | ValueError):
        return "A record may be anything: an update of your own reads it by self.records_of(context, action, feedback)"
    if isinstance(error, PrivacyBudgetExceeded):
        return "The ledger is told of more than was declared: give a group to each release of users of their own"
    return "An agent serves every record at every budget, as whose record stops it is seen"
