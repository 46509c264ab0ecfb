"""Practical LPLR: regressions in bins are Gaussian evidence on one theta, in place of a tree's own estimates."""

import math

import numpy as np

from privbandit_agents.base.spaces import Array
from privbandit_agents.local.layered.lplr import ROUNDING, Config, Elimination, Oracle


class PooledOracle(Oracle):
    """Every direction that stands out of the noise in its bin is an observation of theta with known variance.

    In a bin below the path U, with direction u and the sums lambda of y v, Lambda of v v' and X of v q', the users
    give the observation c u'lambda + u'X U'theta_U = (gamma^-k u'Lambda + u'X U') theta + noise, where y_h was made
    with theta_U. These observations and the prior N(0, I) give a Gaussian posterior. u'X U' replaces LPLR-CI: it
    measures how errors of earlier layers bias this one (the first term of Lemma 2).

    Attributes:
        evidence: [J | b] of layer 1 and of the deeper ones, shape (2, trees, d, d + 1).
        first: sum of the reports of layer 1, and their number in ``first_users``.
        thetas: estimates to be passed, shape (epochs_kept, trees, d).
        roots: of their covariances, shape (epochs_kept, trees, d, d).
    """

    exact = True

    def __init__(self, config: Config, dim: int, arms: int) -> None:
        super().__init__(config, dim, arms)
        self.first, self.first_users = np.zeros((self.cells, self.randomizer.dim)), 0

    def begin(self) -> None:
        dim = self.dim
        self.evidence = np.zeros((2, self.trees, dim, dim + 1))
        self.thetas, self.roots = np.zeros((0, self.trees, dim)), np.zeros((0, self.trees, dim, dim))

    def weights(self) -> tuple[float, float, float]:
        return 0.0, 0.3, 0.6 if self.layer == 1 else 0.4

    def share(self) -> float:
        if self.layer == 1:
            return self.config.share if self.dim > 1 else 1.0
        return (1 - self.config.share) / (self.dim - 1)

    def learn(self, total: Array, users: int) -> None:
        # with the reports of earlier epochs on layer 1
        if self.layer == 1:
            self.first, self.first_users = self.first + total, self.first_users + users
            total, users = self.first, self.first_users
            self.evidence[0] = 0.0
        _, moment, cross, gram = self.report.layout.unpack(total)
        parent, level, values, vectors = self.spectra(gram)
        # directions that stand out of the noise are observations of theta
        clear = values > self.threshold(users)
        row, column = np.nonzero(clear)
        value, u = values[row, column], vectors[row, :, column]
        self.observe(parent[row], level[row], value, u, moment[row], cross[row], users)
        # the strongest bins are active
        top = np.flatnonzero(clear[:, -1])
        top = self.strongest(top, self.forest.scale(level[top]) * values[top, -1])
        direction = vectors[top, :, -1]
        theta = self.posterior()[0][self.forest.tree[parent[top]]]
        self.descend_to(self.forest.grow(parent[top], level[top], direction, np.vecdot(direction, theta)))

    def threshold(self, users: int) -> float:
        """Return the threshold of Lambda's eigenvalues: three deviations more than the top one of noise alone.

        Noise of variance 1 on the diagonal and 1/2 off it, in the r = d - h + 1 dimensions that the path leaves, has a
        top eigenvalue of about sqrt(2 r) for large r, and of 0 on average for r = 1.
        """
        edge = math.sqrt(2 * (self.dim - self.layer))
        return float((3.0 + edge) * self.report.spread[2] * math.sqrt(users) + ROUNDING)

    def observe(self, parent: Array, k: Array, value: Array, u: Array, moment: Array, cross: Array, users: int) -> None:
        """Add observations to the evidence.

        Their noise is that of the moment; that of u'Lambda times gamma^-k theta, where |theta| <= 1 and the part along
        u is estimated; that of u'X times the error that remains in theta on the path; and the rewards' own, at most
        u'Lambda u.

        Args:
            parent: node above each observation's bin, shape (r,).
            k: of the bin, shape (r,).
            value: u'Lambda u, shape (r,).
            u: shape (r, d).
            moment: lambda, shape (r, d).
            cross: X, shape (r, d, h - 1).
            users: n, over all bins.
        """
        forest, h = self.forest, self.layer - 1
        scale, clip, path = forest.scale(k), self.largest(parent), forest.path[parent, :h]
        of_moment, of_cross, of_gram = self.report.spread
        earlier = np.einsum("rd,rdj->rj", u, cross) * self.norms(parent)
        seen = clip * np.vecdot(u, moment)
        along = np.minimum(np.abs(seen / (scale * value)), 1.0)
        covariance = self.posterior()[1][forest.tree[parent]]
        doubt = np.einsum("rjd,rde,rje->rj", path, covariance, path)
        noise = (clip * of_moment) ** 2 + (scale * of_gram) ** 2 * (1 + along**2) / 2
        noise += of_cross**2 * (self.norms(parent) ** 2 * doubt).sum(axis=1)
        weights = (scale * value)[:, None] * u + np.einsum("rj,rjd->rd", earlier, path)
        seen += (earlier * forest.slopes[parent, :h]).sum(axis=1)
        added = weights[:, :, None] * np.column_stack([weights, seen])[:, None, :]
        np.add.at(self.evidence[int(h > 0)], forest.tree[parent], added / (users * noise + value)[:, None, None])

    def posterior(self) -> tuple[Array, Array]:
        """Return the mean and the covariance of theta, shapes (trees, d) and (trees, d, d)."""
        both = self.evidence.sum(axis=0)
        covariance = np.linalg.inv(np.eye(self.dim) + both[..., :-1])
        return np.einsum("tij,tj->ti", covariance, both[..., -1]), covariance

    def close(self) -> None:
        """Keep the posterior, of which earlier ones are part."""
        theta, covariance = self.posterior()
        self.thetas, self.roots = theta[None], np.linalg.cholesky(covariance)[None]

    @property
    def epochs_kept(self) -> int:
        return len(self.thetas)

    def means(self, epoch: int, phi: Array) -> Array:
        thetas = self.thetas[epoch]
        return np.asarray(np.add.reduce(phi * (thetas[0] if self.trees == 1 else thetas[self.tree_of_arm]), axis=-1))

    def widths(self, epoch: int, phi: Array) -> Array:
        return np.asarray(self.config.z * np.linalg.norm(self.across(epoch, phi), axis=-1))

    def across(self, epoch: int, phi: Array) -> Array:
        """Return R' phi with R R' the covariance of theta, shape (n, K, d)."""
        if self.trees == 1:
            return np.asarray((phi.reshape(-1, self.dim) @ self.roots[epoch, 0]).reshape(phi.shape))
        return np.asarray(np.einsum("nkd,kde->nke", phi, self.roots[epoch, self.tree_of_arm]))

    def passes(self, epoch: int, phi: Array, alive: Array) -> Array:
        """Return which arms no other one beats: (phi_b - phi_a) . theta <= z sd of it, for every b alive."""
        if self.config.width == "sum":
            return super().passes(epoch, phi, alive)
        beaten, arms = np.zeros_like(alive), phi.shape[1]
        if self.trees > 1:
            for first in range(arms):
                difference = phi[:, first, None] - phi
                ahead, apart = self.means(epoch, difference), self.widths(epoch, difference)
                beaten |= alive[:, first, None] & (ahead > apart)
            return ~beaten
        # one theta: what two arms differ by is the difference of what each has
        means = self.means(epoch, phi)
        if not self.thetas[epoch].any():  # nothing stood out of the noise so far
            return ~np.isnan(means)
        across = self.across(epoch, phi)
        rows, every = np.arange(len(phi)), np.arange(arms)
        if phi.size * arms <= 4096:  # few pairs are compared at once
            wins = self.beats(means, across, rows[:, None, None], every[:, None], every)
            return ~(np.isnan(means) | (alive[:, :, None] & wins).any(axis=1))
        # the best arm beats most of those that are beaten
        best = np.where(alive, means, -np.inf).argmax(axis=1)
        sound = (alive[rows, best] & ~np.isnan(means[rows, best]))[:, None]
        beaten |= np.isnan(means) | sound & self.beats(means, across, rows[:, None], best[:, None], every)
        # of the other pairs those matter whose width by products, which are within 1e-9, may be short enough
        at_once, z = max(1, 2**17 // arms**2), self.config.z
        for start in range(0, len(phi), at_once):
            part = slice(start, start + at_once)
            left = np.flatnonzero(~beaten[part].all(axis=0))
            apart = across[part] @ across[part, left].transpose(0, 2, 1)
            squares = (1 - 1e-9) * z**2 * np.vecdot(across[part], across[part])
            apart *= -2 * z**2  # squared widths
            apart += squares[:, :, None]
            apart += squares[:, None, left]
            ahead = means[part, :, None] - means[part, None, left]  # of the first arm over the second
            ahead *= np.abs(ahead)
            close = ahead > apart
            if close.any():
                row, other, arm = np.nonzero(close & alive[part, :, None] & ~beaten[part, None, left])
                lost = self.beats(means, across, start + row, other, left[arm])
                beaten[start + row[lost], left[arm[lost]]] = True
        return ~beaten

    def beats(self, means: Array, across: Array, row: Array, other: Array, arm: Array) -> Array:
        """Return whether an arm is ahead of another one by more than the width of their difference."""
        both = across[row, other] - across[row, arm]
        return np.asarray(means[row, other] - means[row, arm] > self.config.z * np.sqrt(np.vecdot(both, both)))


class LPLR(Elimination):
    """LPLR whose widths come from the variance of its reports, unless the settings ask for the published ones.

    Deviations:
        One theta for all arms, which are eliminated by the width of the difference of two of them; directions that
        stand out of the noise are observations of theta with known variance; users report v q' in place of Algorithm 5;
        layer 1 and the evidence are carried over from epoch to epoch, and arms are eliminated by the latest estimate,
        so that an arm may return.
    """

    def kind(self) -> type[Oracle]:
        return PooledOracle if self.config.confidence == "analytic" else super().kind()
