"""Private comparison of two arms, beside plain regression: one locally private agent for every design.

This project's own agent. Its release is that of John Duchi, Michael Jordan and Martin Wainwright, "Minimax Optimal
Procedures for Locally Private Estimation", JASA 2018 (the l2-ball mechanism); arms are best for parameters drawn around
an estimate, as in Thompson sampling.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.agent import next_change
from privbandit_agents.base.law import Probabilities
from privbandit_agents.base.records import dtype_of, played
from privbandit_agents.base.settings import Count, Growth, LateSettings
from privbandit_agents.base.spaces import Action, Array, Feedback
from privbandit_agents.base.ties import Told, best, largest
from privbandit_agents.local.linear.moments import MomentAgent, MomentSettings
from privbandit_agents.local.linear.own_means import RADIUS, VISITS, OwnMeans, clipped_means
from privbandit_agents.local.linear.spreads import OCTAVES, Scatter, Spreads, directions, octaves
from privbandit_agents.local.sums import Device
from privbandit_agents.privacy.contributions.moments import NORM, WEIGHT, Lifted, packed_size, sanitise
from privbandit_agents.privacy.contributions.pool import Pool
from privbandit_agents.privacy.vectors import lengths
from privbandit_envs.changing.masks import uniform_over

PLAIN, CENTRED, SPREAD, SCATTER = "plain", "centred", "spread", "scatter"
GRAM = 0.5  # weight of X X' in centred records, beside y X
FILL = NORM / math.hypot(1.0, GRAM)  # centred records are multiplied by this, to fill the ball


@dataclass(frozen=True)
class Config(MomentSettings, LateSettings):
    """Settings of ``prec-ts``, beside those in ``MomentSettings``.

    Attributes:
        horizon: number of users T; default: the environment's, else a million. It sets how boldly arms are drawn, and
            how many users are asked for spreads; more users may come.
        visits: with ``people``, ``"first"``: a device reports on its person's first visit; or ``"mean"``: once, on the
            mean of the first ten. None: ``"mean"`` if people come 40 times or more on average.
    """

    growth: Growth = 1.1
    horizon: Count | None = None
    visits: Literal["first", "mean"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.visits is not None and self.people is None:
            raise ValueError(f"visits is for agents with people, who come again; got visits={self.visits!r}.")

    @property
    def averages(self) -> bool:
        """Whether devices report on the mean of ten visits."""
        if self.people is None or self.visits == "first":
            return False
        # from 40 visits a person on, means of ten are worth more than first visits
        return self.visits == "mean" or (self.horizon or 1_000_000) >= 40 * self.people


class PRECTS(MomentAgent[Config]):
    """Each user plays one of two arms by its own coin, and reports plainly on it, or on how the two differ.

    When arms share most of their features, the common part hides the difference. The difference of two
    arms, one of them played by a coin, is free of it: y times the difference has the mean of the product of
    differences with theta, whatever the arms share.

        theta, cov = posterior N(0, I); S = I
        for every batch of users:
            theta+, theta- = theta +- w sqrt(log(1 + T/n)) cov^(1/2) random signs, w = .4, or .1 if differences
                are large
            each plays a or a', the best arms for theta+ and theta-, by a coin of its own, and reports one of four
                spread, in a batch out of four until all are known:
                    the octave of a feature's range over the user's arms
                scatter, then in a batch out of two, in at most three stages, if features vary, and by little:
                    svec of the mean of v v' over the arms, v the direction of W (x - the mean of all arms)
                centred, if differences are small and theta+ and theta- are more than 36 degrees apart:
                    (min(1, 1/r) y v, w min(1, r) svec(v v')) of r v = S (x - the mean of both arms), |v| = 1
                plain, else: the same of r v = S x
            if all spreads are known: W, S stretch every feature by its spread
            after a stage: W = M^(-1/2) W for the mean M of its reports, as far as the noise permits; after the last
                one S stretches all directions as W does
            theta, cov = posterior by the weighted sums of both kinds, and of those before S

    If feedback comes late each user plays the best arm for a draw of its own, and there are no centred reports.

    With ``people`` each person's first visit is reported on, and whoever has reported is served by theta. With
    ``visits="mean"`` a device keeps its person's first ten records, and reports the mean of the plain vectors,
    clipped to length .45, in the place of one record: S = I, and no other kinds.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by a
    randomizer with likelihood ratio at most e^epsilon for any two inputs. The kind and feature of reports, W, S, and
    the draws are functions of earlier reports, of public constants, and of the server's own draws. Features of all arms
    are clipped to the unit ball and rewards to [-1, 1] on the device; arms and rewards that are not finite are zeros.
    With ``visits="mean"`` the one report of a person is on a vector of the ball of radius .45, whatever its ten
    records are (docs/privacy/people.md).
    There is no proof of a rate of regret.

    Attributes:
        kind: of report in this batch.
        feature: reported on in a batch of spreads.
        weight: of this batch's centred reports: the angle of the draws as a share of 2/3 of a half turn, at most 1.
        spreads: the server's knowledge of the features' spreads.
        scatter: its knowledge of how arms differ in all directions.
        stretch: S, symmetric, shape (d, d).
        plain, centred: the reports of both kinds with this S.
        known: [J | h], precision and score of theta by earlier ones, shape (d, d + 1).
        draws: [theta+, theta-], shape (2, d).
    """

    Config = Config
    proof = "docs/privacy/compared-arms.md"
    settled = MomentAgent.estimated_best
    asks_anew = True  # reports are read as what the batch asked for

    def opened(self) -> Device:
        return self.directions(packed_size(self.dim) + OCTAVES, RADIUS if self.config.averages else NORM)

    def begin(self) -> None:
        super().begin()
        if self.config.averages:
            self.people_seen = OwnMeans(self.config.people or 0, self.context_shape, dtype_of(self.observation_space))
            self.guarantee = self.guarantee.per_person("who comes, and when, is public")
        self.rng_posterior = self.rng.spawn(1)[0]
        if self.config.feedback is not None:
            self.late, self.rng_users = True, self.rng.spawn(1)[0]
        self.spreads = Spreads(self.dim, self.device.deviation / NORM, self.expected)
        self.known, self.batches, self.learned = np.zeros((self.dim, self.dim + 1)), 0, 0
        self.scatter = Scatter(self.spreads.size, self.spreads.varies, self.spreads.noise, 0)
        self.reopen(np.eye(self.dim))
        self.choose()

    def reopen(self, stretch: Array) -> None:
        """Go on with another S: no reports with it have come."""
        self.stretch = stretch
        sigma = self.device.deviation
        self.plain, self.centred = Pool(stretch, WEIGHT, sigma), Pool(stretch, GRAM, sigma / FILL)

    @property
    def expected(self) -> int:
        return self.config.counted(self.config.horizon or 1_000_000)

    @property
    def small(self) -> bool:
        """Whether centred reports pay: arms are known to differ, and by little."""
        return self.spreads.known and self.scatter.small

    # on the devices

    def candidates(self, contexts: Array) -> Array:
        """Return which arms are best for each of both draws, contexts (n, K, d) to shape (n, 2, K)."""
        return largest(self.values(contexts).swapaxes(1, 2))

    def values(self, contexts: Array) -> Array:
        """Return the values of the arms for both draws, shape (n, K, 2), the same whoever else comes."""
        with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
            return np.asarray(np.vecdot(contexts[:, :, None, :].astype(np.float64), self.draws))

    def select_action(self, context: Array) -> Action:
        """Return the best arm for one of both draws, by the user's own coin."""
        contexts = context.reshape(-1, *self.context_shape)
        if self.late:
            return self.drawn_apart(context, contexts)
        uniforms = self.ties.of(len(contexts))
        draws, told = self.draws[(uniforms < 0.5).astype(np.intp)], Told(2 * uniforms % 1, self.visit.mask)
        with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
            values = np.vecdot(contexts.astype(np.float64), draws[:, None])
        self.ties.users += len(contexts)
        return best(values, told) if context.ndim > len(self.context_shape) else int(best(values[0], told))

    def drawn_apart(self, context: Array, contexts: Array) -> Action:
        """Return the best arm for a draw of each user's own, of users whose reports come late."""
        draws = self.scorer[:, -1] + self.rng_users.choice([-1.0, 1.0], (len(contexts), self.dim)) @ self.root.T
        with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
            values = np.vecdot(contexts.astype(np.float64), draws[:, None])
        chosen = best(values, self.ties)
        return chosen if context.ndim > len(self.context_shape) else int(chosen[0])

    def law(self, contexts: Array, draws: int, rng: Generator) -> Probabilities:
        """Return the law of the coin, and of which of several best arms a user gets."""
        if self.late:
            return super().law(contexts, draws, rng)
        present = None if self.visit.mask is None else np.reshape(self.visit.mask, (len(contexts), 1, -1))
        laws = uniform_over(largest(self.values(contexts).swapaxes(1, 2), present))
        return Probabilities.of(laws.mean(axis=1))

    def select_counts(self, contexts: Array, counts: Array) -> tuple[Array, Array, Array]:
        heads, laws = self.rng.binomial(counts, 0.5), uniform_over(self.candidates(contexts))
        shared = self.rng.multinomial(np.stack([heads, counts - heads], axis=1), laws).sum(axis=1)
        rows, arms = np.nonzero(shared)
        return rows, arms, shared[rows, arms]

    def lift(self, context: Array, action: Action, feedback: Feedback) -> Lifted:
        """Return the reports of this batch's users, as factors."""
        contexts, arms = np.asarray(context).reshape(-1, *self.context_shape), np.atleast_1d(action)
        users = len(contexts)
        if self.kind in (SPREAD, SCATTER):
            clean, nothing = sanitise(contexts, np.zeros(contexts.shape[:2]))[0], np.zeros((users, self.dim))
            if self.kind == SPREAD:
                return Lifted(nothing, nothing, tail=NORM * octaves(clean, self.feature))
            rest = np.zeros((users, self.device.entries))
            known = directions(clean, self.scatter.whitened)
            rest[:, : known.shape[1]] = NORM * known
            return Lifted(rest, nothing[:, :0])
        tail = np.zeros((users, OCTAVES))
        x, y = sanitise(played(contexts, arms), np.atleast_1d(feedback))
        if self.kind == PLAIN:
            return Lifted(*self.inside(x, y), WEIGHT, tail)
        head, x = self.inside(self.difference(contexts, arms, x), y)
        return Lifted(FILL * head, x, FILL * GRAM, tail)

    def encode(self, context: Array, action: Action, feedback: Feedback) -> Array:
        vectors = super().encode(context, action, feedback)
        return clipped_means(vectors) if self.config.averages else vectors

    def placed(self, context: Array, action: Action, feedback: Feedback) -> tuple[Array, Any]:
        if not self.config.averages:
            return super().placed(context, action, feedback)
        means = self.encode(context, action, feedback)
        return np.zeros(len(means), np.intp), means

    def difference(self, contexts: Array, arms: Array, x: Array) -> Array:
        """Return the played arm's features (n, d) less the mean of a candidate of each draw; zeros if it is none."""
        equal: Any = self.candidates(contexts)
        own = equal[np.arange(len(arms)), :, arms] & (arms >= 0)[:, None]
        pairs = equal.argmax(axis=2)
        other = np.where(own[:, 0], pairs[:, 1], pairs[:, 0])
        compared = own.any(axis=1)
        behind = sanitise(played(contexts, other), np.zeros(len(contexts)))[0]
        return np.where(compared[:, None], (x - behind) / 2, 0.0)

    def inside(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return min(1, 1/r) y v and sqrt(min(1, r)) v for r v = S x, |v| = 1, shapes (n, d): weights by information.

        The mean of min(1, 1/r) y v is that of min(1, r) v v' times S^-1 theta, whatever S is.
        """
        x = np.vecdot(x[:, None, :], self.stretch)  # the same whoever else comes
        long = lengths(x)
        x = x / np.where(long > 0, long, 1.0)
        return y[:, None] / np.maximum(long, 1.0) * x, np.sqrt(np.minimum(long, 1.0)) * x

    @property
    def at_once(self) -> int:
        return VISITS * super().at_once if self.config.averages else super().at_once

    # on the server

    def learn(self) -> None:
        total, users = self.total, self.users - self.learned
        self.total, self.learned = np.zeros_like(total), self.users
        if self.kind == SPREAD:
            self.spreads.add(self.feature, total[-OCTAVES:] / NORM, users)
            if self.spreads.known:
                known, length = self.spreads, self.plain.length()
                self.scatter = Scatter(known.size, known.varies, known.noise, self.expected, length)
                self.restretch()
        elif self.kind == SCATTER:
            if self.scatter.add(total / NORM, users):
                self.restretch()
        elif self.kind == PLAIN:
            self.plain.add(total[:-OCTAVES], users)
        else:
            self.centred.add(total[:-OCTAVES] / FILL, users, self.weight)
        self.choose()

    def restretch(self) -> None:
        """Set S by the estimated scatter, and keep the evidence by the former S."""
        self.known = self.known + self.evidence(self.scorer[:, -1])
        self.reopen(self.scatter.stretch())

    def evidence(self, theta: Array) -> Array:
        return self.plain.evidence(theta) + self.centred.evidence(theta)

    def choose(self) -> None:
        """Fix until the next change by all reports: the estimate, both draws, and the kind of report."""
        theta: Array = self.scorer[:, -1].copy()
        for _ in range(2):  # the noise depends on theta a little
            whole = self.known + self.evidence(theta)
            precision = np.eye(self.dim) + whole[:, :-1]
            theta = np.linalg.solve(precision, whole[:, -1])
            theta = theta / max(1.0, float(np.linalg.norm(theta)))
        self.scorer[:, -1] = theta
        # two draws on opposite sides of the estimate
        width = 0.4 if self.small else 0.1  # if differences are large, playing the best arm teaches enough
        bold = width * math.sqrt(math.log1p(self.expected / max(1, self.users)))
        signs = self.rng_posterior.choice([-1.0, 1.0], self.dim)
        if self.late:
            self.root = bold * np.linalg.inv(np.linalg.cholesky(precision)).T
        step = bold * np.linalg.solve(np.linalg.cholesky(precision).T, signs)
        self.draws = np.stack([theta + step, theta - step])
        # the kind of report
        self.batches += 1
        turn = self.scatter.angle(*self.draws) / math.pi
        self.weight, self.feature = min(1.0, 1.5 * turn), 0
        # who reports late got an arm by other draws
        self.kind = CENTRED if self.small and turn > 0.2 and not self.late else PLAIN
        if self.config.averages:
            self.kind = PLAIN
        elif not self.spreads.known and self.batches % 4 == 0:  # every fourth batch is about spreads
            self.kind, self.feature = SPREAD, self.spreads.next
        elif self.scatter.left and self.batches % 2 == 0:
            self.kind = SCATTER

    def next_refit(self) -> int:
        least = 16  # users of a batch
        following = next_change(self.users, self.config.growth, least)
        if self.config.averages or (self.spreads.known and not self.scatter.left):
            return following
        # a feature's spread, and a stage of their scatter, take four batches at least
        asked = self.scatter.most if self.spreads.known else self.spreads.most
        return min(following, self.users + max(least, math.ceil(asked / 4)))
