"""Choose the default locally private agent for labels from the public rows: linear, kernels or a tree."""

import math

import numpy as np

from privbandit_agents.base.kernels.public import Features, enough, folds, held_out, mixed, spaced
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.spaces import PublicData
from privbandit_agents.local.trees.partition import grow
from privbandit_agents.local.trees.votes import WeightedTree


def default_local(public_data: PublicData, n_labels: int) -> str:
    """Return the name of the locally private agent for labels: ``"kernel-ldp"``, ``"lpct"`` or ``"warm-ldp-sgd"``.

    All are fitted to four fifths of the public rows, and judged by the likelihood of the labels in the last one; five
    times. The tree is taken if it is ahead of the kernels by two standard errors. With two labels a linear model is
    taken if it is level with them, and predicts much better than no model: it has fewer numbers to learn from
    private reports. How kernels compete with each other, and when private reports are heard, ``kernel-ldp`` decides.

    Args:
        public_data: features (n, d) in [0, 1] and labels (n,).
        n_labels: K.
    """
    x, y = np.asarray(public_data[0], np.float64), np.asarray(public_data[1])
    chosen = spaced(len(y))
    x, y = x[chosen], y[chosen]
    if not enough(y):
        return "kernel-ldp"
    mixture, best = mixed(x, y, n_labels)
    kernels = held_out(Features.of(x, mixture)(x), y, n_labels)[best]
    if standard_errors(tree_held_out(x, y, n_labels) - kernels) > 2:
        return "lpct"
    if n_labels > 2:
        return "kernel-ldp"
    tried = held_out(Features.of(x, ((0.0, 1.0),))(x), y, n_labels)
    linear, nothing = tried[tried.sum(axis=1).argmax()], np.log(np.bincount(y, minlength=2) / len(y))[y]
    clear = standard_errors(linear - nothing) > 3  # it predicts
    level = (kernels - linear).sum() <= 2  # in log likelihood of all public rows
    return "warm-ldp-sgd" if clear and level else "kernel-ldp"


def standard_errors(ahead: Floats) -> float:
    """Return the mean of differences (n,) in units of its standard error; 0 where all are 0."""
    error = float(ahead.std()) / math.sqrt(len(ahead))
    return float(ahead.mean()) / error if error else math.copysign(math.inf, ahead.mean()) if ahead.any() else 0.0


def tree_held_out(x: Floats, y: Labels, labels: int) -> Floats:
    """Return the log likelihood of every label, by the tree of the other folds."""
    likely = np.zeros(len(y))
    for own in folds(len(y)):
        known = x[~own], y[~own]
        partition = grow("max-edge", *known, round(1 + math.log2(len(known[1]) + 1) / 2))
        tree = WeightedTree(partition, *known, labels, (1.0, 1.0))
        chances = tree.predict(np.zeros((partition.leaves, 1 if labels == 2 else labels)), 0)
        found = chances[partition.find(x[own]), y[own]]
        likely[own] = np.log(np.maximum(found, 1e-3))  # a leaf without this label costs no more
    return likely
