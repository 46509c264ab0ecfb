"""All that a model of stable-baselines3 goes on from: networks, optimizer, replay buffer, and global generators."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from privbandit_agents.base.spaces import Array
from privbandit_agents.base.state import inside

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

Arrays = dict[str, Array]
Values = dict[str, Any]
COUNTERS = ("num_timesteps", "_n_updates", "_n_calls", "exploration_rate")
SHOWN = ("_last_obs", "_last_episode_starts")
BUFFER = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def state_of(model: Any) -> tuple[Arrays, Values]:
    """Return (arrays, JSON values) from which ``give_state`` brings another model to the same place."""
    arrays = {f"policy.{name}": array for name, array in parameters_of(model.policy).items()}
    arrays |= {f"shown.{name}": getattr(model, name).copy() for name in SHOWN if model._last_obs is not None}
    values: Values = {name: getattr(model, name) for name in COUNTERS if hasattr(model, name)}
    values["sampler"] = model.action_space.np_random.bit_generator.state
    # the optimiser's moments, as arrays, and its plain counters, under <parameter>.<name>
    states = model.policy.optimizer.state_dict()["state"]
    kept = {f"{i}.{key}": value for i, state in states.items() for key, value in state.items()}
    arrays |= {f"optimizer.{name}": value.numpy().copy() for name, value in kept.items() if hasattr(value, "numpy")}
    values["optimizer"] = {name: value for name, value in kept.items() if not hasattr(value, "numpy")}
    # the filled part of the replay buffer, of algorithms that have one
    values["buffer"] = {}
    if (buffer := getattr(model, "replay_buffer", None)) is not None:
        filled = len(buffer.rewards) if buffer.full else buffer.pos
        arrays |= {f"buffer.{name}": getattr(buffer, name)[:filled] for name in BUFFER}
        values["buffer"] = {"pos": buffer.pos, "full": buffer.full}
    return arrays, values


def give_state(model: Any, arrays: Arrays, values: Values) -> None:
    """Bring a model that was built alike to a saved place."""
    give(model.policy, inside("policy", arrays))
    give_optimizer(model.policy.optimizer, inside("optimizer", arrays), values["optimizer"])
    for name, array in inside("buffer", arrays).items():
        getattr(model.replay_buffer, name)[: len(array)] = array
    if values["buffer"]:
        model.replay_buffer.pos, model.replay_buffer.full = values["buffer"]["pos"], values["buffer"]["full"]
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
    import torch

    policy.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in parameters.items()})


def give_optimizer(optimizer: "Optimizer", arrays: Arrays, values: Values) -> None:
    import torch

    moments: dict[int, dict[str, Any]] = {}
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    for name, value in {**tensors, **values}.items():
        parameter, _, key = name.partition(".")
        moments.setdefault(int(parameter), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})


class Generators:
    """The states that the global generators of numpy and torch have for one agent.

    stable-baselines3 draws from the global generators, so an agent brings its own and takes them away again.
    """

    def __init__(self) -> None:
        self.kept: tuple[Arrays, Values] | None = None

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Make the agent's generators the global ones, if it has any yet; keep them, and put back the others."""
        others = generators()
        if self.kept is not None:
            give_generators(*self.kept)
        try:
            yield
            self.keep()
        finally:
            give_generators(*others)

    def keep(self) -> None:
        self.kept = generators()


def generators() -> tuple[Arrays, Values]:
    import torch

    _, key, pos, has_gauss, cached = np.random.get_state()  # noqa: NPY002 (stable-baselines3 draws from it)
    return {"torch": torch.get_rng_state().numpy().copy(), "numpy": key}, {"rest": [pos, has_gauss, cached]}


def give_generators(arrays: Arrays, values: Values) -> None:
    import torch

    torch.set_rng_state(torch.from_numpy(arrays["torch"].copy()))
    np.random.set_state(("MT19937", arrays["numpy"], *values["rest"]))  # noqa: NPY002


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch use one thread: small networks gain nothing from more, and sums stay in one order."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
