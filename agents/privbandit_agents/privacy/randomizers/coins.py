"""Sums of vectors by shuffled bits: a device sends its rounded vector in bits, and fair coins among them.

Albert Cheu, Adam Smith, Jonathan Ullman, David Zeber and Maxim Zhilyaev, "Distributed Differential Privacy via
Shuffling", EUROCRYPT 2019; for vectors Albert Cheu, Matthew Joseph, Jieming Mao and Binghui Peng, "Shuffle Private
Stochastic Convex Optimization", ICLR 2022. Proof: docs/privacy/shuffled-sums.md.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.privacy._validate import count, positive
from privbandit_agents.privacy.accounting.shuffling import coins_for
from privbandit_agents.privacy.mechanisms import secure

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST_BITS = 2**30
"""Coins of a batch in all coordinates that are tossed one by one; of more their number of heads is drawn at once."""


@dataclass(frozen=True)
class CoinSums:
    """Sums over a batch of vectors with entries in [-1, 1], by bits that a shuffler mixes.

    In each coordinate a device sends 2 G bits, G + a of which are 1, where a is its entry times G, rounded at random to
    a neighbouring integer, without bias; and ``tosses`` fair coins. A shuffler mixes the bits of a coordinate over all
    devices, so that the number of ones is all that the server sees.

    *Formal guarantees.* The numbers of ones of a batch are (epsilon, delta)-DP if one user's vector is replaced by one
    at l2 distance at most ``sensitivity``: a moves by an integer vector of length at most
    G sensitivity + sqrt(dim), and enough devices toss at least ``coins`` coins together (``coins_epsilon``). This holds
    towards a coalition of a share 1 - ``honest`` of the other devices, and towards any single other one: they know
    their own coins, or toss none. A batch of one is the local model. One device's own bits, before they are mixed, have
    its own coins only: they are hardly private if many devices share the work.

    Attributes:
        dim: D.
        steps: G, of the grid in one.
        coins: of a batch, in each coordinate.
        honest: the least share of the other devices of a batch that toss their coins and keep them secret, in (0, 1].
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers, where every coin is tossed.
    """

    dim: int
    steps: int
    coins: int
    honest: float = 1.0
    noise: str = "numpy"

    def __post_init__(self) -> None:
        if secure.check(self.noise) == "secure" and not self.one_by_one:
            raise ValueError(
                f"noise='secure' tosses every coin, {MOST_BITS} of a batch at most; got {self.coins * self.dim}: "
                "take a larger epsilon or fewer dimensions."
            )

    @classmethod
    def from_epsilon(
        cls, epsilon: float, delta: float, dim: int, sensitivity: float, honest: float = 1.0, noise: str = "numpy"
    ) -> "CoinSums":
        """Return the protocol with the fewest coins for (epsilon, delta); none for epsilon = infinity."""
        steps = math.ceil(16 * math.sqrt(count(dim=dim)))  # rounding adds 1/32 to the sensitivity
        shift = shift_of(dim, steps, positive(sensitivity=sensitivity))
        return cls(dim, steps, coins_for(epsilon, delta, dim, shift, 2 * steps), honest, noise)

    @property
    def one_by_one(self) -> bool:
        """Whether every coin is tossed, so that the number of heads has the exact law."""
        return self.coins * self.dim <= MOST_BITS

    def tosses(self, users: int) -> int:
        """Return how many coins each of n users tosses in each coordinate."""
        return -(-self.coins // max(1, math.floor(self.honest * (count(users=users) - 1))))

    def messages(self, users: int) -> int:
        """Return how many bits each of n users sends in each coordinate.

        Raises:
            ValueError: those of the batch are more than 2^62, which integers of 64 bits cannot count.
        """
        each = 2 * self.steps + self.tosses(users)
        if each * users > 2**62:
            raise ValueError(f"a batch of {users} users would send {each * users} bits, above 2^62: raise honest.")
        return each

    def sigma(self, users: int) -> float:
        """Return a bound on the standard deviation of a coordinate of ``estimate``: coins, and rounding."""
        return math.sqrt(users * (self.tosses(users) + 1)) / (2 * self.steps)

    def randomize(self, vectors: Floats, users: int, rng: Generator) -> Ints:
        """Return the bits of some of a batch's n users: ones of each coordinate, then zeros, shape (m, 2 D).

        Args:
            vectors: shape (m, D), with entries in [-1, 1].
            users: n, of the whole batch.
            rng: draws the same for a user, however users are cut into calls.
        """
        each, rng = self.messages(users), secure.source(self.noise, rng)
        tosses = each - 2 * self.steps
        dither, heads = (self._tossed if self.one_by_one else self._drawn)(len(vectors), tosses, rng)
        rounded = vectors * float(self.steps)
        rounded += dither
        np.minimum(np.maximum(np.floor(rounded, out=rounded), -self.steps, out=rounded), self.steps, out=rounded)
        bits = np.empty((len(vectors), 2 * self.dim), np.int64)
        ones, zeros = bits[:, : self.dim], bits[:, self.dim :]
        np.add(heads, self.steps, out=ones)
        ones += rounded.astype(np.int64)
        np.subtract(each, ones, out=zeros)
        return bits

    def estimate(self, bag: Ints, users: int) -> Floats:
        """Return an unbiased estimate of the sum of n users' vectors, shape (D,), given all of their bits (2 D,)."""
        centre = users * (self.steps + self.tosses(users) / 2)
        return np.asarray((bag[: self.dim] - centre) / self.steps)

    def _tossed(self, users: int, tosses: int, rng: Generator) -> tuple[Floats, Ints]:
        """Return uniforms in [0, 1) and numbers of heads, shape (m, D) each, by one row of random bytes a user."""
        wide = -(-tosses // 8)
        row = self.dim * (8 + wide)
        row += -row % 8  # so that rows are whole words, and calls may be cut anywhere
        dither, heads = np.empty((users, self.dim)), np.empty((users, self.dim), np.int64)
        for start in range(0, users, most := max(1, 2**24 // row)):  # bytes
            part = slice(start, min(start + most, users))
            words = secure.words(rng, row // 8 * (part.stop - start)).reshape(-1, row // 8)
            dither[part] = (words[:, : self.dim] >> np.uint64(11)) * 2.0**-53
            flips = words.astype("<u8", copy=False).view(np.uint8)[:, 8 * self.dim : self.dim * (8 + wide)]
            heads[part] = heads_of(flips.reshape(len(words), self.dim, wide), tosses)
        return dither, heads

    def _drawn(self, users: int, tosses: int, rng: Generator) -> tuple[Floats, Ints]:
        """Return the same, where there are too many coins to toss each."""
        dither, heads = np.empty((users, self.dim)), np.empty((users, self.dim), np.int64)
        for user in range(users):
            rng.random(out=dither[user])
            heads[user] = rng.binomial(tosses, 0.5, self.dim)
        return dither, heads


def shift_of(dim: int, steps: int, sensitivity: float) -> float:
    """Return how far integers move in l2: with the same uniforms a coordinate moves by less than |z - z'| G + 1."""
    return (steps * sensitivity + math.sqrt(dim)) * (1 + 1e-12)


def heads_of(flips: NDArray[Any], tosses: int) -> Ints:
    """Return the number of ones among the first bits of each row of bytes (..., w), shape (...,)."""
    if not tosses:
        return np.zeros(flips.shape[:-1], np.int64)
    most = (flips.shape[-1] - 1) // 8 * 8  # eight bytes are counted at once
    whole = np.bitwise_count(flips[..., :most].view("<u8")).sum(axis=-1, dtype=np.int64)
    whole += np.bitwise_count(flips[..., most:-1]).sum(axis=-1, dtype=np.int64)
    last = flips[..., -1] & np.uint8(255 >> (-tosses % 8))
    return np.asarray(whole + np.bitwise_count(last))
