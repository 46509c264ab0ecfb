"""The server of LPLR: layers of users, regression in bins, and the arms that Algorithm 1 has left.

Jiachun Li, David Simchi-Levi and Yining Wang, "On the Optimal Regret of Locally Private Linear Contextual Bandit",
2024, Algorithms 1, 2 and 4.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from privbandit_agents.base.spaces import Array
from privbandit_agents.local.layered.forest import Forest
from privbandit_agents.local.layered.report import Layout, Report
from privbandit_agents.local.layered.settings import Config
from privbandit_agents.privacy.contributions.moments import Lifted
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer

ROUNDING = 1e-9  # tolerance for eigenvalues of an empty sum


class Oracle(ABC):
    """Epochs of layers: the users of a layer report on their bins, which are fitted before the next layer begins.

    An epoch ends after layer d, or earlier when no bin of a layer is active.

    Args:
        config: of LPLR.
        dim: d.
        arms: K.

    Attributes:
        forest: the bins; the trees of the current epoch begin at the node ``root``.
        layer: h of the current users.
        frontier: first of the ``bins`` active nodes of layer h - 1; the users report on their children.
        randomizer: of the current users' reports.
    """

    fixed: ClassVar[frozenset[str]] = frozenset({"randomizer"})
    report: Report
    randomizer: LocalRandomizer

    def __init__(self, config: Config, dim: int, arms: int) -> None:
        self.config, self.dim = config, dim
        self.tree_of_arm = np.arange(arms) if config.oracle == "per-arm" else np.zeros(arms, dtype=np.intp)
        users = config.counted(config.horizon)
        levels = math.ceil(math.log(users) / (2 * math.log(config.gamma)))  # M = ceil(1 / (2 beta))
        self.forest = Forest(dim, config.gamma, max(1, levels))
        self.epoch = 0
        self.open()

    @property
    def trees(self) -> int:
        return int(self.tree_of_arm[-1]) + 1

    @property
    def cells(self) -> int:
        """Number of bins that the current users report on: all that any context and arm could reach."""
        return self.bins * self.forest.levels

    def open(self) -> None:
        self.root = self.forest.plant(self.trees)
        self.layer, self.frontier, self.bins = 1, self.root, self.trees
        self.prepare()

    def prepare(self) -> None:
        c = self.config
        gram = 0.6 if self.layer == 1 else 0.4  # weight of v v' beside y v
        layout = Layout.of(self.dim, self.layer - 1, *self.relative(gram))
        self.report = Report.of(c.release, c.epsilon, self.cells, layout, c.calibration == "published")
        self.randomizer = self.report.randomizer

    @abstractmethod
    def relative(self, gram: float) -> tuple[float, float, float]:
        """Return the weights of the count, of v q' and of v v' relative to the weight of y v."""

    def users(self) -> int:
        """Return how many users the current layer has."""
        return max(1, int(self.config.first * self.config.growth**self.epoch * self.share()))

    @abstractmethod
    def share(self) -> float:
        """Return which share of the epoch's users report on the current layer."""

    def records(self, x: Array, y: Array, arms: Array) -> tuple[Array, Lifted]:
        """Return users' cells, -1 for inactive ones, and their statistics, shapes (n,) and (n, D).

        Args:
            x: features in the unit ball, shape (n, d).
            y: rewards in [-1, 1], shape (n,).
            arms: shape (n,).
        """
        forest = self.forest
        if self.layer == 1:  # no path yet: y is within its bound, and there is nothing along
            level = forest.level(x)
            cells = self.tree_of_arm[arms] * forest.levels + level
            v = x / forest.scale(level)[:, None]
            return np.where(level < forest.levels, cells, -1), self.report.layout.lift(v, y, np.empty((len(x), 0)))
        # the user's bin
        place = forest.descend(x, self.root + self.tree_of_arm[arms], self.layer - 1)
        level = forest.level(place.rest)
        cells = (place.node - self.frontier) * forest.levels + level
        cells = np.where((place.node >= 0) & (level < forest.levels), cells, -1)
        # what the path leaves of features and reward
        v = place.rest / forest.scale(level)[:, None]
        left = y - place.predicted
        if self.config.calibration == "correct":
            bound = self.largest(place.node)
            left = np.clip(left, -bound, bound) / bound
        # the features along the path
        h = self.layer - 1
        q = (forest.path[place.node, :h] @ x[:, :, None])[..., 0]
        q = q / np.maximum(self.norms(place.node), np.finfo(float).tiny)
        return cells, self.report.layout.lift(v, left, q)

    def largest(self, node: Array) -> Array:
        """Return c = min(2, 1 + sum of gamma^(-k_l) |theta_l|), to which y_h is clipped below a node."""
        return np.minimum(2.0, 1.0 + self.forest.reach(node))

    def norms(self, node: Array) -> Array:
        """Return sqrt(h - 1) times the bounds of the coordinates along the path, (n, h - 1); q is relative to them."""
        h = self.layer - 1
        return np.asarray(self.forest.norms[node, :h] * math.sqrt(max(h, 1)))

    @abstractmethod
    def learn(self, total: Array, users: int) -> None:
        """Take in the sum of the estimates of the current users; go on to the next."""

    def spectra(self, gram: Array) -> tuple[Array, Array, Array, Array]:
        """Return every cell's parent, k, and eigenvalues and eigenvectors of (I - UU') Lambda (I - UU'), Alg. 4, l. 6.

        Args:
            gram: sums of v v', shape (cells, d, d).
        """
        cell = np.arange(self.cells)
        parent, level = self.frontier + cell // self.forest.levels, cell % self.forest.levels
        complement = self.forest.complement(parent)
        return parent, level, *np.linalg.eigh(complement @ gram @ complement)

    def strongest(self, rows: Array, strength: Array) -> Array:
        """Return the rows of largest strength, at most ``bins`` of them, in their order."""
        return np.sort(rows[np.argsort(-strength, kind="stable")[: self.config.bins]])

    def descend_to(self, nodes: Array) -> None:
        """Go on to the layer below these nodes, or to the next epoch if there are none or this was layer d."""
        if self.layer == self.dim or not len(nodes):
            self.close()
            self.epoch += 1
            self.open()
        else:
            self.layer, self.frontier, self.bins = self.layer + 1, int(nodes[0]), len(nodes)
            self.prepare()

    @abstractmethod
    def close(self) -> None:
        """Keep what Algorithm 1 needs of the epoch, which is over."""

    @property
    @abstractmethod
    def epochs_kept(self) -> int:
        """Number of epochs with estimates that arms have to pass."""

    @abstractmethod
    def means(self, epoch: int, phi: Array) -> Array:
        """Return f(x, a) by an epoch's estimate, shape (n, K), of phi (n, K, d)."""

    @abstractmethod
    def widths(self, epoch: int, phi: Array) -> Array:
        """Return Delta(x, a) by an epoch's estimate, shape (n, K), of phi (n, K, d)."""

    def alive(self, phi: Array) -> Array:
        """Return which arms are left, shape (n, K), of phi (n, K, d): Alg. 1, l. 6-9."""
        alive = np.ones(phi.shape[:2], dtype=bool)
        for epoch in range(self.epochs_kept):
            alive &= self.passes(epoch, phi, alive)
        alive[~alive.any(axis=1)] = True  # nothing is known of a user without numbers
        return alive

    def passes(self, epoch: int, phi: Array, alive: Array) -> Array:
        """Return which arms have f + Delta >= max of f - Delta over those alive (Alg. 1, l. 8), shape (n, K)."""
        f, width = self.means(epoch, phi), self.widths(epoch, phi)
        best = np.fmax.reduce(np.where(alive, f - width, -np.inf), axis=1, keepdims=True)
        return np.asarray(f + width >= best)
