"""Adaptive preconditioning: locally private regression in coordinates in which no direction is weak.

This project's own agent. Its release is that of John Duchi, Michael Jordan and Martin Wainwright, "Minimax Optimal
Procedures for Locally Private Estimation", JASA 2018 (the l2-ball mechanism).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privbandit_agents.base.agent import Array
from privbandit_agents.base.arms import played
from privbandit_agents.local.linear.moments import PureMomentAgent
from privbandit_agents.local.linear.preconditioning import KEPT, Generation, most_precise
from privbandit_agents.privacy.contributions.moments import NORM, pack, packed_size, sanitise
from privbandit_agents.privacy.randomizers.sphere import Hemisphere
from privbandit_envs.validate import above, at_least, fraction, one_of, positive

SHARE = 0.25
"""A generation is at least this share of all users so far."""


@dataclass(frozen=True)
class Config:
    """Settings of adaptive preconditioning.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
        policy: ``"thompson"``: the best arm for a draw from the posterior of theta, one draw for all users until the
            policy changes next; ``"elimination"``: of the arms that may be best, the one that is largest in a random
            direction, likewise drawn.
        width: how many posterior standard deviations are drawn, or make an arm that may be best, >= 0; None: 0.3 for
            ``"thompson"``, 1.5 for ``"elimination"``.
        target: mean of |P x|^2 to aim at, in (0, 1].
        stretch: P changes when a direction falls short of its share of the target by this factor, > 1.
        clear: a direction counts if its eigenvalue exceeds the spectral norm of the noise by this factor, > 0.
        growth: the policy changes when the number of users has grown by this factor, > 1.
    """

    epsilon: float = 1.0
    policy: str = "thompson"
    width: float | None = None
    target: float = 0.8
    stretch: float = 4.0
    clear: float = 1.0
    growth: float = 1.05

    def __post_init__(self) -> None:
        """Check the ranges; epsilon is checked by the randomizer."""
        one_of(("thompson", "elimination"), policy=self.policy)
        if self.width is not None:
            at_least(0, width=self.width)
        positive(target=fraction(target=self.target))
        above(1, stretch=self.stretch)
        positive(clear=self.clear)
        above(1, growth=self.growth)


class PREC(PureMomentAgent[Config]):
    """Users report (y X, w svec(X X')) of X = P x for a public matrix P, which follows from earlier reports.

    Noise is the same in all directions of a report; where features hardly vary it drowns them, unless P stretches
    these directions first. How far is found in generations of users with the same P: the Gram matrix of one says how
    P must change for the next, and a direction lost in the noise is stretched until it stands out. A record with
    |X| > 1 is scaled into the unit ball together with its reward, which leaves the linear model exact, and says so in
    a coordinate of its own: where too few users are inside the ball, P was too bold and shrinks.

    The posterior of theta comes from the sum of the generations whose Gram matrix is known well, or from a single one
    if that is more precise. Evidence of poorly known ones is not added up: each of them takes noise in its Gram matrix
    for a little information about the weakest direction.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by a
    randomizer whose likelihood ratio is at most e^epsilon for any two inputs. P, the policy, and the ends of
    generations are functions of earlier reports, of public constants, and of the agent's own draws. Records are clipped
    to |x| <= 1, |y| <= 1 on the device before P is applied; those that are not finite count as (0, 0). There is no
    proof of a rate of regret.
    """

    Config = Config
    proof: ClassVar[str] = "docs/privacy/public-coordinates.md"
    least_batch: ClassVar[int] = 32

    def device(self) -> Hemisphere:
        """Return the randomizer of (y X, w svec(X X'), v kept)."""
        return Hemisphere(self.config.epsilon, 1, packed_size(self.dim) + 1, radius=math.hypot(NORM, KEPT))

    def begin(self) -> None:
        """Start with P = I and theta ~ N(0, I)."""
        super().begin()
        d = self.dim
        self.draws = self.rng.spawn(1)[0]
        self.scale, self.born = np.eye(d), 0
        self.known, self.best = np.zeros((d, d + 1)), np.eye(d, d + 1)
        self.drawn = np.zeros(d)
        self.choose()

    @property
    def width(self) -> float:
        """Return the width of the policy."""
        default = {"thompson": 0.3, "elimination": 1.5}[self.config.policy]
        return default if self.config.width is None else float(self.config.width)

    def encode(self, context: Array, action: Any, feedback: Any) -> Array:
        """Return (y X, w svec(X X'), v kept), of records that are not kept scaled into the ball."""
        contexts = np.asarray(context).reshape(-1, *(self.observation_space.shape or ()))
        x, y = sanitise(played(contexts, action), np.atleast_1d(feedback))
        x = np.vecdot(x[:, None, :], self.scale)  # the same whoever else reports, as products of matrices are not
        length = np.linalg.norm(x, axis=1)
        outside = np.maximum(length, 1.0)
        return np.column_stack([pack(x / outside[:, None], y / outside), KEPT * (length <= 1)])

    def learn(self) -> None:
        """Update the posterior, choose a policy, and begin a new generation if that is due."""
        generation = Generation.of(self.total, self.users - self.born, self.scale, self.sigma)
        evidence, prior = generation.evidence(self.config.clear), np.eye(self.dim, self.dim + 1)
        known = self.known + evidence if generation.resolved else self.known
        best = most_precise(known + prior, evidence + prior, self.best)
        self.choose(best)
        if generation.users < SHARE * self.users:
            return
        scale = generation.rescaled(self.config.target, self.config.stretch, math.sqrt(self.users))
        if scale is not None:
            self.scale, self.born, self.total = scale, self.users, np.zeros_like(self.total)
            self.known, self.best = known, best

    def choose(self, evidence: Array | None = None) -> None:
        """Fix the policy until the next change: [root of the covariance | theta], and a draw."""
        best = self.best if evidence is None else evidence
        theta = np.linalg.solve(best[:, :-1], best[:, -1])
        root = np.linalg.inv(np.linalg.cholesky(best[:, :-1])).T
        self.scorer = np.column_stack([root, theta])
        noise = root @ self.draws.standard_normal(self.dim)
        self.drawn = theta + self.width * noise if self.config.policy == "thompson" else noise

    def select_action(self, context: Array) -> Any:
        """Return the arm that is best for the draw, among all or among those that may be best."""
        value = np.asarray(context @ self.drawn)
        if self.config.policy == "elimination":
            value = np.where(self.plausible(context), value, -np.inf)
        return value.argmax(axis=-1)

    def plausible(self, context: Array) -> Array:
        """Return which arms may be best: within ``width`` standard deviations of the difference from the best one."""
        scored = np.asarray(context @ self.scorer)
        best = scored[..., -1].argmax(axis=-1)[..., None, None]
        behind = np.take_along_axis(scored, best, axis=-2) - scored
        spread = np.linalg.norm(behind[..., :-1], axis=-1)
        return np.asarray(behind[..., -1] <= self.width * spread)
