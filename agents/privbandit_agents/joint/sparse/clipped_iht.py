"""Clipped iterative hard thresholding: a sparse bandit that learns at budgets where gradient steps drown in noise.

The project's own algorithm for the setting of Sunrit Chakraborty, Saptarshi Roy and Debabrota Basu, "FLIPHAT: Joint
Differential Privacy for High Dimensional Sparse Linear Bandits", 2024;
the proof is in docs/privacy/clipped-contributions.md.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privbandit_agents.base.agent import (
    Array,
    CentralAgent,
    Guarantee,
    arms_with_features,
    n_arms,
    uniforms_per_user,
)
from privbandit_agents.base.arms import played, stacked_records
from privbandit_agents.joint.sparse.clipping import Clip, Presumed, largest_of, passed
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.contributions.moments import LIMIT
from privbandit_agents.privacy.mechanisms.additive import Gaussian
from privbandit_envs.validate import above, count, positive

CAP = 3.0
"""Absolute residuals are averaged up to so many presumed scales."""
CHUNK = 64
"""Users whose contributions are formed at once, so that they stay in cache."""
BIAS = 0.09
"""Share of the prior variance that a release leaves, since clipping and greedy play are accounted for roughly."""


@dataclass(frozen=True)
class Config:
    """Settings of clipped IHT; scales are public knowledge, wrong ones cost regret and no privacy.

    Attributes:
        epsilon: privacy budget, > 0; infinity adds no noise. Not used if ``rho`` is given.
        delta: of (epsilon, delta), in (0, 1).
        rho: zCDP budget instead of epsilon.
        horizon: number of users T; default: the environment's. The first batch ends at T/4 at the latest.
        s: sparsity guess, the largest support.
        new: number of coordinates that a batch may add.
        detect: smallest coefficient worth a release, in units of ``reward_scale / feature_scale``.
        growth: length of a batch over that of the one before, > 1.
        first: length of the first batch; default: when ``new`` coefficients of size ``detect`` show.
        reward_scale: standard deviation of rewards under random play, > 0.
        feature_scale: standard deviation of a feature, > 0.
        selection: share of the budget of a release that goes into selection, in (0, 1).
        scale_share: share of the budget for the scale of the residuals, in (0, 1).
    """

    epsilon: float = 1.0
    delta: float = 0.01
    rho: float | None = None
    horizon: int | None = None
    s: int = 10
    new: int = 3
    detect: float = 0.7
    growth: float = 1.25
    first: int | None = None
    reward_scale: float = 1.0
    feature_scale: float = 1.0
    selection: float = 0.8
    scale_share: float = 0.05

    def __post_init__(self) -> None:
        """Check the ranges; budgets are checked by the ledger, shares by the mechanisms."""
        for name in ("horizon", "first"):
            if getattr(self, name) is not None:
                count(**{name: getattr(self, name)})
        count(s=self.s)
        count(new=self.new)
        above(1, growth=self.growth)
        positive(detect=self.detect)
        positive(reward_scale=self.reward_scale)
        positive(feature_scale=self.feature_scale)
        share(selection=self.selection)
        share(scale_share=self.scale_share)


class ClippedIHT(CentralAgent[Config, Array]):
    """Batches of users, each used once: their clipped contributions are summed, and the noisy sum corrects theta.

    A user contributes g_j = clip(x_j) clip(y - x . theta), a gradient of which no factor can exceed what is typical, so
    that noise need only cover the typical. The support of theta is public: its coordinates are released at the price of
    Gaussian noise, new ones are selected among the rest, and the s largest stay. A released coefficient moves theta by
    the share prior/(prior + noise) of what was found, so that batches add up and no step overshoots. Theta is kept
    through all batches, residuals shrink with its error, and with them clip and noise; their scale is released too.

    *Formal guarantees.* (epsilon, delta)-joint DP (or rho-zCDP) under replacement of a user's whole record, for any
    record whatever. Entries that are not finite make the record (0, 0), entries are clipped to 10^6 before any
    product, and then |g_j| <= feature_limit residual_limit =: b in every coordinate by construction, so the sum has
    sup-norm sensitivity 2 b, attained. The sum of min(|residual|, 3 tau) has sensitivity 3 tau. Both are released once
    a batch, for rho together; clip limits, support and theta are those of earlier batches; batch ends are functions of
    public constants. So batches compose in parallel (adaptively), and actions read releases only.

    The release is (theta, prior variance of its coefficients), shape (2, d).
    """

    Config = Config
    fixed: ClassVar[frozenset[str]] = CentralAgent.fixed | {"guarantee", "rho", "clip"}

    def begin(self) -> None:
        """Declare the budget and begin the first batch."""
        super().begin()
        config = self.config
        assert self.observation_space.shape is not None
        self.dim = self.observation_space.shape[1]
        given_rho = config.rho is not None
        self.rho = config.rho if given_rho else epsilon_to_rho(config.epsilon, config.delta)
        self.ledger = Ledger(None if given_rho else config.epsilon, config.delta, config.rho)
        self.guarantee = Guarantee(
            notion="joint",
            epsilon=None if given_rho else config.epsilon,
            delta=None if given_rho else config.delta,
            rho=self.rho,
            protects="context, action and reward of every user, from all others",
            reference="docs/privacy/clipped-contributions.md",
        )
        self.noise = self.rng.spawn(1)[0]
        self.release = np.zeros((2, self.dim))
        self.residual_scale = float(config.reward_scale)
        self.batch, self.users, self.length = 0, 0, self._first()
        self.total, self.deviation = np.zeros(self.dim), 0.0
        self.restored()

    plays = staticmethod(arms_with_features)

    def restored(self) -> None:
        """Choose the clip of the batch: a function of releases and public constants."""
        self.clip = self._choose_clip()

    def _choose_clip(self) -> Clip:
        """Return the clip that lets the batch add as many coordinates as are detectable together."""
        presumed = self._presumed()
        room = min(self.config.new, self.config.s, self.dim - presumed.kept)
        for new in range(room, 0, -1):
            clip = presumed.best(self.length, new)
            if presumed.kept == 0 or presumed.detectable(clip) < self._worthwhile():
                return clip
        return presumed.best(self.length, 0)

    def select_action(self, context: Array) -> Any:
        """Return argmax x . theta, an arm at random before the first release."""
        theta = self.release[0]
        support = np.flatnonzero(theta)
        if not len(support):
            return (uniforms_per_user(self.rng, context, (0, 0)) * n_arms(self.action_space)).astype(int)[()]
        with np.errstate(over="ignore", invalid="ignore"):  # of a record that is not finite: its own user's loss
            scores = np.vecdot(context.take(support, axis=-1), theta[support].astype(context.dtype))
        return scores.argmax(axis=-1)

    def curate(self, context: Array, action: Any, feedback: Any) -> Array | None:
        """Add up clipped contributions; release a new theta when the batch is full."""
        contexts, actions, rewards = stacked_records(context, action, feedback, self.dim)
        released, done = None, 0
        while done < len(contexts):
            part = slice(done, done + min(self.frozen_rounds(), CHUNK))
            self._add(*sanitised(played(contexts[part], actions[part]), rewards[part]))
            done = min(part.stop, len(contexts))
            if self.users == self.length:
                released = self.release = self._correct()
        return released

    def frozen_rounds(self) -> int:
        """Return the number of users left in the batch."""
        return self.length - self.users

    def _add(self, x: Array, y: Array) -> None:
        theta = self.release[0]
        support = np.flatnonzero(theta)
        on_support = x.take(support, axis=1)  # row by row in memory, so that users do not depend on their group
        residual = y - np.vecdot(on_support, theta[support])
        if len(support):
            x[:, support] = whitened(on_support, theta[support], n_arms(self.action_space))
        np.clip(x, -self.clip.feature_limit, self.clip.feature_limit, out=x)
        x *= np.clip(residual, -self.clip.residual_limit, self.clip.residual_limit)[:, None]
        x[0] += self.total
        self.total = np.add.reduce(x, axis=0)
        deviations = np.minimum(np.abs(residual), CAP * self.residual_scale)
        self.deviation = float(np.add.accumulate(np.append(self.deviation, deviations))[-1])  # in order, as rows are
        self.users += len(x)

    def _correct(self) -> Array:
        """Release the batch: new coefficients, their variances, and the scale of the residuals to come."""
        measured = self._measure_scale()
        before = self._uncertainty()
        self.release = self._corrected(measured)
        unexplained = max(measured**2 - before, 0.0) + self._uncertainty()
        floor = max(0.2 * self.residual_scale, 0.01 * self.config.reward_scale)
        self.residual_scale = max(math.sqrt(unexplained), floor)
        self.batch, self.users, self.length = self.batch + 1, 0, math.ceil(self.length * self.config.growth)
        self.total, self.deviation = np.zeros(self.dim), 0.0
        self.restored()
        return self.release

    def _corrected(self, measured: float) -> Array:
        """Release the sum and return (theta, variances) with the s largest coefficients."""
        (theta, variance), clip, config = self.release.copy(), self.clip, self.config
        self.ledger.spend(clip.mechanism.cost, group=self.batch)
        found, noisy = clip.mechanism.release(self.total, self.noise, np.flatnonzero(variance))
        variance[found] = np.where(variance[found] > 0, variance[found], self._prior())
        slope = clip.slope * passed(clip.residual_limit / measured) / passed(clip.residual_limit / self.residual_scale)
        per_coefficient = clip.users * slope * config.feature_scale**2
        error = (clip.mechanism.sigma**2 + clip.sampling**2) / per_coefficient**2
        trust = variance[found] / (variance[found] + error)
        theta[found] += trust * noisy / per_coefficient
        variance[found] *= 1 - trust + BIAS * trust
        smallest = np.argsort(-np.abs(theta[found]), kind="stable")[config.s :]
        theta[found[smallest]] = variance[found[smallest]] = 0.0
        return np.stack([theta, variance])

    def _measure_scale(self) -> float:
        """Release the mean of min(|residual|, 3 tau); return the standard deviation it implies, if it is precise."""
        tau, n, mechanism = self.residual_scale, self.length, self._scale_mechanism()
        self.ledger.spend(mechanism.cost, group=self.batch)
        noisy = float(mechanism.release(np.array(self.deviation), self.noise)) / n
        if mechanism.sigma / n > 0.3 * tau:
            return tau
        return min(max(noisy * math.sqrt(math.pi / 2), 0.3 * tau), 1.5 * tau)

    def _scale_mechanism(self) -> Gaussian:
        """Return what releases the sum of min(|residual|, 3 tau), of sensitivity 3 tau."""
        return Gaussian.from_rho(self.rho * self.config.scale_share, CAP * self.residual_scale)

    def _presumed(self) -> Presumed:
        rho = self.rho * (1 - self.config.scale_share)
        kept = int(np.count_nonzero(self.release[1]))
        scales = self.config.feature_scale, self.residual_scale
        return Presumed(self.dim, *scales, rho, self.config.selection, kept)

    def _first(self) -> int:
        """Return the length of the first batch."""
        config = self.config
        latest = max(1, (config.horizon or 20_000) // 4)
        new = min(config.new, config.s, self.dim)
        return config.first or min(latest, self._presumed().users_needed(new, self._worthwhile()))

    def _worthwhile(self) -> float:
        """Return the smallest coefficient worth a release."""
        return float(self.config.detect * self.config.reward_scale / self.config.feature_scale)

    def _prior(self) -> float:
        """Return the variance of a new coefficient before it is measured."""
        return 0.2 * float(self.config.reward_scale / self.config.feature_scale) ** 2

    def _uncertainty(self) -> float:
        """Return the variance of x . (beta - theta) presumed from the releases; before the first, of the rewards."""
        known = float(self.release[1].sum() * self.config.feature_scale**2)
        return known or float(self.config.reward_scale**2)


def sanitised(features: Array, reward: Any) -> tuple[Array, Array]:
    """Return features and rewards with entries in +-10^6; a record that is not finite becomes (0, 0)."""
    y = np.asarray(reward, dtype=np.float64)
    bad = ~(np.isfinite(features).all(axis=-1) & np.isfinite(y))
    x = np.clip(features, -LIMIT, LIMIT)
    x[bad] = 0.0
    return x, np.clip(np.where(bad, 0.0, y), -LIMIT, LIMIT)


def whitened(x: Array, theta: Array, arms: int) -> Array:
    """Return x - (1 - 1/m) u (u . x), u = theta/|theta|, where m = E max_K^2 is the second moment along u.

    Greedy play picks the largest of K along u, which a step would overshoot by the factor m (2.7 for ten arms).
    """
    direction = theta / np.linalg.norm(theta)
    excess = (1 - 1 / largest_of(arms)) * np.vecdot(x, direction)
    shrunk: Array = x - excess[:, None] * direction
    return shrunk


def share(**named: float) -> None:
    """Raise ValueError unless the one keyword's value lies in (0, 1)."""
    ((name, value),) = named.items()
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie in (0, 1); got {value!r}.")
