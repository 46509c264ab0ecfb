"""Empirical privacy audits: lower bounds on epsilon that hold with confidence, whatever the mechanism.

Two neighbouring worlds are run many times. Pilot runs choose a statistic, a threshold and a direction; fresh runs turn
the chosen event into a lower bound. If the bound exceeds the claim, the claim is refuted; passing proves nothing.

Matthew Jagielski, Jonathan Ullman and Alina Oprea, "Auditing Differentially Private Machine Learning", NeurIPS 2020;
Milad Nasr et al., "Tight Auditing of Differentially Private Machine Learning", USENIX Security 2023 (the curve fit).
"""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from privbandit_agents.audits.claims import AuditResult, Floats, Game
from privbandit_agents.audits.events import bound_of, choose, trade_off
from privbandit_agents.privacy._validate import count, failure

DECIMALS = 9


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
    event = choose(game.claim, sample(game, pilot, rng, on_progress, 0), 1 - confidence)
    fresh = sample(game, runs, rng, on_progress, 2 * pilot)
    bound, rho = bound_of(game.claim, *event.rates(fresh), runs, 1 - confidence)
    words = event.words(game.statistics)
    return AuditResult(game.name, game.claim, bound, rho, confidence, words, runs, trade_off(event, fresh))


def pilot_runs(runs: int) -> int:
    """Return how many pilot runs of each world go with so many fresh ones: 2000, fewer or a quarter."""
    return max(runs // 4, min(runs, 2000))


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
