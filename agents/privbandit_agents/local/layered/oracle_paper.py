"""LPLR as published: every tree has its own estimates (Algorithm 4), and widths from fresh users (Algorithm 5)."""

import math

import numpy as np

from privbandit_agents.base.spaces import Array
from privbandit_agents.local.layered.oracle import ROUNDING, Oracle
from privbandit_agents.local.layered.settings import Config
from privbandit_agents.privacy.contributions.moments import Lifted
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot


class PaperOracle(Oracle):
    """Half of a layer's users fit the bins, the other half measure the error of the earlier layers there.

    Attributes:
        checking: whether the current users are the second half.
        psi: share of the users in each of the layer's active bins, shape (bins,).
        strength: s, top eigenvalue of E[phi_h phi_h' | B], of each, shape (bins,).
        scale: gamma^-k of each, shape (bins,).
        layer_nodes: the nodes of these bins.
        first_roots: node of the first root of every epoch that is over.
    """

    def __init__(self, config: Config, dim: int, arms: int) -> None:
        self.checking = False
        self.psi, self.strength, self.scale = np.zeros(0), np.zeros(0), np.zeros(0)
        self.layer_nodes, self.first_roots = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
        super().__init__(config, dim, arms)

    def relative(self, gram: float) -> tuple[float, float, float]:
        return 1.0, 0.0, 1.0

    def share(self) -> float:
        return 1 / (2 * self.dim)

    @property
    def kappas(self) -> Array:
        """kappa_1, kappa_1', kappa_2, kappa_3: the settings, or what Lemmas 2 and 3 ask for with delta = 1 / T^2."""
        c = self.config
        if c.kappas is not None:
            return np.array(c.kappas, dtype=float)
        horizon = max(2, c.counted(c.horizon))
        beta, delta = math.log(c.gamma) / math.log(horizon), 1 / horizon**2
        logs = [math.log(number * self.dim / (beta * delta)) for number in (48, 48, 24, 48)]
        return np.asarray(np.array([43, 15, 118, 300]) * logs / c.epsilon)

    def prepare(self) -> None:
        """Set up the current users' report; a width is one number, which the published noise covers by half."""
        super().prepare()
        if self.checking:
            c = self.config
            claimed = 2 * c.epsilon if c.calibration == "published" else c.epsilon
            self.randomizer = LaplaceOneHot(claimed, len(self.layer_nodes))

    def records(self, x: Array, y: Array, arms: Array) -> tuple[Array, Lifted]:
        """Return users' cells and packed statistics; for widths, eta |u . phi| gamma^k in [0, 1] (Alg. 5, l. 4-6)."""
        if not self.checking:
            return super().records(x, y, arms)
        roots = self.root + self.tree_of_arm[arms]
        above = self.forest.descend(x, roots, self.layer - 1)
        node = self.forest.descend(x, roots, self.layer).node
        along = np.abs(np.vecdot(x, self.forest.direction(node))) / self.forest.scale(self.forest.level(above.rest))
        cells = np.where(node >= 0, node - self.layer_nodes[0], -1)
        return cells, Lifted((above.width * along)[:, None], np.zeros((len(x), 0)))

    def learn(self, total: Array, users: int) -> None:
        if self.checking:
            self.check(total[:, 0], users)
        else:
            self.fit(total, users)
        self.checking = not self.checking and len(self.layer_nodes) > 0
        if self.checking:
            self.prepare()
        else:
            self.descend_to(self.layer_nodes)

    def fit(self, total: Array, users: int) -> None:
        """Fit principal component regressions in the bins with enough users (Alg. 4)."""
        d, gamma, forest = self.dim, self.config.gamma, self.forest
        count, moment, _, gram = self.report.layout.unpack(total)
        parent, level, values, vectors = self.spectra(gram)
        least = self.kappas[0] * gamma**2 * (d + 1) ** 3 / math.sqrt(users)
        row = np.flatnonzero((count / users > least) & (values[:, -1] > ROUNDING) & ~forest.closed[parent])
        row = self.strongest(row, forest.scale(level[row]) * values[row, -1])
        scale, u, value = forest.scale(level[row]), vectors[row, :, -1], values[row, -1]
        unit = self.largest(parent[row]) if self.config.calibration == "correct" else 1.0  # of y_h in ``records``
        slope = unit * np.vecdot(u, moment[row]) / (scale * value)
        self.psi, self.strength, self.scale = count[row] / users, scale**2 * value / count[row], scale
        self.layer_nodes = forest.grow(parent[row], level[row], u, slope)

    def check(self, total: Array, users: int) -> None:
        """Set the widths of the layer's bins (Alg. 5, l. 9-16)."""
        d, gamma, nodes = self.dim, self.config.gamma, self.layer_nodes
        _, k1, k2, k3 = self.kappas
        root = np.sqrt(self.strength)
        mean = (total * self.scale / root + k2 * gamma * d**1.5) / (self.psi * users)
        base = k3 * gamma**2 * (d + 1) ** 4 / (self.psi * math.sqrt(users))
        self.forest.width[nodes] = np.column_stack([base, np.maximum(mean, 0.0) / root])
        self.forest.closed[nodes] = self.psi <= k1 * gamma * d**1.5 / math.sqrt(users)

    def close(self) -> None:
        self.first_roots = np.append(self.first_roots, self.root)

    @property
    def epochs_kept(self) -> int:
        return len(self.first_roots)

    def means(self, epoch: int, phi: Array) -> Array:
        return self._aggregate(epoch, phi)[0]

    def widths(self, epoch: int, phi: Array) -> Array:
        return self._aggregate(epoch, phi)[1]

    def _aggregate(self, epoch: int, phi: Array) -> tuple[Array, Array]:
        """Return the sums of <phi_h, theta_h> on the paths, and eta of their last bins (Alg. 6), shapes (n, K)."""
        n, arms, d = phi.shape
        roots = np.tile(self.first_roots[epoch] + self.tree_of_arm, n)
        place = self.forest.descend(phi.reshape(-1, d), roots, d)
        return place.predicted.reshape(n, arms), place.width.reshape(n, arms)
