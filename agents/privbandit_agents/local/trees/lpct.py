"""Locally private classification trees with public data, as a bandit.

Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023 (LPCT:
Algorithm 1 and the estimate (8)).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privbandit_agents.base.agent import Array, C
from privbandit_agents.local.label_agent import LocalLabelAgent, added
from privbandit_agents.local.trees.partition import Cells, grow
from privbandit_agents.local.trees.report import CHUNK, LeafReport, chosen_depth, least_depth
from privbandit_agents.local.trees.settings import Settings
from privbandit_agents.local.trees.weighted_tree import Floats, Labels, WeightedTree
from privbandit_envs.validate import at_least, positive

USERS = 10_000
"""How many users are expected where no horizon is given."""


@dataclass(frozen=True)
class Config(Settings):
    """Settings of LPCT; more of them in ``Settings``.

    Attributes:
        weight: lambda in (8), > 0; None: by the known variance of the noise.
        trust: without ``weight``, the worth of a public row in users without noise, >= 0; 0: public rows do not vote.
        drift: without ``weight``, how far a node's public mean may be from the users', >= 0: however many public rows
            it has, they are worth at most 1 / drift^2 users without noise. 0: both have the same law.
        tau: distance of a node's mean from its parent's, > 0; infinity: no shrinkage.
    """

    weight: float | None = None
    trust: float = 1.0
    drift: float = 0.3
    tau: float = 0.5

    def __post_init__(self) -> None:
        """Check the ranges."""
        super().__post_init__()
        if self.weight is not None:
            positive(weight=self.weight)
        at_least(0, trust=self.trust), at_least(0, drift=self.drift)
        if self.tau != math.inf:
            positive(tau=self.tau)


class LPCT(LocalLabelAgent[C, Array]):
    """Every user reports leaf and label privately; the server plays the likeliest label of the leaf.

    With more than two labels the server divides an entry's sum by the probability with which its label was given, which
    it knows.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by
    ``LeafReport``. The partition, the randomizer and the times at which the policy changes depend on public data and
    settings alone. Records are clipped as ``LocalLabelAgent`` says.

    Deviations:
        One signed entry in place of U and V (``report="laplace"`` is the paper's); lambda by the known variance of the
        noise and an assumed drift of the public law; means shrunk over the tree; empty cells are cut on.
        ``report="laplace"`` with ``weight`` and ``tau=inf`` is (8).
    """

    Config: ClassVar[type[Any]] = Config
    fixed: ClassVar[frozenset[str]] = LocalLabelAgent.fixed | {"partition", "report", "tree"}
    postprocessing: ClassVar[frozenset[str]] = frozenset({"weight", "trust", "drift", "tau"})

    def begin(self) -> None:
        """Cut the cube and calibrate the devices."""
        super().begin()
        self.cut_seed = int(self.luck.integers(2**31))
        self.partition = self.cut()
        self.report = LeafReport(self.config.report, self.config.epsilon, self.partition.leaves, self.n_labels)
        self.total = np.zeros((self.report.leaves, self.report.columns))
        self.spread = np.zeros_like(self.total)
        self.fitted = 0
        self.tree = self.weighed()
        self.predict_leaves()

    def chosen_depth(self) -> int:
        """Return the depth that the expected users can fill; the public data and the settings are all it knows."""
        config = self.config
        least = least_depth(config.partition, self.n_labels)
        return chosen_depth(config.report, config.epsilon, self.n_labels, config.horizon or USERS, least)

    def cut(self) -> Cells:
        """Return the partition, from public rows; without any the cells are halved in turn."""
        depth = self.config.depth or self.chosen_depth()
        return grow(self.config.partition, *self.public_data, depth, self.cut_seed)

    def weighed(self) -> WeightedTree:
        """Count the public rows and weigh them."""
        settings = {name: getattr(self.config, name) for name in ("weight", "trust", "drift", "tau")}
        return WeightedTree(self.partition, *self.public_data, self.n_labels, self.report.variance, **settings)

    def chances(self, contexts: Array) -> Floats:
        """Return the probabilities of the labels in the leaves of contexts."""
        return np.asarray(self.leaf_chances[self.partition.find(contexts)])

    def answer(self, contexts: Floats) -> Labels:
        """Return the answers of the contexts' leaves."""
        return np.asarray(self.answers[self.partition.find(contexts)])

    def encode(self, context: Array, action: Any, feedback: Any) -> tuple[Labels, Labels]:
        """Return each user's leaf and label, -1 for a label that was not revealed."""
        rows = self.rows(context)
        return self.partition.find(rows), self.revealed(action, feedback, len(rows))

    def privatise(self, contexts: Floats, labels: Labels) -> Array:
        """Return the reports of leaves and labels."""
        return self.report.randomize(self.partition.find(contexts), labels, self.rng)

    def absorb(self, report: Array) -> None:
        """Add up reports in order; change the policy when it is time."""
        done = 0
        while done < len(report):
            part = self.report.estimate(report[done : done + self.frozen_rounds()]) * self.weights()
            self.total = added(self.total, part)
            self.pay(len(part))
            done += len(part)
            if self.users >= self.refit_at:
                self.conclude()

    def learn_labels(self, contexts: Array, labels: Labels, aggregate: bool = False) -> None:
        """Let users report whose labels are known."""
        leaf, labels = self.partition.find(self.rows(contexts)), self.existing(labels)
        draw = self.report.total if aggregate and self.report.randomizer.exact_sum else self.report.summed
        self.total = self.total + draw(leaf, labels, self.rng)
        self.spread = self.spread + len(labels)
        self.fitted += len(labels)
        self.pay(len(labels))

    def frozen_rounds(self) -> int:
        """Return the number of users before the policy changes, or fewer if their reports would fill the memory."""
        return min(super().frozen_rounds(), max(CHUNK // self.total.size, 1))

    def weights(self) -> Floats:
        """Return one over the probability that a user of a leaf reveals a label, shape (m, columns)."""
        if self.n_labels == 2:
            return np.ones_like(self.total)
        chosen = self.answers[:, None] == np.arange(self.n_labels)
        return np.asarray(1 / np.maximum(self.propensities(chosen), 1e-6))

    def conclude(self) -> None:
        """Change the policy, and say when it changes next."""
        self.spread = self.spread + (self.users - self.fitted) * self.weights() ** 2
        self.fitted = self.users
        self.predict_leaves()
        self.schedule()

    def predict_leaves(self) -> None:
        """Look at the sums."""
        spread = self.spread / self.users if self.users else None
        self.leaf_chances = self.tree.predict(self.total, self.users, spread)
        self.answers = self.leaf_chances.argmax(axis=1)

    def reprocess(self, config: Any) -> None:
        """Weigh the same sums otherwise."""
        self.config = config
        self.tree = self.weighed()
        self.predict_leaves()

    def restored(self) -> None:
        """Cut as before the load."""
        if self.config.partition == "random":
            self.partition = self.cut()
            self.tree = self.weighed()
