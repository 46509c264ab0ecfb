"""The power of an audit: which share of audits like it would refute a claim that is broken.

Where noise is Gaussian, and where canaries are guessed, the runs that an audit has played show that too
(``power_of_less_noise``). Elsewhere the target is played with a larger budget (``power``).
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr, ndtri

from privbandit_agents.audits.bounds.together import Hits, best_together
from privbandit_agents.audits.canaries import bound_of_runs, most_moved, rho_of, shares_of
from privbandit_agents.audits.claims import AuditResult, Claim, Floats, Game
from privbandit_agents.audits.lower_bounds import Pilot, choose, judged, pilot_runs, sample, score
from privbandit_agents.privacy._validate import count


def power(
    claim: Claim,
    truth: Game,
    runs: int,
    rng: Generator,
    confidence: float = 0.95,
    repeats: int = 50,
    on_progress: Callable[[int], None] = lambda done: None,
) -> float:
    """Return which share of audits would refute a claim if the mechanism were that of another game.

    The other game is played once, with the runs of one audit. Audits are then repeated on samples from its runs, with
    replacement; the standard error of the share is about 1 / (2 sqrt(repeats)).

    Args:
        claim: that audits are to refute.
        truth: the same game with a larger budget.
        runs: fresh runs of each world.
        rng: of everything.
        confidence: of the audits, in (0, 1).
        repeats: audits.
        on_progress: called with the number of runs done, of both worlds and both kinds.
    """
    if truth.canaries:
        return share_refuted(claim, shares_of(truth, count(runs=runs), rng, on_progress), rng, confidence, repeats)
    pilot, alpha = pilot_runs(count(runs=runs)), 1 - confidence
    worlds, in_step = sample(truth, pilot + runs, rng, on_progress, 0)
    played, refuted, hits_of = Pilot(worlds), 0, cache(lambda event: event.hits(worlds))
    for _ in range(repeats):
        tried = played.drawn(rng.integers(pilot + runs, size=pilot))
        event = choose(claim, tried, alpha, runs)
        known, every = event.hits(tried.worlds), hits_of(event)
        together = in_step and best_together(known, claim.delta, alpha, runs)
        fresh = drawn(every if together else every.apart, runs, rng)
        refuted += claim.refuted_by(*judged(claim, known, fresh, alpha))
    return refuted / repeats


def drawn(hits: Hits, runs: int, rng: Generator) -> Hits:
    """Draw runs of two worlds with replacement, given those of all runs."""
    found = rng.multinomial(runs, (hits.runs / hits.runs.sum()).ravel()).reshape(3, 3)
    return Hits(found.astype(np.float64), hits.events)


def power_of_less_noise(result: AuditResult, factor: float, rng: Generator, repeats: int = 50) -> float | None:
    """Return which share of audits would refute the claim if there were less noise; None: the runs do not show it.

    The noise is that of ``factor`` times the claimed epsilon. Gaussian noise that is k times smaller puts two worlds,
    or the two sides of a coin, k times as far apart: the quantiles of an event's two frequencies, and of the share of
    right guesses, move apart by k. So the finding of an audit predicts that at a larger epsilon, if the target is at
    its claim. The finding has an error of its own: rates, or runs, are drawn anew before every audit that is repeated,
    so that the share is an expectation. Events of other mechanisms have no such law.

    Args:
        result: of the audit.
        factor: > 1.
        rng: of the repetitions.
        repeats: audits.
    """
    nearer = result.claim.nearer(factor)
    if len(result.shares):
        share, square, size = result.shares.mean(axis=0).tolist()
        moved = np.array([righter(result.claim, share, square, size, nearer), 0.0, 0.0])
        shares = (result.shares + moved).clip(0, 1)
        drawn = (shares[rng.integers(len(shares), size=len(shares))] for _ in range(repeats))
        return float(np.mean([share_refuted(result.claim, runs, rng, result.confidence, 1) for runs in drawn]))
    if result.claim.rho is None or not result.claim.gaussian_type:
        return None
    rates = np.clip(np.array(result.rates), 0.5 / result.runs, 1 - 0.5 / result.runs)
    middle, apart = ndtri(rates).mean(), ndtri(rates[0]) - ndtri(rates[1])
    ends = ndtr(middle + np.array([[0.5], [-0.5]]) * nearer * apart)
    rates_of = rng.binomial(result.runs, ends, size=(2, repeats)) / result.runs
    true, false = rng.binomial(result.runs, rates_of)
    found = score(result.claim, true, false, result.runs, 1 - result.confidence)
    return float((found > (2 * result.claim.rho) ** 0.5).mean())


def righter(claim: Claim, share: float, square: float, size: float, nearer: float) -> float:
    """Return the growth of the share of right guesses if the two sides of a coin are ``nearer`` times as far apart."""
    share = float(np.clip(share, 0.001, 0.999))
    if claim.rho is None:  # the share of right ones among guesses that are made
        made = float(np.clip((size + 2 * share - 1) / (2 * max(size, 1e-9)), 0.001, 0.999))
        return size * (float(ndtr(nearer * ndtri(made))) - made)
    if square == 1:
        return float(ndtr(nearer * ndtri(share))) - share
    # twice the distance is four times the rho, which tells the mean of guesses of the same square
    moved = 2 * share - 1
    more = most_moved(nearer**2 * rho_of(abs(moved), square), square)
    return float(np.sign(moved) * more - moved) / 2


def share_refuted(claim: Claim, shares: Floats, rng: Generator, confidence: float, repeats: int) -> float:
    """Return which share of audits with canaries refute a claim, given what guesses were in n runs, shape (n, 3)."""
    runs = len(shares)
    drawn = (shares[rng.integers(runs, size=runs)] for _ in range(repeats))
    return sum(claim.refuted_by(*bound_of_runs(claim, sample, 1 - confidence)) for sample in drawn) / repeats
