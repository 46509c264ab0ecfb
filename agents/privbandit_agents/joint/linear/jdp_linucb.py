"""Jointly private LinUCB by continual counting.

Roshan Shariff and Or Sheffet, "Differentially Private Contextual Linear Bandits", NeurIPS 2018, Algorithm 1. The window
is this project's own, after Wang Chi Cheung, David Simchi-Levi and Ruihao Zhu, "Learning to Optimize under
Non-Stationarity", AISTATS 2019.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.agent import NEVER, Action, Array, CentralAgent, Guarantee, arms_or_context, next_change
from privbandit_agents.base.arms import ArmModels, optimistic_scorer
from privbandit_agents.base.rows import Products, blocks
from privbandit_agents.base.settings import Budget, Count, Growth, NonNegative, Open01
from privbandit_agents.joint.linear.person_means import PersonMeans, shares_of, snapshot_times
from privbandit_agents.joint.settings import COUNTERS, CounterName, GaussianSettings, refuse_beyond
from privbandit_agents.privacy.accounting.costs import gaussian_dp
from privbandit_agents.privacy.contributions.moments import (
    WEIGHED,
    WEIGHT,
    Lifted,
    mass,
    packed_size,
    packed_sum,
    perturbed_ridge,
    sanitise,
    sensitivity,
    weighed,
)
from privbandit_agents.privacy.contributions.pool import Pool
from privbandit_agents.privacy.mechanisms.counters import MOST_BYTES, Counter
from privbandit_agents.privacy.mechanisms.discrete import GridGaussian


@dataclass(frozen=True)
class Config(GaussianSettings):
    """Settings of JDP-LinUCB, besides the budget.

    Attributes:
        horizon: number of users T, fixed in advance; default: the environment's.
        counter: ``"tree"``; ``"toeplitz"``, with a third of its noise and memory that grows with the horizon; or
            ``"buffered"``, within 1 % of that in memory that grows with its logarithm.
        bonus_scale: multiplier of the theoretical width of the confidence bonus, >= 0; 1 is the theory.
        shift: ridge in units of the noise's spectral norm, >= 0.
        growth: an epoch ends, and the policy changes, when the number of users has grown by this factor, > 1.
        window: a new counter begins after this many users; the last full window and the one that runs count. None: one
            counter for all users.
        visits: with ``people``, ``"first"``: the first visit of each counts, in a counter; or ``"mean"``: all visits
            count in the mean of each person's records, which takes memory for every person. None: ``"mean"`` if
            people come 30 times or more on average, and the memory is at most 200 MiB.
    """

    epsilon: Budget = 1.0
    delta: Open01 = 1e-5
    horizon: Count | None = None
    counter: CounterName = "buffered"
    bonus_scale: NonNegative = 0.1
    shift: NonNegative = 1.0
    growth: Growth = 1.05
    window: Count | None = None
    visits: Literal["first", "mean"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.visits is not None and self.people is None:
            raise ValueError(f"visits is for agents with people, who come again; got visits={self.visits!r}.")
        if self.visits == "mean" and self.window is not None:
            raise ValueError("visits='mean' has no windows; take visits='first', or leave window out.")

    def averages(self, users: int, size: int) -> bool:
        """Return whether means of people's records are kept, vectors of ``size`` numbers, in ``users`` visits.

        Raises:
            ValueError: they are asked for, and do not fit into memory.
        """
        if self.people is None or self.visits == "first" or self.window is not None:
            return False
        fits = 8 * self.people * size <= MOST_BYTES
        if self.visits == "mean" and not fits:
            taken = f"{8 * self.people * size / 2**20:,.0f} MiB for {self.people:,} people of {size:,} numbers"
            raise ValueError(f"visits='mean' takes {taken}; visits='first' takes next to none.")
        return self.visits == "mean" or (fits and users >= 30 * self.people)  # from 30 visits a person on, means win

    def epochs(self, users: int) -> int:
        """Return the number of epochs that end within ``users`` users, or a little more: the counter's horizon."""
        end, ended = 1, 0
        while end <= users and ended < 10_000:  # of more epochs there is a bound
            end, ended = next_change(end, self.growth), ended + 1
        left = math.ceil(math.log(users / end) / math.log(self.growth)) if end < users else 0
        return ended + min(left + 1, users - end + 1) if end <= users else ended

    def longest(self, users: int) -> int:
        """Return a bound on the length of an epoch that ends within ``users`` users."""
        return min(users, math.ceil(users * (1 - 1 / self.growth)) + 2)


class JDPLinUCB(ArmModels, CentralAgent[Config, Array]):
    """A curator keeps a private running sum of (y x, w svec(x x')); users act on the ridge regression it gives.

    Algorithm:
        1. Serve an epoch of users by the regression released last; the first epoch is one user.
        2. z <- sum of (y x, w svec(x x')) over the users of the epoch; forget them.
        3. Give z to a continual counter; release the ridge regression of the noisy sum of all epochs so far.
        4. The next epoch ends when the number of users has grown by the factor ``growth``; go to 1.

        If a release shows that noise hides a direction, though it is less than a twentieth of the second moment along
        the strongest one, the counter ends with it, and batches follow:
        5. S <- I, then by every release U diag(min(8, sqrt(.7 / (d lambda)))) U' S, where U diag(lambda) U' is the
           noisy mean of min(1, r) v v', if some factor is 2 or more; lambda is at least the noise.
        6. Serve a batch, half as many users as there were, by the estimate of all evidence plus a bonus; release once
           the sum of (min(1, 1/r) y v, min(1, r) svec(v v')) of r v = S x, |v| = 1, at the whole budget; go to 5.
        Neither happens where arms share a context, with windows, or with people.

        With a ``window`` each window of users has a counter of its own, and epochs grow within it. To every noisy sum
        add the last one of the window before; a window that ends forgets the sum before its own.

        If the arms share a context x, each has a regression of its own, on z = (x / (0.7 sqrt(d)), 1) / sqrt(2),
        cut to the unit ball: the counter adds up one block of z's moments for each arm. Rewards are then clipped to
        [0, 1], and 2 y - 1 is learned.

        With ``people`` the first visit of each person alone counts; whoever returns is served without a bonus. With
        ``visits="mean"`` all visits count: after 16, 32, 64, ... visits of all people together the sum over people of
        the mean of their (y x, w svec(x x')), clipped to length 1/2, is released with fresh noise, and the regression
        is on all of these sums, weighted by their precision. The noise of a release does not grow with how often
        people come.

    *Formal guarantees.* sqrt(2 rho)-Gaussian DP (hence (epsilon, delta)-joint DP and rho-zCDP) under replacement of
    a user's whole record: one continual counter runs over the epochs, and every action reads its releases only. The
    ends of epochs are public constants, and a user is in one epoch: replacing the user's record moves one term of
    the counter, by at most 2 in the l2 norm (``pack``); if it moves the blocks of two arms, by at most sqrt(3). A user
    who comes after the counter has ended is in one batch, whose sum moves by at most sqrt(5), not 2 (``weighed``), and
    is released once at the whole budget; releases alone decide that it ends. The
    curator clips records to |x| <= 1, |y| <= 1; records that are not finite count as (0, 0). It holds for the
    numbers that leave: the counter's noise is discrete, on a grid, and its sensitivity covers the rounding of the
    sums. Windows are public constants, and a user is in the counter of one window, which pays the whole budget: the
    ledger composes windows in parallel. That a noisy sum counts in the releases of two windows is post-processing
    (docs/privacy/windows.md). With ``visits="mean"`` neighbours differ in all records of one person, at the same
    visits: each release moves by at most 1 however many there are, and the releases compose. The curator then keeps
    the sum of every person's records for good (docs/privacy/people.md).

    Deviations:
        The counter is calibrated in Gaussian DP, which converts exactly. Besides the paper's binary tree there is the
        square-root Toeplitz factorisation, with several times less noise. The policy changes at geometric times, and
        the counter counts these epochs: log(T) terms in place of T have less noise. ``bonus_scale`` scales the bonus.
        Batches and their stretch are this project's own; where no direction is weak there are none.
    """

    Config = Config
    gaussian = True
    group: int | None = None
    """The number of the window whose users the counter is about, or 0 if batches may follow; None: about anyone."""
    kept: Array
    noisy: Array
    kept_sigma: float
    noisy_sigma: float
    plays = staticmethod(arms_or_context)

    def begin(self) -> None:
        config = self.config
        users = config.horizon or 100_000
        self.dim = self.width
        self.ledger = config.ledger()
        self.release = np.zeros((self.dim, self.models * (self.dim + 1)))
        self.users, self.refit_at = 0, 1
        self.stretch, self.batch, self.began = np.eye(self.dim), 0, 0
        self.known = np.zeros((self.dim, self.dim + 1))
        self.theta: Array = np.zeros(self.dim)
        if config.averages(users, self.counted):
            self.open_means(users)
            return
        self.horizon = config.counted(users)
        self.epoch = Products(self.dim + 1, self.models, self.cleaned)
        self.open_window()
        self.guarantee = self.promise()

    def open_means(self, users: int) -> None:
        """Keep a mean of every person's records, to be released within ``users`` visits."""
        config = self.config
        assert config.people is not None
        self.people_seen, self.horizon = PersonMeans(config.people, self.counted), users
        self.times, self.released = snapshot_times(users), 0
        self.refit_at = self.times[0]
        self.summed, self.precision = np.zeros(self.counted), 0.0  # of the releases' means, each times its precision
        self.rng_means = self.rng.spawn(1)[0]
        arithmetic = config.arithmetic(len(self.times) * self.counted)
        promise = config.guarantee("docs/privacy/people.md", arithmetic=arithmetic)
        self.guarantee = promise.per_person("who comes, and when, is public")

    def promise(self) -> Guarantee:
        """Return the guarantee."""
        if self.config.window is not None:
            return self.promised("docs/privacy/windows.md")
        return self.promised("docs/privacy/regression-moments.md and docs/privacy/continual-counting.md")

    def promised(self, reference: str) -> Guarantee:
        """Return joint DP at the budget, exact if it is so for all numbers that the counter releases."""
        arithmetic = self.config.arithmetic(self.counter.horizon * self.counter.dim)
        return self.config.guarantee(reference, arithmetic=arithmetic)

    def open_window(self) -> None:
        """Open a counter and spend the whole budget at once: all releases of a counter are one mechanism.

        The users of a window are others than those before, so they pay on their own.
        """
        config, group = self.config, self.ledger.group + 1 if self.may_stretch or self.config.window else None
        if config.window is None:
            counter = self.opened(config.epochs(self.horizon), self.horizon, self.rng.spawn(1)[0])
            if self.may_stretch:
                self.rng_batches = self.rng.spawn(1)[0]
        else:
            # keep the last noisy sum of the window before, and begin with none
            first, size = self.group is None, self.counted
            self.kept, self.kept_sigma = (np.zeros(size), 0.0) if first else (self.noisy, self.noisy_sigma)
            self.noisy, self.noisy_sigma = np.zeros(size), 0.0
            if first:
                self.counters = self.rng.spawn(1)[0]
            # the end of a window cuts its last epoch; a window beyond the horizon has no such epoch
            within = config.window <= self.horizon
            terms = config.epochs(config.window - 1) + 1 if within else config.epochs(self.horizon)
            key = self.counters.integers(2**63, size=4).tolist()  # not spawned: a saved agent goes on with the same
            counter = self.opened(terms, min(config.window, self.horizon), np.random.default_rng(key))
        self.ledger.spend(gaussian_dp(counter.rho), group)
        self.group, self.counter = group, counter

    def opened(self, epochs: int, users: int, rng: Generator) -> Counter:
        """Return a counter of ``epochs`` epochs, of ``users`` users in all, at the whole budget."""
        config = self.config
        moved = sensitivity(config.longest(users), Products.AT_ONCE)
        bounds = epochs, self.counted, moved, config.concentrated()
        return COUNTERS[config.counter](*bounds, rng, mass=mass(users), noise=config.noise)

    @property
    def counted(self) -> int:
        """How many numbers the counter adds up."""
        return self.models * packed_size(self.dim)

    @property
    def may_stretch(self) -> bool:
        """Whether batches may follow on the counter: one model, and one counter for all users."""
        return self.models == 1 and self.config.window is None and not self.config.people

    def clipped(self, features: Array, rewards: Array) -> tuple[Array, Array]:
        """Return the records of an epoch within their bounds."""
        return sanitise(features, rewards)

    def cleaned(self, records: Array) -> Array:
        """Return records (x, y) of the curator, shape (n, d + 1), within their bounds."""
        features, rewards = self.clipped(records[:, :-1], records[:, -1])
        if self.batch:
            features, rewards = weighed(features, rewards, self.stretch)
        return np.concatenate([features, rewards[:, None]], axis=1)

    def term(self, products: Array) -> Array:
        """Return the counter's term, given the sums of z z' over the epoch's z = (x, y), one for each model."""
        return np.concatenate([packed_sum(one) for one in products])

    def select_action(self, context: Array) -> Action:
        """Return argmax of x . theta + bonus |x|_(A^-1)."""
        if self.users >= self.horizon:  # nobody is counted any more
            return self.settled(context)
        best: Array = self.optimistic(context, self.release)
        return best

    def settled(self, context: Array) -> Action:
        """Return argmax of x . theta, for users who are not counted."""
        best: Action = self.greedy(context, self.release)
        return best

    def refuse(self, users: int) -> None:
        refuse_beyond(self.horizon, self.users + users, self.name)

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        """Add up the epoch's records; release a regression when it ends."""
        if isinstance(self.people_seen, PersonMeans):
            return self._averaged(self.people_seen, contexts, actions, feedback)
        scorer = None
        for x, arms, rewards in blocks(self.frozen_rounds, contexts, actions, feedback, most=Products.AT_ONCE):
            if self.config.window is not None and self.users and self.users % self.config.window == 0:
                self.open_window()
            features, learned, models = self.regressed(x, arms, rewards)
            self.epoch.add(np.concatenate([features, learned[:, None]], axis=1), models)
            self.users += len(rewards)
            if self.users == self.refit_at:
                products = self.epoch.take()
                if self.batch:
                    scorer = self.release = self._batched(packed_sum(products[0], 1.0))
                else:
                    self.refit_at = self._next_epoch()
                    scorer = self.release = self._scorer(self._noisy(self.term(products)[None]))
        return scorer

    def _next_epoch(self) -> int:
        """Return after how many users the epoch that begins now ends; a window ends its last epoch."""
        growth, window = self.config.growth, self.config.window
        if window is None:
            return next_change(self.users, growth)
        end = -(-self.users // window) * window  # of the window of the last user
        return end + 1 if self.users == end else min(end - window + next_change(self.users - end + window, growth), end)

    def _noisy(self, terms: Array) -> Array:
        """Publish the counter's noisy sum with new terms, of shape (1, size)."""
        released = self.publish(self.counter, terms, partial(self.counter.extend, terms), group=self.group)
        return np.asarray(released[-1])

    def _batched(self, exact: Array) -> Array:
        """Release the batch's sum, set the end of the next batch, and return the scorer of all evidence."""
        users = self.users - self.began
        moved = sensitivity(users, Products.AT_ONCE, WEIGHED)
        mechanism = GridGaussian.from_rho(self.counter.rho, moved, self.config.noise, len(exact))
        draw, cost = partial(mechanism.release, exact, self.rng_batches), gaussian_dp(self.counter.rho)
        pool = Pool(self.stretch, 1.0, mechanism.sigma)
        self._open_batch()
        pool.release(self.publish(mechanism, exact, draw, cost, self.ledger.group + 1), users)
        return self._learned(pool)

    def _open_batch(self) -> None:
        self.began, self.batch = self.users, self.batch + 1
        self.refit_at = next_change(self.users, 1.5, 16)  # batches: half as many users as there were, 16 at least

    def _learned(self, pool: Pool) -> Array:
        """Add the evidence of a release, and return the scorer."""
        # theta by the evidence of all releases, the noise of which depends on theta a little
        for _ in range(2):
            known = self.known + pool.evidence(self.theta)
            precision = np.eye(self.dim) + known[:, :-1]
            theta = np.linalg.solve(precision, known[:, -1])
            self.theta = np.asarray(theta / max(1.0, float(np.linalg.norm(theta))))
        self.known, self.stretch = known, pool.stretched()
        width = 10 * self.config.bonus_scale * math.sqrt(math.log1p(self.horizon / self.users))
        return optimistic_scorer(precision, self.theta, width)

    def _averaged(self, means: PersonMeans, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        """Add records to the sums of their people; release a regression when it is time."""
        scorer = None
        columns = contexts, actions, feedback, means.slots
        for x, arms, rewards, slots in blocks(self.frozen_rounds, *columns, most=4096):
            if means.done:
                break
            features, learned, models = self.regressed(x, arms, rewards)
            packed = Lifted.packed(*self.clipped(features, learned)).dense()
            vectors = np.zeros((len(packed), self.models, packed.shape[1]))
            vectors[np.arange(len(packed)), models] = packed
            means.add(slots, vectors.reshape(len(packed), -1))
            self.users += len(rewards)
            if self.users == self.refit_at:
                scorer = self.release = self._snapshot(means)
        return scorer

    def _snapshot(self, means: PersonMeans) -> Array:
        """Release the sum of people's means, set the time of the next, and return the scorer of all releases so far."""
        config, last = self.config, self.released == len(self.times) - 1
        # one release
        rho = config.concentrated() * float(shares_of(self.times, self.horizon)[self.released])
        mechanism = GridGaussian.from_rho(rho, means.sensitivity, config.noise, means.size)
        exact, came = means.total(), max(means.came, 1)
        self.released, means.done = self.released + 1, last
        self.refit_at = self.users + NEVER if last else self.times[self.released]
        noisy = self.publish(mechanism, exact, partial(mechanism.release, exact, self.rng_means), mechanism.cost)
        # means over people, weighted by their precision
        weight = (came / mechanism.sigma) ** 2 if mechanism.sigma else float(came)
        self.summed, self.precision = self.summed + weight * noisy / came, self.precision + weight
        sigma = came / math.sqrt(self.precision) if mechanism.sigma else 0.0
        return self._optimistic(came * self.summed / self.precision, sigma, came)

    def frozen_rounds(self) -> int:
        return self.refit_at - self.users

    def _optimistic(self, noisy: Array, sigma: float, counted: int) -> Array:
        """Return the optimistic scorer of a noisy sum over ``counted`` records, with noise of deviation sigma."""
        solved = [self.solved(k, part, sigma) for k, part in enumerate(np.split(noisy, self.models))]
        added = solved[0][2]
        theory = sigma * math.sqrt(self.dim / added) + math.sqrt(added) + math.sqrt(self.dim * math.log(1 + counted))
        return np.hstack([optimistic_scorer(a, theta, self.config.bonus_scale * theory) for a, theta, _ in solved])

    def _scorer(self, noisy: Array) -> Array:
        """Return the optimistic scorer of the counter's noisy sum, and set when the next epoch ends."""
        window, sigma, counted = self.config.window, self.counter.standard_deviation(self.counter.t), self.users
        if window is not None:
            self.noisy, self.noisy_sigma = noisy, sigma
            noisy, sigma = noisy + self.kept, math.hypot(sigma, self.kept_sigma)
            counted -= max((self.users - 1) // window - 1, 0) * window  # in this window and the one before
        if self.may_stretch:
            pool = Pool(self.stretch, WEIGHT, sigma)
            pool.release(noisy, counted)
            if pool.hides(ratio=20) and pool.stretched() is not self.stretch:
                self._open_batch()
                return self._learned(pool)
        return self._optimistic(noisy, sigma, counted)

    def solved(self, model: int, noisy: Array, sigma: float) -> tuple[Array, Array, float]:
        """Return (A, theta, lambda) of a model, given its part of the counter's sum and the deviation of the noise."""
        return perturbed_ridge(noisy, self.dim, sigma, self.config.shift)
