"""A lower bound on epsilon from runs that two worlds make together, with the same generators.

Where both worlds draw the same noise, an event that happens in one of them mostly happens in the other, too. How often
it does in one, less e^epsilon times how often it does in the other, then scatters far less than if the worlds were
played apart. Of two events, one of which is likelier in the one world and one in the other, both are counted: noise has
two tails.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.audits.bounds.means import STAKE
from privbandit_agents.audits.claims import Floats

Counts = NDArray[np.intp]
STAKES = {1.0: 0.75, 0.25: 0.0625, 0.5: 0.0625, 2.0: 0.0625, 4.0: 0.0625}
"""Multiples of the stake that pilot runs suggest, which may be wrong, and the shares of the wealth that play them."""
LARGEST_EPSILON = 50.0
"""Largest epsilon that a bound proves."""


@dataclass(frozen=True)
class Hits:
    """How often one or two events, of which a world never has both, happen in the runs of two worlds.

    Attributes:
        runs: how many runs have what in the two worlds, shape (..., 3, 3): 0: no event; 1: one where it is likely, 2:
            one where it is not.
        events: one or two.
    """

    runs: Floats
    events: int

    @classmethod
    def of(cls, zero: Counts, one: Counts, events: int) -> "Hits":
        """Count the runs of two worlds; each run has 0, 1 or 2 as above (n,)."""
        return cls(np.bincount(3 * zero + one, minlength=9).reshape(3, 3).astype(np.float64), events)

    @property
    def size(self) -> int:
        """How many runs there are."""
        return int(self.runs.sum() / np.prod(self.runs.shape[:-2]))

    @property
    def rates(self) -> tuple[int, int]:
        """How many runs have the first event in the world where it is likely, and in the other."""
        return int(self.runs[..., 1, :].sum()), int(self.runs[..., 2].sum())

    @property
    def apart(self) -> "Hits":
        """Expected counts of the same runs if the worlds are played apart."""
        rows, columns = self.runs.sum(axis=-1), self.runs.sum(axis=-2)
        size = self.runs.sum(axis=(-2, -1), keepdims=True)
        return Hits(rows[..., :, None] * columns[..., None, :] / size, self.events)

    def worth(self, ratio: Floats | float, delta: float) -> Floats:
        """Return what each kind of run is worth if e^epsilon is the ratio (...), shape (..., 3, 3)."""
        each = np.array([0.0, 1.0, 0.0]) - np.multiply.outer(ratio, np.array([0.0, 0.0, 1.0]))
        return np.asarray(each[..., :, None] + each[..., None, :] - self.events * delta)

    def moments(self, ratio: Floats | float, delta: float) -> tuple[Floats, Floats]:
        """Return the mean and the mean square of what runs are worth (...)."""
        shares, worth = self.runs / self.runs.sum(axis=(-2, -1), keepdims=True), self.worth(ratio, delta)
        return np.asarray(np.sum(shares * worth, axis=(-2, -1))), np.asarray(np.sum(shares * worth**2, axis=(-2, -1)))

    def promised(self, delta: float, error: float, steps: int = 20) -> Floats:
        """Return the largest epsilon that such runs would refute (...), given an error margin in deviations.

        The mean must be ``error`` deviations above 0, and more if runs are few beside the range of one (Bernstein's
        inequality).
        """
        return just_refuted(self, self.runs.shape[:-2], delta, error, steps)


def just_refuted(hits: "Hits | Tallies", shape: tuple[int, ...], delta: float, error: float, steps: int) -> Floats:
    """Return the epsilon at which the mean worth of runs is ``error`` deviations above its bound."""
    # an event promises an epsilon in this range; below 0 it only ranks events
    low, high = (np.full(shape, end) for end in (-10.0, LARGEST_EPSILON))
    for _ in range(steps):
        middle = (low + high) / 2
        ratio = np.exp(middle)
        mean, square = hits.moments(ratio, delta)
        refuted = mean >= error * np.sqrt(square) + error**2 / 2 * hits.events * ratio
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    return low


@dataclass(frozen=True)
class Tallies:
    """Many single events at once, and how often each happens in both worlds, where it is likely, and in the other (m,).

    Of an event that seldom happens in both it is what to expect if the worlds are played apart.
    """

    both: Floats
    likely: Floats
    other: Floats
    size: int
    events: int = 1

    def moments(self, ratio: Floats | float, delta: float) -> tuple[Floats, Floats]:
        """Return the mean and the mean square of what runs are worth (m,), as ``Hits.moments`` does."""
        both, likely, other = (
            hits / self.size
            for hits in (np.maximum(self.both, self.likely * self.other / self.size), self.likely, self.other)
        )
        mean = likely - ratio * other
        square = likely + ratio**2 * other - 2 * ratio * both
        return np.asarray(mean - delta), np.asarray(square - 2 * delta * mean + delta**2)

    def promised(self, delta: float, error: float, steps: int) -> Floats:
        """Return the epsilon that runs like these would just refute (m,), as ``Hits.promised`` does."""
        return just_refuted(self, self.likely.shape, delta, error, steps)


def error_of(alpha: float, fresh: int, pilot: float = math.inf) -> float:
    """Return the error margin of a mean of fresh runs, in deviations of one run; wider after few pilot runs."""
    # the best of many events looks about two standard errors too good
    return math.sqrt(2 * math.log(1 / alpha) / fresh) + 2.0 / math.sqrt(pilot)


def promise_of(pilot: Hits | Tallies, delta: float, alpha: float, fresh: int) -> Floats:
    """Return about what ``bound_together`` will find of each event (...), in fresh runs played together."""
    return pilot.promised(delta, error_of(alpha, fresh, pilot.size), 12)  # 12 halvings suffice to rank events


def best_together(pilot: Hits, delta: float, alpha: float, fresh: int) -> bool:
    """Return whether fresh runs bound an event better if the worlds are played together."""
    error = error_of(alpha, fresh)
    return bool(pilot.promised(delta, error) >= pilot.apart.promised(delta, error))


def stake_of(pilot: Hits, fresh: int, delta: float, alpha: float) -> float:
    """Return the stake that pilot runs suggest for the fresh ones; see ``bound_together``.

    At the epsilon that is just refuted wealth grows fastest with it, if no run is worth much of it.
    """
    error = error_of(alpha, fresh)
    played = pilot if best_together(pilot, delta, alpha, fresh) else pilot.apart
    ratio = float(np.exp(np.maximum(played.promised(delta, error), 0.0)))
    _, square = played.moments(ratio, delta)
    return min(error / math.sqrt(float(square) + 1e-12), STAKE / (pilot.events * (ratio + delta)))


def bound_together(hits: Hits, stake: float, delta: float, alpha: float) -> float:
    """Return a lower bound of epsilon, which exceeds the truth with probability at most alpha.

    *Formal guarantees.* Let each of k events happen with probability p in one world, which may be another world for
    each event, and q in the other. Under (epsilon, delta)-DP p - e^epsilon q - delta <= 0, however the two worlds of a
    run hang together. Say that a run is worth x = a - e^epsilon b - k delta, if a events happen where they are likely,
    and b where they are not, in either world: its mean is at most 0. A gambler stakes the same s on every run, chosen
    before the runs: wealth is multiplied by 1 + s x, whose mean is at most 1. No factor is negative as long as s k
    (e^epsilon + delta) <= 0.98; else the gambler does not play, and loses all. Runs are independent of each other,
    though not the two worlds of a run: both draw equally many numbers for each run. So the mean of the wealth in the
    end is at most the wealth before. Several gamblers, each with a stake and a share of the wealth of ``STAKES``, have
    1 together before, and 1 / alpha or more in the end with probability at most alpha (Markov). The wealth of each
    falls in epsilon, and the bound is the smallest epsilon at which all have less than that together: a bound above the
    truth means that they have had as much at the true epsilon.

    Args:
        hits: of fresh runs.
        stake: s > 0 of the first gambler, chosen before them.
        delta: in [0, 1).
        alpha: error probability.
    """
    goal = math.log(1 / alpha)

    def refuted(epsilon: float) -> bool:
        worth = np.where(hits.runs > 0, hits.worth(math.exp(epsilon), delta), 0.0)
        wealth = [
            math.log(share) + float(np.sum(hits.runs * np.log1p(factor * stake * worth)))
            for factor, share in STAKES.items()
            if factor * stake * hits.events * (math.exp(epsilon) + delta) <= STAKE
        ]
        return bool(wealth) and float(np.logaddexp.reduce(wealth)) >= goal

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, LARGEST_EPSILON
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
