"""The layered bins of LPLR: the procedure of Figure 2 and Algorithm 6, for many points at once.

Jiachun Li, David Simchi-Levi and Yining Wang, "On the Optimal Regret of Locally Private Linear Contextual Bandit",
2024, section 4.
"""

import math
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privbandit_agents.base.spaces import Array
from privbandit_agents.privacy.vectors import length, lengths


@dataclass(frozen=True)
class Place:
    """Where points are on their way down the layers.

    Attributes:
        node: active bin that the point has reached, -1 below an inactive one, shape (n,).
        rest: phi_h, phi without its components along the path, shape (n, d).
        predicted: sum of <phi_l, theta_l> on the path, shape (n,).
        width: eta of the last bin, shape (n,).
    """

    node: Array
    rest: Array
    predicted: Array
    width: Array


class Forest:
    """Trees of bins, one for each oracle; the nodes are the roots and the active bins, in the order of their growth.

    A bin of layer h with numbers k_1, ..., k_h holds the phi with |phi_l| <= gamma^(-k_l), k_l <= M as large as
    possible, for every l <= h; phi_1 = phi, and phi_(l+1) is phi_l without its component along the direction u of its
    bin. Bins with k = M are never active.

    Args:
        dim: d.
        gamma: ratio of the norms of two levels, > 1.
        levels: M >= 1.

    Attributes:
        child: active child of a node by k, or -1, shape (N, M).
        tree: which tree a node belongs to, shape (N,).
        depth: layer of a node, 0 for roots, shape (N,).
        path: directions on the path to a node, its own last, then zeros, shape (N, d, d).
        slopes: u . theta_B of the nodes on the path, shape (N, d).
        norms: gamma^(-k_l) of the nodes on the path, bounds on |phi_l|, shape (N, d).
        width: (a, b) of the width chi(phi) = a + b |u . phi|, shape (N, 2).
        closed: whether the children of a node have to stay inactive, shape (N,).
    """

    fixed: ClassVar[frozenset[str]] = frozenset({"scales"})

    def __init__(self, dim: int, gamma: float, levels: int) -> None:
        self.dim, self.gamma, self.levels = dim, gamma, levels
        self.scales = gamma ** -np.arange(levels + 1.0)
        self.child = np.zeros((0, levels), dtype=np.intp)
        self.tree, self.depth = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
        self.path = np.zeros((0, dim, dim))
        self.slopes, self.norms = np.zeros((0, dim)), np.zeros((0, dim))
        self.width, self.closed = np.zeros((0, 2)), np.zeros(0, dtype=bool)

    def plant(self, trees: int) -> int:
        """Add new trees; return the node of the first root."""
        d, blank = self.dim, np.zeros((trees, self.dim))
        roots = self._append(np.arange(trees), np.zeros(trees), np.zeros((trees, d, d)), blank, blank)
        return int(roots[0])

    def grow(self, parent: Array, level: Array, direction: Array, slope: Array) -> Array:
        """Add active bins; return their nodes.

        Args:
            parent: nodes, shape (n,).
            level: k < M of each, shape (n,).
            direction: u, of norm 1 and orthogonal to those on the path, shape (n, d).
            slope: u . theta_B, shape (n,).
        """
        path, slopes, norms, depth = (table[parent] for table in (self.path, self.slopes, self.norms, self.depth))
        own = np.arange(len(parent)), depth
        path[own], slopes[own], norms[own] = direction, slope, self.scale(level)
        nodes = self._append(self.tree[parent], depth + 1, path, slopes, norms)
        self.child[parent, level] = nodes
        return nodes

    def reach(self, node: Array) -> Array:
        """Return the sum of gamma^(-k_l) |theta_l| on the paths to nodes, the largest prediction there, shape (n,)."""
        return np.asarray((self.norms[node] * np.abs(self.slopes[node])).sum(axis=1))

    def complement(self, node: Array) -> Array:
        """Return I - U U' over the directions on the path to nodes, shape (n, d, d)."""
        path = self.path[node]
        return np.asarray(np.eye(self.dim) - np.swapaxes(path, 1, 2) @ path)

    def direction(self, node: Array) -> Array:
        """Return u of nodes, shape (n, d): zeros for roots and for the node -1."""
        return np.asarray(self.path[node, np.maximum(self.depth[node] - 1, 0)] * (node >= 0)[:, None])

    def scale(self, level: Array) -> Array:
        """Return gamma^-k of levels k <= M."""
        return np.asarray(self.scales[level])

    def level(self, rest: Array) -> Array:
        """Return k = max{k <= M : |phi_h| <= gamma^-k}, shape (n,)."""
        if len(rest) == 1:  # numbers are quicker than arrays of one
            norm = max(length(rest[0]), sys.float_info.min)
            step = math.floor(-float(np.log(norm)) / math.log(self.gamma) + 1e-12)
            return np.array([min(max(step, 0), self.levels)], np.intp)
        norms = np.maximum(lengths(rest)[:, 0], sys.float_info.min)
        steps = np.floor(-np.log(norms) / math.log(self.gamma) + 1e-12)
        return np.minimum(np.maximum(steps, 0), self.levels).astype(np.intp)

    def descend(self, phi: Array, roots: Array, layers: int) -> Place:
        """Follow Figure 2 through ``layers`` layers; with all d of them this is Algorithm 6.

        Args:
            phi: shape (n, d).
            roots: each point's root, shape (n,).
            layers: with 0 the points stay at the roots.
        """
        n = len(phi)
        place = Place(roots, phi, np.zeros(n), np.zeros(n))
        for layer in range(layers):
            place = self._step(phi, place, layer)
        return place

    def _step(self, phi: Array, at: Place, layer: int) -> Place:
        level, here = self.level(at.rest), at.node >= 0
        node = np.where(here & (level < self.levels), self.child[at.node, np.minimum(level, self.levels - 1)], -1)
        active, u = node >= 0, self.direction(node)
        along = np.vecdot(at.rest, u)
        grown = at.width + self.width[node, 0] + self.width[node, 1] * np.abs(np.vecdot(phi, u))
        width = np.where(active & ~self.closed[node], np.minimum(grown, 1.0), self.scale(level))  # Alg. 5, l. 11, 14
        predicted = at.predicted + np.where(active, along * self.slopes[node, layer], 0.0)
        return Place(node, at.rest - along[:, None] * u, predicted, np.where(here, width, at.width))

    def _append(self, tree: Array, depth: Array, path: Array, slopes: Array, norms: Array) -> Array:
        n, first = len(tree), len(self.tree)
        added = {"child": np.full((n, self.levels), -1), "tree": tree, "depth": depth.astype(np.intp), "path": path}
        added |= {"slopes": slopes, "norms": norms, "width": np.zeros((n, 2)), "closed": np.zeros(n, dtype=bool)}
        grown = {name: np.concatenate([getattr(self, name), rows]) for name, rows in added.items()}
        vars(self).update(grown)  # all at once: they have the same nodes whatever is raised
        return np.arange(first, first + n)
