"""Many canaries in one run: every one a user whose record a coin chose, and whose coin an adversary guesses.

Thomas Steinke, Milad Nasr and Matthew Jagielski, "Privacy Auditing with One (1) Training Run", NeurIPS 2023; Saeed
Mahloujifar, Luca Melis and Kamalika Chaudhuri, "Auditing f-Differential Privacy in One Run", 2024. Both bound the tail
of the guesses of one run. Right guesses may come together under Gaussian privacy: a mechanism may tell everybody's coin
in one run of a thousand. So one run proves little, however many canaries it has; here it is many runs that count.
Every run is played twice, with the same noise and all coins turned, so that the noise of both cancels in what is seen.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from scipy.optimize import brentq
from scipy.special import logit, ndtri

from privbandit_agents.audits.bounds.means import lower_mean
from privbandit_agents.audits.claims import AuditResult, Claim, Floats, Game
from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon

SMALL = 0.6
"""Up to this mu the mean square of guesses tells more of zCDP than how often they are right."""
OF_SQUARES = 0.15
"""Share of the error that is for the mean square of guesses, which is known better than how often they are right."""
LEAST = 1e-6
NORMAL = np.linspace(-9.0, 9.0, 1801)
"""Where the density of a standard normal is summed up."""
FARTHEST = 40.0
"""No mu is larger."""


def audit_canaries(
    game: Game, runs: int, rng: Generator, confidence: float, on_progress: Callable[[int], None]
) -> AuditResult:
    """Bound what a game's canaries tell.

    *Formal guarantees.* The lower bound exceeds the truth with probability at most 1 - confidence, whatever the guesses
    depend on. Let a canary's coin c be -1 or 1 with probability 1/2, independent of all other coins, and let its guess
    T in [-1, 1] read what was released, the other coins, and nothing else of this one: privacy holds whatever is known
    of others. Fix the other coins, let P and Q be the laws of what is released for the two sides of this coin, and
    say that the guess is right by s = (1 + c T) / 2: with this probability, if it is drawn.

    Of rightness alone: E s = (1 + a - b) / 2, where a and b are what P and Q make of the randomized test (1 + T) / 2.
    If no test beats the one of two unit Gaussians at distance mu, E s is at most Phi(mu / 2). Under (epsilon, delta)
    both a <= e^epsilon b + delta and 1 - b <= e^epsilon (1 - a) + delta, so that E s <= (e^epsilon + delta) /
    (e^epsilon + 1). Under rho-zCDP both KL divergences are at most rho, those of the test too, and so is their mean,
    (a - b) (logit a - logit b) / 2. Given a - b = 2 s - 1 it is least at a = 1 - b = s: (2 s - 1) logit s <= rho. Each
    is an interval of s, so that the mean of s over canaries, other coins and the run has the same bound, however the
    guesses of a run hang together.

    Of guesses that are bold to different degrees: let V = E T^2, and m = E c T = 2 E s - 1, half of what the coin
    moves the mean of T. Let p and q be the densities of P and Q, and r = (p + q) / 2, under which V is. Then m is the
    integral of T (p - q) / (2 r) over r, so that m^2 <= h V (Cauchy and Schwarz), where h, the integral of ((p - q) /
    (2 r))^2 over r, is an f-divergence of P and Q. If no test beats the one of two unit Gaussians at distance mu, no
    f-divergence is larger than theirs (Blackwell): h is at most the mean of tanh(mu x / 2) for x of mean mu / 2 and
    variance 1. The guess tanh(mu x / 2) itself attains the bound. Under any rho-zCDP: whatever C bounds the
    chi-square divergences of P and Q, both ways, (2 m)^2 <= C Var T under either (Hammersley, Chapman and Robbins),
    hence 4 m^2 <= C (V - m^2), or m <= sqrt(C V / (4 + C)), and C is e^(2 rho) - 1 (it is the Renyi divergence of
    order 2). Both bounds are concave in V: they hold for the means of m and V over canaries, other coins and runs.

    Runs are independent. ``lower_mean`` bounds the means of s and of 1 - T^2 from below, each at a part of the error.

    Args:
        game: whose ``play`` returns, for each run, by how much guesses are right, and the mean square of guesses. A
            second column may be missing: guesses are -1 or 1 then.
        runs: >= 20.
        rng: of everything.
        confidence: in (0, 1).
        on_progress: called with the number of runs done.
    """
    shares = shares_of(game, runs, rng, on_progress)
    epsilon, rho = bound_of_runs(game.claim, shares, 1 - confidence)
    mean = float(shares[:, 0].mean())
    event = f"{100 * mean:.2f} % of {runs * game.canaries:,} guesses are right"
    curve = np.array([[0.0, 1 - mean, 1.0], [0.0, mean, 1.0]])
    return AuditResult(game.title, game.claim, epsilon, rho, confidence, event, runs, curve, shares=shares)


def shares_of(game: Game, runs: int, rng: Generator, on_progress: Callable[[int], None]) -> Floats:
    """Return by how much guesses are right, and the mean square of guesses, in each run, shape (runs, 2)."""
    portion, parts = max(1, runs // 20), []
    for start in range(0, runs, portion):
        parts.append(game.play(0, min(portion, runs - start), rng))
        on_progress(min(start + portion, runs))
    seen = np.concatenate(parts)
    return np.asarray(seen if seen.shape[1] > 1 else np.column_stack([seen, np.ones(len(seen))]))


def by_squares(claim: Claim) -> bool:
    """Return whether a claim is held against the mean square of guesses: Gaussian type, and any rho that is small."""
    return claim.rho is not None and (claim.gaussian_type or (2 * claim.rho) ** 0.5 < SMALL)


def bound_of_runs(claim: Claim, shares: Floats, alpha: float) -> tuple[float, float | None]:
    """Return lower bounds of (epsilon, rho or None), given what guesses were in each run, as ``shares_of`` does.

    Guesses that are all -1 or 1 have a mean square of 1, and it is how often they are right that tells.
    """
    if not by_squares(claim):
        return bound_of_share(claim, lower_mean(shares[:, 0], alpha))
    right = lower_mean(shares[:, 0], (1 - OF_SQUARES) * alpha)
    if (shares[:, 1] == 1).all():
        return bound_of_share(claim, right)
    square = 1 - lower_mean(1 - shares[:, 1], OF_SQUARES * alpha)
    rho = rho_of(claim, max(2 * right - 1, 0.0), square)
    if not claim.gaussian_type:
        return bound_of_share(claim, right)[0], rho
    return (gaussian_epsilon(claim.delta, (2 * rho) ** 0.5) if rho else 0.0), rho


def rho_of(claim: Claim, moved: float, square: float) -> float:
    """Return the least rho at which guesses of this mean square can be right by (1 + moved) / 2."""
    if not claim.gaussian_type:
        return float(np.log1p(4 * moved**2 / max(square - moved**2, LEAST))) / 2
    found = moved**2 / max(square, LEAST)
    if found >= apart(FARTHEST):
        return FARTHEST**2 / 2
    mu = brentq(lambda mu: apart(mu) - found, 0.0, FARTHEST)
    return float(mu) ** 2 / 2


def most_moved(claim: Claim, rho: float, square: float) -> float:
    """Return by how much guesses of this mean square can be right at most, as ``rho_of`` takes it."""
    if claim.gaussian_type:
        return math.sqrt(apart(math.sqrt(2 * rho)) * square)
    most = float(np.expm1(2 * rho))
    return math.sqrt(most * square / (4 + most))


def apart(mu: float) -> float:
    """Return the divergence h of two unit Gaussians at distance mu; see ``audit_canaries``."""
    weights = np.exp(-(NORMAL**2) / 2)
    return float(np.tanh(mu * (mu / 2 + NORMAL) / 2) @ weights / weights.sum())


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
