"""LPLR: layered private linear regression under action elimination.

Jiachun Li, David Simchi-Levi and Yining Wang, "On the Optimal Regret of Locally Private Linear Contextual Bandit",
2024, Algorithms 1 to 6.
"""

import copy
from typing import Literal

import numpy as np

from privbandit_agents.base.arms import played
from privbandit_agents.base.guarantee import warn_unproven
from privbandit_agents.base.spaces import Action, Array, Feedback, arms_with_features, n_arms
from privbandit_agents.base.ties import best
from privbandit_agents.local.layered.oracle import Oracle
from privbandit_agents.local.layered.oracle_paper import PaperOracle
from privbandit_agents.local.layered.oracle_pooled import PooledOracle
from privbandit_agents.local.layered.settings import Config
from privbandit_agents.local.sums import SummedReports
from privbandit_agents.privacy.contributions.moments import Lifted, sanitise


class LPLR(SummedReports[Config]):
    """Every user reports privately on the bin of the features it was played; arms that cannot be best are dropped.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record, whatever the record and
    whatever has been released before: one report a user, by a randomizer over all bins of the current layer that any
    context and arm could reach. Its inputs are functions of the record and of earlier releases: features are scaled
    into the unit ball, y_h is clipped to [-c, c], c a function of the bin, and v v' and v q' have norm at most 1;
    users in inactive bins, and records that are not finite, send the report of an inactive user. Schedules, bins and
    the layers' ends are functions of time, settings and earlier releases. With ``calibration="published"`` nothing is
    guaranteed.

    Deviations:
        Noise covers replacement (the paper's covers adding a user, and its Wishart noise is one-sided), y_h is clipped
        where its bound is, count, moment and matrix are one report. The practical preset has one theta for all arms
        and eliminates by the width of the difference of two arms; directions that stand out of the noise are
        observations of theta with known variance; users report v q' in place of Algorithm 5; layer 1 and the evidence
        are carried over from epoch to epoch, and arms are eliminated by the latest estimate, so that an arm may return;
        an epoch ends when no bin of a layer is active.
    """

    Config = Config
    proof = "docs/privacy/layered-regression.md"
    reports_late = True
    asks_anew = True

    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        super().begin()
        config = self.config
        if config.calibration == "published":
            warn_unproven(self.name)
        kind = PooledOracle if config.confidence == "analytic" else PaperOracle
        self.oracle: Oracle = kind(config, self.context_shape[1], n_arms(self.action_space))
        # a published oracle checks widths by Laplace noise on real numbers
        self.equip(self.oracle.randomizer, exact=kind is PooledOracle)
        self.layer_start, self.refit_at = 0, self.next_refit()

    def restored(self) -> None:
        self.oracle.prepare()
        self.device = self.oracle.randomizer

    def select_action(self, context: Array) -> Action:
        """Return one of the arms that are left, each as likely (Alg. 1, l. 10)."""
        contexts = context.reshape(-1, *self.context_shape)
        with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
            alive = self.oracle.alive(contexts.astype(np.float64))
        if self.visit.mask is not None:
            alive &= np.asarray(self.visit.mask, bool)  # absent arms look like present ones
        uniforms = self.ties.of(len(contexts))
        self.ties.users += len(contexts)
        if context.ndim == len(self.context_shape):
            left = alive[0].nonzero()[0]
            place = int(uniforms.item() * len(left))
            return int(left[place])
        places = np.floor(uniforms * alive.sum(axis=1)) + 1
        return np.asarray((np.cumsum(alive, axis=1) >= places[:, None]).argmax(axis=1))

    def settled(self, context: Array) -> Action:
        """Return argmax of f(x, a), for n users who do not report."""
        with np.errstate(over="ignore", invalid="ignore"):
            chosen: Action = best(self.predict(context), self.ties)
        return chosen

    def select_counts(self, contexts: Array, counts: Array) -> tuple[Array, Array, Array]:
        alive = self.oracle.alive(contexts.astype(np.float64))
        shared = self.rng.multinomial(counts, alive / alive.sum(axis=1, keepdims=True))
        rows, actions = np.nonzero(shared)
        return rows, actions, shared[rows, actions]

    def predict(self, contexts: Array) -> Array:
        """Return f(x, a) after the last epoch that is over, shape (m, K); 0 before."""
        latest = self.oracle.epochs_kept - 1
        return self.oracle.means(latest, contexts.astype(np.float64)) if latest >= 0 else np.zeros(contexts.shape[:2])

    def interval(self, contexts: Array) -> Array:
        """Return the half-width Delta(x, a) that goes with ``predict``, shape (m, K); 1 before the first one."""
        latest = self.oracle.epochs_kept - 1
        return self.oracle.widths(latest, contexts.astype(np.float64)) if latest >= 0 else np.ones(contexts.shape[:2])

    def placed(self, context: Array, action: Action, feedback: Feedback) -> tuple[Array, Lifted]:
        """Return the users' cells (n,) and packed statistics (n, D), these by their factors."""
        contexts, arms = np.asarray(context).reshape(-1, *self.context_shape), np.atleast_1d(action)
        x, y = sanitise(played(contexts, arms), np.atleast_1d(feedback))
        if len(arms) == 1:  # numbers are quicker than arrays of one
            arm = arms.item()
            return self.oracle.records(x, y, np.array([int(arm) if arm in range(self.context_shape[0]) else 0]))
        exists = (arms >= 0) & (arms < self.context_shape[0]) & (arms == np.floor(arms))
        return self.oracle.records(x, y, np.where(exists, arms, 0).astype(np.intp))

    @property
    def by_counts(self) -> Literal["exact", "normal"]:
        return "normal" if self.config.release in ("hemisphere", "bin-cap") else "exact"

    def learn(self) -> None:
        """Close the layer, and open the next one."""
        oracle = copy.deepcopy(self.oracle)  # an interrupt leaves the layer as it was
        oracle.learn(self.total.reshape(self.device.cells, -1), self.users - self.layer_start)
        total, device = np.zeros(oracle.randomizer.entries), oracle.randomizer
        self.oracle, self.device, self.total, self.layer_start = oracle, device, total, self.users

    def next_refit(self) -> int:
        return self.users + self.oracle.users()
