"""What can be audited by name; published calibrations beside the correct ones.

The published calibrations are those of Li, Simchi-Levi and Wang (LPLR), Chakraborty, Roy and Basu (FLIPHAT), Cho and
Sun (DPMNL) and Ma and Yang (LPCT); ``docs/privacy/published-calibrations.md`` says what is wrong with them.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.audits import mechanisms as games
from privbandit_agents.audits.lower_bounds import Claim, Game
from privbandit_agents.audits.mechanisms import (
    Request,
    Target,
    counter_game,
    matrix_game,
    randomizer_game,
    signed_subset,
    wishart_difference,
)
from privbandit_agents.privacy.contributions.moments import Moments
from privbandit_agents.privacy.mechanisms import selection as peeling
from privbandit_agents.privacy.mechanisms.additive import wishart
from privbandit_agents.privacy.mechanisms.counters import BinaryTree
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK, LaplacePeeling, project_on_l1_ball
from privbandit_agents.privacy.mechanisms.symmetric import svec
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot
from privbandit_agents.privacy.randomizers.sphere import BinCapSign

Floats = NDArray[np.float64]
CALIBRATIONS = ("correct", "published")


def lplr_wishart(request: Request) -> Game:
    """LPLR's matrix release: a unit row in one of two bins."""
    if not request.published:
        return wishart_difference(request)
    request.at_most_one("lplr-wishart")
    v = 4.5 / request.epsilon  # 3 W_d(d + 1, 1.5 / alpha)
    return matrix_game("lplr-wishart", Claim(request.epsilon), lambda n, rng: wishart(rng, 2, 3, v, (n, 2)))


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
    scale = peeling.step_sensitivity(eta, x_max, reward_bound, b_max, n)
    mechanism: LaplacePeeling | GumbelTopK = peeling.concentrated(request.rho, 1, d, scale)
    if request.published:
        stated = peeling.published_sensitivity(eta, x_max, reward_bound, b_max, n)
        mechanism = peeling.published(request.epsilon, request.delta, 1, d, scale, stated)
        scale = mechanism.scale

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


TARGETS: dict[str, Callable[[Request], Game]] = {
    "laplace": games.laplace,
    "gaussian": games.gaussian,
    "gumbel-topk": games.gumbel_top_k,
    "wishart-difference": games.wishart_difference,
    "k-norm": games.k_norm,
    "objective-perturbation": games.objective_perturbation,
    "tree": games.tree,
    "toeplitz": games.toeplitz,
    "grr": games.grr,
    "oue": games.oue,
    "subset": games.subset,
    "signed-subset": games.signed_subset,
    "bin-cap": games.bin_cap,
    "hemisphere": games.hemisphere,
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
RUNS = {
    "lplr-update": 200_000,
    "objective-perturbation": 5000,
    "fliphat-peeling": 5000,
    "gumbel-topk": 5000,
    "jdp-linucb": 1000,
    "fliphat": 2000,
    "clipped-iht": 4000,
}
"""Fresh runs of each world by default, where it is not 20 000."""
DELTAS = {"fliphat-peeling": 0.01, "gumbel-topk": 0.01, "fliphat": 0.01, "clipped-iht": 0.01}
"""The default delta of mechanisms and agents, where it is not 1e-5."""
