"""LPLR: layered private linear regression under action elimination.

Jiachun Li, David Simchi-Levi and Yining Wang, "On the Optimal Regret of Locally Private Linear Contextual Bandit",
2024, Algorithms 1 to 6.
"""

import copy
import math
from typing import Literal

import numpy as np

from privbandit_agents.base.agent import (
    NEVER,
    Action,
    Array,
    Feedback,
    Guarantee,
    LocalAgent,
    arms_with_features,
    n_arms,
)
from privbandit_agents.base.arms import played
from privbandit_agents.base.reports import ENTRIES_AT_ONCE, Inputs, arithmetic_of
from privbandit_agents.base.rows import added
from privbandit_agents.base.ties import best
from privbandit_agents.local.layered.oracle import Oracle
from privbandit_agents.local.layered.oracle_paper import PaperOracle
from privbandit_agents.local.layered.oracle_pooled import PooledOracle
from privbandit_agents.local.layered.settings import Config
from privbandit_agents.privacy.accounting.costs import pure
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.contributions.moments import Lifted, sanitise
from privbandit_agents.privacy.randomizers.randomizer import LARGE
from privbandit_agents.privacy.randomizers.sphere import Hemisphere


class LPLR(LocalAgent[Config, Array]):
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
    oracle: Oracle
    total: Array
    reports_late = True

    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        super().begin()
        config, proven = self.config, self.config.calibration == "correct"
        if not proven:
            self.warn_unproven()
        kind = PooledOracle if config.confidence == "analytic" else PaperOracle
        self.users = 0
        self.open_layer(kind(config, self.context_shape[1], n_arms(self.action_space)))
        promised = config.epsilon if proven else math.inf
        self.cost, self.ledger = pure(promised), Ledger(promised)
        # a published oracle checks widths by Laplace noise on real numbers
        exact = kind is PooledOracle and arithmetic_of(self.oracle.randomizer) == "exact"
        proof = "docs/privacy/layered-regression.md"
        self.guarantee = Guarantee.local(config.epsilon, 0.0, proof, proven, "exact" if exact else "real")

    def restored(self) -> None:
        self.oracle.prepare()

    def frozen_rounds(self) -> int:
        return max(self.layer_end - self.users, 1)

    def select_action(self, context: Array) -> Action:
        """Return one of the arms that are left, each as likely (Alg. 1, l. 10)."""
        contexts = context.reshape(-1, *self.context_shape)
        with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
            alive = self.oracle.alive(contexts.astype(np.float64))
        if self.present is not None:
            alive &= np.asarray(self.present, bool)  # absent arms look like present ones
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

    def encode(self, context: Array, action: Action, feedback: Feedback) -> tuple[Array, Array]:
        """Return the users' cells (n,) and packed statistics (n, D)."""
        cells, statistics = self.lift(context, action, feedback)
        return cells, statistics.dense()

    def lift(self, context: Array, action: Action, feedback: Feedback) -> tuple[Array, Lifted]:
        """Return the users' cells (n,) and packed statistics (n, D), these by their factors."""
        contexts, arms = np.asarray(context).reshape(-1, *self.context_shape), np.atleast_1d(action)
        x, y = sanitise(played(contexts, arms), np.atleast_1d(feedback))
        if len(arms) == 1:  # numbers are quicker than arrays of one
            arm = arms.item()
            return self.oracle.records(x, y, np.array([int(arm) if arm in range(self.context_shape[0]) else 0]))
        exists = (arms >= 0) & (arms < self.context_shape[0]) & (arms == np.floor(arms))
        return self.oracle.records(x, y, np.where(exists, arms, 0).astype(np.intp))

    def inputs(self, context: Array, action: Action, feedback: Feedback) -> Inputs:
        return Inputs(self.oracle.randomizer, *self.encode(*self.records_of(context, action, feedback)))

    def randomize(self, context: Array, action: Action, feedback: Feedback) -> Array:
        return self.inputs(context, action, feedback).randomize(self.rng)

    def absorb(self, report: Array) -> None:
        self.pay(len(report))
        total = self.total
        if report.shape[1:] == total.shape:  # others were made in a layer that is over
            total = added(total, self.oracle.randomizer.estimate(report))
        self.add(total, len(report))

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        return "normal" if self.config.release in ("hemisphere", "bin-cap") else "exact"

    def randomize_sum(self, contexts: Array, actions: Action, feedback: Feedback, counts: Array) -> Array:
        """Return the sum of the estimates from the users' reports, shape (cells, D)."""
        randomizer = self.oracle.randomizer
        cells, values = self.lift(contexts, actions, feedback)
        if isinstance(randomizer, Hemisphere) and values.size >= LARGE and math.isfinite(randomizer.epsilon):
            return randomizer.sum_by_counts(cells, values, self.rng, counts)
        return randomizer.approximate_sum(cells, values.dense(), self.rng, counts)

    @property
    def at_once(self) -> int:
        return max(1, ENTRIES_AT_ONCE // self.total.size)

    @property
    def fewest_summed(self) -> int:
        randomizer = self.oracle.randomizer
        return randomizer.fewest_summed if isinstance(randomizer, Hemisphere) else NEVER

    def randomize_block(self, contexts: Array, actions: Action, feedback: Feedback) -> Array:
        assert isinstance(self.oracle.randomizer, Hemisphere)
        return self.oracle.randomizer.sum_of_each(*self.lift(contexts, actions, feedback), self.rng)

    def absorb_sum(self, total: Array, users: int) -> None:
        self.pay(users)
        self.add(self.total + total, users)

    def add(self, total: Array, users: int) -> None:
        """Go on to a new sum after n more users, who have paid, and to the next layer if it is time."""
        self.total = total
        self.users += users
        if self.users >= self.layer_end:
            oracle = copy.deepcopy(self.oracle)  # an interrupt leaves the layer as it was
            oracle.learn(self.total, self.users - self.layer_start)
            self.open_layer(oracle)

    def open_layer(self, oracle: Oracle) -> None:
        total = np.zeros((oracle.randomizer.cells, oracle.randomizer.dim))
        ends = self.users, self.users + oracle.users()
        self.oracle, self.total, (self.layer_start, self.layer_end) = oracle, total, ends
