"""The estimate of LPCT: private and public counts weighed against each other and shrunk towards the parents.

Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023, equation (8).
"""

import math

import numpy as np

from privbandit_agents.base.agent import Array
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.local.trees.partition import Cells

PSEUDO = 1.0  # public rows added to every leaf, where masses are estimated (Laplace's rule)


class WeightedTree:
    """The probabilities of the labels in every leaf, from sums of private estimates and from public counts.

    A node's private sum S has the weight c = n psi / Var S: psi is the node's public mass, and the variance comes from
    the sampling and the known noise. Its public sum has the weight c lambda, which makes (8) with a factor in front.
    If lambda is not given, the public weight is trust / (1 + drift^2 rows), by inverse variances: a public mean varies
    by its sampling, and by drift^2 around the users' mean. A node's mean is then drawn towards its parent's, which
    counts as much as 1 / tau^2 users without noise. Everything here is a function of released sums and public data.

    Args:
        partition: grown from the public data.
        x: public features (n_Q, d).
        y: public labels (n_Q,).
        labels: K.
        noise: variance of an entry of a user's estimate in (another leaf, the own one).
        weight: lambda in (8), or None.
        trust: worth of a public row in users without noise, >= 0.
        drift: of the public law, >= 0.
        tau: how far children are from their parents, > 0; infinity: no shrinkage.
    """

    def __init__(
        self,
        partition: Cells,
        x: Array,
        y: Labels,
        labels: int,
        noise: tuple[float, float],
        weight: float | None = None,
        trust: float = 1.0,
        drift: float = 0.0,
        tau: float = 0.5,
    ) -> None:
        self.partition, self.labels, self.noise = partition, labels, noise
        self.weight, self.trust, self.drift, self.tau = weight, trust, drift, tau
        self.counts = np.zeros((partition.leaves, labels))
        np.add.at(self.counts, (partition.find(x), y), 1)
        public = self.counts[:, 1:] - self.counts[:, :1] if labels == 2 else self.counts
        self.public = partition.gather(public)
        self.rows = partition.gather(self.counts.sum(axis=1, keepdims=True))
        self.width = partition.gather(np.ones((partition.leaves, 1)))
        self.mass = (self.rows + PSEUDO * self.width) / (len(y) + PSEUDO * partition.leaves)

    def predict(self, total: Floats, users: int, spread: Floats | None = None) -> Floats:
        """Return the probabilities of the labels in every leaf, shape (m, K).

        Args:
            total: sum of the users' estimates, shape (m, columns).
            users: how many they are.
            spread: by how much each entry's noise is larger than that of as many plain estimates, shape (m, columns).
        """
        means = self.shrink(*self.evidence(total, users, np.ones_like(total) if spread is None else spread))
        leaves = means[self.partition.of_leaf]
        if self.labels == 2:
            leaves = np.concatenate([1 - leaves, 1 + leaves], axis=1) / 2
        clipped = np.clip(leaves, 0, 1)
        return np.asarray(clipped / np.maximum(clipped.sum(axis=1, keepdims=True), 1e-12))

    def evidence(self, total: Floats, users: int, spread: Floats) -> tuple[Floats, Floats]:
        """Return every node's weighted sum and its precision, private and public together."""
        other, own = self.noise
        gathered = self.partition.gather(spread)
        variance = other * gathered + np.maximum(1 + own - other, 0) * self.mass * gathered / self.width
        worth = self.mass / np.maximum(variance, 1e-12)
        assumed = self.trust / (1 + self.drift**2 * self.rows)
        share = assumed if self.weight is None else worth * self.weight
        sums = worth * self.partition.gather(total) + share * self.public
        return sums, worth * users * self.mass + share * self.rows

    def shrink(self, sums: Floats, precision: Floats) -> Floats:
        """Return every node's mean, from the root down."""
        prior = 0.0 if math.isinf(self.tau) else self.tau**-2
        means = np.full(sums.shape, 0.0 if self.labels == 2 else 1 / self.labels)
        for depth, level in enumerate(self.partition.levels):
            above = means[self.partition.parent[level]] if depth else means[level]
            weight = precision[level] + prior
            with np.errstate(divide="ignore", invalid="ignore"):
                means[level] = np.where(weight > 0, (sums[level] + prior * above) / weight, above)
        return means
