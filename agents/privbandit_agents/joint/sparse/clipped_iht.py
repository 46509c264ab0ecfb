"""Clipped iterative hard thresholding: a sparse bandit that learns at budgets where gradient steps drown in noise.

The project's own algorithm for the setting of Sunrit Chakraborty, Saptarshi Roy and Debabrota Basu, "FLIPHAT: Joint
Differential Privacy for High Dimensional Sparse Linear Bandits", 2024. It grew from the noisy hard thresholding of
T. Tony Cai, Yichen Wang and Linjun Zhang, "The Cost of Privacy: Optimal Rates of Convergence for Parameter Estimation
with Differential Privacy", Annals of Statistics 2021; bounds for clipping that follow releases are those of
Galen Andrew, Om Thakkar, H. Brendan McMahan and Swaroop Ramaswamy, "Differentially Private Learning with Adaptive
Clipping", NeurIPS 2021. The proof is in docs/privacy/clipped-contributions.md.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from privbandit_agents.base.agent import Action, Array, CentralAgent, arms_with_features, n_arms, next_change
from privbandit_agents.base.arms import played
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.settings import Budget, Count, Growth, Open01, Positive
from privbandit_agents.joint.settings import DELTA, JointSettings
from privbandit_agents.joint.sparse.clipping import Presumed, largest_of, passed, with_rounding
from privbandit_agents.joint.sparse.estimate import best_by_support, clipped
from privbandit_agents.privacy.accounting.costs import zcdp
from privbandit_agents.privacy.mechanisms.discrete import GridGaussian
from privbandit_agents.privacy.vectors import LIMIT

CAP = 3.0
"""Absolute residuals are averaged up to this number of presumed scales."""


@dataclass(frozen=True)
class Config(JointSettings):
    """Settings of clipped IHT, besides the budget; scales are public knowledge, wrong ones cost regret and no privacy.

    Attributes:
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
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.
    """

    epsilon: Budget = 1.0
    delta: Open01 = DELTA
    horizon: Count | None = None
    s: Count = 10
    new: Count = 3
    detect: Positive = 0.7
    growth: Growth = 1.25
    first: Count | None = None
    reward_scale: Positive = 1.0
    feature_scale: Positive = 1.0
    selection: Open01 = 0.8
    scale_share: Open01 = 0.05
    noise: Literal["numpy", "secure"] = "numpy"


class ClippedIHT(CentralAgent[Config, Array]):
    """Batches of users, each used once: their clipped contributions are summed, and the noisy sum corrects theta.

    Algorithm:
        1. theta <- 0, tau <- reward_scale; n <- length of the first batch.
        2. Choose clip levels b_x, b_y from (n, tau, support): those that detect the smallest new coefficients.
        3. Play argmax x . theta for n users, at random while theta = 0. Add up clip(x_j, b_x) clip(y - x . theta, b_y)
           in every coordinate j (``_add``), and min(|y - x . theta|, 3 tau).
        4. Release the mean of the latter with Gaussian noise: the scale of the residuals.
        5. Release the sum on the support with Gaussian noise; select up to ``new`` other coordinates by noisy size and
           release them too (``GumbelTopK``).
        6. Move a released coefficient by prior / (prior + noise) of its measured error, and shrink its prior variance.
        7. Keep the s largest coefficients; tau <- scale presumed after the move; n <- growth n; go to 2.

    No factor of a contribution, which is a gradient, exceeds its typical size, so noise need only cover that. The
    support is public: its coordinates are released at the price of Gaussian noise alone. Because of the share in step
    6 batches add up and no step overshoots. Residuals shrink with the error of theta, and with them clip and noise.

    *Formal guarantees.* (epsilon, delta)-joint DP (or rho-zCDP) under replacement of a user's whole record, for any
    record whatever. Entries that are not finite make the record (0, 0), entries are clipped to 10^6 before any
    product, and then |g_j| <= feature_limit residual_limit =: b in every coordinate by construction, so the sum has
    sup-norm sensitivity 2 b, attained. The sum of min(|residual|, 3 tau) has sensitivity 3 tau. Both are released once
    a batch, for rho together; clip limits, support and theta are those of earlier batches; batch ends are functions of
    public constants. So batches compose in parallel (adaptively), and actions read releases only. It holds for the
    numbers that leave: selection and noise are exact (``GumbelTopK``, ``GridGaussian``), and sensitivities cover the
    rounding of the sums.

    The release is (theta, prior variance of its coefficients), shape (2, d).
    """

    Config = Config
    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        config = self.config
        self.dim = self.context_shape[1]
        self.rho = config.concentrated()
        self.ledger = config.ledger()
        self.guarantee = config.guarantee("docs/privacy/clipped-contributions.md", arithmetic="exact")
        self.rng_noise = self.rng.spawn(1)[0]
        self.release = np.zeros((2, self.dim))
        self.residual_scale = float(config.reward_scale)
        latest = max(1, config.counted(config.horizon or 20_000) // 4)
        new = min(config.new, config.s, self.dim)
        first = config.first or min(latest, self._presumed().users_needed(new, self._worthwhile()))
        self.batch, self.users, self.length = 0, 0, first
        self.total, self.deviation = np.zeros(self.dim), 0.0
        self.restored()

    def restored(self) -> None:
        """Clip so that the batch adds the coordinates that are detectable together; no data are read."""
        presumed = self._presumed()
        for new in range(min(self.config.new, self.config.s, self.dim - presumed.kept), -1, -1):
            self.clip = presumed.best(self.length, new)
            if presumed.kept == 0 or new == 0 or presumed.detectable(self.clip) < self._worthwhile():
                return

    def select_action(self, context: Array) -> Action:
        return best_by_support(context, self.release[0], self.ties)

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        """Add up clipped contributions; release a new theta when the batch is full."""
        released = None
        records = contexts, actions, feedback
        for x, arms, rewards in blocks(self.frozen_rounds, *records, most=64):  # users that stay in cache
            self._add(*clipped(played(x, arms), rewards, LIMIT, LIMIT))
            if self.users == self.length:
                try:
                    released = self._correct()
                finally:
                    self.restored()  # clips for what was released, whatever is raised
        return released

    def frozen_rounds(self) -> int:
        return self.length - self.users

    def _add(self, x: Array, y: Array) -> None:
        """Add the contributions of users with sanitized features (n, d) and rewards (n,); x is overwritten."""
        theta = self.release[0]
        support = np.flatnonzero(theta)
        # what theta leaves unexplained
        on_support = x.take(support, axis=1)  # row by row in memory, so that users do not depend on their group
        residual = y - np.vecdot(on_support, theta[support])
        if len(support):
            x[:, support] = whitened(on_support, theta[support], n_arms(self.action_space))
        # the clipped gradients
        np.clip(x, -self.clip.feature_limit, self.clip.feature_limit, out=x)
        x *= np.clip(residual, -self.clip.residual_limit, self.clip.residual_limit)[:, None]
        # sums in order, as rows are, so that users may be grouped at will
        x[0] += self.total
        self.total = np.add.reduce(x, axis=0)
        deviations = np.minimum(np.abs(residual), CAP * self.residual_scale)
        self.deviation = float(np.add.accumulate(np.append(self.deviation, deviations))[-1])
        self.users += len(x)

    def _correct(self) -> Array:
        """Release the batch: new coefficients, their variances, and the scale of the residuals to come."""
        total, deviation = self.total, self.deviation
        self.batch, self.users, self.total, self.deviation = self.batch + 1, 0, np.zeros(self.dim), 0.0
        measured = self._measure_scale(np.array(deviation))
        before = self._uncertainty()
        self.release = self._corrected(total, measured)
        unexplained = max(measured**2 - before, 0.0) + self._uncertainty()
        floor = max(0.2 * self.residual_scale, 0.01 * self.config.reward_scale)
        self.residual_scale = max(math.sqrt(unexplained), floor)
        self.length = next_change(self.length, self.config.growth)
        return self.release

    def _corrected(self, total: Array, measured: float) -> Array:
        """Release the sum and return (theta, variances) with the s largest coefficients."""
        (theta, variance), clip, config = self.release.copy(), self.clip, self.config
        # the release, on the support and on new coordinates
        mechanism = clip.mechanism
        draw = partial(mechanism.release, total, self.rng_noise, np.flatnonzero(variance))
        found, noisy = self.publish(mechanism, total, draw, zcdp(mechanism.rho), self.batch)
        prior = 0.2 * (config.reward_scale / config.feature_scale) ** 2
        variance[found] = np.where(variance[found] > 0, variance[found], prior)
        # what a unit of error adds to the sum, and how noisy the sum is in these units
        slope = clip.slope * passed(clip.residual_limit / measured) / passed(clip.residual_limit / self.residual_scale)
        per_coefficient = clip.users * slope * config.feature_scale**2
        error = (mechanism.sigma**2 + clip.sampling**2) / per_coefficient**2
        # the share of it to believe
        trust = variance[found] / (variance[found] + error)
        theta[found] += trust * noisy / per_coefficient
        variance[found] *= 1 - trust + 0.09 * trust  # clipping and greedy play are accounted for roughly
        # the s largest stay
        smallest = np.argsort(-np.abs(theta[found]), kind="stable")[config.s :]
        theta[found[smallest]] = variance[found[smallest]] = 0.0
        return np.stack([theta, variance])

    def _measure_scale(self, exact: Array) -> float:
        """Release the mean of min(|residual|, 3 tau); return the standard deviation it implies, if it is precise."""
        tau, n, mechanism = self.residual_scale, self.length, self._scale_mechanism()
        draw = partial(mechanism.release, exact, self.rng_noise)
        noisy = float(self.publish(mechanism, exact, draw, zcdp(mechanism.rho), self.batch)) / n
        if mechanism.sigma / n > 0.3 * tau:
            return tau
        return min(max(noisy * math.sqrt(math.pi / 2), 0.3 * tau), 1.5 * tau)

    def _scale_mechanism(self) -> GridGaussian:
        """Return the release of the sum of min(|residual|, 3 tau), of sensitivity 3 tau."""
        bound = with_rounding(CAP * self.residual_scale, self.length)
        return GridGaussian.from_rho(self.rho * self.config.scale_share, bound, self.config.noise)

    def _presumed(self) -> Presumed:
        config, kept = self.config, int(np.count_nonzero(self.release[1]))
        rho = self.rho * (1 - config.scale_share)
        return Presumed(self.dim, config.feature_scale, self.residual_scale, rho, config.selection, kept, config.noise)

    def _worthwhile(self) -> float:
        return self.config.detect * self.config.reward_scale / self.config.feature_scale

    def _uncertainty(self) -> float:
        """Return the variance of x . (beta - theta) presumed from the releases; before the first, of the rewards."""
        known = float(self.release[1].sum() * self.config.feature_scale**2)
        return known or float(self.config.reward_scale**2)


def whitened(x: Array, theta: Array, arms: int) -> Array:
    """Return x - (1 - 1/m) u (u . x), u = theta/|theta|, where m = E max_K^2 is the second moment along u.

    Greedy play picks the largest of K along u, which a step would overshoot by the factor m (2.7 for ten arms).
    """
    direction = theta / np.linalg.norm(theta)
    shrunk: Array = x - ((1 - 1 / largest_of(arms)) * np.vecdot(x, direction))[:, None] * direction
    return shrunk
