"""Generators with a key from the operating system, which no copy and no pickle has."""

from typing import Any

from numpy.random import PCG64, BitGenerator, Generator


class Unseeded(Generator):
    """A generator with a key from the operating system, which no copy and no pickle has: these take keys of their own.

    So do the copies of what it spawns.
    """

    def __init__(self, bits: BitGenerator | None = None) -> None:
        super().__init__(PCG64() if bits is None else bits)

    def __reduce__(self) -> tuple[Any, ...]:
        return Unseeded, ()


def alike(rng: Generator, bits: BitGenerator) -> Generator:
    """Return a generator of these bits whose copies take fresh keys if those of ``rng`` do."""
    return Unseeded(bits) if isinstance(rng, Unseeded) else Generator(bits)
