"""Sums of vectors by shuffled bits: a device sends its rounded vector in bits, and fair coins among them.

Albert Cheu, Adam Smith, Jonathan Ullman, David Zeber and Maxim Zhilyaev, "Distributed Differential Privacy via
Shuffling", EUROCRYPT 2019; for vectors Albert Cheu, Matthew Joseph, Jieming Mao and Binghui Peng, "Shuffle Private
Stochastic Convex Optimization", ICLR 2022. Proof: docs/privacy/shuffled-sums.md.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.privacy._validate import count, positive
from privbandit_agents.privacy.accounting.shuffling import coins_for
from privbandit_agents.privacy.mechanisms import secure

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
MOST_COINS = 2**32
"""Coins of a batch in a coordinate, at most, if the number of heads is drawn by its exact law."""
CELLS = 16
"""Bits of a word by which ``heads_of`` looks up most numbers of heads."""


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
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers, where heads have their exact law.
    """

    dim: int
    steps: int
    coins: int
    honest: float = 1.0
    noise: str = "numpy"

    def __post_init__(self) -> None:
        if secure.check(self.noise) == "secure" and not self.exact:
            raise ValueError(
                f"noise='secure' tosses at most {MOST_COINS} coins a coordinate; got {self.coins}: "
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
    def exact(self) -> bool:
        """Whether numbers of heads are drawn by their exact law."""
        return self.coins <= MOST_COINS

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

    def randomize(self, vectors: Floats, users: int, rng: Generator, own: NDArray[np.integer] | int = 0) -> Ints:
        """Return the bits of some of a batch's n users: ones of each coordinate, then zeros, shape (m, 2 D).

        Args:
            vectors: with entries in [-1, 1], shape (m, D); or one block of them, the other blocks being zeros.
            users: n, of the whole batch.
            rng: draws the same for a user, however users are cut into calls, unless 64 bits decide no number of heads.
            own: the block of each user, shape (m,).
        """
        each, rng = self.messages(users), secure.source(self.noise, rng)
        (m, size), tosses = vectors.shape, each - 2 * self.steps
        if self.exact:
            words = secure.words(rng, m * (size + self.dim)).reshape(m, size + self.dim)
            dither, heads = (words[:, :size] >> np.uint64(11)) * 2.0**-53, heads_of(words[:, size:], tosses, rng)
        else:
            dither, heads = np.empty((m, size)), np.empty((m, self.dim), np.int64)
            for user in range(m):
                rng.random(out=dither[user])
                heads[user] = rng.binomial(tosses, 0.5, self.dim)
        dither += vectors * float(self.steps)
        rounded = np.minimum(np.maximum(np.floor(dither, out=dither), -self.steps), self.steps).astype(np.int64)
        # the messages: what is rounded, in its own block, and the coins
        bits = np.empty((m, 2 * self.dim), np.int64)
        np.add(heads, self.steps, out=bits[:, : self.dim])
        bits.reshape(m, 2 * self.dim // size, size)[np.arange(m), own] += rounded
        np.subtract(each, bits[:, : self.dim], out=bits[:, self.dim :])
        return bits

    def estimate(self, bag: Ints, users: int) -> Floats:
        """Return an unbiased estimate of the sum of n users' vectors, shape (D,), given all of their bits (2 D,)."""
        centre = users * (self.steps + self.tosses(users) / 2)
        return np.asarray((bag[: self.dim] - centre) / self.steps)


def shift_of(dim: int, steps: int, sensitivity: float) -> float:
    """Return how far integers move in l2: with the same uniforms a coordinate moves by less than |z - z'| G + 1."""
    return (steps * sensitivity + math.sqrt(dim)) * (1 + 1e-12)


def heads_of(words: Words, tosses: int, rng: Generator) -> Ints:
    """Return the number of heads of ``tosses`` fair coins, for each word: exact, by inversion.

    k heads are where a uniform in [0, 1) is P(k - 1 heads or fewer) or more and less than P(k or fewer). A word is its
    first 64 bits; where these do not decide, ``rng`` draws more.

    Args:
        words: uniform, shape (m, D).
        tosses: at most 2^32.
        rng: a source of more words.
    """
    if not tosses:
        return np.zeros(words.shape, np.int64)
    first, low, high, before = thresholds(tosses)
    places = before.take((words >> np.uint64(64 - CELLS)).view(np.int64)).reshape(-1)
    near = (places < 0).nonzero()[0]
    if len(near):  # thresholds are in the cells of these words, mostly one
        word, place = words.reshape(-1)[near], ~places[near]
        place += word > high[place]
        far = (word > high[place]).nonzero()[0]
        place[far] = high.searchsorted(word[far])
        for at in (word >= low[place]).nonzero()[0]:
            place[at] = decided(int(word[at]), tosses, rng) - first
        places[near] = place
    return np.add(places.reshape(words.shape), first, dtype=np.int64)


@lru_cache(maxsize=8)
def thresholds(tosses: int) -> tuple[int, Words, Words, NDArray[np.int32]]:
    """Return bounds on P(k heads or fewer), k = first, first + 1, ..., by floats and their error.

    Returns:
        The first k; the bounds in units of 2^-64, from below and from above, and 2^64 - 1 behind them; and for each
        cell of words the number of bounds from above in the cells before it, or ~ of that if the cell has bounds.
    """
    half, odd = tosses // 2, tosses % 2
    steps = min(half, math.ceil(8 * math.sqrt(tosses)))  # each further out is below 2^-90
    k = np.arange(half, half - steps, -1, dtype=np.longdouble)
    sums = np.cumprod(np.append(np.longdouble(1), k / (tosses + 1 - k)))[::-1].cumsum()  # the middle one counts 1
    sums *= np.longdouble(2.0**64) / (2 * sums[-1] - (1 - odd))
    error = 4 * (steps + 8) * np.finfo(np.longdouble).eps
    low, high = (sums * (1 - error)).astype(np.uint64), (sums * (1 + error) + 1).astype(np.uint64)
    none = max(int(np.count_nonzero(high <= 1)) - 1, 0)
    lower, upper = slice(none, steps + odd), slice(none, steps)  # the upper half mirrors the lower one
    low, high = (
        np.concatenate([one[lower], ~other[upper][::-1], [np.uint64(2**64 - 1)]])
        for one, other in ((low, high), (high, low))
    )
    cells = (np.concatenate([low, high]) >> np.uint64(64 - CELLS)).view(np.int64)
    here = np.bincount(cells[len(low) :], minlength=2**CELLS)
    before = (here.cumsum() - here).astype(np.int32)
    before[cells] = ~before[cells]
    return half - steps + none, low, high, before


def decided(word: int, tosses: int, rng: Generator) -> int:
    """Return the number of heads, by integers, for a uniform that begins with a word; ``rng`` draws what follows."""
    half, bits, upper = tosses // 2, 64, word >> 63
    while True:
        word, bits = (word << 64) + int(secure.words(rng, 1)[0]), bits + 64
        least = 2**bits - 1 - word if upper else word  # the upper half mirrors the lower one
        ratios = [1 << bits + 128]  # to the middle one, rounded down
        while ratios[-1] and len(ratios) <= half:
            k = half + 1 - len(ratios)
            ratios.append(ratios[-1] * k // (tosses + 1 - k))
        first, sums, slack = half + 1 - len(ratios), list(accumulate(reversed(ratios))), (tosses + 2) ** 2
        whole = 2 * sums[-1] - (1 - tosses % 2) * ratios[0]
        # the uniform is at least P(first + place - 1 or fewer), and less than P(first + place or fewer)?
        place = bisect_right(sums, (least * whole >> bits) - slack)
        if (place or not first) and (least + 1) * (whole + slack) <= sums[place] << bits:
            return tosses - first - place if upper else first + place
