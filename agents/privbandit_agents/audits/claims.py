"""The parts of an audit: a promise and what guesses are worth under it, the game that is played, and the result."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon, gaussian_mu

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Claim:
    """The promise of a mechanism: (epsilon, delta)-DP, or zCDP if ``rho`` is given.

    Attributes:
        epsilon: claimed.
        delta: claimed; for a claim of zCDP, where epsilon is read off.
        rho: claimed, or None.
    """

    epsilon: float
    delta: float = 0.0
    rho: float | None = None

    @classmethod
    def gaussian(cls, epsilon: float, delta: float) -> "Claim":
        """Return the claim of a mechanism with noise calibrated to (epsilon, delta) by the analytic Gaussian."""
        return cls(epsilon, delta, gaussian_mu(epsilon, delta) ** 2 / 2)

    @property
    def empty(self) -> str:
        """Why the claim says nothing, in words: an agent that sends records as they are all but keeps it; else ""."""
        nothing = self.delta >= 0.5 or self.epsilon > 50
        return "which says nothing: claim an epsilon of at most 50, and a delta far below 1/2" if nothing else ""

    @property
    def level(self) -> float:
        """The number that an audit bounds from below: rho if it is claimed, else epsilon."""
        return self.epsilon if self.rho is None else self.rho

    def worth(self, told: Floats, level: float, lean: float, sides: float) -> Floats:
        """Return what the guesses of runs are worth at a level; under a claim of this level at most 0 in the mean.

        *Formal guarantees.* ``docs/privacy/auditing.md`` has the proof, for guesses that may abstain, whatever the
        guesses of a run depend on. Worth falls in the level.

        Args:
            told: right and wrong guesses, and their mean square, of each run, shape (n, 3): see ``bets.Guess``.
            level: epsilon, or rho if that is claimed.
            lean: root mean square that guesses are expected to have, > 0; any number is valid.
            sides: 1, or 1/2 if guesses name one side of a coin alone.
        """
        right, wrong, square = told.T
        if self.rho is None:
            return np.asarray(right - math.exp(level) * wrong - sides * self.delta)
        return np.asarray(right - wrong - tilt(level) / 2 * (square / lean + lean))

    def largest_loss(self, level: float, lean: float) -> float:
        """Return the most that a run can lose: minus the least ``worth``."""
        if self.rho is None:
            return math.exp(level) + self.delta
        return 1 + tilt(level) / 2 * (1 / lean + lean)

    def times(self, factor: float) -> "Claim":
        rho = None if self.rho is None else self.rho * self.nearer(factor) ** 2
        return replace(self, epsilon=factor * self.epsilon, rho=rho)

    def nearer(self, factor: float) -> float:
        """Return by how much Gaussian noise shrinks if epsilon grows by a factor; at delta = 0, by the factor."""
        if not (self.delta and np.isfinite(self.epsilon)):
            return factor
        return gaussian_mu(factor * self.epsilon, self.delta) / gaussian_mu(self.epsilon, self.delta)


def tilt(rho: float) -> float:
    """Return the t in [0, 1) with 2 t atanh t = rho: two coins of bias +-t are exactly so far apart."""
    if rho >= 60.0:  # t is 1 but for rounding
        return 1 - 1e-15
    return float(scipy.optimize.brentq(lambda t: shown_rho(t) - rho, 0.0, 1 - 1e-15))


def shown_rho(t: float) -> float:
    """Return the least rho under which guesses of root mean square v are right by t v in the mean."""
    t = min(max(t, 0.0), 1 - 1e-15)
    return 2 * t * math.atanh(t)


class Game(ABC):
    """A mechanism or an agent in two neighbouring worlds.

    Attributes:
        name: of the target.
        pair: the two records, in words.
        claim: the audited promise.
        statistics: names of the columns of ``play``.
        seen: the adversary's view, in words.
        unseen: where the adversary does not look, in words.
        runs: fresh runs of each world by default.
        delta: of (epsilon, delta) by default.
        part: what of a target the game is about, where several are played; "": all of it.
        canaries: how many coins are guessed in each run; 0: one coin, which says the world.
        pilot: pilot runs of each world; None: a number by the fresh runs.
        presumed: the claim that Gaussian noise would have, if the target declares such noise and promises no more
            than (epsilon, delta). It has a verdict of its own, and is no part of ``claim``.
        blind: whether all that the game looks at was the same in all pilot runs.
        made: collects agents that the game makes while an audit compares their generators; None: nobody looks.
    """

    name: str
    pair: str
    claim: Claim
    statistics: tuple[str, ...] = ("log-likelihood ratio",)
    seen: str = "what the mechanism releases"
    unseen: str = "other pairs of records"
    runs: int = 20_000
    delta: float = 1e-5
    part: str = ""
    canaries: int = 0
    pilot: int | None = None
    presumed: Claim | None = None
    blind: bool = False
    made: list[object] | None = None

    @abstractmethod
    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        """Run world 0 or 1 ``runs`` times; return statistics of the adversary's view, shape (runs, k).

        Runs are independent. All noise is drawn from ``rng``, or from generators that are spawned from it or seeded by
        it. Worlds may be played with equal generators, so that they draw the same noise.

        With canaries every one of k users has a coin, and world 1 has the coins of world 0 turned. There is a score of
        each coin, positive if the coin seems to be heads, and what is returned is the score if the coin is heads in
        world 0 and minus the score if it is tails there, shape (runs, k).
        """

    def stronger(self, factor: float) -> "Game | None":
        """Return the same game with ``factor`` times the epsilon if its choices can be kept; else None."""
        return None

    @property
    def title(self) -> str:
        return f"{self.name}, {self.part}" if self.part else self.name


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit.

    Attributes:
        name: of the target.
        claim: the audited promise.
        bound: lower bound of the claim's level: of rho if that is claimed, else of epsilon at the claim's delta; 0 if
            nothing was found.
        confidence: at most 1 - confidence of all audits give a bound above the truth.
        event: what is guessed from, in words.
        runs: fresh runs of each world.
        curve: false and true positive rates over all thresholds of the chosen statistic, shape (2, n), for plots.
        told: right and wrong guesses and their mean square in each run, shape (runs, 3).
        bet: that was made on them.
        presumed: the verdict of the same runs on the claim that the game presumes, at the same confidence; None: the
            game presumes none.
    """

    name: str
    claim: Claim
    bound: float
    confidence: float
    event: str
    runs: int
    curve: Floats
    told: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    bet: Any = None
    presumed: "AuditResult | None" = None

    @property
    def refuted(self) -> bool:
        return self.bound > self.claim.level

    @property
    def share(self) -> float:
        """The bound over the claimed epsilon; of rho the root counts."""
        if not self.claim.level:
            return math.inf if self.bound else 0.0
        share = self.bound / self.claim.level
        return share if self.claim.rho is None else math.sqrt(share)

    @property
    def lower_bound(self) -> float:
        """The bound of epsilon; of a claim of rho, that of Gaussian noise with this rho, at the claim's delta."""
        if self.claim.rho is None or not self.bound or not self.claim.delta:
            return self.bound if self.claim.rho is None else 0.0
        return gaussian_epsilon(mu=math.sqrt(2 * self.bound), delta=self.claim.delta)

    @property
    def rho_bound(self) -> float | None:
        return None if self.claim.rho is None else self.bound
