"""Many canaries in one run: every one a user whose record a coin chose, and whose coin an adversary guesses.

Thomas Steinke, Milad Nasr and Matthew Jagielski, "Privacy Auditing with One (1) Training Run", NeurIPS 2023; Saeed
Mahloujifar, Luca Melis and Kamalika Chaudhuri, "Auditing f-Differential Privacy in One Run", 2024. Both bound the tail
of the guesses of one run. Right guesses may come together under Gaussian privacy: a mechanism may tell everybody's coin
in one run of a thousand. So one run proves little, however many canaries it has; here it is many runs that count.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from scipy.special import logit, ndtri

from privbandit_agents.audits.claims import AuditResult, Claim, Floats, Game
from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon

STAKE = 0.9
"""Share of the wealth that is at stake in a run, at most."""


def audit_canaries(
    game: Game, runs: int, rng: Generator, confidence: float, on_progress: Callable[[int], None]
) -> AuditResult:
    """Bound what a game's canaries tell.

    *Formal guarantees.* The lower bound exceeds the truth with probability at most 1 - confidence, whatever the guesses
    depend on. Let a canary's coin be 0 or 1 with probability 1/2, independent of all other coins, and let its guess
    read what was released, the other coins, and nothing else of this one: privacy holds whatever is known of others.
    Fix the other coins and all earlier runs, and let P and Q be the
    laws of what is released for the two sides of this coin. The guess is right with probability
    s = (1 + a - b) / 2, where a = P(guess 0) and b = Q(guess 0).
    If no test beats the one of two unit Gaussians at distance mu, s is at most Phi(mu / 2). Under (epsilon, delta) both
    a <= e^epsilon b + delta and 1 - b <= e^epsilon (1 - a) + delta, so that s <= (e^epsilon + delta) / (e^epsilon + 1).
    Under rho-zCDP both KL divergences are at most rho, those of the guess too, and so is their mean,
    (a - b) (logit a - logit b) / 2. Given a - b = 2 s - 1 it is least at a = 1 - b = s: (2 s - 1) logit s <= rho. Each
    is an interval of s, so that the mean of s over canaries, other coins and the run has the same bound, however the
    guesses of a run hang together: the expected share of right guesses given all earlier runs, which ``lower_mean``
    bounds from below. An abstention counts as half a right guess, like a guess by another coin.

    Args:
        game: whose ``play`` returns the share of right guesses in each run.
        runs: >= 20.
        rng: of everything.
        confidence: in (0, 1).
        on_progress: called with the number of runs done.
    """
    shares = shares_of(game, runs, rng, on_progress)
    epsilon, rho = bound_of_share(game.claim, lower_mean(shares, 1 - confidence))
    mean = float(shares.mean())
    event = f"{100 * mean:.2f} % of {runs * game.canaries:,} guesses are right"
    curve = np.array([[0.0, 1 - mean, 1.0], [0.0, mean, 1.0]])
    return AuditResult(game.title, game.claim, epsilon, rho, confidence, event, runs, curve, shares=shares)


def shares_of(game: Game, runs: int, rng: Generator, on_progress: Callable[[int], None]) -> Floats:
    """Return the share of right guesses in each run, shape (runs,)."""
    portion, parts = max(1, runs // 20), []
    for start in range(0, runs, portion):
        parts.append(game.play(0, min(portion, runs - start), rng)[:, 0])
        on_progress(min(start + portion, runs))
    return np.concatenate(parts)


def lower_mean(values: Floats, alpha: float) -> float:
    """Return a lower bound of the mean of numbers in [0, 1], which fails with probability at most alpha.

    Ian Waudby-Smith and Aaditya Ramdas, "Estimating means of bounded random variables by betting", JRSS B 2024.

    *Formal guarantees.* A gambler with wealth 1 stakes on every value in turn: wealth is multiplied by 1 + s (x - p),
    where s >= 0 depends on earlier values only and s p <= 0.9. If the mean of each value, given those before, is at
    most p, then wealth is a non-negative supermartingale, and reaches 1 / alpha with probability at most alpha (Ville).
    The bound is the smallest p at which it does not. Wealth falls in p, so that the bound exceeds p only if wealth at p
    reaches 1 / alpha. Values need not be independent, nor of the same law.

    The stakes are best for values near their mean, at sqrt(2 log(1 / alpha) / n) over their standard deviation so far:
    then a mean is refuted at as many standard errors, sqrt(2 log(1 / alpha)), as a Chernoff bound needs.
    """
    n, goal = len(values), math.log(1 / alpha)
    before = np.arange(1, n + 1)
    mean = (0.5 + np.cumsum(values)) / (before + 1)
    squares = 1e-3 + np.concatenate([[0.0], np.cumsum((values - mean) ** 2)[:-1]])
    stakes = np.sqrt(2 * goal / (n * squares / before))

    def refuted(p: float) -> bool:
        return bool(np.cumsum(np.log1p(np.minimum(stakes, STAKE / p) * (values - p))).max() >= goal)

    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def bound_of_share(claim: Claim, share: float) -> tuple[float, float | None]:
    """Return lower bounds of (epsilon, rho or None), given one of the expected share of right guesses."""
    right = max(share - claim.delta, 0.0)
    epsilon = math.log(right / (1 - share)) if right > 1 - share else 0.0
    if claim.rho is None:
        return epsilon, None
    if not claim.gaussian_type:
        return epsilon, float((2 * share - 1) * logit(share)) if share > 0.5 else 0.0
    mu = max(2 * float(ndtri(share)), 0.0)
    return (gaussian_epsilon(claim.delta, mu) if mu else 0.0), mu**2 / 2
