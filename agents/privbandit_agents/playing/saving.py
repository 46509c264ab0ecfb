"""Saving an agent between two rounds, and loading it again."""

import dataclasses
from pathlib import Path
from typing import Any

from privbandit_agents.base import state
from privbandit_agents.base.agent import Agent, AnyAgent, AnyEnv
from privbandit_agents.playing.former import FIXED, is_former, renewed
from privbandit_agents.zoo.reading import ForeignModule, reading
from privbandit_agents.zoo.registry import built, spaces_of

SIZES = ("dim", "n_arms", "shared_context", "labels", "n_labels", "columns")
"""What the spaces and the settings say, wherever it stands in a state."""


def plays(agent: AnyAgent) -> str:
    """Return the spaces that an agent was built for, in words."""
    contexts = agent.observation_space
    scaled = "" if agent.units is None else f", scaled by {agent.units}"
    return f"{contexts.dtype} contexts of shape {contexts.shape} and actions in {agent.action_space}{scaled}"


def save(agent: AnyAgent, path: str | Path) -> None:
    """Write an agent between two rounds to one ``.npz`` file, without pickle, whole or not at all.

    The file of a private agent is made readable by its owner alone. That of a jointly private agent is as secret as its
    users' records: it holds the curator's exact sums and the state of its noise generators. That of a locally private
    agent holds the server's knowledge; the devices' generator is not in it.
    """
    arrays, values = agent.state()
    header = {"agent": agent.name, "config": dataclasses.asdict(agent.config), "plays": plays(agent)}
    secret = agent.guarantee.notion != "none"
    state.write(path, arrays, {"header": header, "state": values}, secret, follow=True)


def parts_of(path: str | Path) -> tuple[state.Arrays, dict[str, Any]]:
    """Return arrays and values of a file that ``save`` wrote.

    Raises:
        ValueError: it did not write this, or the checksum of a part is not that of the part.
    """
    try:
        arrays, values = state.read(path)
        known = {"header", "state"} <= set(values)
    except OSError:
        raise
    except Exception as error:  # whatever damage does to a file
        raise ValueError(f"{path} is damaged, or is no saved agent: {error}.") from error
    if not known or not isinstance(values["state"], dict):
        raise ValueError(f"{path} is no saved agent.")
    return arrays, values


def header_of(header: object, path: str | Path) -> dict[str, Any]:
    """Return a file's description of its agent, or raise ValueError."""
    kinds = {"agent": str, "config": dict, "plays": str}
    if not isinstance(header, dict) or not all(isinstance(header.get(key), kind) for key, kind in kinds.items()):
        raise ValueError(f"{path} is no saved agent: the name of the agent or its spaces are missing.")
    return header


def sentence(error: BaseException) -> str:
    """Return an error on one line, with its kind unless its text speaks for itself."""
    text = " ".join(str(error).split())[:300].rstrip(".")
    return f"{text}." if isinstance(error, ValueError | ForeignModule) else f"{type(error).__name__}: {text}."


def load(path: str | Path, env: AnyEnv, *, fork: bool = True) -> AnyAgent:
    """Return the agent that ``save`` wrote; a private one draws all noise to come from fresh keys.

    So two continuations of one file share no noise. Earlier releases stay as they are. Each continuation costs
    its own budget: a user of both pays twice.

    Args:
        path: the file.
        env: an environment with the same spaces (and public data).
        fork: False goes on with the very same noise, bit for bit as if the agent had never stopped: for tests and
            simulations. The difference of two such continuations is free of noise. Devices of a local agent have a
            fresh key all the same; ``restore_devices`` gives simulated ones what ``devices_state`` returned.

    Nothing of the file is run. Of an agent of yours import the module first, unless its package has our entry points.

    Raises:
        ValueError: other spaces, a state of another version of the agent, a damaged file, or an agent whose module is
            neither imported nor of an installed package that extends this one.
        TypeError: something that is no environment.
        OSError: the file cannot be read.
    """
    arrays, values = parts_of(path)
    spaces_of(env)
    header = header_of(values["header"], path)
    try:
        with reading():
            config = {k: v for k, v in header["config"].items() if k not in FIXED or v is not FIXED[k]}
            agent = built(header["agent"], env, None, config)
    except (Exception, SystemExit) as error:  # of whatever the file says
        raise ValueError(f"{path} has no agent for this environment: {sentence(error)}") from error
    if plays(agent) != header["plays"]:
        raise ValueError(
            f"{path} was saved for {' '.join(header['plays'].split()):.200}; the environment has {plays(agent)}."
        )
    try:
        fresh, saved = agent.state(), values["state"]
        if is_former(saved) and not is_former(fresh[1]):
            arrays, saved = renewed(arrays, saved, fresh)
        for key, own in fresh[1].items():
            if key.rpartition(".")[2] in SIZES and saved.get(key, own) != own:
                raise ValueError(f"{key} must be {own}")
        agent.restore(arrays, saved)
        agent.restored()
        if isinstance(agent, Agent) and agent.frozen_rounds() < 1:
            raise ValueError("its counters have ended, and would never move on")
        ledger: Any = getattr(agent, "ledger", None)
        if hasattr(ledger, "spent"):
            ledger.spent()  # costs that are no numbers are refused here
    except (Exception, SystemExit) as error:  # whatever an agent makes of a state of others
        raise ValueError(f"{path} was saved by another version of {agent.name}: {sentence(error)}") from error
    if fork and agent.guarantee.notion != "none":
        agent.rekey()
    return agent
