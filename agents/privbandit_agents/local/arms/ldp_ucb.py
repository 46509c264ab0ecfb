"""LDP-UCB: optimism on rewards that every user's device randomizes.

Wenbo Ren, Xingyu Zhou, Jia Liu and Ness Shroff, "Multi-Armed Bandits with Local Differential Privacy", arXiv
2007.03121, 2020. The index is that of Peter Auer, Nicolo Cesa-Bianchi and Paul Fischer, "Finite-time Analysis of the
Multiarmed Bandit Problem", Machine Learning 2002.
"""

import math
from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.agent import next_change
from privbandit_agents.base.settings import LateSettings, NonNegative
from privbandit_agents.base.spaces import Action, Array, Feedback, n_arms, no_context
from privbandit_agents.base.ties import best_in_turn, largest, one_of
from privbandit_agents.local.linear.moments import MomentAgent, MomentSettings
from privbandit_agents.local.sums import Device
from privbandit_agents.privacy.contributions.moments import Lifted


@dataclass(frozen=True)
class Config(MomentSettings, LateSettings):
    """Settings of LDP-UCB, beside those in ``MomentSettings``.

    Attributes:
        width: c of the bonus sqrt(c log t / n) of a mean of n randomized bits, >= 0. 2 is UCB1's; below 1/2 the best
            arm may be lost for good.
        growth: an arm is played until its number of users has grown by this factor, > 1.
    """

    width: NonNegative = 0.5


class LDPUCB(MomentAgent[Config]):
    """The server names an arm; a device reports its reward as one randomized bit.

        every arm is played once, in any order
        from then on, after t users, play the arm with the largest m_k + sqrt(c log t / n_k) / tanh(epsilon / 2)
            until its number of users n_k has grown by a factor; m_k is the unbiased mean of what they reported

    A reward in [0, 1] is rounded to 0 or 1 without bias, and told right with probability e^epsilon / (e^epsilon + 1).

    Regret is O(sum of log T / gap) / tanh(epsilon / 2)^2 for c > 1: docs/privacy/finite-arms.md, Theorem 3. No other
    report of a coin says more: Theorem 5 there.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user, by
    randomized response. The arm is no part of the report: it is the server's, who knows it from earlier reports. A
    record with another arm, or with a reward that is not finite, reports a fair coin. Proof:
    docs/privacy/finite-arms.md, Theorem 1.

    If reports come late and in order, each user gets the arm that is best then; n_k counts whoever was served, and a
    report is about the arm that the user of its number got.

    Deviations:
        The bonus has c = 1/2, where the paper has 2. An arm is played for a run of users, not for one.

    Attributes:
        arm: of this run.
        pulls: users who were given each arm, shape (K,).
        sums: of the unbiased estimates of 2 y - 1 of each arm's users, shape (K,).
        given: the arms of users who are still to report, in order, if reports come late.
    """

    Config = Config
    proof = "docs/privacy/finite-arms.md"
    plays = staticmethod(no_context)
    asks_anew = True  # reports are about the arm of this run
    learns_logs = False

    def begin(self) -> None:
        super().begin()
        self.n_arms, self.started, self.rng_runs = n_arms(self.action_space), 0, self.rng.spawn(1)[0]
        self.sums, self.pulls = np.zeros(self.n_arms), np.zeros(self.n_arms)
        self.follow_order()
        self.arm = one_of(self.pulls == 0, self.rng_runs)

    def opened(self) -> Device:
        return self.directions(1)

    # on the devices

    def select_action(self, context: Array) -> Action:
        """Return the arm of this run, or the best one for each user in order."""
        if self.late:
            return self.give(self.best_ahead(context.shape))[()]
        arms: Array = np.full(context.shape, self.arm)
        return arms[()]

    def best_ahead(self, shape: tuple[int, ...]) -> Array:
        """Return the arms of the largest index for users in order, whose bonuses count all who were served before."""
        return best_in_turn(
            shape,
            self.means(),
            self.pulls + np.bincount(self.given, minlength=self.n_arms),
            math.sqrt(self.config.width * math.log(self.users + 1)) / math.tanh(self.config.epsilon / 2),
            self.pulls > 0,
            self.ties,
        )[0]

    def lift(self, context: Array, action: Action, feedback: Feedback) -> Lifted:
        """Return 2 y - 1 of each user, shape (n, 1); 0, a fair coin, of records with another arm or no reward."""
        y = np.atleast_1d(np.asarray(feedback, np.float64))
        told = np.isfinite(y) & (np.atleast_1d(action) == (self.asked_about(len(y)) if self.late else self.arm))
        y = 2 * np.clip(np.where(told, y, 0.5), 0.0, 1.0) - 1
        return Lifted(y[:, None], np.zeros((len(y), 0)))

    # on the server

    def absorb(self, report: Array) -> None:
        if not self.late:
            return super().absorb(report)
        arms, users = self.asked_about(len(report)), len(report)
        self.pay(users)
        known, self.given = arms >= 0, self.given[users:]
        np.add.at(self.sums, arms[known], self.estimate(report)[known, 0])
        np.add.at(self.pulls, arms[known], 1.0)
        self.users += users
        self.refit_at = self.users + 1
        return None

    def learn(self) -> None:
        """Add this run to its arm, and choose the next one."""
        total, users = self.total, self.users - self.started
        self.total, self.started = np.zeros(1), self.users
        self.sums[self.arm] += total[0]
        self.pulls[self.arm] += users
        unseen = self.pulls == 0
        self.arm = one_of(unseen if unseen.any() else largest(self.optimistic()), self.rng_runs)

    def means(self) -> Array:
        """Return the arms' mean rewards as reported, shape (K,); 1/2 of those that nobody was given."""
        return np.asarray(0.5 + 0.5 * self.sums / np.maximum(self.pulls, 1))

    def optimistic(self) -> Array:
        """Return the optimistic means, shape (K,)."""
        bits = np.sqrt(self.config.width * math.log(self.users + 1) / self.pulls)
        return np.asarray(self.means() + bits / math.tanh(self.config.epsilon / 2))

    def next_refit(self) -> int:
        pulls = int(self.pulls[self.arm])
        return self.users + next_change(pulls, self.config.growth) - pulls

    def predict(self, contexts: Array) -> Array:
        """Return the estimated mean reward of every arm, in [0, 1], shape (m, K)."""
        return np.tile(np.clip(self.means(), 0.0, 1.0), (len(contexts), 1))
