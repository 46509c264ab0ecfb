"""All that a model of stable-baselines3 goes on from: networks, optimiser and replay buffer."""

from typing import TYPE_CHECKING, Any

from privbandit_agents.base.agent import Array
from privbandit_agents.base.state import inside

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

Arrays = dict[str, Array]
Values = dict[str, Any]
COUNTERS = ("num_timesteps", "_n_updates", "_n_calls", "exploration_rate")
SHOWN = ("_last_obs", "_last_episode_starts")
BUFFER = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def model_state(model: Any) -> tuple[Arrays, Values]:
    """Return (arrays, JSON values) from which ``give_state`` brings another model to the same place."""
    arrays = {f"policy.{name}": array for name, array in parameters_of(model.policy).items()}
    arrays |= {f"shown.{name}": getattr(model, name).copy() for name in SHOWN if model._last_obs is not None}
    values: Values = {name: getattr(model, name) for name in COUNTERS if hasattr(model, name)}
    values["sampler"] = model.action_space.np_random.bit_generator.state
    for parts, (inner_arrays, inner_values) in {
        "optimizer": optimizer_state(model.policy.optimizer),
        "buffer": buffer_state(getattr(model, "replay_buffer", None)),
    }.items():
        arrays |= {f"{parts}.{name}": array for name, array in inner_arrays.items()}
        values[parts] = inner_values
    return arrays, values


def give_state(model: Any, arrays: Arrays, values: Values) -> None:
    """Bring a model that was built alike to a saved place."""
    give(model.policy, inside("policy", arrays))
    give_optimizer(model.policy.optimizer, inside("optimizer", arrays), values["optimizer"])
    if values["buffer"]:
        give_buffer(model.replay_buffer, inside("buffer", arrays), values["buffer"])
    for name, array in inside("shown", arrays).items():
        setattr(model, name, array.copy())
    for name in COUNTERS:
        if name in values:
            setattr(model, name, values[name])
    model.action_space.np_random.bit_generator.state = values["sampler"]


def parameters_of(policy: "Module") -> Arrays:
    """Return a copy of a torch module's parameters and buffers, by name."""
    return {name: tensor.numpy().copy() for name, tensor in policy.state_dict().items()}


def give(policy: "Module", parameters: Arrays) -> None:
    """Set a torch module's parameters and buffers."""
    import torch

    policy.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in parameters.items()})


def optimizer_state(optimizer: "Optimizer") -> tuple[Arrays, Values]:
    """Return an optimiser's moments, as arrays, and its plain counters, under ``<parameter>.<name>``."""
    kept = {f"{i}.{key}": value for i, s in optimizer.state_dict()["state"].items() for key, value in s.items()}
    arrays = {name: value.numpy().copy() for name, value in kept.items() if hasattr(value, "numpy")}
    return arrays, {name: value for name, value in kept.items() if name not in arrays}


def give_optimizer(optimizer: "Optimizer", arrays: Arrays, values: Values) -> None:
    """Set an optimiser's moments and counters."""
    import torch

    moments: dict[int, dict[str, Any]] = {}
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    for name, value in {**tensors, **values}.items():
        parameter, _, key = name.partition(".")
        moments.setdefault(int(parameter), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})


def buffer_state(buffer: Any) -> tuple[Arrays, Values]:
    """Return the filled part of a replay buffer; nothing for algorithms without one."""
    if buffer is None:
        return {}, {}
    filled = len(buffer.rewards) if buffer.full else buffer.pos
    return {name: getattr(buffer, name)[:filled] for name in BUFFER}, {"pos": buffer.pos, "full": buffer.full}


def give_buffer(buffer: Any, arrays: Arrays, values: Values) -> None:
    """Fill a replay buffer."""
    for name, array in arrays.items():
        getattr(buffer, name)[: len(array)] = array
    buffer.pos, buffer.full = values["pos"], values["full"]
