"""The server of private trees and histograms: reports of leaf and label, added up, and the leaves' answers."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeVar

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.agent import Array
from privbandit_agents.base.labels import Floats, Labels, propensities
from privbandit_agents.base.settings import CountUpTo
from privbandit_agents.local.label_agent import Summing, SummingSettings
from privbandit_agents.local.trees.partition import Cells, Rule
from privbandit_agents.local.trees.report import ENTRIES_A_BLOCK, Kind, LeafReport
from privbandit_agents.local.trees.weighted_tree import WeightedTree

MAX_DEPTH = 16
Depth = Annotated[int, CountUpTo(MAX_DEPTH)]


@dataclass(frozen=True)
class VoteSettings(SummingSettings):
    """Settings of private trees and histograms, beside those in ``SummingSettings``.

    Attributes:
        report: ``"auto"`` (least variance), ``"signed-subset"``, ``"ternary"``, ``"grr"``, ``"laplace"`` (the paper's
            (5) and (6)), or, for more than two labels, ``"subset"``.
    """

    report: Kind = "auto"


@dataclass(frozen=True)
class TreeSettings(VoteSettings):
    """Settings of private trees, beside those in ``VoteSettings``.

    Attributes:
        partition: ``"max-edge"`` (Algorithm 1), ``"occupied"`` (the same, no cell without a public row),
            ``"random"`` (a longest edge at random), or ``"cart"`` (needs scikit-learn).
        depth: of the partition, at most 16; None: by the horizon and the noise.
    """

    partition: Rule = "max-edge"
    depth: Depth | None = None


V = TypeVar("V", bound=VoteSettings)


class LeafVotes(Summing[V]):
    """Users report leaf and label; the server adds the reports up and answers with the likeliest label of a leaf.

    With more than two labels the server divides an entry's sum by the probability with which its label was given, which
    it knows.

    Attributes:
        partition: of the cube.
        report: what a device sends.
        tree: turns sums into probabilities.
        total: sum of the weighted estimates, shape (m, columns).
        spread: sum of the squared weights, shape (m, columns), of the first ``fitted`` users.
        leaf_chances: probabilities of the labels in every leaf, shape (m, K).
    """

    fixed: ClassVar[frozenset[str]] = Summing.fixed | {"partition", "report", "tree"}

    def begin(self, rng: Generator) -> None:
        super().begin(rng)
        self.cut_seed = int(rng.integers(2**31))
        self.partition = self.cut()
        self.report = LeafReport(self.config.report, self.config.epsilon, self.partition.leaves, self.labels)
        self.total = np.zeros((self.report.leaves, self.report.columns))
        self.spread, self.fitted = np.zeros_like(self.total), 0
        self.tree = self.weighed()
        self.predict_leaves()

    @abstractmethod
    def cut(self) -> Cells:
        """Return the partition, by public rows, settings and ``cut_seed`` alone."""

    @abstractmethod
    def weighed(self) -> WeightedTree:
        """Count the public rows and return what turns sums into probabilities."""

    def encode(self, contexts: Floats, labels: Labels) -> tuple[Labels, Floats | None]:
        return self.report.encode(self.partition.find(contexts), labels)

    def randomize(self, contexts: Floats, labels: Labels, rng: Generator) -> Array:
        return self.report.randomize(self.partition.find(contexts), labels, rng)

    @property
    def left(self) -> int:
        """Users before the policy changes, or fewer if their reports would fill the memory."""
        return min(super().left, max(ENTRIES_A_BLOCK // self.total.size, 1))

    def estimate(self, reports: Array) -> Floats:
        """Return estimates over the probabilities that the labels were revealed, shape (n, m, columns)."""
        return self.report.estimate(reports) * self.weights()

    def weights(self) -> Floats:
        """Return one over the probability that a user of a leaf reveals a label, shape (m, columns)."""
        if self.labels == 2:
            return np.ones_like(self.total)
        chosen = self.answers[:, None] == np.arange(self.labels)
        return np.asarray(1 / np.maximum(propensities(chosen, self.exploration, self.labels), 1e-6))

    def learn(self, contexts: Floats, labels: Labels, rng: Generator, aggregate: bool) -> None:
        draw = self.report.total if aggregate and self.report.randomizer.exact_sum else self.report.summed
        self.total = self.total + draw(self.partition.find(contexts), labels, rng)
        self.spread = self.spread + len(labels)
        self.users, self.fitted = self.users + len(labels), self.fitted + len(labels)

    def look(self) -> None:
        self.spread = self.spread + (self.users - self.fitted) * self.weights() ** 2
        self.fitted = self.users
        self.predict_leaves()

    def predict_leaves(self) -> None:
        """Recompute the leaves' probabilities and answers from the summed reports."""
        spread = self.spread / self.users if self.users else None
        self.leaf_chances = self.tree.predict(self.total, self.users, spread)
        self.answers = self.leaf_chances.argmax(axis=1)

    def chances(self, contexts: Array) -> Floats:
        return np.asarray(self.leaf_chances[self.partition.find(contexts)])

    def answer(self, contexts: Floats) -> Labels:
        return np.asarray(self.answers[self.partition.find(contexts)])

    def reprocess(self, config: V) -> None:
        """Weigh the same sums otherwise."""
        self.config = config
        self.tree = self.weighed()
        self.predict_leaves()

    def restored(self) -> None:
        """Cut as before the load: the seed of a random partition is part of the state."""
        self.partition = self.cut()
        self.tree = self.weighed()
