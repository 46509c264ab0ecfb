"""Locally private classification trees with public data, as a bandit.

Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023 (LPCT:
Algorithm 1 and the estimate (8)).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from privbandit_agents.agent import (
    Array,
    Guarantee,
    Ledger,
    LocalAgent,
    Space,
    above,
    count,
    fraction,
    many,
    n_arms,
    one_of,
    plays_labels,
    positive,
)
from privbandit_agents.local.lpct_report import LEAST, REPORTS, LeafReport, chosen_depth
from privbandit_agents.local.lpct_tree import Floats, Labels, WeightedTree
from privbandit_agents.local.partition import RULES, Partition, grow
from privbandit_agents.privacy.ledger import pure

EXPLORATION = 0.05
MAX_DEPTH = 16
USERS = 10_000
"""How many users are expected where no horizon is given."""


@dataclass(frozen=True)
class Config:
    """Settings of LPCT.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
        report: ``"auto"`` (least variance), ``"signed-subset"``, ``"ternary"``, ``"grr"``, ``"laplace"`` (the paper's
            (5) and (6)), or, for more than two labels, ``"subset"``.
        partition: ``"max-edge"`` (Algorithm 1), or ``"cart"`` (needs scikit-learn).
        depth: of the partition, at most 16; None: by the horizon, epsilon and the report.
        weight: lambda in (8), > 0; None: by the known variance of the noise.
        trust: without ``weight``, the worth of a public row in users without noise, > 0.
        tau: distance of a node's mean from its parent's, > 0; infinity: no shrinkage.
        exploration: probability of a random label; None: 0 with two labels, 0.05 with more.
        growth: the policy changes when the number of users has grown by this factor, > 1.
        horizon: expected number of users, for the depth.
    """

    epsilon: float = 1.0
    report: str = "auto"
    partition: str = "max-edge"
    depth: int | None = None
    weight: float | None = None
    trust: float = 1.0
    tau: float = 0.5
    exploration: float | None = None
    growth: float = 1.05
    horizon: int | None = None

    def __post_init__(self) -> None:
        """Check the ranges; epsilon is checked by the randomizer."""
        one_of(REPORTS, report=self.report)
        one_of(RULES, partition=self.partition)
        if self.depth is not None and count(depth=self.depth) > MAX_DEPTH:
            raise ValueError(f"depth must be at most {MAX_DEPTH}; got {self.depth}.")
        if self.weight is not None:
            positive(weight=self.weight)
        positive(trust=self.trust)
        if self.tau != math.inf:
            positive(tau=self.tau)
        if self.exploration is not None:
            fraction(exploration=self.exploration)
        above(1, growth=self.growth)
        if self.horizon is not None:
            count(horizon=self.horizon)


class LPCT(LocalAgent):
    """Every user reports leaf and label privately; the server plays the likeliest label of the leaf.

    With two labels the feedback reveals the label: the one that was predicted, or the other one. With more only a right
    prediction does; users who were answered wrongly send noise, a random label now and then keeps all labels in play,
    and the server divides an entry's sum by the probability with which its label was given, which it knows.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by
    ``LeafReport``. The partition, the randomizer and the times at which the policy changes depend on public data and
    settings alone. Contexts are clipped to [0, 1] on the device; a coordinate that is not finite counts as 1/2,
    feedback that is not finite as 0.

    Deviations:
        One signed entry in place of U and V (``report="laplace"`` is the paper's); lambda by the known variance of the
        noise; means shrunk over the tree; empty cells are cut on. ``report="laplace"`` with ``weight`` and
        ``tau=inf`` is (8).
    """

    Config: ClassVar[type[Any]] = Config
    uses_public_data = True
    fixed: ClassVar[frozenset[str]] = LocalAgent.fixed | {
        "public_data", "partition", "report", "tree", "guarantee", "cost", "exploration"
    }  # fmt: skip

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        config: Any,
        rng: Generator,
        public_data: tuple[Array, Labels] | None = None,
    ) -> None:
        """Cut the cube and calibrate the devices."""
        super().__init__(observation_space, action_space, config, rng)
        if public_data is None:
            raise ValueError(f"{self.name} needs an environment with public_data; got None.")
        self.n_labels = n_arms(action_space)
        self.luck = rng.spawn(1)[0]  # of exploration; reports have a generator of their own
        self.partition, self.report, self.tree = self.plan(*public_data)
        default = 0.0 if self.n_labels == 2 else EXPLORATION
        self.exploration = default if config.exploration is None else config.exploration
        self.cost, self.ledger = pure(config.epsilon), Ledger(epsilon=config.epsilon)
        self.guarantee = Guarantee(
            notion="local",
            epsilon=config.epsilon,
            delta=0.0,
            protects="context, action and reward of every user, from the server on",
            reference="docs/privacy.md, classification trees",
        )
        self.total = np.zeros((self.report.leaves, self.report.columns))
        self.spread = np.zeros_like(self.total)
        self.users, self.refit_at, self.fitted = 0, 1, 0
        self.answers = self.tree.predict(self.total, 0).argmax(axis=1)

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        """Classification in the unit cube."""
        needs = plays_labels(observation_space, action_space)
        low, high = getattr(observation_space, "low", 0), getattr(observation_space, "high", 1)
        unit = np.all(np.equal(low, 0)) and np.all(np.equal(high, 1))
        return needs or ("" if unit else "classification of contexts in [0, 1]^d")

    def plan(self, x: Array, y: Labels) -> tuple[Partition, LeafReport, WeightedTree]:
        """Return the partition, the report and the tree, all from public data."""
        return build(self.config, x, y, self.n_labels)

    def select_action(self, context: Array) -> Any:
        """Return the answer of the context's leaf, or explore."""
        rows = self.rows(context)
        labels = self.answers[self.partition.find(rows)]
        if self.exploration:
            luck = many(self.luck, context, rows.shape[1:], 2).reshape(-1, 2)
            labels = np.where(luck[:, 0] < self.exploration, (luck[:, 1] * self.n_labels).astype(np.int64), labels)
        return labels if np.ndim(context) == 2 else int(labels[0])

    def rows(self, context: Array) -> Floats:
        """Return contexts of shape (n, d) within the cube, also for one user."""
        x = np.asarray(context, np.float64).reshape(-1, *(self.observation_space.shape or ()))
        return np.clip(np.where(np.isfinite(x), x, 0.5), 0, 1)

    def encode(self, context: Array, action: Any, feedback: Any) -> tuple[Labels, Labels]:
        """Return each user's leaf and label, -1 for a label that was not revealed."""
        rows = self.rows(context)
        action, feedback = (np.broadcast_to(np.asarray(part, np.float64), len(rows)) for part in (action, feedback))
        action = np.clip(np.nan_to_num(action, posinf=0, neginf=0), 0, self.n_labels - 1).astype(np.int64)
        right = np.isfinite(feedback) & (np.nan_to_num(feedback) > 0.5)
        hidden = 1 - action if self.n_labels == 2 else np.full_like(action, -1)
        return self.partition.find(rows), np.where(right, action, hidden)

    def randomize(self, context: Array, action: Any, feedback: Any) -> Array:
        """Return the reports of one user or of n users: one release each, whatever the record."""
        return self.report.randomize(*self.encode(context, action, feedback), self.rng)

    def absorb(self, report: Array) -> None:
        """Add up reports in order; change the policy when it is time."""
        done = 0
        while done < len(report):
            part = self.report.estimate(report[done : done + self.frozen_rounds()]) * self.weights()
            self.ledger.spend(self.cost, group=self.users, groups=len(part))
            self.total = np.add.reduce(np.concatenate([self.total[None], part]), axis=0)
            self.users += len(part)
            done += len(part)
            if self.users == self.refit_at:
                self.refit()

    def weights(self) -> Floats:
        """Return one over the probability that a user of a leaf reveals a label, shape (m, columns)."""
        if self.n_labels == 2:
            return np.ones_like(self.total)
        chosen = self.answers[:, None] == np.arange(self.n_labels)
        explored = self.exploration / self.n_labels
        return np.asarray(1 / np.maximum(np.where(chosen, 1 - self.exploration + explored, explored), 1e-6))

    def frozen_rounds(self) -> int:
        """Return the number of users before the policy changes."""
        return self.refit_at - self.users

    def refit(self) -> None:
        """Change the policy, and say when it changes next."""
        self.spread = self.spread + (self.users - self.fitted) * self.weights() ** 2
        self.answers = self.tree.predict(self.total, self.users, self.spread / self.users).argmax(axis=1)
        self.fitted = self.users
        self.refit_at = max(self.users + 1, math.ceil(self.users * self.config.growth))


def build(config: Any, x: Array, y: Labels, labels: int) -> tuple[Partition, LeafReport, WeightedTree]:
    """Return the partition, the report and the tree of the settings; the public data are all they know.

    Without public rows the cells are halved in turn and count as equally likely.

    Raises:
        ValueError: a report that does not go with the number of labels, or CART without public rows.
    """
    users, least = config.horizon or USERS, LEAST[config.partition]
    depth = config.depth or chosen_depth(config.report, config.epsilon, labels, users, least)
    partition, report = cut(config, x, y, labels, depth)
    settings = config.trust, config.weight, config.tau
    return partition, report, WeightedTree(partition, x, y, labels, report.variance, *settings)


def cut(config: Any, x: Array, y: Labels, labels: int, depth: int) -> tuple[Partition, LeafReport]:
    """Return the partition of that depth and the report of its leaves."""
    partition = grow(config.partition, np.asarray(x), y, depth)
    return partition, LeafReport(config.report, config.epsilon, partition.leaves, labels)
