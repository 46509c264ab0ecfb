"""Partitions of the unit cube grown from public data: the max-edge rule and CART.

Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023, Algorithm 1.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import ArrayLike

from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.spaces import Array
from privbandit_envs.validate import one_of

Rule = Literal["max-edge", "occupied", "random", "cart"]
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
        levels: the nodes of each depth, from the root on; children stand side by side.
        walk: feature, threshold and flat children, where a leaf leads to itself.
    """

    feature: Labels
    threshold: Floats
    children: Labels
    parent: Labels
    leaf: Labels
    levels: tuple[Labels, ...]
    walk: tuple[Labels, Floats, Labels]

    @classmethod
    def of(cls, feature: ArrayLike, threshold: ArrayLike, children: ArrayLike) -> "Partition":
        feature, children = np.asarray(feature, np.int64), np.asarray(children, np.int64).reshape(-1, 2)
        threshold, at_end = np.asarray(threshold, np.float64), feature < 0
        parent, leaf = np.full(len(feature), LEAF), np.full(len(feature), LEAF)
        inner = np.flatnonzero(~at_end)
        parent[children[inner]] = inner[:, None]
        leaf[at_end] = np.arange(np.count_nonzero(at_end))
        levels = [np.array([0])]
        while len(below := children[levels[-1][feature[levels[-1]] >= 0]].ravel()):
            levels.append(below)
        onward = np.where(at_end[:, None], np.arange(len(feature))[:, None], children).ravel()
        walk = np.maximum(feature, 0), threshold, onward
        return cls(feature, threshold, children, parent, leaf, tuple(levels), walk)

    @property
    def leaves(self) -> int:
        return int(self.leaf.max()) + 1

    @property
    def of_leaf(self) -> Labels:
        """The node of each leaf, shape (m,)."""
        return np.flatnonzero(self.leaf >= 0)

    def find(self, contexts: Array) -> Labels:
        """Return the leaf of each context (n, d)."""
        if len(contexts) == 1:
            features, thresholds, children = self.path
            numbers, at = contexts[0].tolist(), 0
            for _ in self.levels[1:]:
                at = children[2 * at + (numbers[features[at]] > thresholds[at])]
            return self.leaf[at : at + 1]
        feature, threshold, onward = self.walk
        x, start = np.ravel(contexts), np.arange(len(contexts)) * contexts.shape[1]
        node = np.zeros(len(contexts), np.int64)
        for _ in self.levels[1:]:
            right = x[start + feature[node]] > threshold[node]
            node = onward[2 * node + right]
        return self.leaf[node]

    @cached_property
    def path(self) -> tuple[list[int], list[float], list[int]]:
        """The walk in lists, for one user."""
        feature, threshold, onward = self.walk
        return feature.tolist(), threshold.tolist(), onward.tolist()

    def gather(self, values: Floats) -> Floats:
        """Return the sum of the leaves' values (m, ...) below every node, shape (V, ...)."""
        sums = np.zeros((len(self.feature), *values.shape[1:]))
        sums[self.of_leaf] = values
        for level in self.levels[:0:-1]:
            sums[self.parent[level[::2]]] = sums[level[::2]] + sums[level[1::2]]
        return sums


class Grid:
    """Cubic cells: every one of d axes is cut into h equal parts. No node is above the cells, which are one level."""

    def __init__(self, splits: int, dim: int) -> None:
        self.splits, self.dim, self.leaves = splits, dim, splits**dim
        self.of_leaf = np.arange(self.leaves)
        self.levels: tuple[Labels, ...] = (self.of_leaf,)
        self.parent = np.full(self.leaves, LEAF)

    def find(self, contexts: Array) -> Labels:
        parts = np.minimum((contexts * self.splits).astype(np.int64), self.splits - 1)
        return np.asarray(parts @ self.splits ** np.arange(self.dim))

    def gather(self, values: Floats) -> Floats:
        return values


Cells: TypeAlias = Partition | Grid  # that cover [0, 1]^d, and the nodes above them


def grow(rule: Rule, x: Array, y: Labels, depth: int, seed: int = 0, least: int = 1) -> Partition:
    """Return the partition of a rule, grown from public rows x (n, d) and y (n,) alone.

    Args:
        rule: its name.
        x: public features in [0, 1].
        y: public labels.
        depth: of the tree.
        seed: of ``"random"``.
        least: public rows in a leaf of ``"occupied"`` and ``"cart"``.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y)
    if one_of(get_args(Rule), partition=rule) == "cart":
        return cart(x, y, depth, least)
    tree = max_edge(x, y, depth, default_rng(seed) if rule == "random" else None)
    return occupied(tree, x, least) if rule == "occupied" else tree


def max_edge(x: Array, y: Labels, depth: int, rng: Generator | None = None) -> Partition:
    """Halve every cell ``depth`` times at the midpoint of one of its longest edges.

    Of the longest edges, cut the one that leaves least Gini impurity in the public rows, and the first one if
    they tie; with ``rng``, take any of them at random.

    Deviations:
        A cell without public rows is halved on: the private data may still distinguish its halves, and the number of
        leaves is 2^depth.
    """
    d, inner = x.shape[1], 2**depth - 1
    feature, threshold = np.full(2 * inner + 1, LEAF), np.zeros(2 * inner + 1)
    children = np.full((2 * inner + 1, 2), LEAF)
    children[:inner] = np.arange(1, 2 * inner + 1).reshape(-1, 2)
    low, halvings, cell = np.zeros((1, d)), np.zeros((1, d), np.int8), np.zeros(len(y), np.int64)
    for level in range(depth):
        longest = halvings == halvings.min(axis=1, keepdims=True)
        # an axis for every cell of the level
        if rng is None:
            axis = best_axis(x, y, cell, low, halvings, longest)
        else:
            axis = np.where(longest, rng.random(longest.shape), -1.0).argmax(axis=1)
        # the cuts
        cells = np.arange(len(axis))
        middle = low[cells, axis] + 0.5 ** (halvings[cells, axis] + 1)
        nodes = 2**level - 1 + cells
        feature[nodes], threshold[nodes] = axis, middle
        cell = 2 * cell + (x[np.arange(len(y)), axis[cell]] > middle[cell])
        if level == depth - 1:  # nobody reads the ends of the leaves
            break
        # the cells of the next level
        low, halvings = np.repeat(low, 2, axis=0), np.repeat(halvings, 2, axis=0)
        low[2 * cells + 1, axis] = middle
        halvings[np.arange(2 * len(axis)), np.repeat(axis, 2)] += 1
    return Partition.of(feature, threshold, children)


def occupied(tree: Partition, x: Array, least: int = 1) -> Partition:
    """Return the tree without cuts that leave a half with less than ``least`` public rows, nor the cuts below them."""
    rows = tree.gather(np.bincount(tree.find(x), minlength=tree.leaves)[:, None].astype(np.float64))[:, 0]
    kept, cuts = np.zeros(len(tree.feature), bool), tree.feature >= 0
    kept[0], cuts[cuts] = True, (rows[tree.children[cuts]] >= least).all(axis=1)
    for level in tree.levels[:-1]:
        kept[tree.children[level[kept[level] & cuts[level]]]] = True
    nodes, inner = np.flatnonzero(kept), cuts[kept]
    number = np.cumsum(kept) - 1
    children = np.where(inner[:, None], number[tree.children[nodes]], LEAF)
    return Partition.of(np.where(inner, tree.feature[nodes], LEAF), tree.threshold[nodes], children)


def best_axis(x: Array, y: Labels, cell: Labels, low: Floats, halvings: Array, longest: Array) -> Labels:
    """Return the longest edge of every cell that leaves least impurity in the public rows when halved.

    Args:
        x: public features, shape (n, d).
        y: public labels, shape (n,).
        cell: of the public rows, shape (n,).
        low: lower ends of the cells, shape (C, d).
        halvings: of their edges, shape (C, d).
        longest: which edges are the longest ones, shape (C, d).
    """
    axis = longest.argmax(axis=1)
    if not len(y):
        return np.asarray(axis)
    labels = int(y.max()) + 1
    held, where = np.unique(cell, return_inverse=True)  # cells with public rows
    sums = np.zeros((len(held) * labels, x.shape[1]))
    order = np.argsort(key := where * labels + y, kind="stable")
    below = x[order] <= (low[held] + 0.5 ** (halvings[held] + 1))[where[order]]
    groups, starts = np.unique(key[order], return_index=True)
    sums[groups] = np.add.reduceat(below, starts, axis=0, dtype=np.float64)
    total = np.bincount(key, minlength=len(sums)).reshape(len(held), labels, 1)
    left = sums.reshape(len(held), labels, -1)
    scores = np.where(longest[held], np.round(impurity(left) + impurity(total - left), 9), math.inf)
    axis[held] = scores.argmin(axis=1)
    return np.asarray(axis)


def impurity(counts: Floats) -> Floats:
    """Return the number of rows times their Gini impurity, for label counts (..., K, d)."""
    total = counts.sum(axis=-2)
    return np.asarray(total - (counts**2).sum(axis=-2) / np.maximum(total, 1))


def cart(x: Array, y: Labels, depth: int, least: int = 1) -> Partition:
    if len(y) == 0:
        raise ValueError("partition='cart' needs public rows; got none: use 'max-edge'.")
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError as error:
        raise ImportError("partition='cart' needs scikit-learn; run pip install 'privbandit[data]'.") from error
    tree = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=least, random_state=0).fit(x, y).tree_
    feature = np.where(tree.children_left < 0, LEAF, tree.feature)
    return Partition.of(feature, tree.threshold, np.stack([tree.children_left, tree.children_right], axis=1))
