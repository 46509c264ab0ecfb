"""The power of an audit: which share of audits like it would refute a claim that is broken.

Of a claim of rho the runs that an audit has played show that too (``power_of_less_noise``). Elsewhere the target is
played with a larger budget (``power``).
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from privbandit_agents.audits.bounds.bets import Bet, choose
from privbandit_agents.audits.claims import AuditResult, Claim, Floats, Game, shown_rho, tilt
from privbandit_agents.audits.lower_bounds import pilot_runs, sample
from privbandit_agents.privacy._validate import count


def power(
    claim: Claim,
    truth: Game,
    runs: int,
    rng: Generator,
    confidence: float = 0.95,
    repeats: int = 50,
    on_progress: Callable[[int], None] = lambda done: None,
    times: int = 1,
) -> float:
    """Return which share of audits would refute a claim if the mechanism were that of another game.

    The other game is played once, with the runs of one audit. Audits are then repeated on samples from its runs, with
    replacement, four with one choice of a guess; the standard error of the share is about 1 / (2 sqrt(repeats)).

    Args:
        claim: that audits are to refute.
        truth: the same game with a larger budget.
        runs: fresh runs of each world.
        rng: of everything.
        confidence: of the audits, in (0, 1).
        repeats: audits.
        on_progress: called with the number of runs done, of both worlds and both kinds.
        times: how many times as many fresh runs the audits have as the other game is played.
    """
    pilot, alpha, refuted = pilot_runs(truth, count(runs=runs)), 1 - confidence, 0
    (zero, one), in_step = sample(truth, pilot + runs, rng, on_progress, 0)
    for start in range(0, repeats, 4):
        rows = rng.integers(len(zero), size=pilot)
        bet = choose(claim, (zero[rows], one[rows]), alpha, times * runs, truth.canaries, in_step)
        for _ in range(min(4, repeats - start)):
            rows = rng.integers(len(zero), size=(2, times * runs))
            told = bet.guess.told((zero[rows[0]], one[rows[int(not bet.together)]]), truth.canaries)
            refuted += refutes(bet, told, alpha)
    return refuted / repeats


def power_of_less_noise(
    result: AuditResult, factor: float, rng: Generator, repeats: int = 50, times: int = 1
) -> float | None:
    """Return which share of audits would refute the claim if there were less noise; None: the runs do not show it.

    The noise is that of ``factor`` times the claimed epsilon. Gaussian noise that is k times smaller puts two worlds,
    or the two sides of a coin, k times as far apart: the rho that guesses show is k^2 times as large. So the finding of
    an audit predicts that at a larger epsilon, if the target is at its claim. The finding has an error of its own: runs
    are drawn anew before every audit that is repeated, so that the share is an expectation. A claim of epsilon has no
    such law.

    Args:
        result: of the audit.
        factor: > 1.
        rng: of the repetitions.
        repeats: audits.
        times: how many times as many runs these have.
    """
    if result.claim.rho is None:
        return None
    told, alpha, refuted = result.told, 1 - result.confidence, 0
    for _ in range(repeats):
        drawn = told[rng.integers(len(told), size=len(told))]
        drawn = nearer(drawn, result.claim.nearer(factor))
        refuted += refutes(result.bet, drawn[rng.integers(len(told), size=times * len(told))], alpha)
    return refuted / repeats


def nearer(told: Floats, factor: float) -> Floats:
    """Return right and wrong guesses (n, 3) of the same size if two sides were ``factor`` times as far apart."""
    right, wrong, square = told.mean(axis=0)
    size, moved = math.sqrt(square) + 1e-12, right - wrong
    more = math.copysign(tilt(factor**2 * shown_rho(abs(moved) / size)) * size, moved) - moved
    return np.asarray(told + np.array([more / 2, -more / 2, 0.0]))


def refutes(bet: Bet, told: Floats, alpha: float) -> bool:
    """Return whether runs refute the claim that is bet against."""
    return bet.refutes(told, bet.stakes(told, alpha), bet.claim.level, alpha)
