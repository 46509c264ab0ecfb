"""The tree of LPCT on public data alone (LPCT-Q).

Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023, section 6.1.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from privbandit_agents.base.labels import Floats, PublicLabelAgent, in_unit_cube
from privbandit_agents.base.settings import Count, PositiveOrInfinite, Settings
from privbandit_agents.base.spaces import Array, Space
from privbandit_agents.local.trees.partition import grow
from privbandit_agents.local.trees.votes import MAX_DEPTH, Depth, WeightedTree, refuse_unread


@dataclass(frozen=True)
class Config(Settings):
    """Settings of the public tree.

    Attributes:
        partition: ``"max-edge"`` (Algorithm 1), ``"occupied"``, or ``"cart"`` (needs scikit-learn).
        depth: of the partition, at most 16; None: 1 + log2(n_Q) / 2, rounded.
        min_samples_leaf: public rows that a cut must leave on both sides, >= 1; for ``"occupied"`` and ``"cart"``.
        tau: distance of a node's mean from its parent's, > 0; infinity: no shrinkage.
    """

    partition: Literal["max-edge", "occupied", "cart"] = "max-edge"
    depth: Depth | None = None
    min_samples_leaf: Count = 1
    tau: PositiveOrInfinite = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unread(self.partition, self.min_samples_leaf)


class LPCTPublic(PublicLabelAgent[Config]):
    """The estimate of LPCT without private rows: the policy never changes, and users report nothing."""

    Config = Config
    fixed: ClassVar[frozenset[str]] = PublicLabelAgent.fixed | {"leaf_chances"}

    def begin(self) -> None:
        super().begin()
        x, y = self.public_data
        depth = self.config.depth or min(round(1 + math.log2(len(y) + 1) / 2), MAX_DEPTH)
        self.partition = grow(self.config.partition, x, y, depth, least=self.config.min_samples_leaf)
        tree = WeightedTree(self.partition, x, y, self.n_labels, (1.0, 1.0), tau=self.config.tau)
        columns = 1 if self.n_labels == 2 else self.n_labels
        self.leaf_chances = tree.predict(np.zeros((self.partition.leaves, columns)), 0)

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        return super().plays(observation_space, action_space) or in_unit_cube(observation_space)

    def chances(self, contexts: Array) -> Floats:
        return np.asarray(self.leaf_chances[self.partition.find(contexts)])
