"""Locally private histogram classifiers.

Thomas Berrett and Cristina Butucea, "Classification under local differential privacy", 2019, as a competitor in Yuheng
Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023, section 7.2.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from privbandit_agents.local.trees.lpct import LPCT, USERS
from privbandit_agents.local.trees.partition import Grid
from privbandit_agents.local.trees.report import chosen_depth
from privbandit_agents.local.trees.settings import Settings
from privbandit_agents.local.trees.weighted_tree import WeightedTree
from privbandit_envs.validate import count

MOST_CELLS = 2**22
MOST_SPLITS = 6


@dataclass(frozen=True)
class Config(Settings):
    """Settings of the private histogram; more of them in ``Settings``, of which ``partition`` and ``depth`` do nothing.

    Attributes:
        splits: equal parts h of every axis; None: at most 6, as many as the expected users can fill.
    """

    report: str = "laplace"
    splits: int | None = None

    def __post_init__(self) -> None:
        """Check the ranges."""
        super().__post_init__()
        if self.splits is not None:
            count(splits=self.splits)


class PHIST(LPCT):
    """Every user reports its cubic cell and label; the cell's label is the sign of the sum. Public rows do not vote.

    *Formal guarantees.* Those of ``LPCT``; the cells depend on the number of features alone.

    Deviations:
        Reports as in ``LPCT``; ``"laplace"``, the default, is the nearest to the paper's, with the noise that replacing
        a record needs.
    """

    Config: ClassVar[type[Any]] = Config
    postprocessing: ClassVar[frozenset[str]] = frozenset()

    def cut(self) -> Grid:
        """Return h^d cubes.

        Raises:
            ValueError: they are too many.
        """
        (dim,) = self.observation_space.shape or ()
        splits = self.config.splits or self.chosen_splits(dim)
        if dim * math.log2(splits) > math.log2(MOST_CELLS):
            raise ValueError(
                f"splits={splits} of {dim} features are {splits}^{dim} cells, above {MOST_CELLS}; take fewer."
            )
        return Grid(splits, dim)

    def chosen_splits(self, dim: int) -> int:
        """Return the most splits whose cells are no more than the leaves that LPCT would choose."""
        config = self.config
        depth = chosen_depth(config.report, config.epsilon, self.n_labels, config.horizon or USERS, 1)
        return min(max(int(2 ** (depth / dim) + 1e-9), 1), MOST_SPLITS)

    def weighed(self) -> WeightedTree:
        """Do not count the public rows."""
        x, y = self.public_data
        return WeightedTree(self.partition, x[:0], y[:0], self.n_labels, self.report.variance, tau=math.inf)
