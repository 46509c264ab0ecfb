"""The worst-case pairs of mechanisms, of a value from a log and of the best of many runs, as games for the auditor."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Literal

import numpy as np
import scipy
from numpy.random import Generator

from privbandit_agents.audits.claims import Claim, Floats, Game
from privbandit_agents.privacy._validate import failure, positive
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho
from privbandit_agents.privacy.contributions.means import BoundedMean
from privbandit_agents.privacy.mechanisms.additive import Gaussian, Laplace
from privbandit_agents.privacy.mechanisms.choice import ExponentialChoice
from privbandit_agents.privacy.mechanisms.counters import Counter, SquareRootToeplitz
from privbandit_agents.privacy.mechanisms.objective import ObjectivePerturbation, UserLoss
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK
from privbandit_agents.privacy.mechanisms.spherical import KNorm, WishartDifference
from privbandit_agents.privacy.mechanisms.stopping import private_selection
from privbandit_agents.privacy.randomizers.one_hot import SignedSubset
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from privbandit_agents.privacy.randomizers.sphere import BinCapSign, Hemisphere

Play = Callable[[int, int, Generator], Floats]
Input = tuple[int, Floats | None]


@dataclass
class MechanismGame(Game):
    """A game given by a function; the registry sets its name."""

    pair: str
    claim: Claim
    sample: Play
    statistics: tuple[str, ...] = ("log-likelihood ratio",)

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        return self.sample(world, runs, rng).reshape(runs, -1)


@dataclass(frozen=True)
class Request:
    """The request of an audit to a mechanism: the budget, and whether the calibration is the published one."""

    epsilon: float
    delta: float
    published: bool = False

    @property
    def rho(self) -> float:
        return epsilon_to_rho(self.epsilon, self.delta)

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon), failure(delta=self.delta)  # other budgets promise nothing


def randomizer_game(randomizer: LocalRandomizer, inputs: tuple[Input, Input], pair: str) -> Game:
    """Audit a local randomizer by its exact log-likelihood ratio between two inputs (cell, value)."""

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        cell, value = inputs[world]
        values = None if value is None else np.tile(value, (runs, 1))
        reports = randomizer.randomize(np.full(runs, cell), values, rng)
        return randomizer.log_likelihood(reports, *inputs[0]) - randomizer.log_likelihood(reports, *inputs[1])

    return MechanismGame(pair, Claim(randomizer.epsilon), sample)


def additive(mechanism: Laplace | Gaussian | KNorm, claim: Claim, dim: int = 3) -> Game:
    """Audit additive noise by its exact log-likelihood ratio between two values at distance 2."""
    values = np.zeros(dim), 2 * np.eye(dim)[0]

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        outputs = mechanism.release(np.tile(values[world], (runs, 1)), rng)
        return np.asarray(mechanism.log_density(outputs, values[0]) - mechanism.log_density(outputs, values[1]))

    return MechanismGame("0 and 2 e1", claim, sample)


def pure(kind: type[Laplace] | type[KNorm], request: Request) -> Game:
    return additive(kind.from_epsilon(request.epsilon, 2), Claim(request.epsilon))


def gaussian(request: Request) -> Game:
    mechanism = Gaussian.from_epsilon(request.epsilon, request.delta, 2)
    return additive(mechanism, Claim.gaussian(request.epsilon, request.delta), dim=2)


def gumbel_top_k(request: Request) -> Game:
    """Half of the coordinates one sensitivity up, half down, or the other way round: choice and values both leak."""
    mechanism = GumbelTopK.from_rho(request.rho, 5, 2.0)
    side = np.repeat([1.0, -1.0], 5)

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        exact = 10.0 + side * (1 - 2 * world)
        out = np.zeros((runs, 2))
        for run in range(runs):
            chosen, values = mechanism.release(exact, rng)
            out[run] = side[chosen].sum(), ((values - 10.0) * side[chosen]).sum()
        return np.column_stack([out, out[:, 0] / mechanism.beta + out[:, 1] / mechanism.sigma**2])

    names = ("chosen from the first half", "signed sum of values", "both")
    pair = "the first half of 10 coordinates 11, the rest 9, or the reverse"
    return MechanismGame(pair, Claim(request.epsilon, request.delta, request.rho), sample, names)


def exponential_choice(request: Request) -> Game:
    """One of two candidates, whose scores move by one sensitivity in opposite directions.

    The choice is a coin. Its KL divergence is all of rho but a term of order rho^2, so that the audit is of rho.
    """
    mechanism = ExponentialChoice.from_rho(request.rho, 1.0)

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        scores = (1 - 2 * world) * np.array([0.5, -0.5])
        return np.array([[float(mechanism.release(scores, rng))] for _ in range(runs)])

    pair = "scores 1/2 and -1/2, or -1/2 and 1/2"
    claim = Claim(request.epsilon, request.delta, request.rho)
    return MechanismGame(pair, claim, sample, ("the second candidate is chosen",))


def wishart_difference(request: Request) -> Game:
    """One unit row in one of two cells; the corner event has likelihood ratio e^epsilon."""
    mechanism = WishartDifference.from_epsilon(request.epsilon, 2)
    return matrix_game(Claim(request.epsilon), lambda n, rng: mechanism.noise(rng, (n, 2)))


def matrix_game(claim: Claim, noise: Callable[[int, Generator], Floats]) -> Game:
    """Audit a matrix release over two cells, shape (n, 2, d, d), of which the user's has a unit row more."""
    row = np.diag([1.0, 0.0])

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        z = noise(runs, rng)
        z[:, world] += row
        least = np.linalg.eigvalsh(z - row)[..., 0]  # >= 0: that cell is above the row
        above = np.linalg.eigvalsh(-z)[..., 0]  # >= 0: that cell is below 0
        corner = np.minimum(least[:, 0], above[:, 1])
        return np.stack([least[:, 0], least[:, 1], corner, np.trace(z[:, 0] - z[:, 1], axis1=1, axis2=2)], axis=1)

    names = ("least eigenvalue of cell 0 less the row", "the same of cell 1", "corner event", "difference of traces")
    return MechanismGame("a unit row in cell 0 or in cell 1", claim, sample, names)


def category(kind: Callable[[float, int], LocalRandomizer], request: Request) -> Game:
    """Two categories of eight."""
    return randomizer_game(kind(request.epsilon, 8), ((0, None), (1, None)), "cells 0 and 1")


def signed_subset(request: Request) -> Game:
    inputs = (0, np.ones(1)), (1, np.ones(1))
    return randomizer_game(SignedSubset(request.epsilon, 8), inputs, "leaves 0 and 1, label 1")


def bin_cap(request: Request) -> Game:
    inputs = (0, np.eye(6)[0]), (1, np.eye(6)[0])
    return randomizer_game(BinCapSign(request.epsilon, 3, 6), inputs, "bins 0 and 1, the same vector")


def hemisphere(request: Request) -> Game:
    return randomizer_game(Hemisphere(request.epsilon, 1, 6), ((0, np.eye(6)[0]), (0, -np.eye(6)[0])), "e1 and -e1")


def first_term(kind: Callable[..., Counter], request: Request) -> Game:
    """The first of 63 users adds 0 or 2."""
    return counter_game(kind, request, [np.zeros(1), np.full(1, 2.0)], 2.0, "the first user's term, 0 or 2")


def counter_game(
    kind: Callable[..., Counter], request: Request, terms: list[Floats], sensitivity: float, pair: str
) -> Game:
    """Audit a counter by all of its releases: the projection that decodes its noise.

    The releases are A x + R Z, so R^-1 of them is the user's column of C plus white noise; of the tree, whose R has
    no inverse, the releases at 1, 2, 4, ... are single blocks of the user with independent noise.
    """
    horizon, direction = 63, terms[1] - terms[0]
    powers = 2 ** np.arange(horizon.bit_length()) - 1

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        counter = kind(horizon, runs * len(direction), sensitivity, request.rho, rng)  # independent in every coordinate
        first, blank = np.tile(terms[world], runs), np.zeros(runs * len(direction))
        sums = [counter.add(first if t == 0 else blank) for t in range(horizon)]
        released = np.array(sums).reshape(horizon, runs, -1) @ direction
        if not isinstance(counter, SquareRootToeplitz):
            return np.asarray(released[powers].sum(axis=0))
        return np.asarray(counter.decoder @ scipy.signal.lfilter([1.0], counter.decoder, released, axis=0))  # R^-1

    return MechanismGame(pair, Claim(request.epsilon, request.delta, request.rho), sample, ("decoded difference",))


def objective_perturbation(request: Request) -> Game:
    """A user of an MNL problem in one dimension: the only item of feature 1 among 100 is bought, or all is mirrored.

    Near 0 the two gradients are then almost 2 L apart.
    """
    method: Literal["published", "dimension-free"] = "published" if request.published else "dimension-free"
    mechanism = ObjectivePerturbation.from_rho(request.rho, UserLoss.multinomial_logit(1, 101), method=method)
    features = np.append(1.0, -np.ones(100))

    def loss(x: Floats, a: Floats) -> tuple[float, Floats, Floats]:  # item 0 is bought
        p = np.exp(x * a[0] - abs(a[0]))
        p /= p.sum() + math.exp(-abs(a[0]))
        mean = float(p @ x)
        return 0.0, np.array([mean - x[0]]), np.array([[float(p @ x**2) - mean**2]])

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        of_world = partial(loss, features if world == 0 else -features)
        return np.array([mechanism.minimise(of_world, rng)[0] for _ in range(runs)])

    pair = "feature 1 bought among 100 of -1, and its mirror image"
    claim = Claim(request.epsilon, request.delta, None if request.published else request.rho)
    return MechanismGame(pair, claim, sample, ("minimiser",))


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
