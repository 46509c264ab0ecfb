"""Private pursuit: a sparse bandit that finds features one by one, whatever their correlation and number."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from privbandit_agents.base.agent import Action, Array, CentralAgent, arms_with_features, n_arms
from privbandit_agents.base.arms import played
from privbandit_agents.base.rows import Rows, blocks
from privbandit_agents.base.settings import Budget, Count, Growth, Open01, Positive
from privbandit_agents.joint.settings import JointSettings
from privbandit_agents.joint.sparse.clipping import passed, power
from privbandit_agents.joint.sparse.estimate import best_by_support, clipped
from privbandit_agents.joint.sparse.pursuit.belief import Belief
from privbandit_agents.joint.sparse.pursuit.releases import LEVELS, Batch
from privbandit_agents.privacy.contributions.moments import LIMIT

MEDIAN = 0.6745
"""Median of |Z| of a standard Gaussian."""


@dataclass(frozen=True)
class Config(JointSettings):
    epsilon: Budget = 1.0
    delta: Open01 = 1e-5
    horizon: Count | None = None
    first: Count | None = None
    growth: Growth = 1.25
    at_first: Count = 2
    most: Count = 80
    reward_scale: Positive = 1.0
    feature_limit: Positive = 0.5
    residual_limit: Positive = 1.0
    noise: Literal["numpy", "secure"] = "numpy"
    # tuning
    n0: float = 80.0
    nmin: Count = 120
    quant0: float = 0.06
    quant: float = 0.04
    inner: float = 0.05
    last: float = 0.03
    selection: float = 0.8
    row: float = 0.05
    dense: float = 0.4
    rate: float = 0.02
    ratio: float = 2.0
    fail: float = 1.5
    drop: float = 1.0
    end: float = 1.5
    hess: float = 0.25
    choice: float = 0.03
    forget: float = 1.1
    lam: float = 0.35
    lam2: float = 1.5
    empty: float = 1.25
    fails: int = 3
    fast: float = 1.5
    top: float = 0.75
    useful: float = 0.25
    rule: int = 1
    frac: float = 0.5
    least_k: int = 3


class PrivatePursuit(CentralAgent[Config, Array]):
    Config = Config
    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        config = self.config
        self.dim = self.context_shape[1]
        self.rho = config.concentrated()
        self.ledger = config.ledger()
        self.guarantee = config.guarantee("docs/privacy/private-pursuit.md", arithmetic="exact")
        self.rng_noise = self.rng.spawn(1)[0]
        self.release = np.zeros(self.dim)
        self.belief = Belief()
        self.strength = min(math.sqrt(2 * self.rho), 1.0)
        latest = max(1, (config.horizon or 20_000) // 4)
        first = max(config.nmin, math.ceil(min(config.n0 / math.sqrt(2 * self.rho), 1e9)))
        self.length, self.batch = config.first or min(first, latest), 0
        self.scale, self.least = MEDIAN * config.reward_scale, math.inf
        self.found, self.failed, self.tried = 0, 0, 0
        self.x, self.y = Rows((self.dim,), np.float64), Rows((), np.float64)

    def select_action(self, context: Array) -> Action:
        return best_by_support(self.contexts_of(context), self.release, n_arms(self.action_space), self.rng)

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        released = None
        for x, arms, rewards in blocks(self.frozen_rounds, contexts, actions, feedback):
            features, answers = own_scale(*clipped(played(x, arms), rewards, LIMIT, LIMIT))
            self.x.append(features)
            self.y.append(answers)
            if len(self.y) == self.length:
                released = self.release = self._learn()
        return released

    def frozen_rounds(self) -> int:
        return self.length - len(self.y)

    # one batch

    def _learn(self) -> Array:
        publish = partial(self._publish)
        batch = Batch(self.x.view(), self.y.view(), self.rho, publish, self.rng_noise, self.config.noise)
        self._update(batch)
        self.x.clear()
        self.y.clear()
        growth = self.config.fast if self.failed or not self.tried else self.config.growth
        growth = growth if len(self.belief) else self.config.empty
        self.batch, self.length = self.batch + 1, math.ceil(self.length * growth)
        theta = np.zeros(self.dim)
        theta[self.belief.support] = self.belief.theta
        return theta

    def _publish(self, mechanism, exact, draw):
        return self.publish(mechanism, exact, draw, mechanism.cost, self.batch)

    def _update(self, batch: Batch) -> None:
        config = self.config
        self.belief.covariance = self.belief.covariance * config.forget
        start = self.belief.copy()
        self._pursue(batch)
        if not len(start):
            return
        bound = self._quantile(batch, config.last, config.lam2)
        if bound > 1.3 * self.least:
            extra = (bound**2 - self.least**2) / (MEDIAN**2 * len(self.belief))
            self.belief.covariance = self.belief.covariance + extra * np.eye(len(self.belief))
        self.least = min(self.least, bound)
        middle = self.belief.copy()
        self._refine(batch, bound, batch.left - config.choice)
        candidates = [self.belief, middle, start]
        chosen = batch.choose(
            [(one.support, one.theta) for one in candidates], bound, np.array([4.0, 2.0, 0.0]), batch.left
        )
        self.belief = candidates[chosen]
        self.scale = bound

    def _quantile(self, batch: Batch, share: float, decay: float) -> float:
        prior = -decay * np.abs(np.log2(LEVELS / self.scale))
        return batch.quantile(self.belief.support, self.belief.theta, 0.5, prior, share)

    def _how_many(self) -> int:
        c = self.config
        if c.rule:
            k = c.at_first if not self.batch else max(c.least_k, math.ceil(c.ratio * self.found))
        else:
            k = max(c.at_first if not self.batch else 1, round(c.rate * self.length * self.strength))
            if self.found > 1 and not self.failed:
                k = max(k, math.ceil(c.ratio * self.found))
        return max(0, min(k, c.most - len(self.belief), self.dim - len(self.belief)))

    def _pursue(self, batch: Batch) -> None:
        c, m = self.config, len(self.belief)
        k = self.tried = self._how_many()
        self.found = self.failed = 0
        if not k:
            return
        inner = c.inner / k if m else 0.0
        first = c.quant if m else c.quant0
        left = 1 - first - inner * (k - 1) - (c.last + c.choice if m else 0.0)
        dense = c.dense * m / (m + k)
        pick = (left - dense) / k
        self.scale = bound = least = self._quantile(batch, first, c.lam if not self.batch else c.lam2)
        best = self.belief.copy()
        n, u = len(batch), math.sqrt(2 * self.rho * pick * c.selection)
        level = best_level(n, u, self.dim, c.top)
        batch.cap(level)
        for turn in range(k):
            if turn and inner:
                self.scale = bound = self._quantile(batch, inner, c.lam2)
                if bound > 1.5 * least:
                    self.belief = best
                    return
                if bound < least:
                    least, best = bound, self.belief.copy()
            self._add(batch, bound, pick, level)
            if self.failed >= max(c.fails, c.frac * k):
                return

    def _add(self, batch: Batch, bound: float, share: float, level: float) -> None:
        c, n, b = self.config, len(batch), self.belief
        scale = bound / MEDIAN
        m = len(b)
        radius, slope = math.sqrt(m), passed(level)
        blur = 2 * level * radius / math.sqrt(2 * self.rho * share * c.row) / (n * slope)
        row_share = share * c.row if m and blur < c.useful else 0.0
        feature, found, sigma = batch.newcomer(b.support, b.theta, level * scale, c.selection, share - row_share)
        if row_share:
            row, noise = batch.products(b.support, feature, radius, row_share)
            variance = (noise**2 + n * power(level)) / (n * slope) ** 2
            row = row / (n * slope)
        else:
            row, variance = np.zeros(m), 1e6
        b.add(feature, row, 1 / variance, scale**2)
        # kalman
        gram = b.gram()
        unit = n * passed(level) * slope
        slopes = unit * gram[-1:] / gram[-1, -1]
        spread = n * power(level) ** 2 * scale**2
        unsure = unit**2 * float(b.uncertain()[-1] @ np.diagonal(b.covariance))
        unsure -= unit**2 * b.uncertain()[-1, -1] * b.covariance[-1, -1]
        b.measure(slopes, np.array([found]), np.array([[sigma**2 + spread + unsure]]))
        ratio = abs(b.theta[-1]) / b.deviations()[-1]
        if ratio < c.fail:
            self.failed += 1
        else:
            self.found += 1
        if ratio < c.drop:
            b.drop(len(b) - 1)

    def _refine(self, batch: Batch, bound: float, share: float) -> None:
        c, n, b = self.config, len(batch), self.belief
        m, scale = len(b), bound / MEDIAN
        if not m:
            return
        level = c.top
        radius = math.sqrt(m)
        blur = math.sqrt(2) * m / math.sqrt(2 * self.rho * share * c.hess) / n
        hess = c.hess if blur < 1.4 * c.useful else 0.0
        found, sigma = batch.gradient(b.support, b.theta, level * scale, radius, share * (1 - hess))
        if hess:
            hessian, noise = batch.hessian(b.support, radius, share * hess)
            variances = (noise**2 / 2 * (1 + np.eye(m)) + n * (1 + np.eye(m))) / n**2
            b.weigh(hessian / n, variances)
        gram = b.gram()
        unit = n * passed(level)
        spread = n * power(level) * scale**2
        unsure = unit**2 * b.uncertain() @ np.diagonal(b.covariance)
        b.measure(unit * gram, found, sigma**2 * np.eye(m) + spread * gram + np.diag(unsure))
        while len(b):
            ratio = np.abs(b.theta) / b.deviations()
            worst = int(ratio.argmin())
            if ratio[worst] >= c.end:
                break
            b.drop(worst)


def best_level(n: int, u: float, dim: int, top: float) -> float:
    """Return the clip level, in standard deviations, at which the smallest coefficient shows."""
    def smallest(level: float) -> float:
        noise = 2 * level**2 / u * math.log(dim) if u else math.inf
        return (noise + math.sqrt(n) * power(level) * math.sqrt(2 * math.log(dim))) / passed(level) ** 2
    return min((level for level in CLIPS if level <= top), key=smallest)


CLIPS = (0.25, 0.35, 0.5, 0.75, 1.0, 1.5)


def own_scale(x: Array, y: Array) -> tuple[Array, Array]:
    """Return a record in units of its own features' root mean square: a function of this record alone."""
    size = np.sqrt(np.vecdot(x, x) / x.shape[1])
    size = np.where(size > 1e-100, size, 1.0)
    return x / size[:, None], y / size
