"""The worst-case pairs of the mechanisms, as games for the auditor."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.signal import lfilter

from privbandit_agents.audits.lower_bounds import Claim, Game
from privbandit_agents.privacy._validate import failure, positive
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho
from privbandit_agents.privacy.mechanisms.additive import Gaussian, KNorm, Laplace, WishartDifference
from privbandit_agents.privacy.mechanisms.counters import BinaryTree, Counter, SquareRootToeplitz
from privbandit_agents.privacy.mechanisms.objective import ObjectivePerturbation, UserLoss
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK
from privbandit_agents.privacy.randomizers.categories import KaryRandomizedResponse, SubsetSelection
from privbandit_agents.privacy.randomizers.one_hot import SignedSubset, UnaryEncoding
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from privbandit_agents.privacy.randomizers.sphere import BinCapSign, Hemisphere

Floats = NDArray[np.float64]
Play = Callable[[int, int, Generator], Floats]


@dataclass
class Target(Game):
    """A game given by a function."""

    name: str
    pair: str
    claim: Claim
    sample: Play
    statistics: tuple[str, ...] = ("log-likelihood ratio",)

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        """Run one world."""
        return self.sample(world, runs, rng).reshape(runs, -1)


@dataclass(frozen=True)
class Request:
    """What an audit asks of a target: the budget, and whose calibration."""

    epsilon: float
    delta: float
    published: bool

    @property
    def rho(self) -> float:
        """The zCDP budget of (epsilon, delta)."""
        return epsilon_to_rho(self.epsilon, self.delta)

    def __post_init__(self) -> None:
        """Check the budget."""
        positive(epsilon=self.epsilon)
        failure(delta=self.delta)

    def at_most_one(self, name: str) -> None:
        """Refuse a published calibration beyond the epsilons that its paper defines."""
        if self.epsilon > 1:
            raise ValueError(f"{name}: the paper defines epsilon in (0, 1]; got {self.epsilon:g}.")

    @property
    def concentrated(self) -> Claim:
        """The claim of a zCDP mechanism of Gaussian type."""
        return Claim(self.epsilon, self.delta, self.rho)


def randomizer_game(
    name: str, randomizer: LocalRandomizer, inputs: tuple[tuple[int, Any], tuple[int, Any]], pair: str
) -> Target:
    """Audit a local randomizer by its exact log-likelihood ratio between two inputs (cell, value)."""

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        cell, value = inputs[world]
        values = None if value is None else np.tile(np.asarray(value, float), (runs, 1))
        reports = randomizer.randomize(np.full(runs, cell), values, rng)
        return randomizer.log_likelihood(reports, *inputs[0]) - randomizer.log_likelihood(reports, *inputs[1])

    return Target(name, pair, Claim(randomizer.epsilon), sample)


def density_game(name: str, mechanism: Any, values: tuple[Floats, Floats], claim: Claim, pair: str) -> Target:
    """Audit an additive mechanism by its exact log-likelihood ratio between two values."""

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        outputs = mechanism.release(np.tile(values[world], (runs, 1)), rng)
        return np.asarray(mechanism.log_density(outputs, values[0]) - mechanism.log_density(outputs, values[1]))

    return Target(name, pair, claim, sample)


def laplace(request: Request) -> Game:
    """Two values at l1 distance 2."""
    values = np.zeros(3), np.array([2.0, 0, 0])
    return density_game("laplace", Laplace.calibrate(request.epsilon, 2), values, Claim(request.epsilon), "0 and 2 e1")


def gaussian(request: Request) -> Game:
    """Two values at l2 distance 2."""
    mechanism = Gaussian.from_epsilon(request.epsilon, request.delta, 2)
    values = np.zeros(2), np.array([2.0, 0])
    return density_game("gaussian", mechanism, values, Claim.gaussian(request.epsilon, request.delta), "0 and 2 e1")


def k_norm(request: Request) -> Game:
    """Two values at l2 distance 2."""
    values = np.zeros(3), np.array([2.0, 0, 0])
    return density_game("k-norm", KNorm.calibrate(request.epsilon, 2), values, Claim(request.epsilon), "0 and 2 e1")


def gumbel_top_k(request: Request) -> Game:
    """Half of the coordinates one sensitivity up, half down, or the other way round: choice and values both tell."""
    k, half = 5, 5
    mechanism = GumbelTopK.calibrate(request.rho, k, 2.0)
    side = np.repeat([1.0, -1.0], half)

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        exact = 10.0 + side * (1 - 2 * world)
        out = np.zeros((runs, 2))
        for run in range(runs):
            chosen, values = mechanism.release(exact, rng)
            out[run] = side[chosen].sum(), ((values - 10.0) * side[chosen]).sum()
        return np.column_stack([out, out[:, 0] / mechanism.beta + out[:, 1] / mechanism.sigma**2])

    claim = Claim(request.epsilon, request.delta)
    names = ("chosen from the first half", "signed sum of values", "both")
    return Target(
        "gumbel-topk", "the first half of 10 coordinates 11, the rest 9, or the reverse", claim, sample, names
    )


def wishart_difference(request: Request) -> Game:
    """One unit row in one of two cells; the corner event has likelihood ratio e^epsilon."""
    mechanism = WishartDifference.calibrate(request.epsilon, 2)
    return matrix_game("wishart-difference", Claim(request.epsilon), lambda n, rng: mechanism.noise(rng, (n, 2)))


def matrix_game(name: str, claim: Claim, noise: Callable[[int, Generator], Floats]) -> Target:
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
    return Target(name, "a unit row in cell 0 or in cell 1", claim, sample, names)


def grr(request: Request) -> Game:
    """Two categories."""
    return randomizer_game("grr", KaryRandomizedResponse(request.epsilon, 8), ((0, None), (1, None)), "cells 0 and 1")


def oue(request: Request) -> Game:
    """Two categories."""
    return randomizer_game("oue", UnaryEncoding(request.epsilon, 8), ((0, None), (1, None)), "cells 0 and 1")


def subset(request: Request) -> Game:
    """Two categories."""
    return randomizer_game("subset", SubsetSelection(request.epsilon, 8), ((0, None), (1, None)), "cells 0 and 1")


def signed_subset(request: Request) -> Game:
    """Two leaves, the same label."""
    inputs = (0, [1.0]), (1, [1.0])
    return randomizer_game("signed-subset", SignedSubset(request.epsilon, 8), inputs, "leaves 0 and 1, label 1")


def bin_cap(request: Request) -> Game:
    """Two bins, the same unit vector."""
    vector = np.eye(6)[0]
    inputs = (0, vector), (1, vector)
    return randomizer_game("bin-cap", BinCapSign(request.epsilon, 3, 6), inputs, "bins 0 and 1, the same vector")


def hemisphere(request: Request) -> Game:
    """Opposite vectors."""
    inputs = (0, np.eye(6)[0]), (0, -np.eye(6)[0])
    return randomizer_game("hemisphere", Hemisphere(request.epsilon, 1, 6), inputs, "e1 and -e1")


def tree(request: Request) -> Game:
    """The first user's term, 0 or 2."""
    terms = [np.zeros(1), np.full(1, 2.0)]
    return counter_game("tree", BinaryTree, request, terms, 2.0, 63, "the first user's term, 0 or 2")


def toeplitz(request: Request) -> Game:
    """The first user's term, 0 or 2."""
    terms = [np.zeros(1), np.full(1, 2.0)]
    return counter_game("toeplitz", SquareRootToeplitz, request, terms, 2.0, 63, "the first user's term, 0 or 2")


def counter_game(
    name: str,
    kind: Callable[..., Counter],
    request: Request,
    terms: list[Floats],
    sensitivity: float,
    horizon: int,
    pair: str,
) -> Target:
    """Audit a counter by all of its releases: the projection that decodes its noise.

    The releases are A x + R Z, so R^-1 of them is the user's column of C plus white noise; of the tree, whose R has
    no inverse, the releases at 1, 2, 4, ... are single blocks of the user with independent noise.
    """
    direction = terms[1] - terms[0]
    powers = 2 ** np.arange(horizon.bit_length()) - 1

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        counter = kind(horizon, runs * len(direction), sensitivity, request.rho, rng)  # independent in every coordinate
        first, blank = np.tile(terms[world], runs), np.zeros(runs * len(direction))
        sums = [counter.add(first if t == 0 else blank) for t in range(horizon)]
        released = np.array(sums).reshape(horizon, runs, -1) @ direction
        if not isinstance(counter, SquareRootToeplitz):
            return np.asarray(released[powers].sum(axis=0))
        white = lfilter([1.0], counter.decoder, released, axis=0)  # R^-1
        return np.asarray(counter.decoder @ white)

    return Target(name, pair, request.concentrated, sample, ("decoded difference",))


def objective_perturbation(request: Request) -> Game:
    """A user of an MNL problem in one dimension: the only item of feature 1 among 100 is bought, or all is mirrored.

    Near 0 the two gradients are then almost 2 L apart.
    """
    user = UserLoss.multinomial_logit(1, 101)
    method = "published" if request.published else "dimension-free"
    mechanism = ObjectivePerturbation.calibrate(request.rho, user, method=method)  # type: ignore[arg-type]
    features = np.append(1.0, -np.ones(100))

    def loss_of(world: int) -> Callable[[Floats], tuple[float, Floats, Floats]]:
        x = features if world == 0 else -features  # item 0 is bought

        def loss(a: Floats) -> tuple[float, Floats, Floats]:
            p = np.exp(x * a[0] - max(0.0, abs(a[0])))
            p /= p.sum() + math.exp(-max(0.0, abs(a[0])))
            mean = float(p @ x)
            return 0.0, np.array([mean - x[0]]), np.array([[float(p @ x**2) - mean**2]])

        return loss

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        loss = loss_of(world)
        return np.array([mechanism.minimise(loss, rng)[0] for _ in range(runs)])

    claim = Claim(request.epsilon, request.delta)
    return Target(
        "objective-perturbation",
        "feature 1 bought among 100 of -1, and its mirror image",
        claim,
        sample,
        ("minimiser",),
    )
