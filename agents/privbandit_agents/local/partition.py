"""Partitions of the unit cube grown from public data: the max-edge rule and CART.

Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023, Algorithm 1.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.agent import Array, one_of

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
RULES = ("max-edge", "cart")
LEAF = -1


@dataclass(frozen=True)
class Partition:
    """A binary tree over [0, 1]^d; a point goes left where ``x[feature] <= threshold``. Parents come first.

    Attributes:
        feature: of each node's cut, -1 in a leaf, shape (V,).
        threshold: of each node's cut, shape (V,).
        children: left and right child, shape (V, 2).
        parent: shape (V,), -1 at the root.
        leaf: number of each leaf in 0, ..., m - 1, -1 in inner nodes, shape (V,).
        levels: the nodes of each depth, from the root on.
    """

    feature: Labels
    threshold: Floats
    children: Labels
    parent: Labels
    leaf: Labels
    levels: tuple[Labels, ...]

    @classmethod
    def of(cls, feature: Any, threshold: Any, children: Any) -> "Partition":
        """Number the leaves and find the levels."""
        feature, children = np.asarray(feature, np.int64), np.asarray(children, np.int64).reshape(-1, 2)
        parent, leaf = np.full(len(feature), LEAF), np.full(len(feature), LEAF)
        inner = np.flatnonzero(feature >= 0)
        parent[children[inner]] = inner[:, None]
        leaf[feature < 0] = np.arange(np.count_nonzero(feature < 0))
        levels = [np.array([0])]
        while len(below := children[levels[-1][feature[levels[-1]] >= 0]].ravel()):
            levels.append(below)
        return cls(feature, np.asarray(threshold, np.float64), children, parent, leaf, tuple(levels))

    @property
    def leaves(self) -> int:
        """The number of leaves m."""
        return int(self.leaf.max()) + 1

    @property
    def of_leaf(self) -> Labels:
        """The node of each leaf, shape (m,)."""
        return np.flatnonzero(self.leaf >= 0)

    def find(self, contexts: Array) -> Labels:
        """Return the leaf of each context (n, d)."""
        node, rows = np.zeros(len(contexts), np.int64), np.arange(len(contexts))
        for _ in self.levels[1:]:
            feature = self.feature[node]
            right = contexts[rows, feature] > self.threshold[node]
            node = np.where(feature >= 0, self.children[node, right.astype(np.int64)], node)
        return self.leaf[node]

    def gather(self, values: Floats) -> Floats:
        """Return the sum of the leaves' values (m, ...) below every node, shape (V, ...)."""
        sums = np.zeros((len(self.feature), *values.shape[1:]))
        sums[self.of_leaf] = values
        for level in self.levels[:0:-1]:
            np.add.at(sums, self.parent[level], sums[level])
        return sums


def grow(rule: str, x: Array, y: Labels, depth: int) -> Partition:
    """Return the partition of a rule in ``RULES``, grown from public rows x (n, d) and y (n,) alone."""
    return max_edge(x, y, depth) if one_of(RULES, partition=rule) == "max-edge" else cart(x, y, depth)


def max_edge(x: Array, y: Labels, depth: int) -> Partition:
    """Halve every cell ``depth`` times at the midpoint of one of its longest edges.

    Among these the one that leaves least Gini impurity in the public rows is taken, and the first one where they tie.

    Deviations:
        A cell without public rows is halved on: the private data may still tell its halves apart, and the number of
        leaves is 2^depth.
    """
    d, inner = x.shape[1], 2**depth - 1
    feature, threshold = np.full(2 * inner + 1, LEAF), np.zeros(2 * inner + 1)
    children = np.full((2 * inner + 1, 2), LEAF)
    children[:inner] = np.arange(1, 2 * inner + 1).reshape(-1, 2)
    onehot = np.eye(max(int(y.max(initial=0)) + 1, 2))[y]
    cells = [(np.zeros(d), np.ones(d), np.arange(len(y)))]
    for node in range(inner):
        low, high, rows = cells[node]
        axis = best_edge(low, high, x[rows], onehot[rows])
        middle, upper, lower = (low[axis] + high[axis]) / 2, high.copy(), low.copy()
        upper[axis] = lower[axis] = middle
        side = x[rows, axis] <= middle
        cells += [(low, upper, rows[side]), (lower, high, rows[~side])]
        feature[node], threshold[node] = axis, middle
    return Partition.of(feature, threshold, children)


def best_edge(low: Floats, high: Floats, x: Array, onehot: Floats) -> int:
    """Return the longest edge of a cell whose halving leaves least impurity."""
    edges = high - low
    longest = np.flatnonzero(edges == edges.max())
    left = x[:, longest] <= (low + high)[longest] / 2
    scores = impurity(left.T @ onehot) + impurity((~left).T @ onehot)
    return int(longest[np.argmin(np.round(scores, 9))])


def impurity(counts: Floats) -> Floats:
    """Return the number of rows times their Gini impurity, for label counts (..., K)."""
    total = counts.sum(axis=-1)
    return np.asarray(total - (counts**2).sum(axis=-1) / np.maximum(total, 1))


def cart(x: Array, y: Labels, depth: int) -> Partition:
    """Grow scikit-learn's decision tree of Gini cuts."""
    if len(y) == 0:
        raise ValueError("partition='cart' needs public rows; got none: use 'max-edge'.")
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError as error:
        raise ImportError("partition='cart' needs scikit-learn; run pip install 'privbandit[data]'.") from error
    tree = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(x, y).tree_
    feature = np.where(tree.children_left < 0, LEAF, tree.feature)
    return Partition.of(feature, tree.threshold, np.stack([tree.children_left, tree.children_right], axis=1))
