"""Jointly private classification by kernel features of public rows.

Features are those of Christopher Williams and Matthias Seeger, "Using the Nystroem Method to Speed Up Kernel
Machines", NeurIPS 2000; moderated probabilities those of David MacKay, "The Evidence Framework Applied to
Classification Networks", Neural Computation 4, 1992. The combination is this project's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privbandit_agents.base.kernels.deviations import Deviations
from privbandit_agents.base.kernels.filters import Filters
from privbandit_agents.base.kernels.public import PublicModel
from privbandit_agents.base.labels import in_cube, in_unit_cube
from privbandit_agents.base.rows import Products, blocks
from privbandit_agents.base.settings import Budget, Count, LateSettings, Open01
from privbandit_agents.base.spaces import Action, Array, Space, labels_of_contexts, n_arms
from privbandit_agents.base.ties import best
from privbandit_agents.joint.linear.schedules import Batches
from privbandit_agents.joint.linear.sums import SummedRecords
from privbandit_agents.joint.settings import GaussianSettings

GRID = 2**20
"""Vectors are cut to whole multiples of 1 / GRID, and added up as whole numbers."""


@dataclass(frozen=True)
class Config(GaussianSettings, LateSettings):
    """Settings of ``JDPKernel``, besides the budget.

    Attributes:
        directions: in which users may differ from the public model, at most.
    """

    epsilon: Budget = 1.0
    delta: Open01 = 1e-5
    directions: Count = 160


class Surprises(Products):
    """The sum of users' vectors, which ``clean`` computes of 256 rows (context, label) at once, and their number."""

    def __init__(self, width: int, vectors: int, clean: Callable[[Array], Array]) -> None:
        super().__init__(width, 1, clean)
        self.totals = np.zeros(vectors + 1, np.int64)

    def _close(self) -> None:
        rows = self.open.take()[:, 1:]
        assert self.clean is not None
        self.totals[:-1] += np.trunc(self.clean(rows)[:, :-1] * GRID).astype(np.int64).sum(axis=0)
        self.totals[-1] += len(rows)


class JDPKernel(SummedRecords[Config]):
    """A curator moves a kernel model of the public rows by noisy sums of its surprises.

    Algorithm (with the schedule ``Batches``):
        1. phi = features of a linear and of Gaussian kernels at public rows, weighted by cross-validation;
           scores s(x) = softmax model of the public rows + sum of eta_j f_j(x), with m directions f_j open to doubt.
        2. Serve a batch of users, each the likeliest label a. The first has 16, others half as many as came before.
        3. For each user p = probabilities of the labels, moderated by the variance of the scores, u = slope of
           log p_a in eta, of length 1, and z = (r - p_a) / max(p_a, 1 - p_a) u, r = 1 if a was right, else 0; with two
           labels a is the right one.
        4. Release the sum of z over the batch once; forget it. The filters of ``kernel-ldp`` learn from its mean, and
           the best one serves; go to 2.

    *Formal guarantees.* sqrt(2 rho)-Gaussian DP (hence (epsilon, delta)-joint DP and rho-zCDP) under replacement of a
    user's whole record, for any record whatever. |z| <= 1, so a record moves the sum of its batch by at most 2; a
    record that is not finite has z = 0. p and u are functions of the record, of public rows and of earlier releases. A
    user is in one batch, so batches compose in parallel (adaptively), and actions read releases only. Vectors are
    added up as whole numbers, and noise is discrete, on a grid.

    Attributes:
        field: scores of the labels, public but for few coefficients.
        server: learns the coefficients.
        batch: how many users the last release was about.
        release: the matrix from kernel values to scores of the labels, shape (R, K).
    """

    Config = Config
    uses_public_data = True
    fixed: ClassVar[frozenset[str]] = SummedRecords.fixed | {"field"}
    proof = "docs/privacy/kernel-classifiers.md"

    @staticmethod
    def plays(observation_space: Space, action_space: Space) -> str:  # type: ignore[override]
        return labels_of_contexts(observation_space, action_space) or in_unit_cube(observation_space)

    def begin(self) -> None:
        self.n_labels, self.batch = n_arms(self.action_space), 0
        self.field = Deviations.of(PublicModel.of(*self.public_data, self.n_labels), self.config.directions)
        self.server = Filters(self.field)
        super().begin()
        self.release = self.field.public

    def scheduled(self) -> Batches:
        return Batches(self, 16)

    @property
    def counted(self) -> int:
        return self.field.dim

    def sums(self, clean: Callable[[Array], Array]) -> Surprises:
        return Surprises(self.context_shape[0] + 1, self.counted, clean)

    def regressed(self, contexts: Array, arms: Array, rewards: Array) -> tuple[Array, Array, int]:
        """Return contexts in the cube, and labels: the right one, or -1 - the wrong one; NaN where nothing counts."""
        exists = (arms >= 0) & (arms < self.n_labels) & np.isfinite(contexts).all(axis=1) & np.isfinite(rewards)
        wrong = 1 - arms if self.n_labels == 2 else -1 - arms
        return in_cube(contexts), np.where(exists, np.where(rewards > 0.5, arms, wrong), 0.5), 0

    def clipped(self, features: Array, rewards: Array) -> tuple[Array, Array]:
        """Return the vectors z of contexts and labels, a little shorter than 1; 0 where the label is no label."""
        told = rewards.astype(np.int64)
        vectors = np.nan_to_num(self.server.surprises(features, told)) * (1 - 2.0**-30)
        return vectors * (told == rewards)[:, None], rewards

    def term(self, products: Array) -> Array:
        self.batch = int(products[-1])
        return products[:-1] / GRID

    def learned(self, noisy: Array, sigma: float, users: int) -> Array:
        self.server.learn(noisy / self.batch, self.batch, sigma**2 / self.batch)
        return self.field.scorer(self.server.means[self.server.lead])

    def restored(self) -> None:
        self.server.scorer = self.server.moved = None

    def select_action(self, context: Array) -> Action:
        """Return the likeliest label."""
        rows, kernels = in_cube(context.reshape(-1, *self.context_shape)), self.field.model.features.kernels
        chosen = best(np.concatenate([kernels(x) @ self.release for (x,) in blocks(lambda: 512, rows)]), self.ties)
        return chosen if context.ndim == 2 else int(chosen[0])

    settled = select_action
