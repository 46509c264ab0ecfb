"""Learning from a batch: features one by one, then all coefficients together, then the best theta of three.

It reads a batch through its releases alone; whatever it does with them is post-processing.
"""

import math

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.joint.sparse.estimate import passed, power
from privbandit_agents.joint.sparse.pursuit.belief import Belief
from privbandit_agents.joint.sparse.pursuit.plan import Plan, share_of_hessian, share_of_products
from privbandit_agents.joint.sparse.pursuit.releases import LEVELS, Batch

Floats = NDArray[np.float64]
MEDIAN = 0.6745
"""Median of |Z| of a standard Gaussian; scales are medians."""
BONUS = np.array([4.0, 2.0, 0.0])
"""Public weights, in units of noise, of the newest theta, of that before the refinement, and of the last batch's."""


class Pursuit:
    """Matching pursuit on the releases of batches.

    Attributes:
        belief: about the coefficients found.
        scale: median of the absolute residuals, as last released.
        least: the smallest one that a batch ended with.
        found: how many features the last batch has found.
        failed: how many it has tried in vain.
    """

    def __init__(self, scale: float) -> None:
        self.belief, self.scale, self.least = Belief(), scale, math.inf
        self.found, self.failed = 0, 0

    def learn(self, batch: Batch, plan: Plan) -> None:
        """Learn from a batch."""
        known = len(self.belief)
        self.belief.covariance = self.belief.covariance * 1.1  # variances grow from batch to batch
        start = self.belief.copy()
        self._search(batch, plan)
        if not known:
            return
        self._measure_scale(batch, plan.last)
        if self.scale > 1.3 * self.least:  # residuals have grown: something went wrong
            self.belief.widen((self.scale**2 - self.least**2) / MEDIAN**2)
        self.least = min(self.least, self.scale)
        middle = self.belief.copy()
        if len(middle):
            self._refine(batch, batch.left - plan.choice)
        candidates = self.belief, middle, start
        pairs = [(one.support, one.theta) for one in candidates]
        self.belief = candidates[batch.choose(pairs, self.scale, BONUS, batch.left)]

    def _search(self, batch: Batch, plan: Plan) -> None:
        """Try features one by one, until too many have failed."""
        self.found = self.failed = 0
        if not plan.tries:
            return
        batch.cap(plan.level)
        self._measure_scale(batch, plan.scale, 1.5 if len(self.belief) else 0.35)  # flat at first
        least, best = self.scale, self.belief.copy()
        for turn in range(plan.tries):
            if turn and plan.again:
                self._measure_scale(batch, plan.again)
                if self.scale > 1.5 * least:
                    self.belief = best
                    return
                if self.scale < least:
                    least, best = self.scale, self.belief.copy()
            self._try(batch, plan)
            if self.failed >= max(3, 0.5 * plan.tries):  # three failures, and half of all tries, end the search
                return

    def _measure_scale(self, batch: Batch, share: float, decay: float = 1.5) -> None:
        """Release the scale; its log weight falls by ``decay`` from octave to octave, away from the last one."""
        prior = -decay * np.abs(np.log2(LEVELS / self.scale))
        self.scale = batch.quantile(self.belief.support, self.belief.theta, 0.5, prior, share)

    def _try(self, batch: Batch, plan: Plan) -> None:
        """Select a feature, learn its coefficient, and drop it if that may as well be 0."""
        belief, n, scale, level = self.belief, len(batch), self.scale / MEDIAN, plan.level
        beside = share_of_products(n, len(belief), level, batch.rho * plan.feature)
        share = plan.feature * (1 - beside)
        feature, found, sigma = batch.newcomer(belief.support, belief.theta, level * scale, plan.selection, share)
        products, variance = np.zeros(len(belief)), math.inf
        if beside:
            radius, unit = math.sqrt(len(belief)), n * passed(level)
            noisy, noise = batch.products(belief.support, feature, radius, plan.feature * beside)
            products, variance = noisy / unit, (noise**2 + n * power(level)) / unit**2
        belief.add(feature, products, variance, scale**2)
        gram, unit = belief.gram(), n * passed(level) ** 2
        sampling = n * (power(level) * scale) ** 2
        error = unit**2 * (belief.uncertain()[-1, :-1] @ np.diagonal(belief.covariance)[:-1])
        noise_of = np.array([[sigma**2 + sampling + error]])
        belief.measure(unit * gram[-1:] / gram[-1, -1], np.array([found]), noise_of)
        clear = belief.clearness()[-1]
        self.found, self.failed = self.found + (clear >= 1.5), self.failed + (clear < 1.5)  # standard deviations
        if clear < 1.0:
            belief.drop(len(belief) - 1)

    def _refine(self, batch: Batch, share: float) -> None:
        """Measure all coefficients together, and drop those that may as well be 0."""
        belief, n, m, scale = self.belief, len(batch), len(self.belief), self.scale / MEDIAN
        radius, beside = math.sqrt(m), share_of_hessian(n, m, batch.rho * share)
        refined = 0.75  # where residuals are clipped, in standard deviations
        bound = refined * scale
        found, sigma = batch.gradient(belief.support, belief.theta, bound, radius, share * (1 - beside))
        if beside:
            hessian, noise = batch.hessian(belief.support, radius, share * beside)
            belief.weigh(hessian / n, (noise**2 / 2 + n) * (1 + np.eye(m)) / n**2)
        gram, unit = belief.gram(), n * passed(refined)
        error = unit**2 * (belief.uncertain() @ np.diagonal(belief.covariance))
        sampling = n * power(refined) * scale**2
        belief.measure(unit * gram, found, sampling * gram + np.diag(sigma**2 + error))
        while len(belief) and belief.clearness().min() < 1.5:  # standard deviations
            belief.drop(int(belief.clearness().argmin()))
