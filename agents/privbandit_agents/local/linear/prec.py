"""Adaptive preconditioning: locally private regression in coordinates in which no direction is weak.

This project's own agent, to our knowledge new for bandits and for local privacy. That coordinates are rescaled by what
was released before, step by step, is the recursive private preconditioning of Gautam Kamath, Jerry Li, Vikrant Singhal
and Jonathan Ullman, "Privately Learning High-Dimensional Distributions", COLT 2019. The release is that of John Duchi,
Michael Jordan and Martin Wainwright, "Minimax Optimal Procedures for Locally Private Estimation", JASA 2018 (the
l2-ball mechanism).
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from scipy.linalg.lapack import dtrtri

from privbandit_agents.base.agent import Action, Array, Feedback, next_change
from privbandit_agents.base.settings import Above, HalfOpen01, NonNegative, Positive
from privbandit_agents.base.ties import best, largest
from privbandit_agents.local.linear.moments import MomentAgent, MomentSettings, RandomizerChannel
from privbandit_agents.privacy.contributions.moments import NORM, Lifted, noise_of_gram, packed_size, sanitise, unpack
from privbandit_agents.privacy.randomizers.sphere import Hemisphere

KEPT = 0.3  # weight of the coordinate that says whether a record lies inside the ball


@dataclass(frozen=True)
class Generation:
    """Means over the users who reported in the same coordinates X = P x.

    Everything here is a function of noisy sums and public constants.

    Attributes:
        users: n, how many.
        scale: P, shape (d, d).
        values: eigenvalues of the noisy mean of X X', rising, shape (d,).
        vectors: its eigenvectors, shape (d, d).
        moment: noisy mean of y X, shape (d,).
        kept: noisy share of the users with |X| <= 1.
        sigma: standard deviation of the noise of a packed coordinate's mean.
    """

    users: int
    scale: Array
    values: Array
    vectors: Array
    moment: Array
    kept: float
    sigma: float

    @classmethod
    def of(cls, total: Array, users: int, scale: Array, sigma: float) -> Self:
        """Read a noisy sum of packed records; ``sigma`` is the noise of one report's coordinate."""
        gram, moment = unpack(total[:-1] / users, len(scale))
        values, vectors = np.linalg.eigh(gram)
        return cls(users, scale, values, vectors, moment, float(total[-1] / users / KEPT), sigma / math.sqrt(users))

    @property
    def floor(self) -> float:
        """About the spectral norm of the noise in the mean of X X'."""
        return 2 * math.sqrt(len(self.scale)) * noise_of_gram(self.sigma)

    @property
    def resolved(self) -> bool:
        return bool(self.values[0] > 4 * self.floor)  # every direction stands out from the noise

    def evidence(self, clear: float) -> Array:
        """Return [J | h], the precision and score of theta without a prior, shape (d, d + 1).

        Along an eigenvector u whose value stands out, u . (mean of y X) = value u . P^-T theta + noise. The noise comes
        from the moment, from the Gram matrix times P^-T theta, and from the rewards. Its second part needs theta, which
        three rounds find.

        Args:
            clear: eigenvalues count if they exceed the floor by this factor.
        """
        seen = self.values > clear * self.floor
        if not seen.any():
            return np.zeros((len(self.scale), len(self.scale) + 1))
        u, values = self.vectors[:, seen], self.values[seen]
        back = u.T @ np.linalg.inv(self.scale).T
        design, moment = values[:, None] * back, u.T @ self.moment
        prior, theta = np.eye(len(self.scale)), np.asarray(np.zeros(len(self.scale)), float)
        for _ in range(3):
            t = back @ theta
            noise = self.sigma**2 * ((1 + t @ t) * np.eye(len(t)) + np.outer(t, t)) + np.diag(values) / self.users
            weighted = np.linalg.solve(noise, design)
            precision, score = design.T @ weighted, weighted.T @ moment
            theta = np.linalg.solve(prior + precision, score)
            theta = theta / max(1.0, float(np.linalg.norm(theta)))
        return np.column_stack([precision, score])

    def rescaled(self, target: float, stretch: float, largest: float) -> Array | None:
        """Return a better P, or None if this one will do.

        P shrinks if the share of users inside the ball is significantly too small. Else directions are stretched or
        shrunk to equal shares of the target. A direction with an eigenvalue lost in the noise counts as large as the
        noise may be. One that may owe its eigenvalue to the few users outside the ball is not stretched: that would
        push them further out and gain nothing.

        Args:
            target: mean of |X|^2 to aim at.
            stretch: no change unless a direction falls short of its share by this factor.
            largest: bound on a row of U' P, so that directions that nobody has are not stretched for ever.
        """
        # the guard: fewer than half of the users are inside the ball
        error = self.sigma / KEPT
        if self.kept + 2 * error < 0.5:
            return self.scale / 1.4
        # how far each direction may be stretched
        size = np.maximum(self.values, self.floor)
        rows = self.vectors.T @ self.scale
        limit = np.minimum(8.0, largest / np.linalg.norm(rows, axis=1))
        limit = np.where(size / 2 > 1 - self.kept - error, limit, np.minimum(limit, 1.0))
        # equal shares of the target
        factors = np.minimum(np.sqrt(target / len(size) / np.maximum(size, 1e-100)), limit)
        if factors.max() ** 2 < stretch:
            return None
        return np.asarray(self.vectors @ (factors[:, None] * rows))


def most_precise(*candidates: Array) -> Array:
    """Return the [J | h] with the largest determinant of J."""
    return max(candidates, key=lambda evidence: float(np.linalg.slogdet(evidence[:, :-1])[1]))


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
    target: HalfOpen01 = 0.8
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
    randomizer with likelihood ratio at most e^epsilon for any two inputs. P, the policy, and the ends of
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
    settled = MomentAgent.estimated_best

    def open_channel(self) -> RandomizerChannel:
        size, radius = packed_size(self.dim) + 1, math.hypot(NORM, KEPT)
        return RandomizerChannel(Hemisphere(self.config.epsilon, 1, size, radius=radius, noise=self.config.noise))

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

    def lift(self, context: Array, action: Action, feedback: Feedback) -> Lifted:
        """Return (y X, w svec(X X'), v kept) of records scaled into the ball, shape (n, D)."""
        x, y = sanitise(self.features(context, action), np.atleast_1d(feedback))
        x = np.vecdot(x[:, None, :], self.scale)  # the same whoever else reports, as products of matrices are not
        length = np.linalg.norm(x, axis=1)
        outside = np.maximum(length, 1.0)
        inside = sanitise(x / outside[:, None], y / outside)
        return Lifted.packed(*inside, KEPT * (length <= 1)[:, None])

    def learn(self) -> None:
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

    def next_refit(self) -> int:
        return next_change(self.users, self.config.growth, 32)  # users of a batch, at least

    def choose(self, evidence: Array) -> None:
        """Fix the policy until the next change by [J | h]: [root of the covariance | theta], and a draw."""
        theta = np.linalg.solve(evidence[:, :-1], evidence[:, -1])
        root = dtrtri(np.linalg.cholesky(evidence[:, :-1]), lower=1)[0].T
        self.scorer = np.column_stack([root, theta])
        noise = root @ self.rng_posterior.standard_normal(self.dim)
        self.drawn = theta + self.width * noise if self.config.policy == "thompson" else noise

    def select_action(self, context: Array) -> Action:
        """Return the arm that is best for the draw, among all or among those that may be best."""
        with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
            value = np.asarray(context @ self.drawn)
            if self.config.policy == "elimination":
                value = np.where(self.plausible(context), value, -np.inf)
        chosen: Action = best(value, self.ties)
        return chosen

    def plausible(self, context: Array) -> Array:
        """Return which arms may be best: within ``width`` standard deviations of the difference from the best one."""
        scored = np.asarray(context @ self.scorer)
        first = largest(scored[..., -1]).argmax(axis=-1)[..., None, None]
        behind = np.take_along_axis(scored, first, axis=-2) - scored
        spread = np.linalg.norm(behind[..., :-1], axis=-1)
        return np.asarray(behind[..., -1] <= self.width * spread)
