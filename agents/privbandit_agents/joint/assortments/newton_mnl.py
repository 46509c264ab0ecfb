"""Noisy Newton steps for assortments: clipped derivatives of disjoint batches of users, each at the full budget.

The project's own algorithm for the setting of Young Hyun Cho and Will Wei Sun, "Privacy-Preserving Dynamic Assortment
Selection", to our knowledge new for bandits. Private steps by noisy Hessians are those of Arun Ganesh, Mahdi Haghifam,
Thomas Steinke and Abhradeep Thakurta, "Faster Differentially Private Convex Optimization via Second-Order Methods",
NeurIPS 2023. The proof is in docs/privacy/newton-steps.md.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.base.agent import next_change
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.choices import Choices, best_sets, random_sets, sizes
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.settings import Count, CountUpTo, Growth, NonNegative, Open01, Range, Within
from privbandit_agents.base.spaces import Array, assortments
from privbandit_agents.joint.settings import GaussianSettings
from privbandit_agents.privacy.accounting.costs import gaussian_dp
from privbandit_agents.privacy.contributions.choices import clipped_sums, sensitivities
from privbandit_agents.privacy.contributions.quadratic import doubts, improved
from privbandit_agents.privacy.mechanisms.discrete import GridGaussian
from privbandit_agents.privacy.vectors import LIMIT, smat, svec
from privbandit_envs.validate import numbers


def check_box(*, box: tuple[float, float]) -> None:
    """Raise ValueError unless a box is (low, high)."""
    low, high = numbers(2, box=box)
    if not -LIMIT <= low < high <= LIMIT:
        raise ValueError(f"box must be (low, high) with low < high within +-{LIMIT:g}; got {box!r}.")


Bounded = Annotated[float, Within(1 / LIMIT, LIMIT)]
Box = Annotated[tuple[float, float], Range(check_box)]


@dataclass(frozen=True)
class Config(GaussianSettings):
    """Settings of the Newton agent, besides the budget; wrong clips and priors cost regret and no privacy.

    Clips and prior are public knowledge that the agent is given.

    Attributes:
        horizon: number of users T; default: the environment's. The first batch is at most T/4.
        first: length of the first batch, which is offered random sets; default: sqrt(d) (9 + 3/sqrt(rho)).
        growth: length of a batch over that of the one before, > 1.
        steps: Newton steps on the first batch, which share its budget; later batches have one.
        radius: to which features are scaled before anything else; it need not be typical.
        gradient_norm: G, to which a user's gradient is clipped; about the norm of a feature vector or below.
        trace: h, to which the trace of a user's Hessian is clipped.
        gradient_share: share of the budget that goes to gradients, in (0, 1); the rest goes to Hessians.
        ridge: precision of the prior on theta, which is 0 in the mean, or the middle of the box.
        bonus_scale: multiplier of |x| in the norm of the inverse precision, added to utilities, >= 0.
        draw_scale: every user is served by a draw of theta from N(theta, (draw_scale^2) P^-1), >= 0.
        far_scale: the same, of directions that the precision P knows far less of than of others (``doubts``); no less
            than ``draw_scale`` counts. If both are 0, every user is served by theta itself.
        box: (low, high) between which all entries of theta are known to lie.
    """

    delta: Open01 = 1e-5
    horizon: Count | None = None
    first: Count | None = None
    growth: Growth = 1.4
    steps: Annotated[int, CountUpTo(100)] = 1
    radius: Bounded = 100.0
    gradient_norm: Bounded = 0.7
    trace: Bounded = 0.7
    gradient_share: Open01 = 0.88
    ridge: Bounded = 3.0
    bonus_scale: NonNegative = 0.0
    draw_scale: NonNegative = 0.1
    far_scale: NonNegative = 0.7
    box: Box | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rho is not None and self.epsilon is not None:
            raise ValueError(f"give rho or epsilon, not both; got rho={self.rho!r} and epsilon={self.epsilon!r}.")

    def exploration(self, dim: int) -> int:
        """Return the length of the first batch for d features."""
        wanted = math.sqrt(dim) * (9 + 3 / math.sqrt(self.concentrated()))
        return self.first or max(1, math.ceil(min(wanted, self.counted(self.horizon or 10_000) / 4)))


class NewtonMNL(CentralAgent[Config, Array]):
    """Batches of users, each used once: the noisy derivatives of their likelihood correct theta.

    Algorithm:
        1. P <- ridge I, theta <- the prior's mean; n <- length of the first batch.
        2. Offer n users sets: random ones in the first batch, later the best ones for x . t (+ bonus), with t drawn
           around theta for every user, the wider the less P knows. Keep what they buy.
        3. In each step (one, or ``steps`` in the first batch), at the current theta':
           g <- sum of gradients, weighted and clipped so that none can exceed G, plus Gaussian noise;
           H <- sum of the Hessians, weighted the same and clipped to trace h, plus Gaussian noise.
        4. Develop the models (g, H) at theta; average them over the steps.
        5. Weigh the average by its noise, M = H (H + v I)^-1 H; P <- P + M, and theta moves to the minimum of the
           sum of the old model and the new one (``improved``), clipped to the box.
        6. Release (P, theta); forget the users; n <- growth n; go to 2.

    The precision P and theta sum up the models of all earlier batches, so every user counts for ever after though used
    once, no step overshoots, and no batch is worth more than it is known to be.

    *Formal guarantees.* sqrt(2 rho)-Gaussian DP (hence (epsilon, delta)-joint DP and rho-zCDP) under replacement of a
    user's whole record, for any record whatever: by ``clipped_sums`` the sums have l2 sensitivities 2 G and
    sqrt(2) h, and each is released with Gaussian noise, at shares of rho that add up to 1 over all the steps of a
    batch. Theta at which derivatives are taken, weights, floors and batch ends are functions of releases and public
    constants. A user is in one batch, so batches compose in parallel (adaptively), and actions read releases only. It
    holds for the numbers that leave: noise is discrete, on a grid (``GridGaussian``), and sensitivities cover the
    rounding of the sums.

    Weights do not depend on the purchase, but for the longest items. So at the true theta gradients are near 0 in the
    mean, however long features are; weights that did depend on it would pull theta away. Draws are of the kind of
    Thompson's sampling: if items are few or alike, the best sets so far show nothing of the rest. They cost no
    privacy: they read releases, and the own context of the user who is served.

    The release is [precision | theta], shape (d, d + 1). The curator keeps users of the running batch, 8 K (d + 2)
    bytes each and 64 MiB at most, adds them up, and keeps nothing else that grows.
    """

    Config = Config
    gaussian = True
    fixed: ClassVar[frozenset[str]] = CentralAgent.fixed | {"drawn"}
    added: int
    drawn: tuple[Array | None, Array, Array] = None, np.empty(0), np.empty(0)
    """A release, and what it makes draws of: as usual, and for items of kinds."""
    plays = staticmethod(assortments)

    def begin(self) -> None:
        config = self.config
        _, self.capacity, self.dim = sizes(self.observation_space, self.action_space)
        self.rho = config.concentrated()
        self.ledger = config.ledger()
        numbers = config.steps * (self.dim + self.dim * (self.dim + 1) // 2)
        self.guarantee = config.guarantee(
            "docs/privacy/newton-steps.md",
            record="context, set and purchase of every user",
            arithmetic=config.arithmetic(numbers),
        )
        self.rng_noise = self.rng.spawn(1)[0]
        middle = 0.0 if config.box is None else sum(config.box) / 2
        self.release = np.column_stack([config.ridge * np.eye(self.dim), np.full(self.dim, middle)])
        self.batch, self.length = 0, config.exploration(self.dim)
        self._forget()
        self.mechanisms()  # refuses budgets that are too small, before anybody comes

    def select_action(self, context: Array) -> Array:
        """Return the best assortment for a drawn theta, plus the bonus; a random one in the first batch."""
        if self.batch == 0:
            return random_sets(self.rng, context, self.capacity)
        theta, x = self.release[:, -1].astype(context.dtype), context[..., :-1]
        with np.errstate(over="ignore", invalid="ignore"):  # a non-finite record only hurts the user who sent it
            utilities = self._utilities(x, theta)
            if self.config.bonus_scale:
                root = np.linalg.inv(np.linalg.cholesky(self.release[:, :-1])).T.astype(context.dtype)
                width = x @ root
                utilities = utilities + context.dtype.type(self.config.bonus_scale) * np.sqrt(np.vecdot(width, width))
        return best_sets(context, utilities, self.capacity, self.ties)

    def settled(self, context: Array) -> Array:
        """Return the best assortments for theta itself, for n users who are not counted."""
        with np.errstate(over="ignore", invalid="ignore"):  # a non-finite record only hurts the user who sent it
            return best_sets(
                context, context[..., :-1] @ self.release[:, -1].astype(context.dtype), self.capacity, self.ties
            )

    def _utilities(self, x: Array, theta: Array) -> Array:
        """Return x . t, shape (..., N), with a t for every user, which is the same however users are grouped."""
        near, far = self.config.draw_scale, self.config.far_scale
        if not (near or far):
            return np.asarray(x @ theta)
        normal = self.rng.standard_normal((*x.shape[:-2], self.dim))
        if self.drawn[0] is not self.release:
            precision = self.release[:, :-1]
            self.drawn = self.release, doubts(precision, near, far), doubts(precision, 1.5, 1.5)
        _, usual, bold = self.drawn
        moves = normal @ usual
        if (kinds := of_kinds(x)).any():
            # the sales of one kind say nothing of another one: only offering it teaches
            moves = np.where(kinds[..., None], normal @ bold, moves)
        return np.asarray(np.matmul(x, (theta + moves.astype(x.dtype))[..., None])[..., 0])

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        """Keep the offers and purchases; release a new theta when the batch is full."""
        released = None
        for block in blocks(self.frozen_rounds, contexts, actions, feedback):
            self.choices.append(*block)
            if self.added + len(self.choices) >= self.length:
                released = self.release = self._estimate()
                self.length = next_change(self.length, self.config.growth)
            elif len(self.choices) >= self._portion():
                self._add_up()
        return released

    def frozen_rounds(self) -> int:
        left = self.length - self.added, self._portion() - len(self.choices)
        return max(min(left[0] - len(self.choices), left[1], 512), 1)  # users whose contexts stay in cache

    def _portion(self) -> int:
        """Return how many users are kept at most: 64 MiB of them, or a first batch of several steps whole."""
        whole = self.batch == 0 and self.config.steps > 1
        return self.length if whole else max(1, 2**26 // (8 * self.capacity * (self.dim + 2)))

    def _add_up(self) -> None:
        """Add the users that are kept to the sums of the batch, and forget them."""
        added = self.added + len(self.choices)
        gradient, hessian = self._clipped(self.release[:, -1], *self._taken())
        self.added, self.gradient, self.hessian = added, gradient, hessian

    def _taken(self) -> tuple[Choices, Array, Array]:
        """Return the users that are kept and the sums over those before, and forget all users of the batch."""
        taken = self.choices, self.gradient, self.hessian
        self._forget()
        return taken

    def _forget(self) -> None:
        self.choices = Choices(self.capacity, self.dim)
        self.added, self.gradient, self.hessian = 0, np.zeros(self.dim), np.zeros((self.dim, self.dim))

    def mechanisms(self) -> tuple[GridGaussian, GridGaussian, int]:
        """Return what releases gradients and Hessians in this batch, and how often."""
        config, steps = self.config, self.config.steps if self.batch == 0 else 1
        size, noise = self.dim * (self.dim + 1) // 2, config.noise
        bounds = config.gradient_norm, config.trace, self.length, self.capacity + 1
        of_gradient, of_hessian = sensitivities(*bounds)
        share = config.gradient_share
        gradients = GridGaussian.from_rho(self.rho * share / steps, of_gradient, noise, self.dim)
        hessians = GridGaussian.from_rho(self.rho * (1 - share) / steps, of_hessian, noise, size)
        return gradients, hessians, steps

    def _estimate(self) -> Array:
        """Return [precision | theta] after a batch; its model is the mean over its steps, so noise averages out."""
        precision, anchor = self.release[:, :-1], self.release[:, -1]
        gradients, hessians, steps = self.mechanisms()
        self.batch, batch = self.batch + 1, self._taken()
        theta, slope, curvature = anchor, np.zeros(self.dim), np.zeros((self.dim, self.dim))
        for step in range(1, steps + 1):
            gradient, hessian = self._clipped(theta, *batch)
            gradient, hessian = self._noisy(gradients, gradient), smat(self._noisy(hessians, svec(hessian)))
            slope += gradient - hessian @ (theta - anchor)
            curvature += hessian
            noise = gradients.sigma / math.sqrt(step), hessians.sigma / math.sqrt(step)
            reached, move = improved(precision, slope / step, curvature / step, *noise)
            theta = anchor + move if self.config.box is None else np.clip(anchor + move, *self.config.box)
        return np.column_stack([reached, theta])

    def _clipped(self, theta: Array, choices: Choices, *sums: Array) -> tuple[Array, Array]:
        """Return sums of clipped gradients (d,) and Hessians (d, d) with those of more users, at a public theta."""
        clips = {name: getattr(self.config, name) for name in ("radius", "gradient_norm", "trace")}
        x, there, bought = (rows.view() for rows in (choices.features, choices.offered, choices.bought))
        gradient, hessian = clipped_sums(x, bought, theta, there, **clips)
        return sums[0] + gradient, sums[1] + hessian

    def _noisy(self, mechanism: GridGaussian, exact: Array) -> Array:
        draw = partial(mechanism.release, exact, self.rng_noise)
        return self.publish(mechanism, exact, draw, gaussian_dp(mechanism.rho), self.batch)


def of_kinds(x: Array) -> NDArray[np.bool_]:
    """Return whether every item of a user has one nonzero feature out of several, features (..., N, d) to (...)."""
    first = np.count_nonzero(x[..., 0, :], axis=-1) == 1  # rules out most users
    several = x.shape[-1] > 1 and first.any()
    return np.asarray(np.all(np.count_nonzero(x, axis=-1) == 1, axis=-1) if several else np.zeros_like(first))
