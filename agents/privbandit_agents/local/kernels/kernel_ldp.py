"""Classification by kernel features of public rows, moved by locally private reports.

The features are those of Christopher Williams and Matthias Seeger, "Using the Nystroem Method to Speed Up Kernel
Machines", NeurIPS 2000; moderated probabilities those of David MacKay, "The Evidence Framework Applied to
Classification Networks", Neural Computation 4, 1992; releases those of John Duchi, Michael Jordan and Martin
Wainwright, "Minimax Optimal Procedures for Locally Private Estimation", JASA 2018. The combination is this project's
own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.agent import Array
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.reports import Inputs, inputs_of
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.settings import Count, Fraction, NonNegative
from privbandit_agents.local.batches import BatchLearner
from privbandit_agents.local.gradients.descent import Kind, gradient_device
from privbandit_agents.local.kernels.cells import Cells, Remembering
from privbandit_agents.local.kernels.deviations import Deviations
from privbandit_agents.local.kernels.filters import Filters
from privbandit_agents.local.kernels.public import PublicModel
from privbandit_agents.local.label_agent import Learner, LocalLabelAgent, LocalLabelSettings
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer

BATCH, EXACT, PLACES, USERS = 500, 1.25, 256, 10_000


@dataclass(frozen=True)
class Config(LocalLabelSettings):
    """Settings of private kernel models, beside those in ``LocalLabelSettings``.

    Attributes:
        exploration: probability of a random label; nothing needs it.
        report: ``"hemisphere"``, whose guarantee is exact; ``"bin-cap"``; or ``"auto"``: the first one unless its
            variance is more than a quarter larger, as it is from epsilon = 1.5 or so on.
        directions: in which users may differ from the public model, at most.
        batch: users who report before the model moves; None: 500, but between a 200th and a 40th of the horizon.
        proof: log likelihood ratio of the reports from which on a model that has learned from them serves users, >= 0.
        memory: whether every other batch of users tells in which cell of doubtful contexts a label was right or wrong;
            None: where that pays, by ``Cells.pay``, as it does at epsilon = 8 after some thousand users.
        places: of these cells, at most.
        horizon: expected number of users, for the batches; None: 10 000.
        noise: ``"numpy"``, or ``"secure"``: hemispheres by the operating system's random numbers; unseeded.
    """

    exploration: Fraction | None = 0.0
    report: Kind = "auto"
    directions: Count = 160
    batch: Count | None = None
    proof: NonNegative = 0.0
    memory: bool | None = None
    places: Count = PLACES
    horizon: Count | None = None
    noise: Literal["numpy", "secure"] = "numpy"


class KernelLearner(BatchLearner[Config, Filters]):
    """The algorithm of ``KernelLDP``.

    Attributes:
        field: scores of the labels, public but for few coefficients.
        device: randomizer of what a user says about them.
        cells: of contexts that the public model is in doubt about; None: nobody tells any.
        server: learns the coefficients.
    """

    fixed: ClassVar[frozenset[str]] = Learner.fixed | {"device", "field", "cells"}

    def begin(self, rng: Generator) -> None:
        config, users = self.config, self.config.horizon or USERS
        model = PublicModel.of(*self.public_data, self.labels)
        self.field = Deviations.of(model, config.directions)
        self.device = exact_or_better(config.report, config.epsilon, self.field.dim, config.noise)
        batch = config.batch or max(min(BATCH, users // 40), users // 200, 1)
        told = config.memory, model, self.public_data[0], config.epsilon, users, config.places
        self.cells = remembered(*told, config.noise)
        settings = self.field, self.device.variance(own=True), batch, config.proof
        self.server = Filters(*settings) if self.cells is None else Remembering(*settings, self.cells)

    @property
    def randomizer(self) -> object:
        """What makes the reports of directions; those of cells hold exactly wherever these do."""
        return self.device

    def inputs(self, contexts: Floats, labels: Labels, server: Filters | None = None) -> Inputs:
        server = server or self.server
        if isinstance(server, Remembering) and server.turn:
            return Inputs(server.cells.device, *server.told(contexts, labels))
        return inputs_of(self.device, server.surprises(contexts, labels))

    def estimate(self, reports: Array) -> Floats:
        return self.estimated(reports, self.server)

    def estimated(self, reports: Array, server: Filters) -> Floats:
        """Return what reports to a server say: of users' vectors (n, m), or of cells (n, number of cells)."""
        if isinstance(server, Remembering) and server.turn:
            size = server.cells.device.cells
            told = server.cells.device.estimate(reports.reshape(len(reports), -1)[:, :size])
            return told.reshape(len(reports), size)
        wide = reports.reshape(len(reports), -1)[:, : self.device.dim]
        return self.device.estimate(wide[:, None])[:, 0]

    def reports(self, server: Filters, contexts: Floats, labels: Labels, rng: Generator) -> Iterator[Array]:
        for x, y in blocks(lambda: server.left, contexts, labels):
            report = self.inputs(x, y, server).randomize(rng)
            server.add(self.estimated(report, server))
            yield report

    def joined(self, reports: list[Array]) -> Array:
        """Return reports of several batches; zeros fill the shorter ones where batches take turns."""
        if self.cells is None:
            return super().joined(reports)
        flat = [report.reshape(len(report), -1) for report in reports]
        width = max(self.cells.device.cells, self.device.dim)
        parts = [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in flat]
        return np.concatenate([np.zeros((0, width)), *parts])

    def learn(self, contexts: Floats, labels: Labels, rng: Generator, aggregate: bool) -> None:
        """Let users report whether the likeliest label is theirs, as if they had been given it."""
        for x, y in blocks(lambda: self.server.left, contexts, labels):
            given = self.answer(x)
            told = y if self.labels == 2 else np.where(given == y, y, -1 - given)
            self.server.add(self.estimate(self.inputs(x, told).randomize(rng)))

    def conclude(self) -> None:
        if self.server.waiting:
            self.server.learn()

    def chances(self, contexts: Array) -> Floats:
        return self.server.chances(contexts)

    def answer(self, contexts: Floats) -> Labels:
        return self.server.answer(contexts)


class KernelLDP(LocalLabelAgent[Config, KernelLearner]):
    """A kernel model of the public rows; one private report a user, of whether it was right, moves it.

        phi = features of a linear and of Gaussian kernels at public rows, weighted by cross-validation
        scores s(x) = softmax model of the public rows + sum of eta_j f_j(x), with m directions f_j open to doubt
        for every batch of users:
            p = probabilities of the labels, moderated by the variance of the scores; play the likeliest label a
            each user computes on its device u = slope of log p_a in eta, of length 1,
                and reports z = (r - p_a) / max(p_a, 1 - p_a) u by one private direction, r = 1 if a was right, else 0
            for every filter: score += log likelihood of the mean report under its eta
            for every filter but the first: Kalman step of eta on the mean report
            serve by the filter of the best score; by the first one, eta = 0, until another one is ahead by ``proof``

    The server learns how the mean report should move with eta from public rows and points between them.

    With ``memory`` every other batch reports something else, and the scores have one term more:

        cells = (place, label), for ``places`` points between public rows where the public model is in doubt
            each user reports (cell of its context and of label a, 1 if a was right, else -1) by one signed subset
            balance of a cell = sum of the estimates, of the variance v by noise and chance
        log probability of a label in a cell with balance < 0 is lowered by balance^2 / (2 v)

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by
    ``Hemisphere`` or ``BinCapSign``, whose likelihood ratio is at most e^epsilon for any two vectors; or by
    ``SignedSubset``, where it is that for any two cells and signs, no cell included. Of which kind a report is depends
    on the user's number alone. The randomizer scales z into the unit ball once more, and takes 0 for what is not
    finite. Features, directions, cells, batches and the randomizers depend on public data and settings alone; eta,
    balances and the choice of a filter on earlier reports besides. Records are clipped as ``LocalLabelAgent`` says.
    """

    Config = Config
    learns_by = KernelLearner
    proof = "docs/privacy/kernel-classifiers.md"

    def revealed(self, actions: Labels, answers: Array) -> Labels:
        """Return each user's label; -1 minus the label that was given where, with more than two, it was wrong."""
        known = super().revealed(actions, answers)
        return np.where(known < 0, -1 - np.maximum(actions, 0).astype(np.int64, copy=False), known)


def exact_or_better(kind: Kind, epsilon: float, dim: int, noise: str = "numpy") -> LocalRandomizer:
    """Return the randomizer of vectors of the unit ball; ``"auto"``: hemispheres where they are not much worse."""
    if kind != "auto" or noise == "secure":
        return gradient_device(kind, epsilon, dim, noise)
    half, caps = gradient_device("hemisphere", epsilon, dim), gradient_device("bin-cap", epsilon, dim)
    return half if half.variance(own=True) <= EXACT * caps.variance(own=True) else caps


def remembered(
    memory: bool | None,
    model: PublicModel,
    x: Array,
    epsilon: float,
    users: int,
    places: int = PLACES,
    noise: str = "numpy",
) -> Cells | None:
    """Return the cells that every other batch of users tells of, if there are any; ``memory`` None: if they pay."""
    cells = None if memory is False else Cells.of(model, x, places, epsilon, noise)
    return cells if cells is None or memory or cells.pay(users // 2) else None
