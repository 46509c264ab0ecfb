"""Empirical privacy audits: lower bounds on epsilon that hold with confidence, whatever the mechanism.

Two neighbouring worlds are run many times. Pilot runs choose a guess of the world from a statistic; fresh runs bound
what is claimed by how often it is right and wrong (``bets``). If the bound exceeds the claim, the claim is refuted;
passing proves nothing.

Matthew Jagielski, Jonathan Ullman and Alina Oprea, "Auditing Differentially Private Machine Learning", NeurIPS 2020;
Thomas Steinke, Milad Nasr and Matthew Jagielski, "Privacy Auditing with One (1) Training Run", NeurIPS 2023 (many
canaries in a run, and guesses that abstain; here it is many runs that count).
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.random import PCG64, Generator

from privbandit_agents.audits.bounds.bets import Bet, Guess, Worlds, candidates, choose
from privbandit_agents.audits.bounds.generators import Watched, position
from privbandit_agents.audits.claims import AuditResult, Claim, Floats, Game, shown_rho, tilt
from privbandit_agents.privacy._validate import count, failure


def audit(
    game: Game,
    runs: int,
    rng: Generator,
    confidence: float = 0.999,
    pilot: int | None = None,
    on_progress: Callable[[int], None] = lambda done: None,
) -> AuditResult:
    """Audit a game: pilot runs choose a guess, fresh runs bound epsilon or rho by it.

    *Formal guarantees.* The guess, and all that stakes depend on but fresh runs, are fixed before these: the lower
    bound exceeds the truth with probability at most 1 - confidence (``Bet.bound``).

    Runs of two worlds with one generator are independent only if both draw equally many numbers in every run. So all
    generators that serve several runs are compared after each portion. If pilot runs fall out of step the worlds are
    played apart. If fresh runs do, they are made anew, apart: then these have a tenth of the error probability, and the
    others nine, so that both together have no more than is stated, however the two depend on the draws. A presumed
    claim is judged by the same runs, with an error probability of its own.

    Args:
        game: the worlds.
        runs: fresh runs of each world, >= 20.
        rng: of everything.
        confidence: in (0, 1); at most a share 1 - confidence of claims that are kept is refuted.
        pilot: pilot runs of each world; default: ``pilot_runs(runs)``.
        on_progress: called with the number of runs done, of both worlds and both kinds.
    """
    if count(runs=runs) < 20:
        raise ValueError(f"runs must be >= 20; got {runs}.")
    failure(confidence=confidence)
    pilot, alpha = pilot_runs(game, runs) if pilot is None else count(pilot=pilot), 1 - confidence
    tried, in_step = sample(game, pilot, rng, on_progress, 0)
    bet = choose(game.claim, tried, alpha, runs, game.canaries, in_step)
    fresh, in_step = sample(game, runs, rng, on_progress, 2 * pilot, bet.together)
    if bet.together:
        alpha *= 0.9 if in_step else 1 - 0.9  # a tenth of the error is for playing the worlds again, apart
        if not in_step:
            fresh, _ = sample(game, runs, rng, lambda done: None, 0, together=False)

    def found(bet: Bet) -> AuditResult:
        told, words = bet.guess.told(fresh, game.canaries), bet.guess.words(game.statistics)
        curve = trade_off(bet.guess, fresh, bool(game.canaries))
        return AuditResult(game.title, bet.claim, bet.bound(told, alpha), confidence, words, runs, curve, told, bet)

    own = game.presumed
    presumed = found(choose(own, tried, alpha, runs, game.canaries, bet.together)) if own else None
    return replace(found(bet), presumed=presumed)


def trade_off(guess: Guess, worlds: Worlds, canaries: bool) -> Floats:
    """Return how often the chosen statistic passes every threshold in world 1 and in world 0, shape (2, m)."""
    values = [guess.sign * (world if canaries else world[:, guess.statistic]).ravel() for world in worlds[::-1]]
    values = [np.where(np.isnan(value), -math.inf, value) for value in values]  # NaN passes no threshold
    cuts = candidates(np.concatenate(values))
    return np.stack([1 - np.searchsorted(np.sort(value), cuts) / len(value) for value in values])


def plays(game: Game, runs: int) -> int:
    """Return how many runs an audit makes in all, for its progress."""
    return 2 * (runs + pilot_runs(game, runs))


def pilot_runs(game: Game, runs: int) -> int:
    """Return the number of pilot runs of each world, given that of fresh ones: 2000, fewer or an eighth."""
    return game.pilot or max(runs // 8, min(runs, 2000))


def sample(
    game: Game, runs: int, rng: Generator, on_progress: Callable[[int], None], done: int, together: bool = True
) -> tuple[tuple[Floats, Floats], bool]:
    """Play both worlds in portions, so that progress can be shown and memory stays small.

    Played ``together`` they have the same generators, one for each portion, so that they mostly draw the same noise.

    Statistics are rounded: the default generator is for simulation only, and the rounding errors of its floating-point
    noise would separate worlds that have the same law.

    Returns:
        Readings of both worlds, and whether their generators ended in the same ``position``.
    """
    portion, in_step = max(1, min(runs, 4096, runs // 20 or 1)), True
    worlds: tuple[list[Floats], list[Floats]] = ([], [])
    for start in range(0, runs, portion):
        n, seeds = min(portion, runs - start), rng.integers(2**62, size=2)
        ends = []
        for world in (0, 1):
            generator = Watched(PCG64(int(seeds[world * (not together)])))
            game.made = made = list[object]()
            worlds[world].append(np.round(game.play(world, n, generator), 9))
            ends.append(position(generator, made, n))
            done += n
            on_progress(done)
        game.made = None
        in_step = in_step and (not together or ends[0] == ends[1])
    return (np.concatenate(worlds[0]), np.concatenate(worlds[1])), in_step


def power(
    claim: Claim,
    truth: Game,
    runs: int,
    rng: Generator,
    confidence: float = 0.999,
    repeats: int = 50,
    on_progress: Callable[[int], None] = lambda done: None,
    times: int = 1,
) -> float:
    """Return which share of audits would refute a claim if the mechanism were that of another game.

    The other game is played once, with the runs of one audit. Audits are then repeated on samples from its runs, with
    replacement, four with one choice of a guess; the standard error of the share is about 1 / (2 sqrt(repeats)).
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
