"""Empirical privacy audits: lower bounds on epsilon that hold with confidence, whatever the mechanism.

Two neighbouring worlds are run many times. Pilot runs choose a statistic, a threshold and a direction; fresh runs turn
the chosen event into a lower bound. If the bound exceeds the claim, the claim is refuted; passing proves nothing.

Matthew Jagielski, Jonathan Ullman and Alina Oprea, "Auditing Differentially Private Machine Learning", NeurIPS 2020;
Milad Nasr et al., "Tight Auditing of Differentially Private Machine Learning", USENIX Security 2023 (the curve fit);
Thomas Steinke, Milad Nasr and Matthew Jagielski, "Privacy Auditing with One (1) Training Run", NeurIPS 2023.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import beta, binom, norm

from privbandit_agents.privacy._validate import count, failure
from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon, gaussian_mu

Floats = NDArray[np.float64]
DECIMALS = 9
THRESHOLDS = 400
"""At most so many candidate thresholds for each statistic in the pilot."""


@dataclass(frozen=True)
class Claim:
    """What a mechanism promises: (epsilon, delta)-DP, or zCDP of Gaussian type if ``rho`` is given.

    zCDP alone is no claim of Gaussian type: only a mechanism that adds Gaussian noise may be audited so. Such a claim,
    that no test beats the one of two unit Gaussians at distance mu = sqrt(2 rho), is audited
    by the whole trade-off curve instead of one likelihood ratio; it needs far fewer runs.

    Attributes:
        epsilon: claimed.
        delta: claimed; for a Gaussian claim, where epsilon is read off.
        rho: claimed, or None.
    """

    epsilon: float
    delta: float = 0.0
    rho: float | None = None

    @classmethod
    def gaussian(cls, epsilon: float, delta: float) -> "Claim":
        """Return the claim of a mechanism whose noise is calibrated to (epsilon, delta) by the analytic Gaussian."""
        return cls(epsilon, delta, gaussian_mu(epsilon, delta) ** 2 / 2)


class Game(ABC):
    """A mechanism or an agent in two neighbouring worlds.

    Attributes:
        name: of the target.
        pair: the two records, in words.
        claim: what is audited.
        statistics: names of the columns of ``play``.
    """

    name: str
    pair: str
    claim: Claim
    statistics: tuple[str, ...] = ("log-likelihood ratio",)

    @abstractmethod
    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        """Run world 0 or 1 so many times; return statistics of what an adversary sees, shape (runs, k)."""


@dataclass(frozen=True)
class Event:
    """An event {sign statistic >= threshold}, likelier in one world than in the other."""

    statistic: int
    sign: int
    threshold: float
    likely: int

    def rates(self, worlds: tuple[Floats, Floats]) -> tuple[int, int]:
        """Return how often it happens in the world where it is likely, and in the other."""
        hits = [int((self.sign * world[:, self.statistic] >= self.threshold).sum()) for world in worlds]
        return hits[self.likely], hits[1 - self.likely]


@dataclass(frozen=True)
class Verdict:
    """What an audit found.

    Attributes:
        name: of the target.
        claim: what was claimed.
        lower_bound: of epsilon (at the claim's delta); 0 if nothing was found. For Gaussian claims it is the epsilon of
            the Gaussian mechanism with ``rho_bound``, and says nothing of mechanisms that are not Gaussian.
        rho_bound: of rho, for Gaussian claims; else None.
        confidence: at most 1 - confidence of all audits give a bound above the truth.
        event: the event, in words.
        runs: fresh runs of each world.
        curve: false and true positive rates over all thresholds of the chosen statistic, shape (2, n), for plots.
    """

    name: str
    claim: Claim
    lower_bound: float
    rho_bound: float | None
    confidence: float
    event: str
    runs: int
    curve: Floats

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted."""
        if self.claim.rho is not None and self.rho_bound is not None:
            return self.rho_bound > self.claim.rho
        return self.lower_bound > self.claim.epsilon


def audit(
    game: Game,
    runs: int,
    rng: Generator,
    confidence: float = 0.95,
    pilot: int | None = None,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Verdict:
    """Audit a game: pilot runs choose an event, fresh runs bound epsilon by it.

    *Formal guarantees.* The event is fixed before the fresh runs, so one pair of Clopper-Pearson bounds, each at
    (1 - confidence) / 2, covers both rates: the lower bound exceeds the true epsilon with probability at most
    1 - confidence. For Gaussian claims the same holds of mu, and is evidence against that claim.

    Args:
        game: the worlds.
        runs: fresh runs of each world, >= 20.
        rng: of everything.
        confidence: in (0, 1).
        pilot: pilot runs of each world; default: ``pilot_runs(runs)``.
        on_progress: called with the number of runs done, of both worlds and both kinds.
    """
    if count(runs=runs) < 20:
        raise ValueError(f"runs must be >= 20; got {runs}.")
    failure(confidence=confidence)
    pilot = pilot_runs(runs) if pilot is None else count(pilot=pilot)
    event = choose(game, sample(game, pilot, rng, on_progress, 0), 1 - confidence)
    fresh = sample(game, runs, rng, on_progress, 2 * pilot)
    bound, rho = bound_of(game.claim, *event.rates(fresh), runs, 1 - confidence)
    words = f"{game.statistics[event.statistic]} {'>=' if event.sign > 0 else '<='} {event.sign * event.threshold:.4g}"
    return Verdict(
        game.name, game.claim, bound, rho, confidence, f"{words}, likelier in world {event.likely}",
        runs, trade_off(event, fresh),
    )  # fmt: skip


def pilot_runs(runs: int) -> int:
    """Return how many pilot runs of each world go with so many fresh ones: 2000, fewer or a quarter."""
    return max(runs // 4, min(runs, 2000))


def sample(
    game: Game, runs: int, rng: Generator, on_progress: Callable[[int], None], done: int
) -> tuple[Floats, Floats]:
    """Play both worlds in portions, so that progress can be shown and memory stays small.

    Statistics are rounded: floating-point noise betrays its own rounding errors (which is why the default generator is
    for simulation only), and without it an audit finds them instead of the law.
    """
    portion = max(1, min(runs, 4096, runs // 20 or 1))
    worlds = []
    for world in (0, 1):
        parts = []
        for start in range(0, runs, portion):
            n = min(portion, runs - start)
            parts.append(np.round(game.play(world, n, rng), DECIMALS))
            done += n
            on_progress(done)
        worlds.append(np.concatenate(parts))
    return worlds[0], worlds[1]


def choose(game: Game, pilot: tuple[Floats, Floats], alpha: float) -> Event:
    """Return the event with the best bound on the pilot runs.

    The bound is taken at a twentieth of alpha, since the best of many thresholds is a lucky one. For Gaussian claims
    every threshold tells the same in the limit; those between the two worlds need the fewest runs.
    """
    best, chosen = -math.inf, Event(0, 1, 0.0, 0)
    runs = len(pilot[0])
    for statistic in range(pilot[0].shape[1]):
        values = [world[:, statistic] for world in pilot]
        thresholds = candidates(np.concatenate(values))
        for sign in (1, -1):
            cuts = np.sort(sign * thresholds)
            hits = [runs - np.searchsorted(np.sort(sign * value), cuts, side="left") for value in values]
            for likely in (0, 1):
                scores = score(game.claim, hits[likely], hits[1 - likely], runs, alpha / 20)
                if game.claim.rho is not None:
                    between = np.abs(hits[0] + hits[1] - runs) <= runs / 10
                    scores = np.where(between, scores, -np.inf)
                k = int(scores.argmax())
                if scores[k] > best:
                    best, chosen = float(scores[k]), Event(statistic, sign, float(cuts[k]), likely)
    return chosen


def candidates(values: Floats) -> Floats:
    """Return thresholds to try: all values if they are few, else quantiles, finer in the tails."""
    finite = np.unique(values[np.isfinite(values)])
    if len(finite) <= THRESHOLDS:
        return finite if len(finite) else np.zeros(1)
    levels = expit(np.linspace(-math.log(len(finite)), math.log(len(finite)), THRESHOLDS))
    return np.unique(np.quantile(finite, levels, method="nearest"))


def score(claim: Claim, true: Any, false: Any, runs: int, alpha: float) -> Floats:
    """Return what an event's counts say about the claim: a bound on epsilon, or on mu for Gaussian claims."""
    low, high = clopper_pearson(true, runs, alpha)[0], clopper_pearson(false, runs, alpha)[1]
    if claim.rho is not None:
        return np.asarray(norm.ppf(low) - norm.ppf(high))
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low - claim.delta, 0)) - np.log(high)


def bound_of(claim: Claim, true: int, false: int, runs: int, alpha: float) -> tuple[float, float | None]:
    """Return lower bounds of (epsilon, rho or None), at least 0."""
    found = max(float(score(claim, true, false, runs, alpha)), 0.0)
    if claim.rho is None:
        return found, None
    return (gaussian_epsilon(claim.delta, found) if found else 0.0), found**2 / 2


def clopper_pearson(hits: Any, runs: int, alpha: float) -> tuple[Floats, Floats]:
    """Return the exact two-sided interval of a binomial probability: each side fails with probability alpha / 2."""
    hits = np.asarray(hits)
    low = np.where(hits > 0, beta.ppf(alpha / 2, np.maximum(hits, 1), runs - hits + 1), 0.0)
    high = np.where(hits < runs, beta.ppf(1 - alpha / 2, hits + 1, np.maximum(runs - hits, 1)), 1.0)
    return low, high


def trade_off(event: Event, worlds: tuple[Floats, Floats]) -> Floats:
    """Return (false, true) positive rates of the chosen statistic over all thresholds."""
    values = [event.sign * world[:, event.statistic] for world in worlds]
    cuts = candidates(np.concatenate(values))
    rates = [(value[:, None] >= cuts[None]).mean(axis=0) for value in values]
    return np.stack([rates[1 - event.likely], rates[event.likely]])


def one_run_bound(guesses: int, right: int, confidence: float = 0.95, delta: float = 0.0, canaries: int = 0) -> float:
    """Return a lower bound of epsilon from one run with canaries, each put in or left out by a fair coin.

    *Formal guarantees.* Under epsilon-DP (add or remove one canary) the number W of right guesses is stochastically
    dominated by Bin(guesses, q), q = e^eps / (1 + e^eps); under (epsilon, delta)-DP the probability of v or more is at
    most P[Bin >= v] + 2 canaries delta max over i of P[v - i <= Bin < v] / i. The bound exceeds the true epsilon with
    probability at most 1 - confidence.

    Args:
        guesses: number of canaries for which a guess was made.
        right: how many of the guesses were right.
        confidence: in (0, 1).
        delta: of (epsilon, delta)-DP.
        canaries: number of canaries in all; default: ``guesses``.
    """
    if not 0 <= right <= count(guesses=guesses):
        raise ValueError(f"right must lie in 0, ..., {guesses}; got {right}.")
    failure(confidence=confidence)
    below = np.arange(1, right + 1)

    def p_value(epsilon: float) -> float:
        chance = expit(epsilon)
        near = np.cumsum(binom.pmf(right - below, guesses, chance)) / below
        extra = 2 * max(canaries, guesses) * delta * float(near.max(initial=0.0))
        return float(binom.sf(right - 1, guesses, chance)) + extra

    low, high = 0.0, 60.0
    if p_value(0.0) > 1 - confidence:
        return 0.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(middle) <= 1 - confidence else (low, middle)
    return low


@dataclass(frozen=True)
class Sensitivity:
    """What a search found.

    Attributes:
        declared: the bound that noise is calibrated to.
        observed: the largest distance over named and random pairs.
        attained: the largest distance over the named pairs alone.
    """

    declared: float
    observed: float
    attained: float

    @property
    def exceeded(self) -> bool:
        """Whether the declared bound is broken."""
        return self.observed > self.declared * (1 + 1e-9)


def search_sensitivity(
    statistic: Callable[[Any], Floats],
    draw: Callable[[Generator], Any],
    named: Iterable[tuple[Any, Any]],
    declared: float,
    rng: Generator,
    order: float = 2,
    pairs: int = 2000,
) -> Sensitivity:
    """Compare the declared sensitivity of a noiseless statistic with named worst-case pairs and random ones.

    Args:
        statistic: from a record to a vector.
        draw: a random record.
        named: pairs of records.
        declared: the claimed bound on the norm of the difference.
        rng: of the search.
        order: of the norm: 1, 2 or infinity.
        pairs: how many random pairs.
    """

    def distance(one: Any, other: Any) -> float:
        return float(np.linalg.norm(np.ravel(statistic(one)) - np.ravel(statistic(other)), order))

    attained = max((distance(*pair) for pair in named), default=0.0)
    searched = max((distance(draw(rng), draw(rng)) for _ in range(pairs)), default=0.0)
    return Sensitivity(declared, max(attained, searched), attained)


def largest_loss(log_likelihood: Callable[[Any, int], Floats], reports: Iterable[Any]) -> float:
    """Return the largest absolute log ratio of the densities of two worlds over samples of reports.

    Infinite where a report is possible in one world alone: then no epsilon holds.

    Args:
        log_likelihood: of reports under world 0 or 1.
        reports: samples, of either world.
    """
    largest = 0.0
    for sampled in reports:
        zero, one = (np.asarray(log_likelihood(sampled, world)) for world in (0, 1))
        impossible = np.isneginf(zero) & np.isneginf(one)
        with np.errstate(invalid="ignore"):
            largest = max(largest, float(np.abs(np.where(impossible, 0.0, zero - one)).max()))
    return largest
