"""Generators that know whom they spawned, so that an audit can compare the draws of two worlds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
from numpy.random import PCG64, Generator, RandomState


class Watched(Generator):
    """A generator that remembers its children, which do the same."""

    def __init__(self, bits: PCG64) -> None:
        super().__init__(bits)
        self.spawned: list[Generator] = []

    def spawn(self, n_children: int) -> list[Generator]:
        children = super().spawn(n_children)
        self.spawned += children
        return children


def position(generator: Generator, made: Sequence[object], runs: int) -> list[object]:
    """Return where generators stand that serve several of n runs: one, all it spawned, and those of agents.

    Who spawned one for each run, or made an agent for each, may have runs that draw as they like.
    """
    agents = made if len(made) < runs else []
    found: list[object] = [len(made)]
    for one in (
        generator,
        *(own for agent in agents for own in generators(vars(agent)).values() if isinstance(own, Generator)),
    ):
        found += standing(one, runs)
    return found


def standing(generator: Generator, runs: int) -> Iterator[object]:
    """Yield the states of a generator and of all that it spawned, but those that serve one run alone."""
    yield generator.bit_generator.state
    spawned = getattr(generator, "spawned", [])
    yield len(spawned)
    for child in spawned if len(spawned) < runs else []:
        yield from standing(child, runs)


def generators(thing: object, path: str = "self.", within: tuple[object, ...] = ()) -> dict[str, Any]:
    """Return the generators in a mapping, a list, or an object's attributes, and in their parts, by the way to them."""
    found: dict[str, Any] = {}
    parts = (
        thing if isinstance(thing, Mapping) else dict(enumerate(thing[:100] if isinstance(thing, list | tuple) else ()))
    )
    if hasattr(thing, "__dict__") and not isinstance(thing, type | Mapping):
        parts = vars(thing)
    for name, value in list(parts.items()):
        if isinstance(value, gym.Space):  # draws for whoever tries actions
            continue
        if isinstance(value, Generator | RandomState):
            found[f"{path}{name}"] = value
        elif len(within) < 6 and not callable(value) and not any(value is one for one in within):
            found |= generators(value, f"{path}{name}.", (*within, value))
    return found
