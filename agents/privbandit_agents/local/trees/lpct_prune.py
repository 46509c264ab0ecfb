"""Pruned classification trees under local privacy.

Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023, Algorithm 2
with the closed form of appendix A.2.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.settings import Positive
from privbandit_agents.base.spaces import Array
from privbandit_agents.local.trees.partition import Cells, Partition, grow
from privbandit_agents.local.trees.printed import AuthorsTree, PrintedTree
from privbandit_agents.local.trees.report import DEEPEST, LeafReport
from privbandit_agents.local.trees.votes import MAX_DEPTH, LeafVotes, TreeSettings, WeightedTree

PAPER = 160.0  # variance of 2 V - U times epsilon^2 in the paper's report, in whose epsilon its depths are written


@dataclass(frozen=True)
class Config(TreeSettings):
    """Settings of pruned LPCT, beside those in ``TreeSettings``; ``depth`` is that before pruning, None: the paper's.

    Attributes:
        constant: C in the threshold sqrt(C log(n_P + n_Q)) of a clear label, in standard deviations, > 0.
        rule: ``"known-noise"``: thresholds from the variance of the report; ``"printed"``: Algorithm 2 to the letter,
            with the paper's constants; ``"authors"``: that of the authors' repository, which reports with half of
            epsilon (``AuthorsTree``). The last two need ``report="laplace"``.
    """

    constant: Positive = 0.15
    rule: Literal["known-noise", "printed", "authors"] = "known-noise"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reads_apart and self.report != "laplace":
            raise ValueError(f"rule {self.rule} reads U and V, which report laplace sends; got report={self.report!r}.")

    @property
    def reads_apart(self) -> bool:
        """Whether the rule reads U and V, in place of 2 V - U."""
        return self.rule != "known-noise"

    @property
    def reported_epsilon(self) -> float:
        """The budget of a report."""
        return self.epsilon / 2 if self.rule == "authors" else self.epsilon


class LPCTPrune(LeafVotes[Config]):
    """LPCT in which the deepest ancestor with a clear label answers for a leaf.

    *Formal guarantees.* Those of ``LPCT``: pruning is a function of the released sums and of public data.

    Deviations:
        A sum of 2 V - U is clear beyond sqrt(C Var log(n_P + n_Q)). Var is the variance of the sampling, at most the
        number of rows, and of the known noise; the paper has constants and 32/epsilon^2 in its place, with which the
        noise of the private sums counts less than the sampling of the public ones. Where the noise prevails, a private
        sum that is not clear does not count, since it may be all noise. A node's private rows are n_P times its public
        mass. As in the text, and unlike the printed Algorithm 2, a label that is clearer from private data ends the
        search only if it is clear. ``rule="printed"`` is Algorithm 2 to the letter; ``rule="authors"`` is that of
        the authors' repository, by which the paper's figures are nearer.
    """

    Config = Config
    postprocessing = frozenset({"constant"})
    binary = True

    def cut(self) -> Partition:
        config = self.config
        depth = config.depth or self.published_depth()
        return grow(config.partition, *self.public_data, depth, self.cut_seed, config.min_samples_leaf)

    def published_depth(self) -> int:
        """Return p_0 = floor(d/(2 + 2 d) log2(n_P epsilon^2 + n_Q^((2 + 2 d)/d))), in [1, 8], or [1, 16] (authors)."""
        other, _ = LeafReport(self.config.report, self.config.epsilon, 64, 2).variance  # the leaves are not known yet
        private = self.config.expected_users * PAPER / max(other, 1e-9)
        x, y = self.public_data
        share = x.shape[1] / (2 + 2 * x.shape[1])
        depth: int = math.floor(share * math.log2(private + len(y) ** (1 / share)))
        return min(max(depth, 1), MAX_DEPTH if self.config.rule == "authors" else DEEPEST)

    def leaf_report(self) -> LeafReport:
        c = self.config
        sizes = self.partition.leaves, self.n_labels
        return LeafReport(c.report, c.reported_epsilon, *sizes, noise=c.noise, apart=c.reads_apart)

    def weighed(self) -> WeightedTree:
        config = self.config
        if config.rule == "printed":
            return PrintedTree(self.partition, *self.public_data, config.epsilon)
        if config.rule == "authors":
            depth = config.depth or self.published_depth()
            return AuthorsTree(self.partition, *self.public_data, config.epsilon, depth)
        return PrunedTree(self.partition, *self.public_data, self.report.variance, self.config.constant)


class PrunedTree(WeightedTree):
    """Algorithm 2: a leaf takes the label of the deepest node on its path with a statistic of at least 1.

    If none does, it takes the label of the node with the largest statistic. The arguments are those of ``WeightedTree``
    and the constant of the settings.
    """

    def __init__(self, partition: Cells, x: Array, y: Labels, noise: tuple[float, float], constant: float) -> None:
        super().__init__(partition, x, y, 2, noise)
        self.constant = constant
        self.share = x.shape[1] / (2 + 2 * x.shape[1])
        self.depths = np.zeros(len(partition.parent), np.int64)
        for depth, level in enumerate(partition.levels):
            self.depths[level] = depth

    def predict(self, total: Floats, users: int, told: Floats | None = None) -> Floats:
        """Return 1 for the label of every leaf and 0 for the other one, 1/2 for both if there is none, shape (m, 2)."""
        label, value, stop = self.statistics(total, users)
        chosen = np.zeros(len(self.partition.parent), np.int64)
        found = np.zeros(len(chosen), bool)
        value[0] = -1.0  # the root answers only where it is the only node
        for level in self.partition.levels[1:]:
            parent = self.partition.parent[level]
            take = stop[level] | (~found[parent] & (value[level] >= value[chosen[parent]]))
            chosen[level] = np.where(take, level, chosen[parent])
            found[level] = stop[level] | found[parent]
        one = label[chosen[self.partition.of_leaf]]
        return np.stack([1 - one, one], axis=1)

    def statistics(self, total: Floats, users: int) -> tuple[Array, Floats, Array]:
        """Return every node's label (1/2: none), its |eta - 1/2| / r at the best lambda, and whether that ends it."""
        # how large the noise is beside the sampling
        private, public = self.partition.gather(total)[:, 0], self.public[:, 0]
        other, own = self.noise
        mass, width, rows = self.mass[:, 0], self.width[:, 0], self.rows[:, 0]
        noise = users * (other * width + max(own - other, 0.0) * mass)
        noisy = noise >= users * mass
        # how clear the private and the public sum are
        log = self.constant * math.log(users + rows[0] + 2)
        by_private = np.abs(private) / np.sqrt(np.maximum((noise + users * mass) * log, 1e-12))
        by_public = np.abs(public) / np.sqrt(np.maximum(rows, 1) * log)
        heard = ~noisy | (by_private >= 1)  # otherwise the private sum may be all noise
        by_private = np.where(heard, by_private, 0.0)
        # both together
        agree = ~noisy & (private * public > 0)
        value = np.where(agree, np.hypot(by_private, by_public), np.maximum(by_private, by_public))
        ruled = by_private > by_public
        # while noise prevails, private data may end the search down to some depth only
        deepest = self.share * math.log(max(users * PAPER / max(other, 1e-9), 1))
        allowed = ~(noisy & ruled) | (self.depths <= deepest)
        return (1 + np.sign(np.where(ruled, private, public))) / 2, value, (value >= 1) & allowed
