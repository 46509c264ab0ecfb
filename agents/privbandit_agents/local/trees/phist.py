"""Locally private histogram classifiers.

Thomas Berrett and Cristina Butucea, "Classification under local differential privacy", 2019, as a competitor in Yuheng
Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023, section 7.2.
"""

import math
from dataclasses import dataclass

from privbandit_agents.base.settings import Count, Fraction
from privbandit_agents.local.trees.partition import Grid
from privbandit_agents.local.trees.report import Kind, chosen_depth
from privbandit_agents.local.trees.votes import LeafVotes, VoteSettings, WeightedTree


@dataclass(frozen=True)
class Config(VoteSettings):
    """Settings of the private histogram, beside those in ``VoteSettings``.

    Attributes:
        report: as there.
        exploration: probability of a random label; None: 0 with two labels, 0.05 with more.
        splits: equal parts h of every axis; None: at most 6, and no more than the expected users can fill.
    """

    report: Kind = "laplace"
    exploration: Fraction | None = None
    splits: Count | None = None


class PHIST(LeafVotes[Config]):
    """Every user reports its cubic cell and label; the cell's label is the sign of the sum. Public rows do not vote.

    *Formal guarantees.* Those of ``LPCT``; the cells depend on the number of features alone.

    Deviations:
        Reports as in ``LPCT``; ``"laplace"``, the default, is the nearest to the paper's, with the noise that replacing
        a record needs.
    """

    Config = Config

    def cut(self) -> Grid:
        """Return h^d cubes.

        Raises:
            ValueError: they are too many.
        """
        config, dim = self.config, self.public_data[0].shape[1]
        # by default, no more cells than the leaves that LPCT would choose
        depth = chosen_depth(config.report, config.epsilon, self.n_labels, config.expected_users, 1)
        splits = config.splits or min(max(int(2 ** (depth / dim) + 1e-9), 1), 6)
        most = 2**22
        if dim * math.log2(splits) > math.log2(most):
            raise ValueError(f"splits={splits} of {dim} features are {splits}^{dim} cells, above {most}; take fewer.")
        return Grid(splits, dim)

    def weighed(self) -> WeightedTree:
        x, y = self.public_data
        return WeightedTree(self.partition, x[:0], y[:0], self.n_labels, self.report.variance, tau=math.inf)
