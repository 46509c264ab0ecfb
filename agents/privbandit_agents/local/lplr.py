"""LPLR: layered private linear regression under action elimination.

Jiachun Li, David Simchi-Levi and Yining Wang, "On the Optimal Regret of Locally Private Linear Contextual Bandit",
2024, Algorithms 1 to 6.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

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
    n_arms,
    one_of,
    plays_arms,
    positive,
)
from privbandit_agents.local.lplr_report import RELEASES, Report, report
from privbandit_agents.local.lplr_tree import Forest
from privbandit_agents.privacy.ledger import pure
from privbandit_agents.privacy.moments import played, sanitise


@dataclass(frozen=True)
class Config:
    """Settings."""

    epsilon: float = 1.0
    release: str = "hemisphere"
    gamma: float = 2.0
    kappa: float = 3.0
    z: float = 1.5
    first: int = 500
    growth: float = 2.0
    weight: float = 0.6
    deep_weight: float = 0.4
    share: float | None = None
    cross: float = 0.3
    use_cross: bool = True
    carry: bool = True
    secondary: float | None = None
    inflate: float = 1.0
    intersect: bool = True
    horizon: int = 10_000


class LPLR(LocalAgent):
    """LPLR."""

    Config = Config
    fixed: ClassVar[frozenset[str]] = LocalAgent.fixed | {"guarantee", "report", "trees"}

    def __init__(self, observation_space: Space, action_space: Space, config: Any, rng: Generator) -> None:
        super().__init__(observation_space, action_space, config, rng)
        assert observation_space.shape is not None
        self.dim = observation_space.shape[1]
        self.trees = 1
        levels = max(1, math.ceil(math.log(config.horizon) / 2 / math.log(config.gamma)))
        self.forest = Forest(self.dim, config.gamma, levels)
        self.lottery = int(rng.spawn(1)[0].integers(2**62))
        self.users, self.epoch, self.layer = 0, 0, 1
        self.segment_users = 0
        self.first_users = 0
        d, trees = self.dim, self.trees
        self.evidence = np.zeros((2, trees, d, d + 1))
        self.thetas = np.zeros((0, trees, d))
        self.roots_of_widths = np.zeros((0, trees, d, d))
        self.ledger = Ledger(epsilon=config.epsilon)
        self.guarantee = Guarantee(
            notion="local", epsilon=config.epsilon, delta=0.0, protects="all", reference="docs/privacy.md"
        )
        self._open_epoch()

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        return plays_arms(observation_space, action_space, per_arm=True)

    # schedule
    def _open_epoch(self):
        self.root = int(self.forest.plant(self.trees)[0])
        self.frontier, self.bins = self.root, self.trees
        self.layer = 1
        if not self.config.carry:
            self.evidence[:] = 0.0
            self.first_users = 0
        self._open_segment()
        if not self.config.carry or self.epoch == 0:
            self.first_total = np.zeros_like(self.total)

    def _open_segment(self):
        c = self.config
        length = c.first * c.growth**self.epoch
        share = 1 / self.dim
        if c.share is not None and self.dim > 1:
            share = c.share if self.layer == 1 else (1 - c.share) / (self.dim - 1)
        self.segment_end = self.users + max(1, int(length * share))
        self.segment_users = 0
        self.restored()
        self.total = np.zeros((self.cells, self.report.randomizer.dim))

    @property
    def cells(self):
        return self.bins * self.forest.levels

    def restored(self):
        c = self.config
        weight = c.weight if self.layer == 1 else c.deep_weight
        self.report = report(c.release, c.epsilon, self.cells, self.dim, self.layer - 1, weight, c.cross)

    def frozen_rounds(self):
        return self.segment_end - self.users

    # devices
    def _records(self, contexts, action, feedback):
        x, y = sanitise(played(contexts, action), np.atleast_1d(feedback))
        place = self.forest.descend(x, np.full(len(x), self.root), self.layer - 1)
        level = self.forest.level(place.rest)
        active = (place.node >= 0) & (level < self.forest.levels)
        cells = np.where(active, (place.node - self.frontier) * self.forest.levels + level, -1)
        bound = self.clip(place.node)
        v = place.rest / self.forest.scale(level)[:, None]
        q = (self.forest.path[place.node, : self.layer - 1] @ x[:, :, None])[..., 0]
        return cells, v, np.clip((y - place.predicted) / bound, -1, 1), q

    def clip(self, node):
        return np.minimum(2.0, 1.0 + self.forest.reach[node])

    def randomize(self, context, action, feedback):
        contexts = np.asarray(context).reshape(-1, *self.observation_space.shape)
        return self.report.draw(*self._records(contexts, action, feedback), self.rng)

    def absorb(self, report):
        decoded = self.report.randomizer.estimate(report)
        self.ledger.spend(pure(self.config.epsilon), group=self.users, groups=len(decoded))
        self.total = np.add.reduce(np.concatenate([self.total[None], decoded]), axis=0)
        self._advance(len(decoded))

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        return "exact" if self.report.randomizer.exact_sum else "normal"

    def randomize_sum(self, contexts, actions, feedback, counts):
        return self.report.draw_sum(*self._records(contexts, actions, feedback), counts, self.rng)

    def absorb_sum(self, total, users):
        self.ledger.spend(pure(self.config.epsilon), group=self.users, groups=users)
        self.total = self.total + total
        self._advance(users)

    def _advance(self, users):
        self.users += users
        self.segment_users += users
        if self.users >= self.segment_end:
            self._fit()

    # server
    def _fit(self):
        c, forest = self.config, self.forest
        total, n = self.total, self.segment_users
        if self.layer == 1:
            self.first_total = self.first_total + total
            self.first_users += n
            total, n = self.first_total, self.first_users
            self.evidence[0] = 0.0
        moment, gram, cross = self.report.unpack(total)
        sm, sg = self.report.spread
        cell = np.arange(self.cells)
        parent, level = self.frontier + cell // forest.levels, cell % forest.levels
        comp = forest.complement(parent)
        values, vectors = np.linalg.eigh(comp @ gram @ comp)  # (C,d), (C,d,d)
        noise = sg * math.sqrt(n)
        clip = self.clip(parent)
        scale = forest.scale(level)
        target = np.einsum("cd,cdj->cj", moment, vectors) * clip[:, None]
        secondary = c.secondary if c.secondary is not None else math.inf
        stands = values > secondary * noise + 1e-9
        top = values[:, -1] > c.kappa * noise + 1e-9
        stands[:, -1] = top
        rows, js = np.nonzero(stands)
        if len(rows):
            s = values[rows, js]
            u = vectors[rows, :, js]
            g = (scale[rows] * s)[:, None] * u
            tg = target[rows, js]
            t = np.minimum(1.0, np.abs(tg / (scale[rows] * s)))
            if self.layer > 1 and c.use_cross:
                m = np.einsum("ndj,nd->nj", cross[rows], u)
                g = g + np.einsum("nj,njd->nd", m, forest.path[parent[rows], : self.layer - 1])
                tg = tg + np.vecdot(m, forest.slopes[parent[rows], : self.layer - 1])
            variance = n * (sm**2 * clip[rows] ** 2 + c.inflate * sg**2 * scale[rows] ** 2 * (1 + t**2) / 2) + s
            add = np.einsum("ni,nj->nij", g, np.column_stack([g, tg])) / variance[:, None, None]
            np.add.at(self.evidence[int(self.layer > 1)], forest.tree[parent[rows]], add)
        theta, _ = self.posterior()
        active = np.flatnonzero(top)
        u = vectors[active, :, -1]
        nodes = forest.grow(parent[active], level[active], u, np.vecdot(u, theta[forest.tree[parent[active]]]))
        if self.layer == self.dim or not len(nodes):
            self._close_epoch()
        else:
            self.layer += 1
            self.frontier, self.bins = int(nodes[0]), len(nodes)
            self._open_segment()

    def posterior(self):
        info = np.eye(self.dim) + self.evidence[..., :-1].sum(axis=0)
        cov = np.linalg.inv(info)
        return np.einsum("rij,rj->ri", cov, self.evidence[..., -1].sum(axis=0)), cov

    def _close_epoch(self):
        theta, cov = self.posterior()
        root = np.linalg.cholesky(cov)
        if not self.config.intersect:
            self.thetas, self.roots_of_widths = self.thetas[:0], self.roots_of_widths[:0]
        self.thetas = np.concatenate([self.thetas, theta[None]])
        self.roots_of_widths = np.concatenate([self.roots_of_widths, root[None]])
        self.epoch += 1
        self._open_epoch()

    # play
    def alive(self, contexts):
        phi = np.asarray(contexts, np.float64)
        alive = np.ones(phi.shape[:2], dtype=bool)
        for theta, root in zip(self.thetas[:, 0], self.roots_of_widths[:, 0]):
            worse = np.zeros_like(alive)
            for other in range(phi.shape[1]):
                diff = phi[:, other, None] - phi
                gap = diff @ theta - self.config.z * np.linalg.norm(diff @ root, axis=-1)
                worse |= (gap > 0) & alive[:, other, None]
            alive = alive & ~worse
        return alive

    def select_action(self, context):
        contexts = np.asarray(context).reshape(-1, *self.observation_space.shape)
        alive = self.alive(contexts)
        draws = np.random.Generator(np.random.PCG64(self.lottery).advance(self.users)).random(len(contexts))
        pick = np.floor(draws * alive.sum(axis=1))
        actions = (np.cumsum(alive, axis=1) > pick[:, None]).argmax(axis=1)
        return actions if np.ndim(context) > len(self.observation_space.shape) else int(actions[0])

    def select_counts(self, contexts, counts):
        alive = self.alive(contexts)
        shared = self.rng.multinomial(counts, alive / alive.sum(axis=1, keepdims=True))
        rows, actions = np.nonzero(shared)
        return rows, actions, shared[rows, actions]

    def predict(self, contexts):
        theta, _ = self.posterior()
        return np.asarray(contexts @ theta[0])
