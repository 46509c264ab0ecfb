"""Locally private sparse bandits: thresholds find the support, and users report on it alone from then on.

After the abstract of Apurv Shukla, "Differentially Private High-dimensional Bandits", 2024: hard thresholding, and a
support that is thresholded anew in every episode, under local privacy. The text was not at hand; steps and proof are
this project's own. The release is the l2-ball mechanism of John Duchi, Michael Jordan and Martin Wainwright, "Minimax
Optimal Procedures for Locally Private Estimation", JASA 2018.
"""

import math
from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.settings import Count, Positive
from privbandit_agents.base.spaces import Action, Array, Feedback
from privbandit_agents.local.linear.moments import MomentAgent, MomentSettings
from privbandit_agents.local.sums import Device
from privbandit_agents.privacy.contributions.moments import Lifted
from privbandit_agents.privacy.contributions.support import Support, in_own_units, shortened
from privbandit_agents.privacy.vectors import LIMIT, smat

SCALE, SEARCH, AGAIN, GRAM, SCORE = range(5)
"""Kinds of reports, in the order of a batch."""
SHARES = (0.08, 0.32, 0.08, 0.12, 0.4)
"""Shares of a batch for each."""


@dataclass(frozen=True)
class Config(MomentSettings):
    """Settings of ``ldp-lasso``, beside those in ``MomentSettings``.

    Attributes:
        horizon: number of users T; default: the environment's. The first batch is at most T/4; more users may come.
        first: users of the first batch; default: 200 + 6 d / min(1, epsilon)^2.
        s: largest support.
        reward_scale: where the search for the scale of residuals starts, > 0.
    """

    horizon: Count | None = None
    first: Count | None = None
    s: Count = 10
    reward_scale: Positive = 1.0


class LDPLasso(MomentAgent[Config]):
    """Batches of users, of which some search all features, and some report on the support alone.

    Algorithm:
        1. S <- {}, theta <- 0, m <- 0, b <- ``reward_scale``. Devices divide their record by the root mean square of
           its features; r = y - x . theta. All play argmax x . (theta on S, and elsewhere m, shrunk by its noise).
        2. Some users report whether |r| > b, which gives q, the share of residuals that are not clipped.
        3. Some report clip(r / b) x / sqrt(d) by one private direction. Their mean, times b sqrt(d) / q, estimates
           beta - theta; m <- the mean of all such estimates of beta, weighted by precision.
        4. Hard thresholding: features with |m_j| > 1.2 sqrt(2 log(2 d)) sd join S, at most s in all;
           theta_j = m_j there.
        5. As step 2; then some report svec(u u'), and others clip(r / b) u, u = x_S in the unit ball: by them theta on
           S takes a Newton step, weighted by its noise (``improved``).
        6. Features with |theta_j| < 1.5 sd leave S; b <- exp(1 - 2 q) b; the next batch is larger; go to 2.

    So a report on S has the noise of |S| coordinates, not of d.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by a
    randomizer with likelihood ratio at most e^epsilon for any two vectors of the unit ball. The kind of a report,
    theta, S and b follow from earlier reports and public constants. A record that is not finite counts as (0, 0);
    entries are clipped to 10^6. Proof: docs/privacy/sparse-supports.md.

    Attributes:
        kind: of the reports of this run.
        search: m, and the variance of its entries, shape (d + 1,).
        told: the last answers within the batch: the share q, and the mean of u u' by ``svec``.
    """

    Config = Config
    proof = "docs/privacy/sparse-supports.md"
    asks_anew = True  # reports are read as what the run asked for

    def begin(self) -> None:
        self.kind, self.support, self.b = SCALE, Support(), self.config.reward_scale
        super().begin()
        self.scorer = np.zeros((self.dim, 1))
        self.search = np.append(np.zeros(self.dim), 1e12)
        self.share, self.told = 0.5, np.zeros(0)
        config = self.config
        wanted = 200 + 6 * self.dim / min(1.0, config.epsilon) ** 2
        latest = config.counted(config.horizon or 20_000) / 4
        self.batch = config.first or max(40, math.ceil(min(wanted, latest)))
        self.run = self.refit_at = self.length_of(SCALE)

    def length_of(self, kind: int) -> int:
        """Return how many users of this batch make reports of a kind, 0 of those on an empty support."""
        if kind > SEARCH and not len(self.support):
            return 0
        share = SHARES[kind] if len(self.support) or kind == SCALE else 1 - SHARES[SCALE]
        return max(1, math.ceil(share * self.batch))

    def opened(self, kind: int | None = None) -> Device:
        few, kind = len(self.support), self.kind if kind is None else kind
        size = {SCALE: 1, AGAIN: 1, SEARCH: self.dim, GRAM: few * (few + 1) // 2, SCORE: few}[kind]
        return self.directions(size)

    def restored(self) -> None:
        self.device = self.opened()

    # on the devices

    def lift(self, context: Array, action: Action, feedback: Feedback) -> Lifted:
        """Return what the users of this run report."""
        x, y = np.asarray(self.features(context, action), np.float64), np.atleast_1d(np.asarray(feedback, np.float64))
        good = np.isfinite(x).all(axis=1) & np.isfinite(y)
        x, y = np.where(good[:, None], np.clip(x, -LIMIT, LIMIT), 0.0), np.where(good, np.clip(y, -LIMIT, LIMIT), 0.0)
        x, y = in_own_units(x, y)
        on_support = x.take(self.support.chosen, axis=1)
        residuals = (y - np.vecdot(on_support, self.support.theta)) / self.b
        if self.kind in (SCALE, AGAIN):
            return Lifted(np.where(np.abs(residuals) > 1, 1.0, -1.0)[:, None], x[:, :0])
        if self.kind == GRAM:
            return Lifted(x[:, :0], shortened(on_support), 1.0)
        told = np.clip(residuals, -1.0, 1.0)[:, None]
        return Lifted(told * (x / math.sqrt(self.dim) if self.kind == SEARCH else shortened(on_support)), x[:, :0])

    # on the server

    def next_refit(self) -> int:
        return self.users + self.run

    def learn(self) -> None:
        """Learn from the run's reports, and open the next run."""
        mean, self.total = self.total / self.run, np.zeros_like(self.total)
        noise = math.sqrt(max(self.device.deviation**2, 1 / self.device.entries) / self.run)
        if self.kind in (SCALE, AGAIN):
            self.share = min(max((1 - float(mean[0])) / 2, 0.35), 0.95)
        elif self.kind == SEARCH:
            self.searched(mean, noise)
        elif self.kind == GRAM:
            self.told = np.append(mean, noise)
        else:
            self.scored(mean, noise)
        # the next run that has users
        following = [kind for kind in range(self.kind + 1, SCORE + 1) if self.length_of(kind)]
        self.open_run(following[0] if following else SCALE)
        if not following:
            self.ended()
        self.scorer = self.to_play()[:, None]

    def open_run(self, kind: int) -> None:
        device, self.run = self.opened(kind), self.length_of(kind)
        self.kind, self.device, self.total = kind, device, np.zeros(device.entries)
        self.refit_at = self.next_refit()

    def to_play(self) -> Array:
        """Return theta on the support, and m shrunk by its noise as James and Stein do elsewhere, shape (d,)."""
        rest, theta = self.search[:-1].copy(), self.support.all_of(self.dim)
        rest[self.support.chosen] = 0.0
        size, expected = float(rest @ rest), self.search[-1] * (self.dim - len(self.support) - 2)
        return theta + rest * max(0.0, 1 - expected / size) if size else theta

    def ended(self) -> None:
        """End the batch: drop what is not clear, and move the clip towards the median of residuals."""
        self.support.drop()
        self.b *= math.exp(1 - 2 * self.share)
        self.batch = math.ceil(self.users / 2)
        self.open_run(SCALE)

    def searched(self, mean: Array, noise: float) -> None:
        """Average the estimates of all coefficients; let those that stand out from the noise join the support."""
        unit = math.sqrt(self.dim) * self.b / self.share
        found, variance = self.support.all_of(self.dim) + unit * mean, (unit * noise) ** 2
        weight = self.search[-1] / (self.search[-1] + variance)
        self.search[:-1] += weight * (found - self.search[:-1])
        self.search[-1] = max(self.search[-1] * (1 - weight), 1e-300)  # is never 0
        # hard thresholding
        clearness = np.abs(self.search[:-1]) / math.sqrt(self.search[-1])
        clearness[self.support.chosen] = 0.0
        above = np.flatnonzero(clearness > 1.2 * math.sqrt(2 * math.log(2 * self.dim)))
        room = max(0, self.config.s - len(self.support))
        above = above[np.argsort(-clearness[above])][:room]
        self.support.choose(above, self.search[above], float(self.search[-1]))

    def scored(self, mean: Array, noise: float) -> None:
        """Take a step of the coefficients on the support."""
        users, unit = self.run, max(1.0, 1.5 * math.sqrt(len(self.support)))
        score, gram = users * unit * self.b * mean, users * unit**2 * smat(self.told[:-1])
        noises = users * unit * self.b * noise, users * unit**2 * float(self.told[-1])
        spread = self.b**2 * (1 - 0.66 * self.share)
        self.support.learn(score, gram, noises, self.share, spread)

    def predict(self, contexts: Array) -> Array:
        """Return x . theta, shape (m, K)."""
        return np.asarray(contexts @ self.scorer[:, -1])
