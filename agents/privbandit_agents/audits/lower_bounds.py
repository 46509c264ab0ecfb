"""Empirical privacy audits: lower bounds on epsilon that hold with confidence, whatever the mechanism.

Two neighbouring worlds are run many times. Pilot runs choose a statistic, a threshold and a direction; fresh runs turn
the chosen event into a lower bound. If the bound exceeds the claim, the claim is refuted; passing proves nothing.

Matthew Jagielski, Jonathan Ullman and Alina Oprea, "Auditing Differentially Private Machine Learning", NeurIPS 2020;
Milad Nasr et al., "Tight Auditing of Differentially Private Machine Learning", USENIX Security 2023 (the curve fit).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike

from privbandit_agents.audits.canaries import audit_canaries
from privbandit_agents.audits.claims import AuditResult, Claim, Floats, Game
from privbandit_agents.privacy._validate import count, failure
from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon

DECIMALS = 9
THRESHOLDS = 400
"""At most so many candidate thresholds for each statistic in the pilot."""


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

    def words(self, statistics: tuple[str, ...]) -> str:
        relation = ">=" if self.sign > 0 else "<="
        name, threshold = statistics[self.statistic], self.sign * self.threshold
        return f"{name} {relation} {threshold:.4g}, likelier in world {self.likely}"


def audit(
    game: Game,
    runs: int,
    rng: Generator,
    confidence: float = 0.95,
    pilot: int | None = None,
    on_progress: Callable[[int], None] = lambda done: None,
) -> AuditResult:
    """Audit a game: pilot runs choose an event, fresh runs bound epsilon by it.

    *Formal guarantees.* The event is fixed before the fresh runs, so one pair of Clopper-Pearson bounds, each at
    (1 - confidence) / 2, covers both rates: the lower bound exceeds the true epsilon with probability at most
    1 - confidence. For Gaussian claims the same holds of mu, and is evidence against that claim; for other claims of
    zCDP it holds of rho, the limit of the Renyi divergences over their order at order 1 being the KL divergence, which
    no event exceeds. A game with canaries
    has no pilot runs, and ``audit_canaries`` has its proof.

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
    if game.canaries:
        return audit_canaries(game, runs, rng, confidence, on_progress)
    pilot = pilot_runs(runs) if pilot is None else count(pilot=pilot)
    event = choose(game.claim, sample(game, pilot, rng, on_progress, 0), 1 - confidence)
    fresh = sample(game, runs, rng, on_progress, 2 * pilot)
    bound, rho = bound_of(game.claim, *event.rates(fresh), runs, 1 - confidence)
    # the trade-off curve: how often the chosen statistic passes every threshold, in both worlds
    values = [event.sign * world[:, event.statistic] for world in (fresh[1 - event.likely], fresh[event.likely])]
    cuts = candidates(np.concatenate(values))
    curve = np.stack([(value[:, None] >= cuts).mean(axis=0) for value in values])
    true, false = (hits / runs for hits in event.rates(fresh))
    words = event.words(game.statistics)
    return AuditResult(game.title, game.claim, bound, rho, confidence, words, runs, curve, (true, false))


def plays(game: Game, runs: int) -> int:
    """Return how many runs an audit makes in all, for its progress."""
    return runs if game.canaries else 2 * (runs + pilot_runs(runs))


def pilot_runs(runs: int) -> int:
    """Return how many pilot runs of each world go with so many fresh ones: 1000, fewer or a quarter."""
    return max(runs // 4, min(runs, 1000))


def sample(
    game: Game, runs: int, rng: Generator, on_progress: Callable[[int], None], done: int
) -> tuple[Floats, Floats]:
    """Play both worlds in portions, so that progress can be shown and memory stays small.

    Statistics are rounded: the default generator is for simulation only, and the rounding errors of its floating-point
    noise would tell the worlds apart where the law does not.
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


def choose(claim: Claim, pilot: tuple[Floats, Floats], alpha: float) -> Event:
    """Return the event with the best bound on the pilot runs.

    The bound is taken at a twentieth of alpha, since the best of many thresholds is a lucky one. For Gaussian claims
    all thresholds tell the same in the limit; those between the two worlds need the fewest runs.
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
                scores = score(claim, hits[likely], hits[1 - likely], runs, alpha / 20)
                if claim.rho is not None and claim.gaussian_type:
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
    levels = scipy.special.expit(np.linspace(-math.log(len(finite)), math.log(len(finite)), THRESHOLDS))
    return np.unique(np.quantile(finite, levels, method="nearest"))


def score(claim: Claim, true: ArrayLike, false: ArrayLike, runs: int, alpha: float) -> Floats:
    """Return what an event's counts say about the claim: a bound on epsilon; on mu or rho for claims of zCDP.

    rho bounds the KL divergence, and so that of two coins with the event's rates, which grows as these move apart.
    """
    low, high = lower_end(true, runs, alpha), upper_end(false, runs, alpha)
    if claim.rho is not None and not claim.gaussian_type:
        apart = np.maximum(divergence(low, high), divergence(high, low))
        return np.asarray(np.where(low > high, apart, 0.0))
    if claim.rho is not None:
        return np.asarray(scipy.special.ndtri(low) - scipy.special.ndtri(high))
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low - claim.delta, 0)) - np.log(high)


def bound_of(claim: Claim, true: int, false: int, runs: int, alpha: float) -> tuple[float, float | None]:
    """Return lower bounds of (epsilon, rho or None), at least 0."""
    found = max(float(score(claim, true, false, runs, alpha)), 0.0)
    if claim.rho is None:
        return found, None
    if not claim.gaussian_type:
        return max(float(score(Claim(claim.epsilon, claim.delta), true, false, runs, alpha)), 0.0), found
    return (gaussian_epsilon(claim.delta, found) if found else 0.0), found**2 / 2


def divergence(one: Floats, other: Floats) -> Floats:
    """Return the KL divergence of two coins."""
    return np.asarray(scipy.special.rel_entr(one, other) + scipy.special.rel_entr(1 - one, 1 - other))


def clopper_pearson(hits: ArrayLike, runs: int, alpha: float) -> tuple[Floats, Floats]:
    """Return the exact two-sided interval of a binomial probability: each side fails with probability alpha / 2."""
    return lower_end(hits, runs, alpha), upper_end(hits, runs, alpha)


def lower_end(hits: ArrayLike, runs: int, alpha: float) -> Floats:
    """Return the lower end of ``clopper_pearson``: the alpha / 2 quantile of Beta(hits, runs - hits + 1), 0 at 0."""
    hits = np.asarray(hits)
    found = scipy.special.betaincinv(np.maximum(hits, 1.0), runs - hits + 1.0, alpha / 2)
    return np.where(hits > 0, found, 0.0)


def upper_end(hits: ArrayLike, runs: int, alpha: float) -> Floats:
    """Return the upper end of ``clopper_pearson``: an upper quantile of Beta(hits + 1, runs - hits), 1 at ``runs``."""
    hits = np.asarray(hits)
    found = scipy.special.betainccinv(hits + 1.0, np.maximum(runs - hits, 1.0), alpha / 2)
    return np.where(hits < runs, found, 1.0)
