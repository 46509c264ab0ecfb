"""The global generators of numpy and torch, and torch's threads, lent to one agent at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from privbandit_agents.baselines.rl.state import Arrays, Values


class OwnGenerators:
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
    """Return the states of the global generators."""
    import torch

    _, key, pos, has_gauss, cached = np.random.get_state()  # noqa: NPY002 (stable-baselines3 draws from it)
    return {"torch": torch.get_rng_state().numpy().copy(), "numpy": key}, {"rest": [pos, has_gauss, cached]}  # type: ignore[dict-item]


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
