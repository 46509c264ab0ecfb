"""When a curator releases the sum of its users' records, and by which noise.

Each is a ``Schedule``. If feedback is promised in batches, an epoch ends with a batch: there are fewer terms then, and
no release that nobody acts on.
"""

import math
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.random import PCG64, Generator

from privbandit_agents.base.agent import NEVER, next_change
from privbandit_agents.base.arms import in_blocks, optimistic_scorer
from privbandit_agents.base.guarantee import Guarantee
from privbandit_agents.base.rows import Products
from privbandit_agents.base.settings import LateSettings
from privbandit_agents.base.spaces import Array
from privbandit_agents.joint.linear.person_means import PersonMeans, shares_of, snapshot_times
from privbandit_agents.joint.linear.sums import SummedRecords
from privbandit_agents.joint.settings import COUNTERS
from privbandit_agents.privacy.accounting.costs import gaussian_dp
from privbandit_agents.privacy.contributions.moments import (
    WEIGHED,
    WEIGHT,
    Lifted,
    inverse_root,
    mass,
    packed_sum,
    sensitivity,
    weighed,
)
from privbandit_agents.privacy.contributions.pool import Pool
from privbandit_agents.privacy.keys import alike
from privbandit_agents.privacy.mechanisms.discrete import GridGaussian
from privbandit_envs.changing.delay import Delay

Agent = SummedRecords[Any]


class Summing:
    """What schedules of sums share: the sums of z z' over the open epoch, of rows clipped each by itself.

    *Formal guarantees.* The promise of batches is a public constant, so ends that follow them are no less public.

    Attributes:
        batches: in which feedback is promised; None: in none.
    """

    fixed: ClassVar[frozenset[str]] = frozenset({"batches"})
    batches: Delay | None
    epoch: Products
    most = Products.AT_ONCE

    def __init__(self, agent: Agent) -> None:
        self.batches = agent.config.batches if isinstance(agent.config, LateSettings) else None

    def aligned(self, users: int) -> int:
        """Return the number of users at which an epoch ends that is to end at ``users``: with a batch, or there."""
        return users if self.batches is None else self.batches.release(users)

    def begin(self, agent: Agent) -> None:
        self.epoch = agent.sums(partial(self.cleaned, agent))

    def cleaned(self, agent: Agent, rows: Array) -> Array:
        """Return rows as they are added up."""
        features, rewards = agent.clipped(rows[:, :-1], rows[:, -1])
        return np.concatenate([features, rewards[:, None]], axis=1)

    def add(self, agent: Agent, features: Array, rewards: Array, models: Array | int) -> None:
        self.epoch.add(agent.rows(features, rewards, models), models)


class Epochs(Summing):
    """One continual counter runs over epochs of users, which end when their number has grown by a factor.

    *Formal guarantees.* The whole budget is spent when the counter opens: all of its releases are one mechanism. Ends
    of epochs are public constants, and a user is in one epoch, so that replacing the user's record moves one term.

    Attributes:
        epoch: the sums of the open epoch.
        counter: of these epochs.
        group: of the users whom the counter is about, in the ledger; None: anyone.
    """

    group: int | None = None
    proof: ClassVar[str] = ""

    def __init__(self, agent: Agent, users: int) -> None:
        Summing.__init__(self, agent)
        self.growth: float = agent.config.growth
        self.horizon, self.ends = agent.config.counted(users), self.following(0)
        self.begin(agent)
        self.open(agent)

    # the ends of epochs

    def following(self, users: int) -> int:
        """Return after how many users the epoch ends that begins after ``users``."""
        return self.aligned(next_change(users, self.growth))

    def terms(self, users: int) -> int:
        """Return the number of epochs that end within ``users`` users, or a little more: the counter's horizon."""
        end, ended = self.following(0), 0
        while end <= users and ended < 10_000:  # of more epochs there is a bound
            end, ended = self.following(end), ended + 1
        left = math.ceil(math.log(users / end) / math.log(self.growth)) if end < users else 0
        return ended + min(left + 1, users - end + 1) if end <= users else ended

    def longest(self, users: int) -> int:
        """Return a bound on the length of an epoch that ends within ``users`` users."""
        return users if self.batches else min(users, math.ceil(users * (1 - 1 / self.growth)) + 2)

    # the counter

    def open(self, agent: Agent) -> None:
        """Open the counter of all users."""
        self.count(agent, self.terms(self.horizon), self.horizon, agent.rng.spawn(1)[0])

    def count(self, agent: Agent, terms: int, users: int, rng: Generator, group: int | None = None) -> None:
        """Open a counter of so many terms, at least one, of ``users`` users in all, and spend the whole budget."""
        config, moved = agent.config, sensitivity(self.longest(users), Products.AT_ONCE, agent.moved)
        bounds = max(1, terms), agent.counted, moved, agent.rho
        counter = COUNTERS[config.counter](*bounds, rng, mass=mass(users), noise=config.noise)
        agent.ledger.spend(gaussian_dp(counter.rho), group)
        self.group, self.counter = group, counter

    def promise(self, agent: Agent) -> Guarantee:
        return agent.promised(self.proof or agent.proof, self.counter.horizon * self.counter.dim)

    def release(self, agent: Agent) -> Array:
        terms = agent.term(self.epoch.take())[None]
        self.ends = self.following(agent.users)
        noisy = agent.publish(self.counter, terms, partial(self.counter.extend, terms), group=self.group)[-1]
        return self.learned(agent, np.asarray(noisy), self.counter.standard_deviation(self.counter.t))

    def learned(self, agent: Agent, noisy: Array, sigma: float) -> Array:
        """Return the scorer, given the counter's noisy sum."""
        return agent.learned(noisy, sigma, agent.users)


class Windows(Epochs):
    """Each window of users has a counter of its own, and epochs grow within it.

    To every noisy sum the last one of the window before is added; a window that ends forgets the sum before its own.

    *Formal guarantees.* Windows are public constants, and a user is in the counter of one window, which pays the whole
    budget: the ledger composes windows in parallel. That a noisy sum counts in the releases of two windows is
    post-processing. Proof: docs/privacy/windows.md.
    """

    proof = "docs/privacy/windows.md"

    def __init__(self, agent: Agent, users: int, window: int) -> None:
        self.window, size = window, agent.counted
        self.kept, self.kept_sigma = np.zeros(size), 0.0
        self.noisy, self.noisy_sigma = np.zeros(size), 0.0
        self.rng = agent.rng.spawn(1)[0]
        super().__init__(agent, users)

    def following(self, users: int) -> int:
        """Return the next end within the window of the last user; a window ends its last epoch."""
        began = users // self.window * self.window
        return min(self.aligned(began + next_change(users - began, self.growth)), began + self.window)

    def terms(self, users: int) -> int:
        """Return a bound for any window: batches that end elsewhere in it may be as many as epochs that grow."""
        batches, self.batches = self.batches, None
        try:
            return super().terms(users)
        finally:
            self.batches = batches

    def open(self, agent: Agent) -> None:
        """Keep the last noisy sum of the window before, begin with none, and let the users of this window pay."""
        self.kept, self.kept_sigma = self.noisy, self.noisy_sigma
        self.noisy, self.noisy_sigma = np.zeros_like(self.kept), 0.0
        # the end of a window cuts its last epoch; a window beyond the horizon has no such epoch
        within = self.window <= self.horizon
        terms = self.terms(self.window - 1) + 1 if within else self.terms(self.horizon)
        key = self.rng.integers(2**63, size=4).tolist()  # not spawned: a saved agent goes on with the same
        rng, users = alike(self.rng, PCG64(key)), min(self.window, self.horizon)
        self.count(agent, terms, users, rng, agent.ledger.group + 1)

    def add(self, agent: Agent, features: Array, rewards: Array, models: Array | int) -> None:
        if agent.users and agent.users % self.window == 0:
            self.open(agent)
        super().add(agent, features, rewards, models)

    def learned(self, agent: Agent, noisy: Array, sigma: float) -> Array:
        self.noisy, self.noisy_sigma = noisy, sigma
        users = agent.users - max((agent.users - 1) // self.window - 1, 0) * self.window  # and those before it
        return agent.learned(noisy + self.kept, math.hypot(sigma, self.kept_sigma), users)


class Stretching(Epochs):
    """Epochs, until noise hides a direction; then batches of a regression, in which short records are stretched.

    The counter ends with a release that shows a direction hidden by noise, though that is less than a twentieth of the
    second moment along the strongest one. Then:
        1. S <- I, then by every release U diag(min(8, sqrt(.7 / (d lambda)))) U' S, where U diag(lambda) U' is the
           noisy mean of min(1, r) v v', if some factor is 2 or more; lambda is at least the noise.
        2. Serve a batch, half as many users as there were, by the estimate of all evidence plus a bonus; release once
           the sum of (min(1, 1/r) y v, min(1, r) svec(v v')) of r v = S x, |v| = 1, at the whole budget; go to 1.

    *Formal guarantees.* Releases alone decide that the counter ends. Who comes later is in one batch, whose sum moves
    by at most sqrt(5), not 2 (``weighed``), and is released once at the whole budget; batches are groups of their own.

    Attributes:
        batch: the number of the batch; 0 while the counter runs.
        began: the number of users at which the batch began.
        stretch: S of this batch, shape (d, d).
        known: [J | h], precision and score of theta by all releases, shape (d, d + 1).
        theta: the estimate by these, shape (d,).
    """

    def __init__(self, agent: Agent, users: int) -> None:
        self.batch, self.began = 0, 0
        self.stretch, self.known = np.eye(agent.dim), np.zeros((agent.dim, agent.dim + 1))
        self.theta: Array = np.zeros(agent.dim)
        super().__init__(agent, users)
        self.rng = agent.rng.spawn(1)[0]

    def open(self, agent: Agent) -> None:
        rng, group = agent.rng.spawn(1)[0], agent.ledger.group + 1
        self.count(agent, self.terms(self.horizon), self.horizon, rng, group)

    def cleaned(self, agent: Agent, rows: Array) -> Array:
        rows = super().cleaned(agent, rows)
        if not self.batch:
            return rows
        features, rewards = weighed(rows[:, :-1], rows[:, -1], self.stretch)
        return np.concatenate([features, rewards[:, None]], axis=1)

    def release(self, agent: Agent) -> Array:
        if not self.batch:
            return super().release(agent)
        exact, users = packed_sum(self.epoch.take()[0], 1.0), agent.users - self.began
        self.next_batch(agent)
        noisy, sigma = published(agent, exact, users, WEIGHED, self.rng)
        pool = Pool(self.stretch, 1.0, sigma)
        pool.release(noisy, users)
        return self.pooled(agent, pool)

    def learned(self, agent: Agent, noisy: Array, sigma: float) -> Array:
        pool = Pool(self.stretch, WEIGHT, sigma)
        pool.release(noisy, agent.users)
        if pool.hides(ratio=20) and pool.stretched() is not self.stretch:
            self.next_batch(agent)
            return self.pooled(agent, pool)
        return super().learned(agent, noisy, sigma)

    def next_batch(self, agent: Agent) -> None:
        self.began, self.batch = agent.users, self.batch + 1
        # batches: half as many users as there were, 16 at least
        self.ends = self.aligned(next_change(agent.users, 1.5, 16))

    def pooled(self, agent: Agent, pool: Pool) -> Array:
        """Add the evidence of a release, and return the scorer of all."""
        # theta by the evidence of all releases, the noise of which depends on theta a little
        for _ in range(2):
            known = self.known + pool.evidence(self.theta)
            precision = np.eye(agent.dim) + known[:, :-1]
            theta = np.linalg.solve(precision, known[:, -1])
            self.theta = np.asarray(theta / max(1.0, float(np.linalg.norm(theta))))
        self.known, self.stretch = known, pool.stretched()
        width = 10 * agent.config.bonus_scale * math.sqrt(math.log1p(self.horizon / agent.users))
        return optimistic_scorer(inverse_root(precision), self.theta, width)


class Batches(Summing):
    """The sum of each batch is released once, and forgotten; every batch is half as long as all users before it.

    When arms come, batches begin to grow anew: else a new arm would wait for half as many users as there were.

    *Formal guarantees.* Ends of batches are functions of time, of settings and of when arms come, which is public. A
    user is in one batch, which is released once at the whole budget, so that batches compose in parallel (adaptively).

    Attributes:
        batch: the number of the batch.
        began: the number of users at which batches began to grow.
        first: the length of a first batch.
    """

    horizon = NEVER
    fixed: ClassVar[frozenset[str]] = Summing.fixed | {"first"}

    def __init__(self, agent: Agent, first: int) -> None:
        super().__init__(agent)
        self.batch, self.began, self.first, self.ends = 0, 0, first, self.aligned(first)
        self.begin(agent)
        self.rng = agent.rng.spawn(1)[0]
        mechanism_for(agent, self.ends, agent.moved)  # refuses a budget that is too small, before anybody comes

    def promise(self, agent: Agent) -> Guarantee:
        return agent.promised(agent.proof, agent.counted)

    def release(self, agent: Agent) -> Array:
        exact, users = agent.term(self.epoch.take()), agent.users
        after = next_change(users - self.began, 1.5)  # half as many again
        self.batch, self.ends = self.batch + 1, self.aligned(self.began + after)
        return agent.learned(*published(agent, exact, users, agent.moved, self.rng), users)

    def arms_came(self, users: int) -> None:
        """Let batches begin to grow anew after so many users, but for those of the beginning."""
        if self.batch:
            self.began, self.ends = users, min(self.ends, self.aligned(users + self.first))


class OfPeople:
    """After 16, 32, 64, ... visits the sum over people of the mean of their (y x, w svec(x x')) is released, anew.

    Means are clipped to length 1/2, so that noise does not grow with how often people come. The regression is on all
    releases, weighted by their precision. The curator keeps the sum of every person's records for good.

    *Formal guarantees.* Neighbours differ in all records of one person, at the same visits: a release moves by at most
    1 however many they are (``PersonMeans``), its share of the budget is a public constant, and the releases compose.
    Proof: docs/privacy/people.md.

    Attributes:
        released: how many releases there were.
        summed: their sums of means over people, each times its precision, shape (counted,).
        precision: the sum of the precisions.
    """

    fixed: ClassVar[frozenset[str]] = frozenset({"means"})
    most = 4096

    def __init__(self, agent: Agent, users: int) -> None:
        self.means = agent.people_seen = PersonMeans(agent.config.people, agent.counted)
        self.horizon, self.times, self.released = users, snapshot_times(users), 0
        self.ends = self.times[0]
        self.summed, self.precision = np.zeros(agent.counted), 0.0
        self.rng = agent.rng.spawn(1)[0]

    def promise(self, agent: Agent) -> Guarantee:
        promise = agent.promised("docs/privacy/people.md", len(self.times) * agent.counted)
        return promise.per_person("who comes, and when, is public")

    def add(self, agent: Agent, features: Array, rewards: Array, models: Array | int) -> None:
        packed = Lifted.packed(*agent.clipped(features, rewards)).dense()
        self.means.add(in_blocks(packed, models, agent.models))

    def release(self, agent: Agent) -> Array:
        config, means, last = agent.config, self.means, self.released == len(self.times) - 1
        # one release
        rho = agent.rho * float(shares_of(self.times, self.horizon)[self.released])
        mechanism = GridGaussian.from_rho(rho, means.sensitivity, config.noise, means.size)
        exact, came = means.total(), max(means.came, 1)
        self.released, means.done = self.released + 1, last
        self.ends = agent.users + NEVER if last else self.times[self.released]
        noisy = agent.publish(mechanism, exact, partial(mechanism.release, exact, self.rng), mechanism.cost)
        # means over people, weighted by their precision
        weight = (came / mechanism.sigma) ** 2 if mechanism.sigma else float(came)
        self.summed, self.precision = self.summed + weight * noisy / came, self.precision + weight
        sigma = came / math.sqrt(self.precision) if mechanism.sigma else 0.0
        return agent.learned(came * self.summed / self.precision, sigma, came)


def mechanism_for(agent: Agent, users: int, moved: float) -> GridGaussian:
    """Return what releases a sum over ``users`` users at the whole budget, if replacing a record moves it so far."""
    covered = sensitivity(users, Products.AT_ONCE, moved)
    return GridGaussian.from_rho(agent.rho, covered, agent.config.noise, agent.counted)


def published(agent: Agent, exact: Array, users: int, moved: float, rng: Generator) -> tuple[Array, float]:
    """Publish the sum of a batch, whose users are a group of their own; return it and the deviation of its noise."""
    mechanism = mechanism_for(agent, users, moved)
    draw, cost = partial(mechanism.release, exact, rng), gaussian_dp(mechanism.rho)
    return np.asarray(agent.publish(mechanism, exact, draw, cost, agent.ledger.group + 1)), mechanism.sigma
