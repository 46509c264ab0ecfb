"""Jointly private LinUCB by continual counting.

Roshan Shariff and Or Sheffet, "Differentially Private Contextual Linear Bandits", NeurIPS 2018, Algorithm 1.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privbandit_agents.base.agent import Array, CentralAgent, Guarantee, arms_with_features
from privbandit_agents.base.arms import best_arm, optimistic_scorer, played
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho
from privbandit_agents.privacy.accounting.ledger import Ledger, zcdp
from privbandit_agents.privacy.contributions.moments import SENSITIVITY, pack, packed_size, perturbed_ridge
from privbandit_agents.privacy.mechanisms.counters import BinaryTree, BufferedToeplitz, SquareRootToeplitz
from privbandit_envs.validate import above, at_least, count, one_of, positive

COUNTERS = {"tree": BinaryTree, "toeplitz": SquareRootToeplitz, "buffered": BufferedToeplitz}


@dataclass(frozen=True)
class Config:
    """Settings of JDP-LinUCB.

    Attributes:
        epsilon: privacy budget, > 0; infinity adds no noise. Not used if ``rho`` is given.
        delta: of (epsilon, delta), in (0, 1).
        rho: zCDP budget instead of epsilon.
        horizon: number of users T, fixed in advance; default: the environment's.
        counter: ``"tree"``; ``"toeplitz"``, with a third of its noise and memory that grows with the horizon; or
            ``"buffered"``, within 1 % of that in memory that grows with its logarithm.
        bonus_scale: multiplier of the theoretical width of the confidence bonus, >= 0; 1 is the theory.
        shift: ridge in units of the noise's spectral norm, >= 0.
        ridge: least ridge, > 0.
        growth: the policy changes when the number of users has grown by this factor, > 1.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    rho: float | None = None
    horizon: int | None = None
    counter: str = "buffered"
    bonus_scale: float = 0.1
    shift: float = 1.0
    ridge: float = 1.0
    growth: float = 1.05

    def __post_init__(self) -> None:
        """Check the ranges; budgets are checked by the counter."""
        if self.horizon is not None:
            count(horizon=self.horizon)
        one_of(COUNTERS, counter=self.counter)
        at_least(0, bonus_scale=self.bonus_scale)
        at_least(0, shift=self.shift)
        positive(ridge=self.ridge)
        above(1, growth=self.growth)


class JDPLinUCB(CentralAgent[Config, Array]):
    """A curator keeps a private running sum of (y x, w svec(x x')); users act on the ridge regression it gives.

    *Formal guarantees.* rho-zCDP (hence (epsilon, delta)-joint DP) under replacement of a user's whole record: one
    continual counter with l2 sensitivity 2 (``pack``) runs over all users, and every action reads its releases only.
    Records are clipped to |x| <= 1, |y| <= 1 by the curator; those that are not finite count as (0, 0).

    Deviations:
        The counter is calibrated in zCDP and converted tightly; besides the paper's binary tree there is the
        square-root Toeplitz factorisation, with several times less noise. The policy changes at geometric times (the
        counter runs at every user all the same). The bonus is scaled by ``bonus_scale``.
    """

    Config = Config
    gaussian = True
    fixed: ClassVar[frozenset[str]] = CentralAgent.fixed | {"guarantee"}

    def begin(self) -> None:
        """Declare and spend the budget: a counter's releases are one mechanism."""
        super().begin()
        config = self.config
        assert self.observation_space.shape is not None
        self.dim = self.observation_space.shape[1]
        given_rho = config.rho is not None
        rho = config.rho if given_rho else epsilon_to_rho(config.epsilon, config.delta)
        self.ledger = Ledger(rho=rho) if given_rho else Ledger(epsilon=config.epsilon, delta=config.delta)
        self.ledger.spend(zcdp(rho))
        noise = self.rng.spawn(1)[0]
        self.counter = COUNTERS[config.counter](
            config.horizon or 100_000, packed_size(self.dim), SENSITIVITY, rho, noise
        )
        self.guarantee = Guarantee(
            notion="joint",
            epsilon=None if given_rho else config.epsilon,
            delta=None if given_rho else config.delta,
            rho=rho,
            protects="context, action and reward of every user, from all others",
            reference="docs/privacy/regression-moments.md and docs/privacy/continual-counting.md",
        )
        self.release = np.zeros((self.dim, self.dim + 1))
        self.users, self.refit_at = 0, 1

    plays = staticmethod(arms_with_features)

    def select_action(self, context: Array) -> Any:
        """Return argmax of x . theta + bonus |x|_(A^-1)."""
        return best_arm(context, self.release)

    def curate(self, context: Array, action: Any, feedback: Any) -> Array | None:
        """Count every user's packed record; release a regression when it is time."""
        contexts = np.asarray(context).reshape(-1, *(self.observation_space.shape or ()))
        scorer = None
        for packed in pack(played(contexts, action), np.atleast_1d(feedback)):
            noisy = self.counter.add(packed)
            self.users += 1
            if self.users == self.refit_at:
                scorer = self._scorer(noisy)
        return scorer

    def frozen_rounds(self) -> int:
        """Return the number of users before the next release."""
        return self.refit_at - self.users

    def _scorer(self, noisy: Array) -> Array:
        t, config = self.users, self.config
        sigma = self.counter.standard_deviation(t)
        a, theta, added = perturbed_ridge(noisy, self.dim, sigma, config.ridge, config.shift)
        theory = sigma * math.sqrt(self.dim / added) + math.sqrt(added) + math.sqrt(self.dim * math.log(1 + t))
        self.refit_at = max(t + 1, math.ceil(t * config.growth))
        return optimistic_scorer(a, theta, config.bonus_scale * theory)
