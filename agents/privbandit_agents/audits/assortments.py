"""The audit of the Gram matrices of private assortments: one user is replaced, later users' actions read the release.

All other users are the adversary's. A probe chooses K of 2 K items, one half of which are alike and so is the other:
which half it gets tells which scores higher, and a bank of probes with features of growing length measures the ratio of
two scores. The target's own assortment is left out, as joint privacy allows.
"""

import math
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular, toeplitz

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Claim, Floats
from privbandit_agents.audits.games.derivatives import MinimiserGame
from privbandit_agents.base.agent import AnyAgent
from privbandit_agents.privacy.mechanisms.counters import square_root_coefficients

CAPACITY = 10
ROUNDS = 8
"""Users of a run: the first one is in all of a binary tree's blocks, of length 1, 2, 4 and 8."""
PROBES = 120


def probes(first: Floats, second: Floats) -> Floats:
    """Return contexts (n, 2 K, 3) of K items with the features first (n, 2) and K with the features second (n, 2)."""
    contexts = np.ones((len(first), 2 * CAPACITY, 3))
    contexts[:, :CAPACITY, :2], contexts[:, CAPACITY:, :2] = first[:, None], second[:, None]
    return contexts


class AssortmentGame(AgentGame):
    """The scores of two kinds of items are compared by probes."""

    world: ClassVar = dict(id="privbandit/Assortment-v0", n_items=2 * CAPACITY, capacity=CAPACITY, dim=2, horizon=4096)

    def serve(self, agent: AnyAgent, features: Floats, bought: int) -> None:
        """Serve a user who was offered items with features (k, 2) and bought one of them, or -1."""
        context, offered = np.ones((2 * CAPACITY, 3)), np.arange(2 * CAPACITY) < len(features)
        context[:, :2] = 0.0
        context[offered, :2] = features
        agent.update(context, offered.astype(np.int8), bought)


class GramGame(AssortmentGame):
    """The first user's items were all e_1, or all e_2; the bonus after every user tells V_11 / V_22.

    The bonus is scaled up until it drowns theta, so what is seen are the releases of PrivateCov, which are Gaussian
    and have a share of the budget: the claim is theirs.
    """

    part = "Gram matrix"
    besides = (MinimiserGame,)
    pair = "one user's K items at e1 or at e2"
    statistics = ("V11 - V22 after 1, 2, 4, ... users, summed", "the same after every user, decorrelated")
    seen = f"V11 / V22 after each of {ROUNDS} users, as {PROBES} probes read it from their assortments"
    unseen = "later targets, and other pairs of records"
    settings: ClassVar = dict(  # nearly all of the budget for PrivateCov, and a new V for every user
        mle_share=0.05, calls=1, exploration=1, growth=1.0, bonus_scale=1e9, horizon=ROUNDS
    )

    def prepare(self) -> None:
        coefficients = square_root_coefficients(ROUNDS)  # their matrix decorrelates the readings
        decoder = toeplitz(coefficients, np.zeros(ROUNDS))
        self.whiten = coefficients @ solve_triangular(decoder, np.eye(ROUNDS), lower=True)
        width = self.spread()
        self.lengths = np.exp(np.linspace(-width, width, PROBES))
        self.bank = probes(np.tile([1.0, 0.0], (PROBES, 1)), self.lengths[:, None] * [0.0, 1.0])

    def spread(self) -> float:
        """Return six standard deviations of log sqrt(V_22 / V_11) after one user without items, at most 1.5."""
        agent = self.agent(0)
        self.serve(agent, np.zeros((0, 2)), -1)
        middle = (2 if agent.cov.published else 1) * agent.cov.shift()
        return float(min(1.5, 6 * agent.cov.counter.standard_deviation(1) / (math.sqrt(2) * middle)))

    def claimed(self) -> Claim:
        """Return the claim of PrivateCov's releases: their share of rho, or what (epsilon, delta) leaves them."""
        agent = self.agent(0)
        guarantee = agent.guarantee
        rho = agent.cov.counter.rho if guarantee.rho is None else (1 - agent.config.mle_share) * guarantee.rho
        return Claim(guarantee.epsilon or np.inf, guarantee.delta or 1e-5, rho)

    def statistic(self, agent: Any, world: int) -> Floats:
        """Serve the target and then users without items, and read after each."""
        self.serve(agent, np.tile(np.eye(2)[world], (CAPACITY, 1)), -1)
        differences = np.zeros(ROUNDS)
        for t in range(ROUNDS):
            if t > 0:
                self.serve(agent, np.zeros((0, 2)), -1)
            shorter = int((np.asarray(agent.select_action(self.bank))[:, 0] == 1).sum())
            odds = self.lengths[min(shorter, PROBES - 1)] ** 2  # (V^-1)_11 / (V^-1)_22 = V_22 / V_11
            differences[t] = agent.cov.shift() * (1 - odds) / (1 + odds)
        return np.array([differences[2 ** np.arange(ROUNDS.bit_length()) - 1].sum(), self.whiten @ differences])
