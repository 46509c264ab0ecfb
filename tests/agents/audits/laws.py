"""Laws that keep their promise exactly, and how often audits accuse them, or honest agents, all the same."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.random import Generator
from privbandit_agents.audits.claims import Claim, Floats, Game
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.privacy.accounting.conversions import gaussian_mu
from scipy.optimize import brentq

LEVELS = (0.95, 0.999)


Law = Callable[[int, int, Generator], Floats]


class LawGame(Game):
    """What a law releases in two worlds."""

    name, pair, statistics = "a law", "0 or 1", ("what is released",)

    def __init__(self, claim: Claim, law: Law, presumed: Claim | None = None) -> None:
        self.claim, self.law, self.presumed = claim, law, presumed

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        return np.asarray(self.law(world, runs, rng), np.float64).reshape(runs, -1)


def lattice(epsilon: float, delta: float = 1e-5) -> float:
    """Return the sigma of discrete Gaussian noise on a bit, whose sum over all integers is delta at epsilon."""
    at = np.arange(-400, 401)

    def excess(sigma: float) -> float:
        p, q = (np.exp(-((at - world) ** 2) / (2 * sigma**2)) for world in (0, 1))
        return float(np.maximum(p / p.sum() - math.exp(epsilon) * q / q.sum(), 0).sum()) - delta

    return float(brentq(excess, 0.2, 30.0))


def response(epsilon: float, draws: Callable[[int], int] = lambda world: 1) -> Law:
    """Return randomized response; a world may draw more for a run, so that generators fall out of step."""

    def law(world: int, runs: int, rng: Generator) -> Floats:
        lies = rng.random((runs, draws(world)))[:, -1] > 1 / (1 + math.exp(-epsilon))
        return np.asarray(np.abs(world - 1.0 * lies), np.float64)

    return law


def discrete_gaussian(epsilon: float) -> Law:
    """Return a bit with discrete Gaussian noise of ``lattice``."""
    at, sigma = np.arange(-400, 401), lattice(epsilon)
    chances = np.exp(-(at**2) / (2 * sigma**2))

    def law(world: int, runs: int, rng: Generator) -> Floats:
        return np.asarray(world + rng.choice(at, size=runs, p=chances / chances.sum()), np.float64)

    return law


def laplace(scale: float) -> Law:
    return lambda world, runs, rng: world + rng.laplace(scale=scale, size=runs)


LAWS: dict[str, tuple[Claim, Law]] = {
    "randomized response": (Claim(0.5), response(0.5)),
    "randomized response, out of step": (Claim(0.5), response(0.5, lambda world: 1 + world)),
    "Laplace": (Claim(1.0), laplace(1.0)),
    "geometric": (
        Claim(1.0),
        lambda world, runs, rng: world + np.subtract(*rng.geometric(1 - math.exp(-1), size=(2, runs))),
    ),
    "atoms": (
        Claim(1.0),
        lambda world, runs, rng: np.where(rng.random(runs) < 0.5, 9.0, response(1.0)(world, runs, rng)),
    ),
    "Gaussian as (epsilon, delta)": (
        Claim(1.0, 1e-5),
        lambda world, runs, rng: world * gaussian_mu(1.0, 1e-5) + rng.standard_normal(runs),
    ),
    "Gaussian as its curve": (
        Claim.gaussian(1.0, 0.05),
        lambda world, runs, rng: world * gaussian_mu(1.0, 0.05) + rng.standard_normal(runs),
    ),
    **{
        f"discrete Gaussian, {epsilon:g}": (Claim(epsilon, 1e-5), discrete_gaussian(epsilon))
        for epsilon in (1, 2, 3, 4, 8)
    },
}


def law_game(name: str) -> Game:
    return LawGame(*LAWS[name])


def accusations(games: Sequence[Game], audits: int, runs: int = 0) -> dict[float, int]:
    """Return how many audits of honest games refute a claim at each of ``LEVELS``, both by the same runs.

    Args:
        games: of one target; all their bounds hold together.
        audits: how many.
        runs: of each; 0: the game's own.
    """
    found = dict.fromkeys(LEVELS, 0)
    for k in range(audits):
        for level in LEVELS:
            each = 1 - (1 - level) / len(games)
            played = (audit(game, runs or game.runs, np.random.default_rng([7, k]), each) for game in games)
            if not any([one.refuted for one in played]):
                break  # nor is it at a higher level
            found[level] += 1
    return found
