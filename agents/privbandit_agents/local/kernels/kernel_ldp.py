"""proto"""
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from numpy.random import Generator
from privbandit_agents.base.agent import Array
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.reports import Inputs, inputs_of
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.settings import Count, Fraction
from privbandit_agents.local.kernels.deviations import Deviations, said, chances
from privbandit_agents.local.kernels.filters import Filters
from privbandit_agents.local.kernels.public import PublicModel
from privbandit_agents.local.gradients.descent import gradient_device
from privbandit_agents.local.label_agent import Learner, LocalLabelAgent, LocalLabelSettings


@dataclass(frozen=True)
class Config(LocalLabelSettings):
    exploration: Fraction | None = 0.0
    horizon: Count | None = None
    report: str = "auto"
    proof: float = 2.0
    tempers: str = "1"
    directions: int = 160


class KernelLearner(Learner[Config]):
    fixed: ClassVar[frozenset[str]] = Learner.fixed | {"device", "field"}

    def begin(self, rng: Generator) -> None:
        model = PublicModel.of(*self.public_data, self.labels)
        self.field = Deviations.of(model, self.config.directions)
        self.device = gradient_device(self.config.report, self.config.epsilon, self.field.dim)
        T = self.config.horizon or 10_000
        batch = max(min(500, T // 40), T // 200, 1)
        self.server = Filters(self.field, (1.0, *[float(t) for t in self.config.tempers.split(",")]), self.device.variance(own=True), batch, self.config.proof)

    def encode(self, contexts, labels, server=None):
        server = self.server if server is None else server
        p, _ = server.likely(*(b := self.field.both(contexts)), server.lead)
        right = labels >= 0
        unit, chance = said(p, b[1], np.where(right, labels, -1 - labels))
        return unit * ((right - chance) / np.maximum(chance, 1 - chance))[:, None]

    def inputs(self, contexts, labels, server=None) -> Inputs:
        return inputs_of(self.device, self.encode(contexts, labels, server))

    def estimate(self, reports):
        return self.device.estimate(reports)[:, 0]

    def reports(self, server, contexts, labels, rng):
        for x, y in blocks(lambda: server.left, contexts, labels):
            report = self.inputs(x, y, server).randomize(rng)
            server.add(self.estimate(report))
            yield report

    def randomize(self, contexts, labels, rng):
        reports = list(self.reports(copy.copy(self.server), contexts, labels, rng))
        return np.concatenate(reports) if reports else np.zeros((0, 1, self.field.dim))

    @property
    def left(self): return self.server.left

    def absorb(self, reports): self.server.add(self.estimate(reports))

    def learn(self, contexts, labels, rng, aggregate):
        for x, y in blocks(lambda: self.server.left, contexts, labels):
            a = self.answer(x)
            for _ in self.reports(self.server, x, np.where(a == y, y, -1 - a) if self.labels > 2 else y, rng): pass

    def conclude(self):
        if self.server.waiting: self.server.move()

    def chances(self, contexts):
        return self.server.likely(*self.field.both(contexts), self.server.lead)[0]

    def answer(self, contexts):
        return self.field.scores(contexts, self.server.means[self.server.lead]).argmax(axis=1)


class KernelLDP(LocalLabelAgent[Config, KernelLearner]):
    Config = Config
    learns_by = KernelLearner

    def revealed(self, actions, answers):
        given = np.maximum(actions, 0).astype(np.int64, copy=False)
        right = np.isfinite(answers) & (answers > 0.5)
        return np.where(right, given, 1 - given if self.n_labels == 2 else -1 - given)
