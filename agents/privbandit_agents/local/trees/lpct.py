"""Locally private classification trees with public data, as a bandit.

Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023 (LPCT:
Algorithm 1 and the estimate (8)).
"""

from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.labels import Floats
from privbandit_agents.base.settings import Fraction, NonNegative, Positive, PositiveOrInfinite
from privbandit_agents.local.trees.partition import Partition, grow
from privbandit_agents.local.trees.report import chosen_depth, least_depth
from privbandit_agents.local.trees.votes import LeafVotes, TreeSettings, WeightedTree


@dataclass(frozen=True)
class Config(TreeSettings):
    """Settings of LPCT, beside those in ``TreeSettings``.

    Attributes:
        weight: lambda in (8), > 0; None: by the known variance of the noise.
        trust: without ``weight``, the worth of a public row in users without noise, >= 0; 0: public rows do not vote.
        drift: without ``weight``, how far a node's public mean may be from the users', >= 0: however many public rows
            it has, they are worth at most 1 / drift^2 users without noise. 0: both have the same law.
        tau: distance of a node's mean from its parent's, > 0; infinity: no shrinkage.
        exploration: probability of a random label; None: 0 with two labels, 0.05 with more. Without any, a leaf changes
            its label if, by the reports, the one it gives is right less often than another one among public rows.
    """

    exploration: Fraction | None = 0.0
    weight: Positive | None = None
    trust: NonNegative = 1.0
    drift: NonNegative = 0.3
    tau: PositiveOrInfinite = 0.5


class LPCT(LeafVotes[Config]):
    """Every user reports leaf and label privately; the server plays the likeliest label of the leaf.

    The paper's method (its Algorithm 1 is step 1), and where its steps are:

        1. grow a tree on the public rows by the max-edge rule         ``partition.max_edge``
        2. every user sends U and V of its leaf and label, with noise  ``report.LeafReport``
        3. the server adds them up                                     ``sums.SummedReports``
        4. and the public rows, in every leaf                          ``votes.WeightedTree``
        5. estimate by the weighted sums, (8)                          ``votes.WeightedTree.predict``
        6. answer with the likeliest label of the leaf                 ``votes.LeafVotes.answer``

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by
    ``LeafReport``: by default one signed entry or randomized response, whichever has less variance, in the leaf's
    place. The partition, the randomizer and the times at which the policy changes (users grow by ``growth``) depend on
    public data and settings alone. Records are clipped as in ``LocalLabelAgent``: a coordinate without a number counts
    as 1/2, feedback as 0.

    Deviations:
        One signed entry in place of U and V (``report="laplace"`` is the paper's); lambda by the known variance of the
        noise and an assumed drift of the public law; means shrunk over the tree; empty cells are cut on.
        ``report="laplace"`` with ``weight`` and ``tau=inf`` is (8), but in cells whose noisy number of rows, its
        denominator, is negative: there the label is still by the sign of the numerator, 2 V - U.

    With two labels a leaf's sum estimates by how many more of its users label 1 is right than label 0. If all rows
    together and public rows alone give different labels, later sums show without bias which are right for
    more users. Users between two looks are judged by the labels before.

    Attributes:
        judged: sum of estimates that were looked at, shape (m, columns), and of how many users.
        gain: estimate of how many more users the answers of all rows are right for than those of public rows alone.
        noise: the variance of that estimate by the noise of reports.
    """

    Config = Config
    postprocessing = frozenset({"weight", "trust", "drift", "tau"})

    def begin(self) -> None:
        self.gain, self.noise = 0.0, 0.0
        super().begin()
        self.judged, self.until = np.zeros_like(self.total), 0

    def cut(self) -> Partition:
        """Grow the tree on public rows; without any, the cells are halved in turn."""
        config = self.config
        least = least_depth(config.partition, self.n_labels)
        depth = config.depth or chosen_depth(config.report, config.epsilon, self.n_labels, config.expected_users, least)
        return grow(config.partition, *self.public_data, depth, self.cut_seed, config.min_samples_leaf)

    def learn(self) -> None:
        if self.n_labels == 2 and self.config.trust and self.config.weight is None:
            self.judge()
        super().learn()

    def judge(self) -> None:
        """Add the evidence of the reports since the last look about the two answers."""
        together, public = (chances.argmax(axis=1) for chances in (self.combined, self.alone))
        differ = together != public
        users, sums = self.users - self.until, (self.total - self.judged)[:, 0]
        self.gain += float(np.where(together == 1, sums, -sums)[differ].sum())
        self.noise += users * float(np.count_nonzero(differ)) * self.report.variance[0]
        self.judged, self.until = self.total, self.users

    def predicted(self) -> Floats:
        self.combined = super().predicted()
        self.alone = self.tree.predict(np.zeros_like(self.total), 0)
        doubted = self.gain < -(self.noise**0.5)  # by a standard deviation reports favor the public rows
        return self.alone if doubted else self.combined

    def weighed(self) -> WeightedTree:
        settings = {name: getattr(self.config, name) for name in ("weight", "trust", "drift", "tau")}
        return WeightedTree(self.partition, *self.public_data, self.n_labels, self.report.variance, **settings)
