"""The tree of LPCT on public data alone (LPCT-Q).

Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023, section 6.1.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privbandit_agents.base.agent import Array, Space
from privbandit_agents.base.labels import Floats, PublicLabelAgent, in_unit_cube
from privbandit_agents.local.trees.partition import grow
from privbandit_agents.local.trees.settings import MAX_DEPTH
from privbandit_agents.local.trees.weighted_tree import WeightedTree
from privbandit_envs.validate import count, fraction, one_of, positive

RULES = ("max-edge", "occupied", "cart")


@dataclass(frozen=True)
class Config:
    """Settings of the public tree.

    Attributes:
        partition: ``"max-edge"`` (Algorithm 1), ``"occupied"``, or ``"cart"`` (needs scikit-learn).
        depth: of the partition, at most 16; None: 1 + log2(n_Q) / 2, rounded.
        tau: distance of a node's mean from its parent's, > 0; infinity: no shrinkage.
        exploration: probability of a random label; nothing is learned from it.
    """

    partition: str = "max-edge"
    depth: int | None = None
    tau: float = 0.5
    exploration: float | None = 0.0

    def __post_init__(self) -> None:
        """Check the ranges."""
        one_of(RULES, partition=self.partition)
        if self.depth is not None and count(depth=self.depth) > MAX_DEPTH:
            raise ValueError(f"depth must be at most {MAX_DEPTH}; got {self.depth}.")
        if self.tau != math.inf:
            positive(tau=self.tau)
        if self.exploration is not None:
            fraction(exploration=self.exploration)


class LPCTPublic(PublicLabelAgent[Config]):
    """The estimate of LPCT without private rows: the policy never changes, and no user tells anything."""

    Config: ClassVar[type[Any]] = Config
    fixed: ClassVar[frozenset[str]] = PublicLabelAgent.fixed | {"partition", "leaf_chances"}

    def begin(self) -> None:
        """Cut the cube and count the public rows."""
        super().begin()
        config = self.config
        x, y = self.public_data
        depth = config.depth or min(round(1 + math.log2(len(y) + 1) / 2), MAX_DEPTH)
        self.partition = grow(config.partition, x, y, depth)
        tree = WeightedTree(self.partition, x, y, self.n_labels, (1.0, 1.0), tau=config.tau)
        self.leaf_chances = tree.predict(
            np.zeros((self.partition.leaves, 1 if self.n_labels == 2 else self.n_labels)), 0
        )

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        """Classification in the unit cube."""
        return super().plays(observation_space, action_space) or in_unit_cube(observation_space)

    def chances(self, contexts: Array) -> Floats:
        """Return the probabilities of the labels in the leaves of contexts."""
        return np.asarray(self.leaf_chances[self.partition.find(contexts)])
