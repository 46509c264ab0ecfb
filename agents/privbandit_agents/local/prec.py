"""Adaptive preconditioning: locally private statistics in coordinates in which no direction is weak.

This project's own agent. The release is that of John Duchi, Michael Jordan and Martin Wainwright, "Minimax Optimal
Procedures for Locally Private Estimation", JASA 2018 (the l2-ball mechanism).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from privbandit_agents.agent import Array, Space, above, at_least, fraction, many, n_arms, one_of, positive
from privbandit_agents.local.ldp_greedy import PureMomentAgent
from privbandit_agents.privacy.moments import (
    NORM,
    noise_of_gram,
    pack,
    packed_size,
    played,
    sanitise,
    unpack,
)
from privbandit_agents.privacy.sphere import Hemisphere

KEPT = 0.3
"""Weight of the coordinate that says whether a record lies inside the ball."""
LEAST_KEPT = 0.5
RESOLVED = 2.0
SAT = 0.5
TRIGGER = 4.0

SHRINK = 1.4
LARGEST = 8.0
"""No direction is stretched more than this at once."""
SHARE = 0.25
"""A generation is at least this share of all users so far."""


@dataclass(frozen=True)
class Config:
    """Settings of adaptive preconditioning.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
        policy: ``"thompson"``: the best arm for a draw from the posterior, one draw for all users until the policy
            changes next; ``"elimination"``: any arm that may be best, at random.
        width: multiplier of the posterior's standard deviations, >= 0.
        target: mean of |P x|^2 to aim at, in (0, 1].
        stretch: P changes when a direction falls short of its share of the target by this factor, > 1.
        clear: eigenvalues of the Gram matrix count if they exceed the spectral norm of its noise by this factor, > 0.
        growth: the policy changes when the number of users has grown by this factor, > 1.
    """

    epsilon: float = 1.0
    policy: str = "thompson"
    width: float = 0.5
    target: float = 0.8
    stretch: float = 4.0
    clear: float = 1.0
    growth: float = 1.05

    def __post_init__(self) -> None:
        """Check the ranges; epsilon is checked by the randomizer."""
        one_of(("thompson", "elimination"), policy=self.policy)
        at_least(0, width=self.width)
        positive(target=fraction(target=self.target))
        above(1, stretch=self.stretch)
        positive(clear=self.clear)
        above(1, growth=self.growth)


class PREC(PureMomentAgent):
    Config = Config

    def __init__(self, observation_space: Space, action_space: Space, config: Any, rng: Generator) -> None:
        assert observation_space.shape is not None
        d = observation_space.shape[1]
        device = Hemisphere(config.epsilon, 1, packed_size(d) + 1, radius=math.hypot(NORM, KEPT))
        super().__init__(observation_space, action_space, config, rng, device)
        self.scale = np.eye(d)
        self.born = 0
        self.precision, self.score = np.eye(d), np.zeros(d)
        self.sum_precision, self.sum_score = np.zeros((d,d)), np.zeros(d)
        self.draw = np.zeros(d)

    def encode(self, context: Array, action: Any, feedback: Any) -> Array:
        contexts = np.asarray(context).reshape(-1, *(self.observation_space.shape or ()))
        x, y = sanitise(played(contexts, action), np.atleast_1d(feedback))
        x = x @ self.scale.T
        length = np.linalg.norm(x, axis=1)
        shrunk = np.maximum(length, 1.0)
        return np.column_stack([pack(x / shrunk[:, None], y / shrunk), KEPT * (length <= 1)])

    def learn(self) -> None:
        n = self.users - self.born
        gram, moment = unpack(self.total[:-1], self.dim)
        level = 2 * math.sqrt(self.dim) * noise_of_gram(self.sigma * math.sqrt(n))
        values, vectors = np.linalg.eigh(gram)
        J, h = self.evidence(values, vectors, moment, n, level)
        sure = values.min() > RESOLVED * level
        rJ, rh = (self.sum_precision + J, self.sum_score + h) if sure else (self.sum_precision, self.sum_score)
        cands = [(rJ + np.eye(self.dim), rh), (J + np.eye(self.dim), h), (self.precision, self.score)]
        J, h = max(cands, key=lambda c: np.linalg.slogdet(c[0])[1])
        theta = np.linalg.solve(J, h)
        root = np.linalg.inv(np.linalg.cholesky(J)).T
        self.scorer = np.column_stack([self.config.width * root, theta])
        self.draw = theta + self.config.width * root @ self.rng.standard_normal(self.dim)
        self.adapt(values / n, vectors, level / n, n, J, h, rJ, rh)

    def evidence(self, values, vectors, moment, n, level):
        clear = values > self.config.clear * level
        U, lam = vectors[:, clear], values[clear]
        back = np.linalg.inv(self.scale).T
        A = (U * lam).T @ back
        m = U.T @ moment
        theta = np.zeros(self.dim)
        for _ in range(3):
            t = back @ theta
            t = U.T @ t
            S = n * self.sigma**2 * ((1 + t @ t) * np.eye(len(lam)) + np.outer(t, t)) + np.diag(lam)
            W = np.linalg.solve(S, A)
            J = A.T @ W
            h = W.T @ m
            theta = np.linalg.solve(J + np.eye(self.dim), h)
            theta = theta / max(1.0, np.linalg.norm(theta))
        return J, h

    def adapt(self, values, vectors, floor, n, J, h, rJ, rh):
        if n < SHARE * self.users:
            return
        share = self.total[-1] / (KEPT * n)
        std = self.sigma / (KEPT * math.sqrt(n))
        want = self.config.target / self.dim
        size = np.maximum(values, floor)
        factors = np.sqrt(want / size)
        factors = np.where(SAT * size > 1 - share - std, factors, np.minimum(factors,1))
        if share + 2 * std < LEAST_KEPT:
            new = self.scale / SHRINK
        elif (factors**2 >= np.where(values > floor, TRIGGER, self.config.stretch)).any() and floor < want:
            factors = np.minimum(factors, LARGEST)
            new = (vectors * factors) @ vectors.T @ self.scale
        else:
            return
        if DEBUG: print(self.users, n, "kept", share, "vals", values, floor, "f", factors)
        self.scale = new
        self.precision, self.score = J, h
        self.sum_precision, self.sum_score = rJ, rh
        self.total = np.zeros_like(self.total)
        self.born = self.users

    def select_action(self, context: Array) -> Any:
        if self.config.policy == "thompson":
            return np.asarray(context @ self.draw).argmax(axis=-1)
        raise NotImplementedError
DEBUG=False
