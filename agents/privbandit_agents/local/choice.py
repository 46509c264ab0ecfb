"""Which locally private agent plays labels where nobody says: linear, kernels or a tree, by the public rows."""

import math

import numpy as np

from privbandit_agents.base.agent import PublicData
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.local.kernels.kernel_ldp import USERS, remembered
from privbandit_agents.local.kernels.public import FEWEST, FOLDS, TRIED, Features, PublicModel, held_out, mixed
from privbandit_agents.local.trees.partition import grow
from privbandit_agents.local.trees.votes import WeightedTree

CLEAR, SOME = 2.0, 3.0
"""Standard errors by which a tree has to be ahead of the kernels, and a linear model of no model at all."""
TIE = 2.0
"""Log likelihood of all public rows by which a linear model may be behind the kernels."""
LEAST = 1e-3


def default_local(public_data: PublicData, n_labels: int, epsilon: float = 1.0, users: int | None = None) -> str:
    """Return the name of the locally private agent for labels: ``"kernel-ldp"``, ``"lpct"`` or ``"warm-ldp-sgd"``.

    All are fitted to four fifths of the public rows, and judged by the likelihood of the labels in the last one; five
    times. The tree is taken where it is ahead of the kernels by two standard errors. With two labels a linear model is
    taken where it is level with them, and tells much: it has fewer numbers to learn from private reports; but not where
    the budget is so large that kernels remember single cells. How kernels compete with each other, and when private
    reports are heard, ``kernel-ldp`` decides by itself.

    Args:
        public_data: features (n, d) in [0, 1] and labels (n,).
        n_labels: K.
        epsilon: of every report.
        users: how many are expected; None: 10 000.
    """
    x, y = np.asarray(public_data[0], np.float64), np.asarray(public_data[1])
    chosen = np.linspace(0, len(y) - 1, min(len(y), TRIED)).astype(int)
    x, y = x[chosen], y[chosen]
    if len(y) < FEWEST or len(np.unique(y)) < 2:
        return "kernel-ldp"
    mixture, best = mixed(x, y, n_labels)
    kernels = held_out(Features.of(x, mixture)(x), y, n_labels)[best]
    if standard_errors(tree_held_out(x, y, n_labels) - kernels) > CLEAR:
        return "lpct"
    if n_labels > 2:
        return "kernel-ldp"
    tried = held_out(Features.of(x, ((0.0, 1.0),))(x), y, n_labels)
    linear, nothing = tried[tried.sum(axis=1).argmax()], np.log(np.bincount(y, minlength=2) / len(y))[y]
    told = standard_errors(linear - nothing) > SOME and (kernels - linear).sum() <= TIE
    if not told:
        return "kernel-ldp"
    model = PublicModel.of(*public_data, n_labels)
    cells = remembered(None, model, public_data[0], epsilon, users or USERS)
    return "warm-ldp-sgd" if cells is None else "kernel-ldp"


def standard_errors(ahead: Floats) -> float:
    """Return the mean of differences (n,) in units of its standard error; 0 where all are 0."""
    error = float(ahead.std()) / math.sqrt(len(ahead))
    return float(ahead.mean()) / error if error else math.copysign(math.inf, ahead.mean()) * bool(ahead.any())


def tree_held_out(x: Floats, y: Labels, labels: int) -> Floats:
    """Return the log likelihood of every label, by the tree of the other folds."""
    fold, likely = np.arange(len(y)) % FOLDS, np.zeros(len(y))
    for part in range(FOLDS):
        own = fold == part
        known = x[~own], y[~own]
        partition = grow("max-edge", *known, round(1 + math.log2(len(known[1]) + 1) / 2))
        tree = WeightedTree(partition, *known, labels, (1.0, 1.0))
        chances = tree.predict(np.zeros((partition.leaves, 1 if labels == 2 else labels)), 0)
        found = chances[partition.find(x[own]), y[own]]
        likely[own] = np.log(np.maximum(found, LEAST))
    return likely
