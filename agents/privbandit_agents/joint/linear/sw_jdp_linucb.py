"""Jointly private LinUCB that forgets: its counter begins anew with every window.

The algorithm is this project's own, after Shariff and Sheffet 2018 and the windows of Cheung, Simchi-Levi and Zhu 2019.
"""

import math
from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.agent import Array, Guarantee, next_change
from privbandit_agents.base.arms import optimistic_scorer
from privbandit_agents.base.settings import Count
from privbandit_agents.joint.linear import jdp_linucb
from privbandit_agents.privacy.accounting.costs import gaussian_dp
from privbandit_agents.privacy.contributions.moments import perturbed_ridge

PROOF = "docs/privacy/windows.md"


@dataclass(frozen=True)
class Windowed(jdp_linucb.Config):
    """Settings of SW-JDP-LinUCB, besides those of JDP-LinUCB.

    Attributes:
        window: a counter begins anew after so many users; the last full window and the one that runs count.
    """

    window: Count = 4000


class SWJDPLinUCB(jdp_linucb.JDPLinUCB):
    """A curator keeps a private running sum of each window's (y x, w svec(x x')), and acts on the last two.

    Algorithm:
        1. In a window of ``window`` users do as JDP-LinUCB does, with a counter for this window alone.
        2. To every noisy sum add the noisy sum at the end of the window before; release the ridge regression of both.
        3. At the end of the window keep its noisy sum, forget the one before, and begin with a new counter.

    *Formal guarantees.* Those of JDP-LinUCB with the same budget, for every user: sqrt(2 rho)-Gaussian DP. Windows are
    public constants, and a user is in the counter of one window, which pays the whole budget; the ledger composes
    windows in parallel. That a noisy sum counts in the releases of two windows is post-processing of one counter's
    releases. Replacing a user's record moves one term of one counter, by at most 2 in the l2 norm. Proof:
    docs/privacy/windows.md.
    """

    Config = Windowed
    config: Windowed
    kept: Array
    noisy: Array
    kept_sigma: float
    noisy_sigma: float

    def promise(self) -> Guarantee:
        return self.promised(PROOF)

    def open_window(self) -> None:
        """Begin a window: its users are others than those before, so they pay on their own."""
        config, size = self.config, self.counted
        first = self.group is None
        self.group = 0 if self.group is None else self.group + 1
        nothing = np.zeros(size), 0.0
        self.kept, self.kept_sigma = nothing if first else (self.noisy, self.noisy_sigma)
        self.noisy, self.noisy_sigma = np.zeros(size), 0.0
        if first:
            self.counters = self.rng.spawn(1)[0]
        # the last epoch of a window is cut at its end; a window beyond the horizon has none that is
        terms = config.epochs(config.window - 1) + 1 if config.window <= self.horizon else config.epochs(self.horizon)
        key = self.counters.integers(2**63, size=4).tolist()  # not spawned: a saved agent goes on with the same ones
        self.counter = self.opened(terms, min(config.window, self.horizon), np.random.default_rng(key))
        self.ledger.spend(gaussian_dp(self.counter.rho), group=self.group)

    def _scorer(self, noisy: Array) -> Array:
        config, window = self.config, self.group or 0
        start = window * config.window
        self.noisy, self.noisy_sigma = noisy, self.counter.standard_deviation(self.counter.t)
        sigma = math.hypot(self.noisy_sigma, self.kept_sigma)
        counted = self.users - start + (config.window if window else 0)
        a, theta, added = perturbed_ridge(noisy + self.kept, self.dim, sigma, config.ridge, config.shift)
        theory = sigma * math.sqrt(self.dim / added) + math.sqrt(added) + math.sqrt(self.dim * math.log(1 + counted))
        self.refit_at = start + min(next_change(self.users - start, config.growth), config.window)
        if self.users == start + config.window:
            self.open_window()
            self.refit_at = self.users + 1
        return optimistic_scorer(a, theta, config.bonus_scale * theory)
