"""The mechanisms of papers, with their published calibrations beside the correct ones.

The published calibrations are those of Li, Simchi-Levi and Wang (LPLR), Chakraborty, Roy and Basu (FLIPHAT), Cho and
Sun (DPMNL) and Ma and Yang (LPCT); ``docs/papers/claims.md`` lists their errors. This is the only folder besides
``privacy`` that draws privacy noise: too little of it, on purpose.
"""

import math

import numpy as np
from numpy.random import Generator

from privbandit_agents.audits import mechanisms
from privbandit_agents.audits.claims import Claim, Floats, Game
from privbandit_agents.audits.mechanisms import MechanismGame, Request, counter_game, randomizer_game
from privbandit_agents.privacy.contributions.moments import Moments
from privbandit_agents.privacy.mechanisms import selection as peeling
from privbandit_agents.privacy.mechanisms.counters import BinaryTree
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK, LaplacePeeling, project_on_l1_ball
from privbandit_agents.privacy.mechanisms.spherical import wishart
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot
from privbandit_agents.privacy.randomizers.sphere import BinCapSign
from privbandit_agents.privacy.vectors import svec


def lplr_wishart(request: Request) -> Game:
    """LPLR's matrix release: a unit row in one of two bins."""
    if not request.published:
        return mechanisms.wishart_difference(request)
    v = 4.5 / request.epsilon  # 3 W_d(d + 1, 1.5 / alpha)
    return mechanisms.matrix_game(Claim(request.epsilon), lambda n, rng: wishart(rng, 2, 3, v, (n, 2)))


def lplr_update(request: Request) -> Game:
    """LPLR-UPDATE: phi = 1/sqrt(d), y = 1 in bin 0 or bin 1; published: count and moment without the matrix."""
    if not request.published:
        packed = Moments(2).pack(np.full((1, 2), 0.5**0.5), np.ones(1))[0]
        mechanism = BinCapSign(request.epsilon, 2, len(packed))
        return randomizer_game(mechanism, ((0, packed), (1, packed)), "bins 0 and 1, the same record")
    d, alpha = 2, request.epsilon
    scale = np.array([3 / alpha] + d * [3 * math.sqrt(d) / alpha])
    record = np.array([1.0] + d * [1 / math.sqrt(d)])
    return laplace_blocks(alpha, scale, record, "bins 0 and 1, the same record; count and moment only")


def lplr_ci(request: Request) -> Game:
    """LPLR-CI: the largest width in one of two active bins."""
    if not request.published:
        inputs = (0, np.ones(1)), (1, np.ones(1))
        return randomizer_game(LaplaceOneHot(request.epsilon, 2), inputs, "active bins 0 and 1, width 1")
    return laplace_blocks(request.epsilon, np.array([1 / request.epsilon]), np.ones(1), "active bins 0 and 1, width 1")


def lpct_report(request: Request) -> Game:
    """LPCT's report on (leaf 0, label 1) or (leaf 1, label 1); published: U and V by Laplace noise of 4/epsilon."""
    if not request.published:
        return mechanisms.signed_subset(request)
    return laplace_blocks(request.epsilon, np.full(2, 4 / request.epsilon), np.ones(2), "leaves 0 and 1, label 1")


def laplace_blocks(epsilon: float, scale: Floats, record: Floats, pair: str) -> Game:
    """Audit Laplace noise of the given scales on a record that stands in one of two cells."""

    def sample(world: int, runs: int, rng: Generator) -> Floats:
        z = scale * rng.laplace(size=(runs, 2, len(scale)))
        z[:, world] += record
        nearer = (np.abs(z) - np.abs(z - record)) / scale
        return np.asarray((nearer[:, 0] - nearer[:, 1]).sum(axis=-1))

    return MechanismGame(pair, Claim(epsilon), sample)


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
        return np.stack([nearer.sum(axis=1), (out - theta) @ (steps[0] - steps[1]) / scale**2], axis=1)

    pair = "a user's features, and their negatives in all coordinates but the first"
    names = ("Laplace log-likelihood ratio", "projection on the difference")
    claim = Claim(request.epsilon, request.delta, None if request.published else request.rho)
    return MechanismGame(pair, claim, sample, names)


def private_cov(request: Request) -> Game:
    """PrivateCov: the first user is offered K items with features e1, or K items with features e2.

    The paper's noise has the same variance off the diagonal as on it; here it is half, which this pair does not see.
    """
    capacity = 10
    records = [capacity * svec(np.diag(np.eye(2)[item])) for item in (0, 1)]
    sensitivity = math.sqrt(2 * capacity) if request.published else math.sqrt(2) * capacity
    return counter_game(BinaryTree, request, records, sensitivity, "all offered items e1, or all e2")
