"""The layered bins of LPLR: Figure 2, the geometry of Algorithm 4, and Algorithm 6.

Jiachun Li, David Simchi-Levi and Yining Wang, "On the Optimal Regret of Locally Private Linear Contextual Bandit",
2024, section 4.
"""

import math
from dataclasses import dataclass

import numpy as np

from privbandit_agents.agent import Array


@dataclass(frozen=True)
class Place:
    """Where points are on their way down the layers.

    Attributes:
        node: active bin that the point has reached, -1 below an inactive one, shape (n,).
        level: k of the last bin, shape (n,).
        rest: phi_h, what the directions so far leave of phi, shape (n, d).
        predicted: sum of <phi_l, theta_l> so far, shape (n,).
        width: eta of the last bin, shape (n,).
    """

    node: Array
    level: Array
    rest: Array
    predicted: Array
    width: Array


class Forest:
    """Trees of bins, one for each oracle; the nodes are the roots and the active bins, in the order of their growth.

    A bin of layer h with numbers k_1, ..., k_h holds the phi with |phi_l| <= gamma^(-k_l), k_l as large as possible, for
    every l <= h; phi_1 = phi, and phi_(l+1) is phi_l without its component along the bin's direction u. Bins with
    k = M are never active.

    Args:
        dim: d.
        gamma: ratio of the norms of two levels, > 1.
        levels: M >= 1.

    Attributes:
        child: active child of a node by k, or -1, shape (N, M).
        tree: which tree a node belongs to, shape (N,).
        direction: u of a node, 0 for roots, shape (N, d).
        slope: u . theta_B of a node, shape (N,).
        path: directions on the path to a node, its own last, 0 beyond, shape (N, d, d).
        slopes: of the nodes on the path, shape (N, d).
        depth: layer of a node, 0 for roots, shape (N,).
        reach: sum of gamma^(-k_l) |theta_l| on the path, a bound on predictions there, shape (N,).
        width: coefficients (a, b) of the width chi(phi) = a + b |u . phi|, shape (N, 2).
        closed: whether the children of a node stay inactive, shape (N,).
    """

    def __init__(self, dim: int, gamma: float, levels: int) -> None:
        """Start without trees."""
        self.dim, self.gamma, self.levels = dim, gamma, levels
        self.child = np.zeros((0, levels), dtype=np.intp)
        self.tree = np.zeros(0, dtype=np.intp)
        self.direction, self.slope = np.zeros((0, dim)), np.zeros(0)
        self.path, self.slopes = np.zeros((0, dim, dim)), np.zeros((0, dim))
        self.depth, self.reach = np.zeros(0, dtype=np.intp), np.zeros(0)
        self.width, self.closed = np.zeros((0, 2)), np.zeros(0, dtype=bool)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.tree)

    def plant(self, trees: int) -> Array:
        """Add the roots of new trees; return their nodes."""
        zeros, d = np.zeros((trees, self.dim)), self.dim
        blank = np.zeros((trees, d, d)), zeros, np.zeros(trees, dtype=np.intp), np.zeros(trees)
        return self._append(np.arange(trees), zeros, np.zeros(trees), *blank)

    def grow(self, parent: Array, level: Array, direction: Array, slope: Array) -> Array:
        """Add active bins below their parents; return their nodes.

        Args:
            parent: nodes, shape (n,).
            level: k < M of each, shape (n,).
            direction: u, of norm 1 and orthogonal to those on the path, shape (n, d).
            slope: u . theta_B, shape (n,).
        """
        path, slopes, depth = self.path[parent], self.slopes[parent], self.depth[parent]
        rows = np.arange(len(parent))
        path[rows, depth], slopes[rows, depth] = direction, slope
        reach = self.reach[parent] + self.scale(level) * np.abs(slope)
        nodes = self._append(self.tree[parent], direction, slope, path, slopes, depth + 1, reach)
        self.child[parent, level] = nodes
        return nodes

    def complement(self, node: Array) -> Array:
        """Return I - U U' over the directions on the path to nodes, shape (n, d, d)."""
        path = self.path[node]
        return np.asarray(np.eye(self.dim) - np.swapaxes(path, 1, 2) @ path)

    def level(self, rest: Array) -> Array:
        """Return k = max{k <= M : |phi_h| <= gamma^-k}, shape (n,)."""
        norms = np.maximum(np.linalg.norm(rest, axis=1), np.finfo(float).tiny)
        steps = np.floor(-np.log(norms) / math.log(self.gamma) * (1 + 1e-15))
        return np.asarray(np.clip(steps, 0, self.levels).astype(np.intp))

    def scale(self, level: Array) -> Array:
        """Return gamma^-k."""
        return np.asarray(self.gamma ** -np.asarray(level, float))

    def descend(self, phi: Array, roots: Array, layers: int) -> Place:
        """Follow Figure 2 through so many layers.

        Args:
            phi: shape (n, d).
            roots: each point's root, shape (n,).
            layers: h; with 0 the points stay at the roots.
        """
        n = len(phi)
        place = Place(roots, np.zeros(n, dtype=np.intp), phi, np.zeros(n), np.zeros(n))
        for _ in range(layers):
            place = self._step(phi, place)
        return place

    def _step(self, phi: Array, at: Place) -> Place:
        level = self.level(at.rest)
        inside = (at.node >= 0) & (level < self.levels)
        node = np.where(inside, self.child[at.node, np.minimum(level, self.levels - 1)], -1)
        active = node >= 0
        u = self.direction[node] * active[:, None]
        along = np.vecdot(at.rest, u)
        grown = at.width + self.width[node, 0] + self.width[node, 1] * np.abs(np.vecdot(phi, u))
        width = np.where(active & ~self.closed[node], grown, self.scale(level))  # Alg. 5, lines 11 and 14
        width = np.where(at.node >= 0, np.minimum(width, 1.0), at.width)
        predicted = at.predicted + along * self.slope[node] * active
        return Place(node, level, at.rest - along[:, None] * u, predicted, width)

    def _append(self, tree: Array, direction: Array, slope: Array, *path: Array) -> Array:
        n, first = len(tree), len(self)
        self.child = np.concatenate([self.child, np.full((n, self.levels), -1)])
        self.tree = np.concatenate([self.tree, tree])
        self.direction = np.concatenate([self.direction, direction])
        self.slope = np.concatenate([self.slope, slope])
        for name, added in zip(("path", "slopes", "depth", "reach"), path, strict=True):
            setattr(self, name, np.concatenate([getattr(self, name), added]))
        self.width = np.concatenate([self.width, np.zeros((n, 2))])
        self.closed = np.concatenate([self.closed, np.zeros(n, dtype=bool)])
        return np.arange(first, first + n)
