"""Adaptive preconditioning: locally private regression in coordinates in which no direction is weak.

This project's own agent. Its release is that of John Duchi, Michael Jordan and Martin Wainwright, "Minimax Optimal
Procedures for Locally Private Estimation", JASA 2018 (the l2-ball mechanism).
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from privbandit_agents.base.agent import Action, Array, Feedback
from privbandit_agents.base.settings import Above, Fraction, NonNegative, Positive
from privbandit_agents.local.linear.moments import MomentAgent, MomentSettings, RandomizerChannel
from privbandit_agents.local.linear.preconditioning import KEPT, Generation, most_precise
from privbandit_agents.privacy.contributions.moments import NORM, pack, packed_size, sanitise
from privbandit_agents.privacy.randomizers.sphere import Hemisphere


@dataclass(frozen=True)
class Config(MomentSettings):
    """Settings of adaptive preconditioning, beside those in ``MomentSettings``.

    Attributes:
        policy: ``"thompson"`` plays the best arm for a draw from the posterior of theta; ``"elimination"`` plays, among
            the arms that may be best, the largest one along a random direction. A draw serves all users until the
            policy changes next.
        width: how many posterior standard deviations are drawn, or make an arm that may be best, >= 0; None: 0.3 for
            ``"thompson"``, 1.5 for ``"elimination"``.
        target: mean of |P x|^2 to aim at, in (0, 1].
        stretch: P changes when a direction falls short of its share of the target by this factor, > 1.
        clear: a direction counts if its eigenvalue exceeds the spectral norm of the noise by this factor, > 0.
    """

    policy: Literal["thompson", "elimination"] = "thompson"
    width: NonNegative | None = None
    target: Annotated[Fraction, Above(0)] = 0.8
    stretch: Annotated[float, Above(1)] = 4.0
    clear: Positive = 1.0


class PREC(MomentAgent[Config]):
    """Users report (y X, w svec(X X')) of X = P x for a public matrix P, which follows from earlier reports.

    A report's noise is the same in all directions, so it drowns those in which features hardly vary. P stretches them
    before the noise is added.

        P = I, generation = no users, known = no evidence
        for every batch of users:
            each plays the arm that is best for a draw from N(theta, cov), and on its device
                computes X = P x; if |X| > 1: (X, y) = (X, y) / |X|, kept = 0; else kept = 1
                reports (y X, w svec(X X'), v kept) by one private direction
            generation = generation + the batch
            theta, cov = posterior by the sum of known generations, or by a single one that is more precise
            if the generation has a quarter of all users:
                if too few users were kept: P = P / 1.4
                else if a direction is too short: P = P with all directions stretched to equal shares of the target
                if P has changed: known = known + generation, if all its directions are clear; generation = no users

    Scaling a record into the ball together with its reward leaves the linear model exact. A direction that is lost in
    the noise is stretched, generation by generation, until it stands out. Poorly known generations are not added up:
    each would bring the noise of its Gram matrix for a little information about the weakest direction.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by a
    randomizer whose likelihood ratio is at most e^epsilon for any two inputs. P, the policy, and the ends of
    generations are functions of earlier reports, of public constants, and of the agent's own draws. Records are clipped
    to |x| <= 1, |y| <= 1 on the device before P is applied; those that are not finite count as (0, 0). There is no
    proof of a rate of regret.

    Attributes:
        scale: P, shape (d, d).
        born: number of users before the generation.
        known: [J | h], precision and score of theta by the known generations, shape (d, d + 1).
        best: the same with the prior, by the most precise evidence before the generation.
        drawn: theta or direction that was drawn, shape (d,).
    """

    Config = Config
    proof = "docs/privacy/public-coordinates.md"
    least_batch: ClassVar[int] = 32

    def open_channel(self) -> RandomizerChannel:
        size, radius = packed_size(self.dim) + 1, math.hypot(NORM, KEPT)
        return RandomizerChannel(Hemisphere(self.config.epsilon, 1, size, radius=radius))

    def begin(self) -> None:
        super().begin()
        self.rng_posterior = self.rng.spawn(1)[0]
        self.scale, self.born = np.eye(self.dim), 0
        self.known, self.best = np.zeros((self.dim, self.dim + 1)), np.eye(self.dim, self.dim + 1)
        self.choose(self.best)

    @property
    def width(self) -> float:
        default = {"thompson": 0.3, "elimination": 1.5}[self.config.policy]
        return default if self.config.width is None else float(self.config.width)

    def encode(self, context: Array, action: Action, feedback: Feedback) -> Array:
        """Return (y X, w svec(X X'), v kept) of records scaled into the ball, shape (n, D)."""
        x, y = sanitise(self.features(context, action), np.atleast_1d(feedback))
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
        if generation.users < 0.25 * self.users:
            return
        scale = generation.rescaled(self.config.target, self.config.stretch, math.sqrt(self.users))
        if scale is not None:
            self.scale, self.born, self.total = scale, self.users, np.zeros_like(self.total)
            self.known, self.best = known, best

    def choose(self, evidence: Array) -> None:
        """Fix the policy until the next change by [J | h]: [root of the covariance | theta], and a draw."""
        theta = np.linalg.solve(evidence[:, :-1], evidence[:, -1])
        root = np.linalg.inv(np.linalg.cholesky(evidence[:, :-1])).T
        self.scorer = np.column_stack([root, theta])
        noise = root @ self.rng_posterior.standard_normal(self.dim)
        self.drawn = theta + self.width * noise if self.config.policy == "thompson" else noise

    def select_action(self, context: Array) -> Action:
        """Return the arm that is best for the draw, among all or among those that may be best."""
        value = np.asarray(context @ self.drawn)
        if self.config.policy == "elimination":
            value = np.where(self.plausible(context), value, -np.inf)
        chosen: Action = value.argmax(axis=-1)
        return chosen

    def plausible(self, context: Array) -> Array:
        """Return which arms may be best: within ``width`` standard deviations of the difference from the best one."""
        scored = np.asarray(context @ self.scorer)
        best = scored[..., -1].argmax(axis=-1)[..., None, None]
        behind = np.take_along_axis(scored, best, axis=-2) - scored
        spread = np.linalg.norm(behind[..., :-1], axis=-1)
        return np.asarray(behind[..., -1] <= self.width * spread)
