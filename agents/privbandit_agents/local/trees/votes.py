"""The server of private trees and histograms: reports added up, weighed against public rows, and the answers.

Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023, equation (8).
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeVar

import numpy as np

from privbandit_agents.base.labels import Floats, Labels, propensities
from privbandit_agents.base.settings import Count, CountUpTo
from privbandit_agents.base.spaces import Array
from privbandit_agents.base.ties import Ties, best, largest
from privbandit_agents.local.label_agent import LocalLabelAgent, SummingSettings
from privbandit_agents.local.trees.partition import Cells, Rule
from privbandit_agents.local.trees.report import ENTRIES_A_BLOCK, Kind, LeafReport
from privbandit_envs.changing.masks import uniform_over


class WeightedTree:
    """The probabilities of the labels in every leaf, from sums of private estimates and from public counts.

    A node's private sum S has the weight c = n psi / Var S: psi is the node's public mass, and the variance comes from
    the sampling and the known noise. Its public sum has the weight c lambda, which makes (8) with a factor in front. If
    not all users reveal a label, psi is the mass of those who do. If lambda is not given, the public weight is trust /
    (1 + drift^2 rows), by inverse variances: a public mean varies by its sampling, and by drift^2 around the users'
    mean. A node's mean is then drawn towards its parent's, which counts like 1 / tau^2 users without noise. Everything
    here is a function of released sums and public data.

    Args:
        partition: grown from the public data.
        x: public features (n_Q, d).
        y: public labels (n_Q,).
        labels: K.
        noise: variance of an entry of a user's estimate in (another leaf, the own one).
        weight: lambda in (8), or None.
        trust: worth of a public row in users without noise, >= 0.
        drift: of the public law, >= 0.
        tau: how far children are from their parents, > 0; infinity: no shrinkage.
    """

    def __init__(
        self,
        partition: Cells,
        x: Array,
        y: Labels,
        labels: int,
        noise: tuple[float, float],
        weight: float | None = None,
        trust: float = 1.0,
        drift: float = 0.0,
        tau: float = 0.5,
    ) -> None:
        self.partition, self.labels, self.noise = partition, labels, noise
        self.weight, self.trust, self.drift, self.tau = weight, trust, drift, tau
        self.counts = np.zeros((partition.leaves, labels))
        np.add.at(self.counts, (partition.find(x), y), 1)
        self.public = partition.gather(self.counts[:, 1:] - self.counts[:, :1] if labels == 2 else self.counts)
        self.rows = partition.gather(self.counts.sum(axis=1, keepdims=True))
        self.width = partition.gather(np.ones((partition.leaves, 1)))
        self.mass = (self.rows + self.width) / (len(y) + partition.leaves)  # one pseudo-row a leaf

    def predict(self, total: Floats, users: int, told: Floats | None = None) -> Floats:
        """Return the probabilities of the labels in every leaf, shape (m, K).

        Args:
            total: sum of the users' estimates, shape (m, columns).
            users: how many they are.
            told: share of a leaf's users who would have revealed that they have a label, shape (m, columns); None: all.
        """
        means = self.shrink(*self.evidence(total, users, np.ones_like(total) if told is None else told))
        leaves = means[self.partition.of_leaf]
        if self.labels == 2:
            leaves = np.concatenate([1 - leaves, 1 + leaves], axis=1) / 2
        clipped = np.clip(leaves, 0, 1)
        return np.asarray(clipped / np.maximum(clipped.sum(axis=1, keepdims=True), 1e-12))

    def evidence(self, total: Floats, users: int, told: Floats) -> tuple[Floats, Floats]:
        """Return every node's weighted sum and its precision, private and public together."""
        other, own = self.noise
        heard = self.partition.gather(self.mass[self.partition.of_leaf] * told)
        worth = heard / np.maximum(other * self.width + np.maximum(1 + own - other, 0) * heard, 1e-12)
        share = self.trust / (1 + self.drift**2 * self.rows) if self.weight is None else worth * self.weight
        sums = worth * self.partition.gather(total) + share * self.public
        return sums, worth * users * heard + share * self.rows

    def shrink(self, sums: Floats, precision: Floats) -> Floats:
        """Return every node's mean, from the root down."""
        prior = 0.0 if math.isinf(self.tau) else self.tau**-2
        means = np.full(sums.shape, 0.0 if self.labels == 2 else 1 / self.labels)
        for depth, level in enumerate(self.partition.levels):
            above = means[self.partition.parent[level]] if depth else means[level]
            weight = precision[level] + prior
            with np.errstate(divide="ignore", invalid="ignore"):
                means[level] = np.where(weight > 0, (sums[level] + prior * above) / weight, above)
        return means


MAX_DEPTH = 16
Depth = Annotated[int, CountUpTo(MAX_DEPTH)]


@dataclass(frozen=True)
class VoteSettings(SummingSettings):
    """Settings of private trees and histograms, beside those in ``SummingSettings``.

    Attributes:
        report: ``"auto"`` (least variance), ``"signed-subset"``, ``"ternary"``, ``"grr"``, ``"laplace"`` (the paper's
            (5) and (6)), or, for more than two labels, ``"subset"``.
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers, unseeded; not for ``"laplace"``.
    """

    report: Kind = "auto"
    noise: Literal["numpy", "secure"] = "numpy"


@dataclass(frozen=True)
class TreeSettings(VoteSettings):
    """Settings of private trees, beside those in ``VoteSettings``.

    Attributes:
        partition: ``"max-edge"`` (Algorithm 1), ``"occupied"`` (the same, no cell without a public row),
            ``"random"`` (a longest edge at random), or ``"cart"`` (needs scikit-learn).
        depth: of the partition, at most 16; None: by the horizon and the noise.
        min_samples_leaf: public rows that a cut must leave on both sides, >= 1; for ``"occupied"`` and ``"cart"``.
    """

    partition: Rule = "max-edge"
    depth: Depth | None = None
    min_samples_leaf: Count = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unread(self.partition, self.min_samples_leaf)


def refuse_unread(partition: str, least: int) -> None:
    """Raise ValueError if a partition is asked for a least number of rows that it does not read."""
    if least > 1 and partition not in ("occupied", "cart"):
        raise ValueError(f"min_samples_leaf needs partition occupied or cart; got {least} with {partition}.")


V = TypeVar("V", bound=VoteSettings)


class LeafVotes(LocalLabelAgent[V]):
    """Users report leaf and label; the server adds the reports up and answers with the likeliest label of a leaf.

    With more than two labels only those users reveal theirs who were given it. The server knows with which probability
    a leaf's users were given a label, and a sum counts for this share of the users.

    Attributes:
        partition: of the cube.
        report: of a device.
        tree: turns sums into probabilities.
        total: sum of the estimates, shape (m, columns).
        given: sum of the probabilities that a label was given, or known, shape (m, columns); first ``fitted`` users.
        leaf_chances: probabilities of the labels in every leaf, shape (m, K).
    """

    fixed: ClassVar[frozenset[str]] = LocalLabelAgent.fixed | {"partition", "report", "tree"}

    def begin(self) -> None:
        super().begin()
        self.cut_seed = int(self.rng_exploration.integers(2**31))
        self.partition = self.cut()
        self.report = self.leaf_report()
        self.equip(self.report.randomizer)
        self.total = np.zeros((self.report.leaves, self.report.columns))
        self.given, self.fitted = np.zeros_like(self.total), 0
        self.tree = self.weighed()
        self.predict_leaves()

    @abstractmethod
    def cut(self) -> Cells:
        """Return the partition, by public rows, settings and ``cut_seed`` alone."""

    def leaf_report(self) -> LeafReport:
        """Return the devices' report."""
        c = self.config
        return LeafReport(c.report, c.epsilon, self.partition.leaves, self.n_labels, noise=c.noise)

    @abstractmethod
    def weighed(self) -> WeightedTree:
        """Count the public rows and return the tree that turns sums into probabilities."""

    def encode(self, contexts: Floats, labels: Labels) -> tuple[Labels, Floats | None]:
        return self.report.encode(self.partition.find(contexts), labels)

    def frozen_rounds(self) -> int:
        """Return the users before the policy changes, or fewer if their reports would fill the memory."""
        return min(super().frozen_rounds(), max(ENTRIES_A_BLOCK // self.total.size, 1))

    def estimate(self, reports: Array) -> Floats:
        return self.report.estimate(reports)

    def chance(self) -> Floats:
        """Return the probability that a user of a leaf who has a label reveals it, shape (m, columns)."""
        if self.n_labels == 2:
            return np.ones_like(self.total)
        return propensities(uniform_over(largest(self.leaf_chances)), self.exploration, self.n_labels)

    def take(self, contexts: Floats, labels: Labels, aggregate: bool) -> None:
        at_once = aggregate and self.device.by_counts == "exact"
        draw = self.report.total if at_once else self.report.summed
        self.total = self.total + draw(self.partition.find(contexts), labels, self.rng)
        self.given = self.given + len(labels)
        self.users, self.fitted = self.users + len(labels), self.fitted + len(labels)

    def learn(self) -> None:
        self.given = self.given + (self.users - self.fitted) * self.chance()
        self.fitted = self.users
        self.predict_leaves()

    def predict_leaves(self) -> None:
        self.leaf_chances = self.predicted()
        equal = largest(self.leaf_chances)
        self.answers, self.undecided = equal.argmax(axis=1), bool((equal.sum(axis=1) > 1).any())

    def predicted(self) -> Floats:
        """Return the probabilities of the labels in every leaf by all reports that were looked at, shape (m, K)."""
        return self.tree.predict(self.total, self.users, self.given / self.users if self.users else None)

    def chances(self, contexts: Array) -> Floats:
        return np.asarray(self.leaf_chances[self.partition.find(contexts)])

    def answer(self, contexts: Floats, ties: Ties) -> Labels:
        leaves = self.partition.find(contexts)
        if self.undecided:
            return np.asarray(best(self.leaf_chances[leaves], ties))
        return np.asarray(self.answers[leaves])

    def reprocess(self, config: V) -> None:
        self.config = config
        self.tree = self.weighed()
        self.predict_leaves()

    def restored(self) -> None:
        """Cut as before the load: the seed of a random partition is part of the state."""
        self.partition = self.cut()
        self.tree = self.weighed()
