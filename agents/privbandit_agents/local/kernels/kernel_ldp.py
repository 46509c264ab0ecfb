"""Classification by kernel features of public rows, moved by locally private reports.

The features are those of Christopher Williams and Matthias Seeger, "Using the Nystroem Method to Speed Up Kernel
Machines", NeurIPS 2000; moderated probabilities those of David MacKay, "The Evidence Framework Applied to
Classification Networks", Neural Computation 4, 1992; releases those of John Duchi, Michael Jordan and Martin
Wainwright, "Minimax Optimal Procedures for Locally Private Estimation", JASA 2018. The combination is this project's
own.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from privbandit_agents.base.kernels.deviations import Deviations
from privbandit_agents.base.kernels.filters import Filters
from privbandit_agents.base.kernels.public import PublicModel
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.settings import Count
from privbandit_agents.base.spaces import Array
from privbandit_agents.base.ties import Ties
from privbandit_agents.local.gradients.descent import Kind, gradient_device
from privbandit_agents.local.label_agent import Batched, LocalLabelSettings
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer


@dataclass(frozen=True)
class Config(LocalLabelSettings):
    """Settings of private kernel models, beside those in ``LocalLabelSettings``.

    Attributes:
        report: ``"hemisphere"``, with an exact guarantee; ``"bin-cap"``; or ``"auto"``: the first one unless its
            variance is more than a quarter larger, as it is from epsilon = 1.5 or so on.
        directions: in which users may differ from the public model, at most.
        batch: users who report before the model moves; None: 500, but between a 200th and a 40th of the horizon.
        horizon: expected number of users, for the batches; None: 10 000.
        noise: ``"numpy"``, or ``"secure"``: hemispheres by the operating system's random numbers; unseeded.
    """

    report: Kind = "auto"
    directions: Count = 160
    batch: Count | None = None
    horizon: Count | None = None
    noise: Literal["numpy", "secure"] = "numpy"


class KernelLDP(Batched[Config]):
    """A kernel model of the public rows; one private report a user, of whether it was right, moves it.

        phi = features of a linear and of Gaussian kernels at public rows, weighted by cross-validation
        scores s(x) = softmax model of the public rows + sum of eta_j f_j(x), with m directions f_j open to doubt
        for every batch of users:
            p = probabilities of the labels, moderated by the variance of the scores; play the likeliest label a
            each user computes on its device u = slope of log p_a in eta, of length 1,
                and reports z = (r - p_a) / max(p_a, 1 - p_a) u by one private direction, r = 1 if a was right, else 0
            for every filter: score += log likelihood of the mean report under its eta
            for every filter but the first: Kalman step of eta on the mean report
            serve by the filter of the best score; by the first one, eta = 0, until another one is ahead

    The server learns how the mean report should move with eta from public rows and points between them.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by
    ``Hemisphere`` or ``BinCapSign``, with likelihood ratio at most e^epsilon for any two vectors. The randomizer
    scales z into the unit ball once more, and takes 0 for a vector that is not finite. Features, directions, batches
    and the randomizer depend on public data and settings alone; eta and the choice of a filter on earlier reports
    besides. Records are clipped as in ``LocalLabelAgent``.

    Attributes:
        field: scores of the labels, public but for few coefficients.
        server: learns the coefficients.
        added: variance of a coordinate of an estimate, by the device's noise.
    """

    Config = Config
    fixed: ClassVar[frozenset[str]] = Batched.fixed | {"field", "added"}
    proof = "docs/privacy/kernel-classifiers.md"

    def begin(self) -> None:
        super().begin()
        config, users = self.config, self.config.horizon or 10_000
        self.field = Deviations.of(PublicModel.of(*self.public_data, self.n_labels), config.directions)
        device = exact_or_better(config.report, config.epsilon, self.field.dim, config.noise)
        self.equip(device)
        self.server, self.added = Filters(self.field), device.variance(own=True)
        self.learned, self.batch = 0, config.batch or max(min(500, users // 40), users // 200, 1)
        self.refit_at = self.next_refit()

    def encode(self, contexts: Floats, labels: Labels) -> tuple[Array, Floats]:
        return np.zeros(len(labels), np.intp), self.server.surprises(contexts, labels)

    def take(self, contexts: Floats, labels: Labels, aggregate: bool) -> None:
        """Let users report whether the likeliest label is theirs, as if they had been given it."""
        for x, y in blocks(self.frozen_rounds, contexts, labels):
            given = self.answer(x, Ties(0))
            super().take(x, y if self.n_labels == 2 else np.where(given == y, y, -1 - given), aggregate)

    def step(self, total: Floats, users: int) -> None:
        self.server.learn(total / users, users, self.added)

    def restored(self) -> None:
        self.server.scorer = self.server.moved = None

    def chances(self, contexts: Array) -> Floats:
        return self.server.chances(contexts)

    def answer(self, contexts: Floats, ties: Ties) -> Labels:
        return self.server.answer(contexts, ties)

    def revealed(self, actions: Labels, answers: Array) -> Labels:
        """Return each user's label; -1 minus the label that was given where, with more than two, it was wrong."""
        known = super().revealed(actions, answers)
        if self.n_labels == 2:  # none is hidden
            return known
        return np.where(known < 0, -1 - np.maximum(actions, 0).astype(np.int64, copy=False), known)


def exact_or_better(kind: Kind, epsilon: float, dim: int, noise: str = "numpy") -> LocalRandomizer:
    """Return the randomizer of vectors of the unit ball; ``"auto"``: hemispheres where they are not much worse."""
    if kind != "auto" or noise == "secure":
        return gradient_device(kind, epsilon, dim, noise)
    half, caps = gradient_device("hemisphere", epsilon, dim), gradient_device("bin-cap", epsilon, dim)
    return half if half.variance(own=True) <= 1.25 * caps.variance(own=True) else caps
