"""Many canaries in one run: a coin chooses each canary's record, and an adversary guesses the coin.

Thomas Steinke, Milad Nasr and Matthew Jagielski, "Privacy Auditing with One (1) Training Run", NeurIPS 2023; Saeed
Mahloujifar, Luca Melis and Kamalika Chaudhuri, "Auditing f-Differential Privacy in One Run", 2024. Both bound the tail
of the guesses of one run. Right guesses may come together under Gaussian privacy: a mechanism may leak everybody's coin
in one run of a thousand. So one run proves little, however many canaries it has; here it is many runs that count. Every
run is played twice, with the same noise and all coins turned, so that the noise of both cancels in the readings.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy
from numpy.random import Generator

from privbandit_agents.audits.bounds.means import STAKE, lower_mean
from privbandit_agents.audits.bounds.together import LARGEST_EPSILON
from privbandit_agents.audits.claims import AuditResult, Claim, Floats, Game


def audit_canaries(
    game: Game, runs: int, rng: Generator, confidence: float, on_progress: Callable[[int], None]
) -> AuditResult:
    """Bound the leakage that a game's canaries show.

    *Formal guarantees.* The lower bound exceeds the truth with probability at most 1 - confidence, whatever the guesses
    depend on. Let a canary's coin c be -1 or 1 with probability 1/2, independent of all other coins, and let its guess
    T in [-1, 1] read the release, the other coins, and nothing else of this one: privacy holds whatever is known of
    others. Fix the other coins, let P and Q be the laws of the release for the two sides of this coin, and call the
    guess right by s = (1 + c T) / 2: with this probability, if it is drawn.

    Under (epsilon, delta) guesses may abstain. Let A = (|T| + c T) / 2 and B = (|T| - c T) / 2 be how right and how
    wrong a guess is, max(T, 0) and max(-T, 0) being randomized tests. P of the first is at most e^epsilon times Q of
    it, and delta, and Q of the second at most e^epsilon times P of it, and delta: so the mean of A - e^epsilon B is at
    most delta. It is so for the mean over canaries, other coins and the run, however the guesses of a run hang
    together. A gambler stakes on every run in turn: wealth is multiplied by 1 + s (a - e^epsilon b - delta), where a
    and b are the run's means of A and B, and s >= 0 depends on earlier runs only, s (e^epsilon + delta) <= 0.98. At
    the true epsilon wealth is a non-negative supermartingale and reaches 1 / alpha with probability at most alpha
    (Ville). It falls in epsilon, and the bound is the smallest epsilon at which it does not get there.

    Of guesses that are bold to different degrees, under rho-zCDP: let V = E T^2, and m = E c T = 2 E s - 1. Let p and q
    be the densities of P and Q, r = (p + q) / 2, under which V is, and u = (p - q) / (p + q). Then m is the integral
    of T u over r, so that m^2 <= h V (Cauchy and Schwarz), where h is the mean of u^2. Half of the sum of both KL
    divergences is the mean of 2 u atanh u, and at most rho. 2 u atanh u is a convex function of u^2, so that
    2 t atanh t <= rho for t^2 = h (Jensen): m^2 <= t^2 V with 2 t atanh t = rho. Two coins attain it, and Gaussian
    noise nearly does where rho is small. The bound t sqrt(V) of m is concave in V: it holds for the means of m and V
    over canaries, other coins and runs. Where guesses are all -1 or 1, V is 1.

    Runs are independent. ``lower_mean`` bounds the means of s and of 1 - T^2 from below, each at a part of the error.

    Args:
        game: whose ``play`` returns, for each run, by how much guesses are right, the mean square of guesses, and
            their mean size. Missing columns count as 1: guesses are -1 or 1 then.
        runs: >= 20.
        rng: of everything.
        confidence: in (0, 1).
        on_progress: called with the number of runs done.
    """
    shares = shares_of(game, runs, rng, on_progress)
    mean = float(shares[:, 0].mean())
    event = f"{100 * mean:.2f} % of {runs * game.canaries:,} guesses are right"
    curve = np.array([[0.0, 1 - mean, 1.0], [0.0, mean, 1.0]])

    def found(claim: Claim) -> AuditResult:
        epsilon, rho = bound_of_runs(claim, shares, 1 - confidence)
        return AuditResult(game.title, claim, epsilon, rho, confidence, event, runs, curve, shares=shares)

    return replace(found(game.claim), presumed=found(game.presumed) if game.presumed else None)


def shares_of(game: Game, runs: int, rng: Generator, on_progress: Callable[[int], None]) -> Floats:
    """Return by how much guesses are right, their mean square and their mean size, in each run, shape (runs, 3)."""
    portion, parts = max(1, runs // 20), []
    for start in range(0, runs, portion):
        parts.append(game.play(0, min(portion, runs - start), rng))
        on_progress(min(start + portion, runs))
    seen = np.concatenate(parts)
    return np.column_stack([seen, np.ones((len(seen), 3 - seen.shape[1]))])


def bound_of_runs(claim: Claim, shares: Floats, alpha: float) -> tuple[float, float | None]:
    """Return lower bounds of (epsilon, rho or None), given what guesses were in each run, as ``shares_of`` does.

    For claims of zCDP guesses that are all -1 or 1 have a mean square of 1, and only the share of right ones matters.
    """
    if claim.rho is None:
        return epsilon_of(claim, shares, alpha), None
    known = bool((shares[:, 1] == 1).all())
    part = 0.15  # of the error: the mean square of guesses is known better than their rightness
    right = lower_mean(shares[:, 0], alpha if known else (1 - part) * alpha)
    square = 1.0 if known else 1 - lower_mean(1 - shares[:, 1], part * alpha)
    sure = max(right - claim.delta, 0.0)
    epsilon = math.log(sure / (1 - right)) if sure > 1 - right else 0.0
    return epsilon, rho_of(max(2 * right - 1, 0.0), square)


def epsilon_of(claim: Claim, shares: Floats, alpha: float) -> float:
    """Return a lower bound of epsilon at a claim's delta, by the wealth of ``audit_canaries``.

    Stakes are those of ``lower_mean``, for what runs are worth at the claim, so that they are the same at all epsilon.
    """
    moved = 2 * shares[:, 0] - 1
    right, wrong = (shares[:, 2] + moved) / 2, (shares[:, 2] - moved) / 2
    n, goal, at = len(shares), math.log(1 / alpha), math.exp(min(claim.epsilon, LARGEST_EPSILON))
    worth, before = right - at * wrong, np.arange(1, len(shares) + 1)
    mean = np.cumsum(worth) / (before + 1)
    squares = 1e-3 + np.concatenate([[0.0], np.cumsum((worth - mean) ** 2)[:-1]])
    stakes = np.sqrt(2 * goal / (n * squares / before))

    def refuted(epsilon: float) -> bool:
        ratio = math.exp(epsilon)
        most = np.minimum(stakes, STAKE / (ratio + claim.delta))
        return bool(np.cumsum(np.log1p(most * (right - ratio * wrong - claim.delta))).max() >= goal)

    low, high = 0.0, LARGEST_EPSILON
    while refuted(low) and high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def rho_of(moved: float, square: float) -> float:
    """Return the least rho at which guesses of this mean square can be right by (1 + moved) / 2."""
    t = min(moved / math.sqrt(max(square, 1e-12)), 1 - 1e-12)
    return 2 * t * math.atanh(t)


def most_moved(rho: float, square: float) -> float:
    """Return by how much guesses of this mean square can be right at most, as ``rho_of`` takes it."""
    if rho >= rho_of(1.0, 1.0):
        return math.sqrt(square)
    return math.sqrt(square) * float(scipy.optimize.brentq(lambda t: rho_of(t, 1.0) - rho, 0.0, 1.0))
