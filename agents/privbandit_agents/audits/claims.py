"""The parts of an audit: a promise, the game that puts it to the test, and the result."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.privacy.accounting.conversions import gaussian_mu

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Claim:
    """The promise of a mechanism: (epsilon, delta)-DP, or zCDP if ``rho`` is given.

    zCDP alone is no claim of Gaussian type: only a mechanism that adds Gaussian noise may be audited so. Its claim is
    that no test beats the one of two unit Gaussians at distance mu = sqrt(2 rho). Two worlds are then held against the
    whole trade-off curve instead of one likelihood ratio, which needs far fewer runs.

    Attributes:
        epsilon: claimed.
        delta: claimed; for a claim of zCDP, where epsilon is read off.
        rho: claimed, or None.
        gaussian_type: whether a rho is of Gaussian type; if not, the KL divergence is audited, which is at most rho.
    """

    epsilon: float
    delta: float = 0.0
    rho: float | None = None
    gaussian_type: bool = True

    @classmethod
    def gaussian(cls, epsilon: float, delta: float) -> "Claim":
        """Return the claim of a mechanism with noise calibrated to (epsilon, delta) by the analytic Gaussian."""
        return cls(epsilon, delta, gaussian_mu(epsilon, delta) ** 2 / 2)

    def times(self, factor: float) -> "Claim":
        """Return the claim of a mechanism with ``factor`` times the epsilon."""
        rho = None if self.rho is None else self.rho * self.nearer(factor) ** 2
        return replace(self, epsilon=factor * self.epsilon, rho=rho)

    def nearer(self, factor: float) -> float:
        """Return by how much Gaussian noise shrinks if epsilon grows by a factor; at delta = 0, by the factor."""
        if not (self.delta and np.isfinite(self.epsilon)):
            return factor
        return gaussian_mu(factor * self.epsilon, self.delta) / gaussian_mu(self.epsilon, self.delta)

    def share(self, epsilon: float, rho: float | None) -> float:
        """Return which share of the claimed epsilon lower bounds show; the root counts if rho is claimed."""
        if self.rho is None or rho is None:
            return epsilon / self.epsilon if self.epsilon else math.inf
        return math.sqrt(rho / self.rho) if self.rho else math.inf

    def refuted_by(self, epsilon: float, rho: float | None) -> bool:
        """Return whether lower bounds of epsilon and, for a claim of zCDP, of rho exceed the claim."""
        return epsilon > self.epsilon if self.rho is None or rho is None else rho > self.rho


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
        canaries: how many coins are guessed in each run; 0: two worlds are compared.
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
    presumed: Claim | None = None
    blind: bool = False
    made: list[object] | None = None

    @abstractmethod
    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        """Run world 0 or 1 ``runs`` times; return statistics of the adversary's view, shape (runs, k).

        Runs are independent. All noise is drawn from ``rng``, or from generators that are spawned from it or seeded by
        it. Worlds may be played with equal generators, so that they draw the same noise.

        With canaries every run is in many worlds, and the statistics are of guesses: see ``audit_canaries``.
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
        lower_bound: of epsilon (at the claim's delta); 0 if nothing was found. For Gaussian claims of two worlds it is
            the epsilon of the Gaussian mechanism with ``rho_bound``.
        rho_bound: of rho, for claims of zCDP; else None.
        confidence: at most 1 - confidence of all audits give a bound above the truth.
        event: the event, in words.
        runs: fresh runs of each world.
        curve: false and true positive rates over all thresholds of the chosen statistic, shape (2, n), for plots.
        rates: of the event, in the world where it is likely and in the other one; with canaries they mean nothing.
        shares: how right guesses of canaries were in each run, their mean square and size, shape (runs, 3); else none.
        presumed: the verdict of the same runs on the claim that the game presumes, at the same confidence; None: the
            game presumes none.
    """

    name: str
    claim: Claim
    lower_bound: float
    rho_bound: float | None
    confidence: float
    event: str
    runs: int
    curve: Floats
    rates: tuple[float, float] = (0.5, 0.5)
    shares: Floats = field(default_factory=lambda: np.zeros(0))
    presumed: "AuditResult | None" = None

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted, whatever becomes of the one that is presumed."""
        return self.claim.refuted_by(self.lower_bound, self.rho_bound)
