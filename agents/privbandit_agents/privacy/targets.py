"""What can be audited by name: every mechanism on its worst-case pair, and published calibrations beside correct ones.

The published calibrations are those of Li, Simchi-Levi and Wang (LPLR), Chakraborty, Roy and Tewari (FLIPHAT), Cho and
Sun (DPMNL) and Ma and Yang (LPCT); ``docs/privacy.md`` says what is wrong with them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.signal import lfilter

from privbandit_agents.privacy._validate import failure, positive
from privbandit_agents.privacy.accounting import epsilon_to_rho
from privbandit_agents.privacy.audit import Claim, Game
from privbandit_agents.privacy.counters import BinaryTree, Counter, SquareRootToeplitz, svec
from privbandit_agents.privacy.local import (
    KaryRandomizedResponse,
    LaplaceOneHot,
    SignedSubset,
    SubsetSelection,
    UnaryEncoding,
)
from privbandit_agents.privacy.mechanisms import (
    Gaussian,
    GumbelTopK,
    KNorm,
    Laplace,
    LaplacePeeling,
    WishartDifference,
    wishart,
)
from privbandit_agents.privacy.objective import ObjectivePerturbation, UserLoss
from privbandit_agents.privacy.randomizer import LocalRandomizer
from privbandit_agents.privacy.sphere import BinCapSign, Hemisphere, Moments

Floats = NDArray[np.float64]
Play = Callable[[int, int, Generator], Floats]
CALIBRATIONS = ("correct", "published")


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


def lplr_wishart(request: Request) -> Game:
    """LPLR's matrix release: a unit row in one of two bins."""
    if not request.published:
        return wishart_difference(request)
    request.at_most_one("lplr-wishart")
    v = 4.5 / request.epsilon  # 3 W_d(d + 1, 1.5 / alpha)
    return matrix_game("lplr-wishart", Claim(request.epsilon), lambda n, rng: wishart(rng, 2, 3, v, (n, 2)))


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


def lplr_update(request: Request) -> Game:
    """LPLR-UPDATE: phi = 1/sqrt(d), y = 1 in bin 0 or bin 1; published: count and moment without the matrix."""
    if not request.published:
        packed = Moments(2).pack(np.full((1, 2), 0.5**0.5), np.ones(1))[0]
        inputs = (0, packed), (1, packed)
        mechanism = BinCapSign(request.epsilon, 2, len(packed))
        return randomizer_game("lplr-update", mechanism, inputs, "bins 0 and 1, the same record")
    request.at_most_one("lplr-update")
    d, alpha = 2, request.epsilon
    scale = np.array([3 / alpha] + d * [3 * math.sqrt(d) / alpha])
    record = np.array([1.0] + d * [1 / math.sqrt(d)])
    pair = "bins 0 and 1, the same record; count and moment only"
    return laplace_blocks("lplr-update", Claim(alpha), scale, record, pair)


def lplr_ci(request: Request) -> Game:
    """LPLR-CI: the largest width in one of two active bins."""
    if not request.published:
        inputs = (0, [1.0]), (1, [1.0])
        return randomizer_game("lplr-ci", LaplaceOneHot(request.epsilon, 2), inputs, "active bins 0 and 1, width 1")
    request.at_most_one("lplr-ci")
    scale, record = np.array([1 / request.epsilon]), np.ones(1)
    return laplace_blocks("lplr-ci", Claim(request.epsilon), scale, record, "active bins 0 and 1, width 1")


def lpct_report(request: Request) -> Game:
    """LPCT's report on (leaf 0, label 1) or (leaf 1, label 1); published: U and V by Laplace noise of 4/epsilon."""
    if not request.published:
        return signed_subset(request)
    scale = np.full(2, 4 / request.epsilon)
    return laplace_blocks("lpct-report", Claim(request.epsilon), scale, np.ones(2), "leaves 0 and 1, label 1")


def laplace_blocks(name: str, claim: Claim, scale: Floats, record: Floats, pair: str) -> Target:
    """Audit Laplace noise of the given scales on a record that stands in one of two cells."""

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        z = scale * rng.laplace(size=(runs, 2, len(scale)))
        z[:, world] += record
        nearer = (np.abs(z) - np.abs(z - record)) / scale
        return np.asarray((nearer[:, 0] - nearer[:, 1]).sum(axis=-1))

    return Target(name, pair, claim, sample)


def fliphat_peeling(request: Request) -> Game:
    """One iteration of N-IHT (M = 1) from theta = .999 C e1: gradient step, peeling, projection on the l1 ball.

    One user's features are flipped in all coordinates but the first. s = d, so that the selection is trivial; the step
    is small, as the theorem allows, so that the projection has nothing to do.
    """
    d, n, x_max, b_max, eta, noise = 10, 100, 2.0, 1.0, 1e-6, 0.1
    reward_bound = x_max * b_max + noise * math.sqrt(2 * math.log(n))
    theta = 0.999 * b_max * np.eye(d)[0]
    flipped = np.full(d, -x_max)
    straight = np.where(np.arange(d) == 0, -x_max, x_max)
    steps = [theta + 2 * eta / n * x * (reward_bound - x @ theta) for x in (straight, flipped)]
    if request.published:
        sensitivity = eta * (reward_bound + x_max * b_max) / n  # the paper's eta B / n
        scale = LaplacePeeling.published_scale(request.epsilon, request.delta, d, sensitivity)
        mechanism: LaplacePeeling | GumbelTopK = LaplacePeeling(d, scale, sensitivity)
    else:
        scale = 4 * eta * x_max * (reward_bound + x_max * b_max) / n
        mechanism = GumbelTopK.calibrate(request.rho, d, scale)

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        out = np.zeros((runs, d))
        for run in range(runs):
            chosen, values = mechanism.release(steps[world], rng)
            out[run, chosen] = values
            out[run] = project_on_l1_ball(out[run], b_max)
        nearer = (np.abs(out - steps[1]) - np.abs(out - steps[0])) / scale
        along = (out - theta) @ (steps[0] - steps[1]) / scale**2
        return np.stack([nearer.sum(axis=1), along], axis=1)

    pair = "a user's features, and their negatives in all coordinates but the first"
    names = ("Laplace log-likelihood ratio", "projection on the difference")
    return Target("fliphat-peeling", pair, Claim(request.epsilon, request.delta), sample, names)


def project_on_l1_ball(vector: Floats, radius: float) -> Floats:
    """Return the nearest point of l1 norm at most the radius."""
    modulus = np.abs(vector)
    if modulus.sum() <= radius:
        return vector
    ordered = np.sort(modulus)[::-1]
    excess = (np.cumsum(ordered) - radius) / np.arange(1, len(vector) + 1)
    threshold = excess[np.flatnonzero(ordered > excess)[-1]]
    return np.asarray(np.sign(vector) * np.maximum(modulus - threshold, 0.0))


def private_cov(request: Request) -> Game:
    """PrivateCov: the first user is offered K items with features e1, or K items with features e2.

    The paper's noise has the same variance off the diagonal as on it; here it is half, which this pair does not see.
    """
    capacity, levels = 10, 6
    records = [capacity * svec(np.diag(np.eye(2)[item])) for item in (0, 1)]
    sensitivity = math.sqrt(2 * capacity) if request.published else math.sqrt(2) * capacity
    return counter_game(
        "private-cov", BinaryTree, request, records, sensitivity, 2**levels - 1, "all offered items e1, or all e2"
    )


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


TARGETS: dict[str, Callable[[Request], Game]] = {
    "laplace": laplace,
    "gaussian": gaussian,
    "gumbel-topk": gumbel_top_k,
    "wishart-difference": wishart_difference,
    "k-norm": k_norm,
    "objective-perturbation": objective_perturbation,
    "tree": tree,
    "toeplitz": toeplitz,
    "grr": grr,
    "oue": oue,
    "subset": subset,
    "signed-subset": signed_subset,
    "bin-cap": bin_cap,
    "hemisphere": hemisphere,
    "lplr-update": lplr_update,
    "lplr-ci": lplr_ci,
    "lplr-wishart": lplr_wishart,
    "fliphat-peeling": fliphat_peeling,
    "private-cov": private_cov,
    "lpct-report": lpct_report,
}
PUBLISHED = (
    "lplr-update",
    "lplr-ci",
    "lplr-wishart",
    "fliphat-peeling",
    "private-cov",
    "lpct-report",
    "objective-perturbation",
)
"""Targets with a published calibration beside the correct one."""
RUNS = {"lplr-update": 200_000, "objective-perturbation": 5000, "fliphat-peeling": 5000, "gumbel-topk": 5000}
"""Fresh runs of each world by default, where it is not 20 000."""
DELTAS = {"fliphat-peeling": 0.01, "gumbel-topk": 0.01}
"""The default delta, where it is not 1e-5."""
