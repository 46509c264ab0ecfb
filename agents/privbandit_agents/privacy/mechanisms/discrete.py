"""Discrete Gaussian noise by comparing random integers: exact, whatever floating point does.

Clement Canonne, Gautam Kamath and Thomas Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020: on
integers it has the zCDP of the continuous one, D^2 / (2 sigma^2), by Proposition 5 and Theorem 4 for vectors. The
sampler is this project's own: rejection from blocks that halve in probability, decided by floats where they are sure
and in rational arithmetic where they are not. Proof: docs/privacy/arithmetic.md.
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from privbandit_agents.privacy._validate import budget, count, failure, positive
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho, gaussian_mu
from privbandit_agents.privacy.accounting.costs import Cost, gaussian_dp, zcdp
from privbandit_agents.privacy.mechanisms import secure
from privbandit_agents.privacy.mechanisms.additive import Gaussian
from privbandit_agents.privacy.mechanisms.grid import FINER, covering, on_finer_grid, step_of
from privbandit_agents.privacy.vectors import finite

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
BLOCKS = 40
"""Blocks that floats look at; further out rational arithmetic decides."""
AT_ONCE = 4096
"""Proposals that are looked at in one go."""
POWERS = 2.0 ** np.arange(BLOCKS + 1)


def integers(deviation: float, n: int, rng: Generator) -> Ints:
    """Return n independent integers k with probabilities proportional to exp(-k^2 / (2 deviation^2)), exactly.

    Args:
        deviation: sigma in units of the grid, 1 to 2^40.
        n: how many.
        rng: its ``random``, ``integers`` and ``bytes`` are called.
    """
    if not 1 <= deviation <= 2.0**40:
        raise ValueError(f"deviation must be in [1, 2^40]; got {deviation!r}.")
    found = np.empty(0, np.int64)
    while len(found) < n:
        found = np.concatenate([found, proposals(deviation, n - len(found), rng)])
    return found[:n]


def noisy(values: Floats, sigma: float, rng: Generator) -> Floats:
    """Return values rounded to the finer grid of noise of deviation sigma, with discrete Gaussian noise on that grid.

    What floats cannot hold is rounded after the noise was added, as a function of the exact sum.
    """
    step = step_of(sigma, FINER)
    if not step:
        return values.copy()
    noise = integers(sigma / step, values.size, rng).reshape(values.shape)
    return np.asarray(on_finer_grid(values, sigma) + noise * step)  # both are whole numbers of steps


def proposals(deviation: float, n: int, rng: Generator) -> Ints:
    """Propose 2 n + 8 integers, and return n or more of those that are accepted, or all of them if they are fewer.

    Block h = 0, 1, ... has the integers h w, ..., (h + 1) w - 1 for the power of two w <= deviation < 2 w. It is
    proposed with probability 2^-(h + 1), all its integers alike, with a fair sign; and accepted with probability 2^h
    exp(-k^2 / (2 deviation^2)) / ``ceiling``. Minus zero is rejected.
    """
    proposed, accepted, found = 2 * n + 8, list[Ints](), 0
    first, second = secure.words(rng, 2 * proposed).reshape(2, proposed)
    uniform = rng.random(proposed)
    for start in range(0, proposed, AT_ONCE):  # a few at a time, which stay in the processor's cache
        at = slice(start, start + AT_ONCE)
        accepted.append(chosen(first[at], second[at], uniform[at], deviation, rng))
        found += len(accepted[-1])
        if found >= n:
            break
    return np.concatenate(accepted)


def chosen(first: Words, second: Words, uniform: Floats, deviation: float, rng: Generator) -> Ints:
    """Return the integers that are accepted, given two random words and a uniform for each proposal."""
    width = math.frexp(deviation)[1] - 1
    # the block: how many of a word's bits are 0 before the first 1; then the place within the block
    parts, exponents = np.frexp(first.astype(np.float64))
    block = np.minimum(64 - exponents, BLOCKS)
    unclear = (block == BLOCKS) | (parts == 0.5)  # rounding may have passed a power of two
    place = (second >> np.uint64(1)) & np.uint64(2**width - 1)
    k = place.view(np.int64) + (block.astype(np.int64) << width)
    # accept where the uniform is surely below the probability
    chance = k / deviation
    chance *= chance
    chance *= -0.5
    np.exp(chance, out=chance)
    chance *= POWERS.take(block)
    chance /= ceiling(deviation)
    chance -= uniform
    sure = 2e-12  # floats err by less than 5e-13 in the first 40 blocks, where no probability is above 1
    accepted = chance > sure
    unclear |= np.abs(chance) <= sure
    for i in np.flatnonzero(unclear):
        k[i], accepted[i] = decided(int(first[i]), int(place[i]), float(uniform[i]), deviation, width, rng)
    # the sign, of which minus zero is none
    k, minus = k[accepted], second[accepted] & np.uint64(1)
    k *= 1 - 2 * minus.view(np.int64)
    return np.asarray(k[(k != 0) | (minus == 0)], np.int64)


def ceiling(deviation: float) -> float:
    """Return a bound on 2^h exp(-k^2 / (2 deviation^2)) over all blocks h and their integers k."""
    ratio = deviation / 2.0 ** (math.frexp(deviation)[1] - 1)
    return 1.001 * max(2.0**h * math.exp(-0.5 * (h / ratio) ** 2) for h in range(8))


def decided(word: int, place: int, uniform: float, deviation: float, width: int, rng: Generator) -> tuple[int, bool]:
    """Return an integer and whether it is accepted, with the random bits and digits that it takes; 0 if it is not."""
    block = 64 - word.bit_length()
    while not word:
        word = int.from_bytes(rng.bytes(8), "little")
        block += 64 - word.bit_length()
    k = (block << width) + place
    exponent = Fraction(k) ** 2 / (2 * Fraction(deviation) ** 2)
    low, bits = int(uniform * 2**53), 53
    while True:
        context = Context(prec=bits, Emin=-(10**15), Emax=10**15)
        digits = context.divide(Decimal(-exponent.numerator), Decimal(exponent.denominator))
        chance = Fraction(digits.exp(context)) * 2**block / Fraction(ceiling(deviation))
        error = Fraction(10) ** (3 + 2 * len(str(k)) - bits)  # relative: the exponent is below 10 k^2
        if Fraction(low + 1, 2**bits) <= chance * (1 - error):
            return k, True
        if Fraction(low, 2**bits) >= chance * (1 + error):
            return 0, False
        low, bits = (low << 64) + int.from_bytes(rng.bytes(8), "little"), bits + 64


def known_gaussian(mu: float, numbers: int, delta: float = 0.5) -> bool:
    """Return whether discrete noise on this many numbers is known to be mu-Gaussian DP at delta.

    Proof: docs/privacy/arithmetic.md, which also bounds by how little it may fail elsewhere.
    """
    return mu >= 2e-10 * (numbers + 500) and 1e-180 <= delta <= 0.5


@dataclass(frozen=True)
class GridGaussian(Gaussian):
    """Discrete Gaussian noise on a grid 2^-32 of its size, to which values are rounded before: a sum that is published.

    *Formal guarantees.* D^2 / (2 sigma^2)-zCDP exactly, for the numbers that leave: D is the l2 sensitivity of the
    rounded values, sqrt(d) steps more than that of the values. It is Gaussian DP, too, if ``known_gaussian`` holds, and
    zCDP alone is entered and calibrated to if not. ``noise="secure"`` takes the operating system's random numbers.

    Attributes:
        dim: d, of the vectors.
    """

    dim: int = 1

    def __post_init__(self) -> None:
        secure.check(self.noise)

    @classmethod
    def from_rho(cls, rho: float, l2_sensitivity: float, noise: str = "numpy", dim: int = 1) -> Self:
        """Return the mechanism that is rho-zCDP for an l2 sensitivity of vectors of length ``dim``."""
        ratio = 1 / math.sqrt(2 * budget(rho=rho))
        sigma = positive(l2_sensitivity=l2_sensitivity) * ratio
        return cls(covering(sigma, ratio * math.sqrt(count(dim=dim))), rho, noise, dim)

    @classmethod
    def from_epsilon(
        cls, epsilon: float, delta: float, l2_sensitivity: float, noise: str = "numpy", dim: int = 1
    ) -> Self:
        """Return the (epsilon, delta)-DP mechanism for an l2 sensitivity of vectors of length ``dim``."""
        mu = gaussian_mu(epsilon, failure(delta=delta))
        rho = mu**2 / 2 if known_gaussian(mu, count(dim=dim), delta) else epsilon_to_rho(epsilon, delta)
        return cls.from_rho(rho, l2_sensitivity, noise, dim)

    @property
    def cost(self) -> Cost:
        return gaussian_dp(self.rho) if known_gaussian(math.sqrt(2 * self.rho), self.dim) else zcdp(self.rho)

    def release(self, value: ArrayLike, rng: Generator) -> Floats:
        return noisy(finite(value), self.sigma, secure.source(self.noise, rng))
