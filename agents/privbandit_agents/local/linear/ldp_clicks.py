"""Locally private arms that share a context: a first share of users get public arms, and all others the best one.

This project's own agent. Its release is that of John Duchi, Michael Jordan and Martin Wainwright, "Minimax Optimal
Procedures for Locally Private Estimation", JASA 2018 (the l2-ball mechanism). The Gram matrix is pulled towards a
simple one as Olivier Ledoit and Michael Wolf, "A Well-Conditioned Estimator for Large-Dimensional Covariance Matrices",
Journal of Multivariate Analysis 2004, pull covariances.
"""

import math
from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.settings import Count, LateSettings
from privbandit_agents.base.spaces import Action, Array, Feedback, n_arms, one_context
from privbandit_agents.base.ties import best
from privbandit_agents.local.linear.moments import MomentAgent, MomentSettings
from privbandit_agents.local.sums import Device
from privbandit_agents.privacy.contributions.moments import Lifted
from privbandit_agents.privacy.vectors import LIMIT, lengths, modest, smat

SPREAD = 0.4  # features of this size, on average, weigh as much as the intercept


@dataclass(frozen=True)
class Config(MomentSettings, LateSettings):
    """Settings of ``ldp-clicks``, beside those in ``MomentSettings``.

    Attributes:
        horizon: number of users T; default: the environment's, else 100 000. At most a third of them get public arms;
            more users may come.
    """

    horizon: Count | None = None


class LDPClicks(MomentAgent[Config]):
    """A first share of users get public arms and report what came of it; all others get the best arm.

    As nobody's context decides on a public arm, that arm is no secret: the whole budget goes into the reward. Every
    arm has a regression on z = (x / (0.4 sqrt(d)), 1), divided by its length, of 2 y - 1 for rewards y in [0, 1].

        until enough is known: for every run of users
            all play arm k, in turn, in any order; if it is absent a user plays the best one that is present, and tells
            nothing
            each reports (2 y - 1) z by one private direction
        from then on
            all play argmax_k <theta_k, z>; each reports svec(z z') by one private direction
            theta_k = the posterior mean given E[(2 y - 1) z | k] and G = E[z z'], as the users so far told them

    G has no arm in it: it is learned from users who cost no regret, and pulled towards a diagonal matrix by as much as
    the noise in it asks for. Enough is known when one more user with a public arm costs more than it gains the users to
    come, if the rewards of arms differ as reports say, less one standard deviation.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by a
    randomizer with likelihood ratio at most e^epsilon for any two inputs. Which arm and kind a report is of follows
    from earlier reports, public masks and constants; a record with another arm reports zeros. Features
    that are not finite count as 0, with a reward of 1/2, as does a reward that is not finite. There is no proof of a
    rate of regret. Proof: docs/privacy/regression-moments.md, Theorem 5.

    If reports come late and in order, each user gets the next public arm, and a report is about the arm that the user
    of its number got. Public arms end before the reports on them do.

    Attributes:
        exploring: whether reports are on public arms.
        public: whether users get public arms.
        arm: the arm of this run, in place ``turn`` of ``order``.
        sums: of the users' reports on each arm, shape (K, d + 1).
        asked: by how many users for whom it was present, shape (K,).
        run: users who are asked about one arm in a row; long runs lose few of the reports that come late.
        present_users: of this run, for whom its arm was present.
        explored: users who had public arms, once there are no more of them.
        theta: the arms' parameters, shape (K, d + 1).
    """

    Config = Config
    proof = "docs/privacy/regression-moments.md"
    fixed = MomentAgent.fixed | {"about_rewards", "about_contexts"}
    plays = staticmethod(one_context)
    asks_anew = True  # reports are read as what the run asked for
    learns_logs = False

    def begin(self) -> None:
        self.exploring = self.public = True
        super().begin()
        self.follow_order()
        self.size, self.n_arms = self.dim + 1, n_arms(self.action_space)
        self.sums, self.asked = np.zeros((self.n_arms, self.size)), np.zeros(self.n_arms)
        self.theta = np.zeros((self.n_arms, self.size))
        self.order, self.turn = self.rng.spawn(1)[0].permutation(self.n_arms), 0
        self.arm, self.present_users, self.explored = int(self.order[0]), 0, 0
        # users who are asked about one arm in a row
        self.run = max(8, math.ceil(0.01 * self.expected / self.n_arms))
        self.refit_at = self.next_refit()

    @property
    def expected(self) -> int:
        """How many users will come."""
        return self.config.horizon or 100_000

    def opened(self) -> Device:
        size = self.dim + 1
        self.about_rewards, self.about_contexts = self.directions(size), self.directions(size * (size + 1) // 2)
        return self.about_rewards if self.exploring else self.about_contexts

    def restored(self) -> None:
        self.device = self.opened()

    # on the devices

    def select_action(self, context: Array) -> Action:
        """Return the arm of this run, or the best one."""
        users = context.shape[:-1]
        if self.late and self.public:
            first = self.users + len(self.given)
            turns = np.arange(first, first + math.prod(users)) % self.n_arms
            return self.give(self.order[turns].reshape(users))[()]
        if self.exploring and not self.late:
            return np.full(users, self.arm) if users else self.arm
        chosen: Action = best(self.scores(context), self.ties)
        return chosen

    def scores(self, contexts: Array) -> Array:
        """Return <theta_k, z>, shape (..., K), the same whoever else comes."""
        return np.asarray(np.vecdot(pointed(contexts)[..., None, :], self.theta))

    def predict(self, contexts: Array) -> Array:
        """Return the estimated mean reward of every arm, in [0, 1], contexts (m, d) to (m, K)."""
        return np.clip((1 + self.scores(contexts)) / 2, 0.0, 1.0)

    def lift(self, context: Array, action: Action, feedback: Feedback) -> Lifted:
        """Return what this batch's users report: (2 y - 1) z, or svec(z z')."""
        z = pointed(np.asarray(context).reshape(-1, *self.context_shape))
        if not self.exploring:
            return Lifted(z[:, :0], z, 1.0)
        x, y = np.asarray(context).reshape(len(z), -1), np.atleast_1d(np.asarray(feedback, np.float64))
        told = np.isfinite(y) & (np.atleast_1d(action) == (self.asked_about(len(y)) if self.late else self.arm))
        if not modest(x, LIMIT):
            told &= np.isfinite(x).all(axis=1)
        y = np.where(told, y, 0.5)  # halfway: a report of zeros
        y = 2 * np.minimum(np.maximum(y, 0.0), 1.0) - 1
        return Lifted(y[:, None] * z, z[:, :0])

    # on the server

    def absorb(self, report: Array) -> None:
        if not (self.late and self.exploring):
            return super().absorb(report)
        arms, users, here = self.asked_about(len(report)), len(report), self.visit.mask
        self.pay(users)
        self.given, known = self.given[users:], arms >= 0
        np.add.at(self.sums, arms[known], self.estimate(report)[known])
        present = known if here is None else known & np.asarray(here)[np.arange(users), arms].astype(bool)
        np.add.at(self.asked, arms[present], 1.0)
        self.users += users
        if self.users >= self.refit_at:
            if self.public:
                self.consider()
            self.decide()
            self.refit_at = self.next_refit()
        if not self.public and not len(self.given):
            self.settle()
        return None

    def frozen_rounds(self) -> int:
        rounds = super().frozen_rounds()
        return min(rounds, max(len(self.given), 1)) if self.late and self.exploring else rounds

    def add(self, total: Array, users: int) -> None:
        if self.exploring:
            here = self.visit.mask  # which arms were there, as everybody knows
            self.present_users += users if here is None else int(np.count_nonzero(np.asarray(here)[..., self.arm]))
        super().add(total, users)

    def learn(self) -> None:
        if self.exploring:
            total, here, arm = self.total, self.present_users, self.arm
            self.total, self.present_users, self.turn = np.zeros(self.size), 0, (self.turn + 1) % self.n_arms
            self.arm = int(self.order[self.turn])
            self.sums[arm] += total
            self.asked[arm] += here
            if self.turn == 0:
                self.consider()
        self.decide()

    def next_refit(self) -> int:
        rounds = self.n_arms if self.late else 1
        return self.users + rounds * self.run if self.exploring else super().next_refit()

    @property
    def noise(self) -> float:
        """The mean variance of a coordinate of an arm's mean report."""
        one = max(self.about_rewards.deviation**2, 1 / self.size)
        return float(np.mean(one / np.maximum(self.asked, 1)))

    def differences(self) -> tuple[Array, float]:
        """Return the arms' mean reports less their average, (K, d + 1), and the mean square of that less the noise."""
        means = self.sums / np.maximum(self.asked, 1)[:, None]
        apart = means - means.mean(axis=0)
        return apart, float((apart**2).sum() / (max(self.n_arms - 1, 1) * self.size)) - self.noise

    def consider(self) -> None:
        """Let the next round of runs be as long as it pays, or end public arms.

        If n users had public arms, the policy has a share 1 / sqrt(1 + a/n) of the best one's gain, with a the noise of
        one report on each arm over the mean square s of the arms' differences. So n is best at the root of
        2 n^2 + 3 a n = a T.
        """
        expected = self.expected
        spread = self.differences()[1] - self.noise * math.sqrt(2 / (max(self.n_arms - 1, 1) * self.size))
        least = 1e-9 * self.noise  # s is not above the noise: the root is T / 3
        a = self.users * self.noise / max(spread, least)
        best = min((math.sqrt(9 * a**2 + 8 * a * expected) - 3 * a) / 4, expected / 3)
        if self.users < best:
            more = min(max(best - self.users, 0.05 * self.users), 0.3 * self.users)
            self.run = max(self.run, math.ceil(more / self.n_arms))
        else:
            self.public = False
            if not self.late:
                self.settle()

    def settle(self) -> None:
        """Ask for contexts from now on: all reports on public arms have come."""
        device = self.about_contexts
        self.exploring, self.device, self.total = False, device, np.zeros(device.entries)
        self.explored = self.users

    def decide(self) -> None:
        """Fix theta until the next change."""
        apart, spread = self.differences()
        values, vectors = np.linalg.eigh(self.gram())
        values = np.maximum(values, 0.1 / self.size)
        # theta ~ N(0, s / mean(values^2) I) among arms; what they share has no prior
        prior = max(spread, 1e-3 * self.noise) / np.mean(values**2)
        common = self.sums.sum(axis=0) / max(1.0, float(self.asked.sum()))
        shrunk = values / (values**2 + self.noise / prior)
        self.theta = (apart @ vectors * shrunk + common @ vectors / values) @ vectors.T

    def gram(self) -> Array:
        """Return the estimate of E[z z']."""
        dim, users = self.dim, 0 if self.exploring else self.users - self.explored
        guess = 1 / (1 + 1 / SPREAD**2)  # of E[z_last^2], for features of variance 1
        if not users:
            return np.diag([(1 - guess) / dim] * dim + [guess])
        told, noise = smat(self.total / users), self.about_contexts.deviation**2 / users
        last = (told[-1, -1] + guess * noise / 0.01) / (1 + noise / 0.01)
        last = min(max(float(last), 0.02), 0.98)
        simple = np.diag([(1 - last) / dim] * dim + [last])
        apart = float(((told - simple) ** 2).sum())
        kept = max(0.0, 1 - noise * (len(self.total) - 1) / apart) if apart else 0.0
        return np.asarray(simple + kept * (told - simple))


def pointed(contexts: Array) -> Array:
    """Return (x / (0.4 sqrt(d)), 1) divided by its length, of contexts (..., d): shape (..., d + 1).

    Entries are clipped to +-1e6 before; a context with one that is not finite counts as zeros.
    """
    x = np.asarray(contexts, np.float64)
    if not modest(x, LIMIT):
        x = np.clip(np.where(np.isfinite(x).all(axis=-1, keepdims=True), x, 0.0), -LIMIT, LIMIT)
    scaled = np.empty((*x.shape[:-1], x.shape[-1] + 1))
    np.divide(x, SPREAD * math.sqrt(x.shape[-1]), out=scaled[..., :-1])
    scaled[..., -1] = 1.0
    scaled /= lengths(scaled)
    return scaled
