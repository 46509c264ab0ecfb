"""DP-SE: arms are eliminated by private means, in epochs that share no user.

Touqir Sajed and Or Sheffet, "An Optimal Private Stochastic-MAB Algorithm Based on an Optimal Private Stopping Rule",
ICML 2019.
"""

import math
from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.settings import Count, Positive
from privbandit_agents.base.spaces import Array, n_arms
from privbandit_agents.joint.arms.runs import RunAgent, RunSettings


@dataclass(frozen=True)
class Config(RunSettings):
    """Settings of DP-SE, beside those in ``RunSettings``.

    Attributes:
        horizon: number of users T, for the probability 1/T that an epoch's means are off; default: the environment's,
            else 100 000. More users may come.
        width: of the confidence bounds, in units of the theory's, > 0. With less than 1 epochs are shorter by its
            square, and the best arm is lost more often.
    """

    horizon: Count | None = None
    width: Positive = 0.25


class DPSE(RunAgent[Config]):
    """Play all arms that are left equally often, then drop those that are clearly worse.

        for epochs e = 1, 2, ... with Delta = 2^-e, and S arms left
            play each arm that is left for n users in a row, n = max(32 L / Delta^2, 8 L' / (epsilon Delta)) + 1
            drop the arms whose noisy mean is below the largest by more than 2 h + 2 c
        until one is left, which is played for good

    L = log(8 S e^2 T), L' = log(4 S e^2 T); h = sqrt(L / (2 n)) bounds what chance adds to a mean, and
    c = L' / (epsilon n) what the noise adds. So an arm with a gap of Delta or more goes, and 2 h + 2 c is at most
    Delta / 2. ``width`` multiplies h and c, with n to match.

    Regret is O(sum of log T / gap + K log T / epsilon) at ``width=1``: docs/privacy/finite-arms.md, Theorem 2.

    *Formal guarantees.* Those of ``RunAgent``.

    Deviations:
        ``width`` is 1/4 by default. An epoch plays its arms one after the other, not in turn: users are alike, and a
        sum is released when it is complete.
    """

    Config = Config

    def begin(self) -> None:
        self.left_in, self.epoch = np.ones(n_arms(self.action_space), bool), 0
        super().begin()

    def first(self) -> None:
        self.order = self.rng_runs.permutation(self.n_arms)
        self.next_epoch()

    def next_epoch(self) -> None:
        """Let every arm that is left have a run of this epoch, or rest with the last one."""
        arms = self.order[self.left_in[self.order]]
        if len(arms) == 1:
            self.rest(int(arms[0]))
            return
        self.epoch += 1
        chance, noise = self.bounds(len(arms))
        gap = 2.0**-self.epoch
        self.needed = max(32 * chance / gap**2, 8 * noise / gap) + 1
        self.run(int(arms[0]), self.needed)

    def bounds(self, arms: int) -> tuple[float, float]:
        """Return 2 n h^2 and n c of this epoch."""
        horizon, width = self.config.horizon or 100_000, self.config.width
        odds = arms * self.epoch**2 * horizon
        return width**2 * math.log(8 * odds), width * math.log(4 * odds) / self.config.epsilon

    def share(self, deviations: Array) -> Array:
        """Return equal probabilities of the arms that are left: a run drops those that are clearly worse."""
        self.epoch += 1
        chance, _ = self.bounds(int(self.left_in.sum()))
        upper = self.means + math.sqrt(2 * chance) * deviations
        lower = np.where(self.left_in, 2 * self.means - upper, -np.inf)
        self.left_in &= upper >= lower.max()
        return np.asarray(self.left_in / self.left_in.sum())

    def learned(self, arm: int, mean: float) -> None:
        self.means[arm] = mean
        arms = self.order[self.left_in[self.order]]
        if arm != arms[-1]:
            self.run(int(arms[np.flatnonzero(arms == arm)[0] + 1]), self.needed)
            return
        chance, noise = self.bounds(int(self.left_in.sum()))
        n = self.length
        lead = 2 * math.sqrt(chance / (2 * n)) + 2 * noise / n
        self.left_in &= self.means >= self.means[self.left_in].max() - lead
        self.next_epoch()
