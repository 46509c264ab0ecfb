"""A histogram classifier on a fixed partition of the unit cube.

The partition is the max-edge rule of Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification
with Public Data", 2023, section 3: every cell is halved at the midpoint of its longest edge, ``depth`` times.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.base.labels import Floats, Labels, in_unit_cube
from privbandit_agents.base.settings import CountUpTo
from privbandit_agents.base.spaces import Array, Space
from privbandit_agents.base.ties import largest
from privbandit_agents.baselines.classifier import RefitSettings, RefittingLabelAgent


@dataclass(frozen=True)
class Config(RefitSettings):
    """Settings of the histogram; a refit looks the majority labels up again.

    Attributes:
        depth: number of halvings p, at most 24; there are 2^p cells.
    """

    depth: Annotated[int, CountUpTo(24)] = 8


class Histogram(RefittingLabelAgent[Config]):
    """Predict the majority label of a context's cell, over public rows and, by default, users.

    A tie, as in an empty cell, is decided by the parent cell, then by its parent, and so on; if all cells tie each user
    gets any of the labels. Among edges of equal
    length the first is halved: with more features than ``depth`` only the first ``depth`` of them matter. Time and
    memory do not grow with the number of users: O(2^depth K) numbers.
    """

    Config = Config
    fixed: ClassVar[frozenset[str]] = RefittingLabelAgent.fixed | {"codes"}

    def begin(self) -> None:
        super().begin()
        config = self.config
        (dim,) = self.context_shape
        self.codes = [part_codes(feature, dim, config.depth) for feature in range(min(dim, config.depth))]
        self.counts: Floats = np.zeros((2**config.depth, self.n_labels))
        self.majority: Labels = np.zeros(2**config.depth, np.int64)
        self.learn(*self.public_data, np.ones(len(self.public_data[1])))
        self.fit()

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        return super().plays(observation_space, action_space) or in_unit_cube(observation_space)

    def guess(self, contexts: Array) -> Labels:
        majority: Labels = self.majority[self.cells(contexts)]
        return majority

    def several(self, contexts: Array) -> NDArray[np.bool_]:
        return np.broadcast_to(largest(self.counts.sum(axis=0)), (len(contexts), self.n_labels))

    def learn(self, contexts: Array, labels: Labels, weights: Floats) -> None:
        np.add.at(self.counts, (self.cells(contexts), labels), weights)

    def fit(self) -> None:
        """Find the majority of every cell, from the root down; where the largest counts tie keep the parent's."""
        majority = np.full(1, -1)
        for depth in range(self.config.depth + 1):
            counts = self.counts.reshape(2**depth, -1, self.n_labels).sum(axis=1)
            majority = np.repeat(majority, len(counts) // len(majority))
            alone = np.count_nonzero(counts == counts.max(axis=1, keepdims=True), axis=1) == 1
            majority = np.where(alone, counts.argmax(axis=1), majority)
        self.majority = majority

    def cells(self, contexts: Array) -> Labels:
        """Return the cell of every context: one bit for each halving, the first halving's the most significant."""
        cells = np.zeros(len(contexts), np.int64)
        for feature, codes in enumerate(self.codes):
            inside = np.clip(np.nan_to_num(contexts[:, feature]), 0, 1)
            cells += codes[np.minimum((inside * len(codes)).astype(np.int64), len(codes) - 1)]
        return cells


def part_codes(feature: int, dim: int, depth: int) -> Labels:
    """Return what each of a feature's equal parts of [0, 1] adds to the number of a cell.

    The features take turns, so this one is halved at the depths feature, feature + dim, feature + 2 dim, ...
    """
    depths = range(feature, depth, dim)
    parts = np.arange(2 ** len(depths))
    codes = np.zeros(len(parts), np.int64)
    for level, halving in enumerate(reversed(depths)):
        codes |= (parts >> level & 1) << (depth - 1 - halving)
    return codes
