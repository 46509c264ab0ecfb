"""The pruning of LPCT to the letter: Algorithm 2 with its constants, on the sums of U and V.

Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023, Algorithm 2
with the closed form of appendix A.2.
"""

import math

import numpy as np

from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.spaces import Array
from privbandit_agents.local.trees.partition import Cells
from privbandit_agents.local.trees.votes import WeightedTree


class PrintedTree(WeightedTree):
    """A leaf takes the label of the deepest ancestor with statistic v_k at least 1.

    While the noise prevails, an ancestor in which private rows are clearer than public ones ends the search if it is
    not too deep, however unclear it is: the printed formula, not the text. eta is a ratio: where the noisy
    number of private rows is negative, so is its denominator, and its label is the other one. If no statistic
    reaches 1, which the algorithm leaves open, the largest one answers. log is the natural one, and the depth p_0 has
    the printed log_2. The root answers only where it is the only node.

    Args:
        partition: grown from the public data.
        x: public features (n_Q, d).
        y: public labels (n_Q,).
        epsilon: > 0, or infinity.
    """

    def __init__(self, partition: Cells, x: Array, y: Labels, epsilon: float) -> None:
        super().__init__(partition, x, y, 2, (1.0, 1.0))
        self.epsilon, self.share = epsilon, x.shape[1] / (2 + 2 * x.shape[1])

    def predict(self, total: Floats, users: int, told: Floats | None = None) -> Floats:
        """Return 1 for the label of every leaf and 0 for the other one, shape (m, 2).

        Args:
            total: sums of U and V, shape (m, 2).
            users: n_P.
            told: not used.
        """
        if not users:
            total = np.zeros_like(total)
        label, value, stop = self.statistics(total, users)
        parent = self.partition.parent
        chosen, found = np.zeros(len(parent), np.int64), np.zeros(len(parent), bool)
        value[0] = -1.0
        for level in self.partition.levels[1:]:
            above = parent[level]
            take = stop[level] | (~found[above] & (value[level] >= value[chosen[above]]))
            chosen[level], found[level] = np.where(take, level, chosen[above]), stop[level] | found[above]
        return np.eye(2)[label[chosen[self.partition.of_leaf]]]

    def statistics(self, total: Floats, users: int) -> tuple[Array, Floats, Array]:
        """Return every node's label 1{s_k > 1/2}, v_k, and whether it ends the search."""
        levels = self.partition.levels
        k, deepest = np.zeros(len(self.partition.parent)), len(levels) - 1
        for depth, level in enumerate(levels):
            k[level] = depth
        # sums below every node: U, V - U/2, and the same of public rows
        private = self.partition.gather(total)
        U, a = private[:, 0], private[:, 1] - private[:, 0] / 2
        Q, b = self.rows[:, 0], self.public[:, 0] / 2
        log = math.log(max(users + self.rows[0, 0], 2))
        noise = 2.0 ** (deepest - k + 3) * users / self.epsilon**2
        noisy = noise >= U
        # either kind of data alone: |eta - 1/2| / r
        tiny = 1e-12
        by_public = np.abs(b) / np.sqrt(np.maximum(4 * log * Q, tiny))
        by_noise = np.abs(a) / np.sqrt(np.maximum(4 * noise * log, tiny))
        by_private = np.abs(a) / np.sqrt(np.maximum(32 * np.maximum(U, 0) * log, tiny))
        # the largest over lambda: both together if they agree, else the clearer one
        together = np.where(a * b > 0, np.hypot(by_private, by_public), np.maximum(by_private, by_public))
        ruled = np.where(noisy, by_public <= by_noise, by_public <= by_private)
        value = np.where(noisy, np.maximum(by_noise, by_public), together)
        side = np.where(ruled, a * np.where(noisy & (U < 0), -1.0, 1.0), b)
        most = math.floor(self.share * math.log(max(users * self.epsilon**2, 1.0)))
        return (side > 0).astype(np.int64), value, (value >= 1) | (noisy & ruled & (k <= most))


class AuthorsTree(PrintedTree):
    """The pruning of the authors' repository, Karlmyh/LPCT, which differs from Algorithm 2.

    Half of epsilon pays for the reports, and nothing takes the other half. The thresholds have log n + k + 1 in place
    of 4 log n. While the noise prevails, or U or V is not positive, public rows alone answer. A leaf asks itself and
    its ancestors, p_0 - p_1 steps up at most and one at least, p_1 = floor(d/(2 + 2 d) log_2(n_P epsilon^2 + 1)). The
    first statistic of at least 1 answers, else the largest one. The distance of a node from its nearest leaf, j, stands
    for its height: k = p_0 - j. The arguments are those of ``PrintedTree``, and p_0, the depth before pruning.

    Deviations:
        There, if a leaf finds no answer, all users report a second time, on a tree of depth p_1; here they do not.
    """

    def __init__(self, partition: Cells, x: Array, y: Labels, epsilon: float, depth: int) -> None:
        super().__init__(partition, x, y, epsilon)
        self.depth = depth

    def predict(self, total: Floats, users: int, told: Floats | None = None) -> Floats:
        label, value = self.clarity(total if users else np.zeros_like(total), users)
        parent, node = self.partition.parent, self.partition.of_leaf
        best, found = node, value[node] >= 1
        least = math.floor(self.share * math.log2(users * min(self.epsilon, 1e9) ** 2 + 1))
        for _ in range(max(1, self.depth - least)):
            node = np.where(parent[node] >= 0, parent[node], node)
            best = np.where(~found & (value[node] > value[best]), node, best)
            found |= value[node] >= 1
        return np.eye(2)[label[best]]

    def clarity(self, total: Floats, users: int) -> tuple[Labels, Floats]:
        """Return every node's label and its statistic |eta - 1/2| / r at the best lambda."""
        nearest = np.zeros(len(self.partition.parent), np.int64)
        for level in self.partition.levels[:0:-1]:  # children stand side by side
            nearest[self.partition.parent[level[::2]]] = 1 + np.minimum(nearest[level[::2]], nearest[level[1::2]])
        k = self.depth - nearest
        # sums below every node: U, V at most U, and the same of public rows
        private = self.partition.gather(total)
        U, V = private[:, 0], np.minimum(private[:, 1], private[:, 0])
        Q, a, b = self.rows[:, 0], V - U / 2, self.public[:, 0] / 2
        log = math.log(users + self.rows[0, 0] + 2) + k + 1
        log_public = math.log(self.rows[0, 0] + 2) + k + 1
        # the noise of the private sums, in rows
        root = 4 * math.log(2 * users + 2) / self.epsilon + np.sqrt(log * 0.5**k)
        noise = 2.0 ** (nearest + 1) * users / log * root**2
        above = private[:, 1] > U
        heard = (U > 0) & (V > 0) & (above | (noise <= U))
        # how clear either kind of rows is, and both together
        by_private = np.where(heard, np.abs(a) / np.sqrt(np.maximum(log * np.where(above, noise, U), 1e-12)), 0.0)
        by_public, beside = (np.abs(b) / np.sqrt(np.maximum(each * Q, 1e-12)) for each in (log_public, log))
        agree = heard & (a * b > 0)
        value = np.maximum(by_public, np.where(agree, np.hypot(by_private, beside), by_private))
        side = np.where(heard & (by_private >= by_public), a, b)
        return (side > 0).astype(np.int64), value
