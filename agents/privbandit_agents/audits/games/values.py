"""Games for releases about policies: a value from a log, and the best of many runs."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.random import Generator

from privbandit_agents.audits.claims import Claim, Floats, Game
from privbandit_agents.audits.mechanisms import MechanismGame, Request
from privbandit_agents.privacy.contributions.means import BoundedMean
from privbandit_agents.privacy.mechanisms.stopping import private_selection


def bounded_mean(request: Request, noise: float = 1.0) -> Game:
    """One of 50 users earns 1 or -1 where the log's propensity was least: w r is the bound, or minus it.

    ``noise`` scales the draws, for tests: below 1 the claim is false.
    """
    release = BoundedMean.from_epsilon(request.epsilon, request.delta, 50, 30.0)
    mechanism = replace(release.mechanism, sigma=release.mechanism.sigma * noise)
    exact = [release.encoded(np.append(30.0 - 60.0 * world, np.zeros(49))) for world in (0, 1)]

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        return np.asarray(mechanism.release(np.tile(exact[world], (runs, 1)), rng) @ (exact[0] - exact[1]))

    pair = "w r = 30 or -30 of one of 50 users"
    return MechanismGame(pair, Claim.gaussian(request.epsilon, request.delta), sample)


def selection(request: Request, naive: bool = False) -> Game:
    """A rare result, e^epsilon_1 likelier in world 0, where better ones are e^epsilon_1 less likely.

    Better results have the largest probability that leaves worse ones epsilon_1-private too: that of a true answer of
    randomized response. So all three factors of the proof are near their bounds: the rare result comes more often, and
    among the runs before and after it fewer are better. ``naive`` hands the whole epsilon to every run, as who forgets
    that many were made: the claim is then false.
    """

    @cache  # asked for by every run
    def chances(world: int, epsilon: float) -> tuple[float, float]:
        better, less = 1 / (1 + math.exp(-epsilon)), math.exp(-epsilon)
        return (better * less, 0.06) if world == 0 else (better, 0.06 * less)

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        def run(setting: int, epsilon: float, delta: float, rng: Generator) -> tuple[float, None]:
            better, rare = chances(world, request.epsilon if naive else epsilon)
            u = rng.random()
            return (2.0 if u < better else 1.0 if u < better + rare else 0.0), None

        # on average; with the rare result's .06 they tell most in a given time
        found = [private_selection([0], run, request.epsilon, runs=10.0, rng=rng).score for _ in range(runs)]
        return np.array([[float(score == 1.0)] for score in found])

    pair = "runs with a result of chance 0.06 or e^(-epsilon / 3) times it, below better ones"
    return MechanismGame(pair, Claim(request.epsilon), sample, ("the rare result is selected",))
