"""Jointly private kernel regression on a histogram of users.

The project's own. The noise of a histogram does not depend on its number of cells, while second moments of n features
need noise in n^2 places.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtr

from privbandit_agents.base.settings import Budget, Count, Growth, LateSettings, NonNegative, Open01, Positive
from privbandit_agents.base.spaces import Action, Array, one_context
from privbandit_agents.base.ties import best
from privbandit_agents.joint.linear.schedules import Epochs
from privbandit_agents.joint.linear.sums import Schedule, SummedRecords
from privbandit_agents.joint.settings import CounterName, GaussianSettings

GRID = 2**20
"""Rewards are whole multiples of 1 / GRID, and added up as whole numbers."""
CELLS = {1: 6, 2: 4}
"""Parts of a feature's range by the number of features; 5 for more."""


@dataclass(frozen=True)
class Config(GaussianSettings, LateSettings):
    """Settings of ``JDPSmooth``, besides the budget.

    Attributes:
        horizon: number of users T, fixed in advance; default: the environment's.
        counter: as in ``jdp-linucb``.
        cells: parts of each feature's range, 4096 cells in all at most; None: 6 of one feature, 4 of two, 5 of more.
        length: of the kernel, as a share of a feature's range.
        bonus_scale: standard deviations of a cell's mean that are added to it, >= 0.
        growth: an epoch ends, and the policy changes, when the number of users has grown by this factor, > 1.
    """

    epsilon: Budget = 1.0
    delta: Open01 = 1e-5
    horizon: Count | None = None
    counter: CounterName = "buffered"
    cells: Count | None = None
    length: Positive = 0.3
    bonus_scale: NonNegative = 0.5
    growth: Growth = 1.2


class Histogram:
    """Users by arm and cell: half their number, and the sum of y - 1/2; shape (K, cells, 2)."""

    def __init__(self, arms: int, cells: int) -> None:
        self.totals = np.zeros((arms, cells, 2), np.int64)  # in units of 1 / GRID

    def add(self, rows: Array, arms: Array) -> None:
        """Add users by their cells and reward, shape (n, parts + 1), and arms (n,); one with NaN counts nowhere."""
        told = np.isfinite(rows[:, -1])
        cells, arms = rows[told, :-1].astype(np.intp), arms[told]
        y = np.round(rows[told, -1] * GRID).astype(np.int64) - GRID // 2
        for column, added in enumerate((np.full_like(y, GRID // 2), y)):
            np.add.at(self.totals[..., column], (arms[:, None], cells), added[:, None])

    def take(self) -> Array:
        taken, self.totals = self.totals, np.zeros_like(self.totals)
        return taken / GRID


class JDPSmooth(SummedRecords[Config]):
    """A curator counts users and rewards by arm and cell; users act on the kernel regression of the noisy counts.

    Algorithm (with the schedule ``Epochs``):
        1. Serve an epoch of users by the regression released last: argmax over the arms of mean + c sd in the
           user's cell. The first epoch is one user.
        2. z <- (n / 2, sum of y - 1/2) of each arm and cell over the users of the epoch; forget them.
        3. Give z to a continual counter; release for each arm and cell the mean and the variance of a Gaussian process
           f, given the noisy sums (N / 2, Z) of all epochs: Z is an observation of N (f - 1/2) with variance
           N / 4 + 3/2 sigma^2, of which sigma^2 / 2 is for the noise of N.
        4. The next epoch ends when the number of users has grown by the factor ``growth``; go to 1.

        A cell is a box of a grid over [0, 1]^d; contexts that do not lie in it have about unit variance, and become
        Phi(x). With more than two features there is a histogram for each, f is the sum of a function of each, and the
        sum in a cell has the other features' parts too, as if features were independent.

    *Formal guarantees.* sqrt(2 rho)-Gaussian DP (hence (epsilon, delta)-joint DP and rho-zCDP) under replacement of a
    user's whole record, by ``Epochs``: one continual counter runs over the epochs, and every action reads its releases
    only. A user is in one cell of one arm, and adds (1/2, y - 1/2), y in [0, 1]. Replaced, it moves each entry of two
    cells by at most 1/2, or one entry of one cell by at most 1: by 1 in the l2 norm. With several histograms all are
    divided by the root of their number. A record that is not finite, or has no such arm, adds nothing. Rewards are
    rounded to multiples of 2^-20 and added up as whole numbers, and the counter's noise is discrete, on a grid. Cells
    are public constants.
    """

    Config = Config
    proof = "docs/privacy/histograms.md"
    plays = staticmethod(one_context)  # type: ignore[assignment]

    def begin(self) -> None:
        features, config = self.context_shape[0], self.config
        space = self.observation_space
        self.in_cube = bool((space.low >= 0).all() and (space.high <= 1).all())  # type: ignore[attr-defined]
        self.along = config.cells or CELLS.get(features, 5)
        self.parts = 1 if features in CELLS else features
        self.places = self.along**features if self.parts == 1 else self.along
        if self.parts * self.places > 4096:
            made = self.parts * self.places
            raise ValueError(f"cells={self.along} a feature makes {made:,} cells, above 4,096; take fewer.")
        self.prior = self.covariance()
        super().begin()
        self.release = np.zeros((self.parts * self.places, 2, self.models))
        self.release[:, 1] = 0.25 / self.parts

    def scheduled(self) -> Schedule:
        return Epochs(self, self.config.horizon or 100_000)

    def sums(self, clean: Callable[[Array], Array]) -> Histogram:
        return Histogram(self.models, self.parts * self.places)

    @property
    def counted(self) -> int:
        return self.models * self.parts * self.places * 2

    @property
    def moved(self) -> float:
        return 1.0

    def regressed(self, contexts: Array, arms: Array, rewards: Array) -> tuple[Array, Array, Array]:
        """Return the cells (n, parts), rewards (n,) and arms of n records; the reward is NaN where nothing counts."""
        exists = (arms >= 0) & (arms < self.models) & np.isfinite(contexts).all(axis=1) & np.isfinite(rewards)
        y = np.where(exists, np.minimum(np.maximum(rewards, 0.0), 1.0), np.nan)
        return self.cells_of(contexts), y, np.where(exists, arms, 0).astype(np.intp)

    def cells_of(self, contexts: Array) -> Array:
        """Return the cells of contexts (..., d), shape (..., parts)."""
        place = np.minimum(self.in_unit_cube(contexts) * self.along, self.along - 1).astype(np.intp)
        if self.parts > 1:
            return np.asarray(place + np.arange(self.parts) * self.along)
        return np.asarray(place @ self.along ** np.arange(place.shape[-1]))[..., None]

    def in_unit_cube(self, contexts: Array) -> Array:
        """Return contexts (..., d) in [0, 1]^d; what is no number is in the middle."""
        x = np.asarray(contexts, np.float64)
        x = np.nan_to_num(x if self.in_cube else ndtr(x), nan=0.5)
        return np.minimum(np.maximum(x, 0.0), 1.0)

    def kernel(self, x: Array) -> Array:
        """Return the covariances of f - 1/2 at points (..., d) of the cube and at the middles, shape (..., cells)."""
        middles = (np.arange(self.along) + 0.5) / self.along
        near = np.exp(-((x[..., None] - middles) ** 2) / (2 * self.config.length**2))
        if self.parts > 1:
            return np.asarray(0.25 / self.parts * near.reshape(*x.shape[:-1], -1))
        whole = 0.25 * near[..., 0, :]
        for feature in range(1, x.shape[-1]):
            whole = (near[..., feature, :, None] * whole[..., None, :]).reshape(*x.shape[:-1], -1)
        return np.asarray(whole)

    def covariance(self) -> Array:
        """Return the prior covariance of f - 1/2, or of one of its parts, at the middles of cells: all are alike."""
        middles = (np.arange(self.along) + 0.5) / self.along
        if self.parts > 1:
            return self.kernel(np.repeat(middles[:, None], self.parts, axis=1))[:, : self.along]
        grid = np.meshgrid(*[middles] * self.context_shape[0], indexing="ij")
        return self.kernel(np.stack([axis.ravel() for axis in reversed(grid)], axis=-1))

    def term(self, products: Array) -> Array:
        return np.asarray(products.ravel() / self.parts**0.5)

    def learned(self, noisy: Array, sigma: float, users: int) -> Array:
        """Return the weights of the kernel and the variances of f - 1/2, shape (cells, 2, K), given the noisy sums."""
        noisy, sigma = noisy.reshape(self.models, -1, 2) * self.parts**0.5, sigma * self.parts**0.5
        counts, sums = np.maximum(2 * noisy[..., 0], 0.0), noisy[..., 1]
        root = np.sqrt(counts / 4 + 1.5 * sigma**2 + 1e-9)
        if self.parts > 1:
            return self.additive(*(one.reshape(-1, self.parts, self.along) for one in (counts, root, sums / root)))
        found = [self.posterior(*arm) for arm in zip(counts, root, sums / root, strict=True)]
        return np.stack(found, axis=2)

    def posterior(self, counts: Array, root: Array, seen: Array) -> Array:
        """Return an arm's weights of the kernel at the middles of cells, and variances there, shape (cells, 2).

        Args:
            counts: of users, shape (cells,).
            root: standard deviations of the noise of the sums.
            seen: the sums over these.
        """
        times = np.diag(counts / root)
        shared = self.prior @ times.T
        factor = cho_factor(times @ shared + np.eye(len(counts)), lower=True)
        weights = times.T @ cho_solve(factor, seen)
        spread = np.diagonal(self.prior) - np.einsum("ij,ji->i", shared, cho_solve(factor, shared.T))
        return np.stack([weights, np.maximum(spread, 0.0)], axis=1)

    def additive(self, counts: Array, root: Array, seen: Array) -> Array:
        """Return the same of all arms where f is a sum over parts, shape (cells, 2, K).

        Users of a cell are spread over the other parts' cells by their shares s. So observations see A = B + c s' of f
        at the cells, B by blocks of parts, and c the counts over ``root``. Their covariance A P A' + I is one by
        blocks, D, and two vectors b = B P s and c: D + b c' + c b' + (s' P s) c c'. No matrix of all cells is solved.

        Args:
            counts: of users, shape (K, parts, cells of a part).
            root: standard deviations of the noise of the sums.
            seen: the sums over these.
        """
        c, share = counts / root, counts / np.maximum(counts.sum(axis=2, keepdims=True), 1e-9)
        own = c[..., None] * (np.eye(self.along) - share[:, :, None, :])  # B
        shared = self.prior @ own.swapaxes(2, 3)  # P B'
        behind = share @ self.prior  # P s
        blocks, b = own @ shared + np.eye(self.along), (own @ behind[..., None])[..., 0]
        both = np.stack([b, c], axis=3)
        solved = np.linalg.solve(blocks, np.concatenate([shared.swapaxes(2, 3), both, seen[..., None]], axis=3))
        by_block, by_both, by_seen = solved[..., : self.along], solved[..., self.along : -1], solved[..., -1]
        # the two vectors, by Woodbury's identity
        core = np.zeros((len(counts), 2, 2))
        core[:, 0, 0], core[:, 0, 1], core[:, 1, 0] = -(share * behind).sum(axis=(1, 2)), 1.0, 1.0
        core = np.linalg.inv(core + np.einsum("kpau,kpav->kuv", both, by_both))
        along = np.einsum("kuv,kpav,kpa->ku", core, both, by_seen)
        answer = by_seen - np.einsum("kpau,ku->kpa", by_both, along)
        weights = np.einsum("kpab,kpa->kpb", own, answer) + share * (c * answer).sum(axis=(1, 2), keepdims=True)
        # variances: rows of P A' are those of P B', and P s times c'
        crossed = np.einsum("kpa,kpau->ku", c, by_both)
        rows = shared @ by_both + behind[..., None] * crossed[:, None, None]
        spread = np.diagonal(self.prior) - np.einsum("kpab,kpba->kpa", shared, by_block)
        spread -= behind * (2 * (shared @ by_both)[..., 1] + behind * crossed[:, None, None, 1])
        spread += np.einsum("kpau,kuv,kpav->kpa", rows, core, rows)
        found = np.stack([weights, np.maximum(spread, 0.0)], axis=1)
        return found.reshape(len(counts), 2, -1).transpose(2, 1, 0)

    def select_action(self, context: Array) -> Action:
        """Return argmax of the mean at the context and c times the standard deviation of its cell."""
        if self.users >= self.schedule.horizon:  # nobody is counted any more
            return self.settled(context)
        spread = np.sqrt(self.release[self.cells_of(context), 1].sum(axis=-2))
        action: Action = best(self.means(context) + self.config.bonus_scale * spread, self.ties)
        return action

    def settled(self, context: Array) -> Action:
        """Return argmax of the mean, for users who are not counted."""
        action: Action = best(self.means(context), self.ties)
        return action

    def means(self, context: Array) -> Array:
        """Return the estimates of f - 1/2 at contexts (..., d), shape (..., K)."""
        return np.asarray(self.kernel(self.in_unit_cube(context)) @ self.release[:, 0])
