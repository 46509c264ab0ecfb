"""Generators that know whom they spawned, so that an audit can compare the draws of two worlds."""

from collections.abc import Iterator, Sequence

from numpy.random import PCG64, Generator

from privbandit_agents.base.state import kept


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
    for one in (generator, *(own for agent in agents for own in generators(agent))):
        found += standing(one, runs)
    return found


def standing(generator: Generator, runs: int) -> Iterator[object]:
    """Yield the states of a generator and of all that it spawned, but those that serve one run alone."""
    yield generator.bit_generator.state
    spawned = getattr(generator, "spawned", [])
    yield len(spawned)
    for child in spawned if len(spawned) < runs else []:
        yield from standing(child, runs)


def generators(thing: object) -> Iterator[Generator]:
    """Yield the generators among an agent's attributes, and among those of its parts; its devices' is one."""
    if isinstance(own := getattr(thing, "rng", None), Generator):
        yield own
    for name, value in kept(thing):
        if isinstance(value, Generator) and name != "rng":
            yield value
        elif hasattr(value, "__dict__") and not isinstance(value, Generator):
            yield from generators(value)
