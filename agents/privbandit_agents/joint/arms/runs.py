"""What curators of arms without a context share: users in a row get one arm, and their sum is released once."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.agent import NEVER, next_change, refuse_people
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.guarantee import Guarantee
from privbandit_agents.base.law import Probabilities
from privbandit_agents.base.rows import added, blocks
from privbandit_agents.base.settings import Budget, LateSettings, PrivateSettings
from privbandit_agents.base.spaces import Action, Array, Feedback, n_arms, no_context
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.mechanisms.geometric import GridLaplace

STEPS = 2**20
"""Steps of the grid in a reward of 1."""


@dataclass(frozen=True)
class RunSettings(PrivateSettings, LateSettings):
    """Settings that these agents share.

    Attributes:
        epsilon: privacy budget, > 0; infinity adds no noise.
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.
    """

    epsilon: Budget = 1.0
    noise: Literal["numpy", "secure"] = "numpy"


R = TypeVar("R", bound=RunSettings)


class RunAgent(CentralAgent[R, Array]):
    """Serve a run of users with one arm, release the noisy sum of their rewards, and choose the next run by that.

    A subclass chooses in ``learned``, by calling ``run``, from the releases.

    *Formal guarantees.* Pure epsilon-joint DP under replacement of a user's whole record. A user is in one run, whose
    arm and length follow from earlier releases and public constants. A run is released once: the sum of y - 1/2 over
    its users, y clipped to [0, 1] and rounded to a grid, with discrete Laplace noise of scale 1 / epsilon on that grid.
    Replacing a record moves the sum by at most 1. It holds for the numbers that leave. A reward that is not finite
    counts as 1/2, and so does a record with another arm than the run's. Runs are groups of disjoint users, so that they
    compose in parallel. Of several best arms the next run's is drawn by a generator that no record enters. Proof:
    docs/privacy/finite-arms.md, Theorem 1.

    If feedback comes late, a run is for all arms: each user gets one by released probabilities (``share``), and the
    release is the sum of y - 1/2 for each arm that records name. Replacing a record takes at most 1/2 from one sum and
    adds at most 1/2 to another: 1 in the l1 norm, as above. How many users of a run have an arm is not counted but
    expected: by the probabilities, and by the promise about when feedback comes.

    Attributes:
        release: the arm of this run, -1 if it is for all, the arms' estimated means, and then their probabilities.
        means: those means, by the last release on each arm, shape (K,).
        left: users of this run who are still to come.
        shares: from which user on the arms have had which probabilities, rows (user, K probabilities).
        evidence: the sum of the precisions of each arm's releases, and of precision times mean, shape (2, K).
        served: how many users got an arm, now and when the run began.
    """

    plays = staticmethod(no_context)
    learns_logs = False

    def begin(self) -> None:
        self.n_arms, epsilon = n_arms(self.action_space), self.config.epsilon
        self.noise = GridLaplace.of_integers(epsilon, STEPS, self.config.noise)
        self.guarantee = Guarantee.joint(epsilon, 0.0, None, "docs/privacy/finite-arms.md", arithmetic="exact")
        self.ledger = Ledger(epsilon=epsilon)
        self.rng_runs = self.rng.spawn(1)[0]
        self.means, self.total = np.full(self.n_arms, 0.5), np.zeros(1)
        self.users, self.length, self.left = 0, 0, 0
        self.release = np.zeros(1 + self.n_arms)
        self.late = self.config.feedback if self.n_arms > 1 else None
        self.ledger.spend(self.noise.cost, group=0)
        if self.late is None:
            self.first()
        else:
            self.rng_users = self.rng.spawn(1)[0]
            self.shares, self.evidence = np.zeros((0, 1 + self.n_arms)), np.zeros((2, self.n_arms))
            self.served = np.zeros(2, np.int64)
            self.run_of_all(np.full(self.n_arms, 1 / self.n_arms))
        self.release = self.to_release()

    @abstractmethod
    def first(self) -> None:
        """Choose the first run."""

    @abstractmethod
    def learned(self, arm: int, mean: float) -> None:
        """Choose the next run, given the noisy mean reward of the last one."""

    def run(self, arm: int, length: float) -> None:
        """Open a run, which has paid, since whether it is released at its end is not in question."""
        self.arm, self.length = arm, int(min(length, NEVER))
        self.left, self.total = self.length, np.zeros(1)

    def rest(self, arm: int) -> None:
        """Play an arm for good: nobody is counted any more."""
        self.arm, self.length, self.left = arm, 0, NEVER

    # runs of all arms, if feedback comes late

    @abstractmethod
    def share(self, deviations: Array) -> Array:
        """Return with which probability each arm is played next, shape (K,), given the deviations of ``means``."""

    def run_of_all(self, shares: Array) -> None:
        """Open a run in which users get arms by these probabilities; if feedback comes in batches it ends with one."""
        assert self.late is not None
        before = self.shares[self.shares[:, 0] < self.served[0]]
        self.shares = np.vstack([before, np.append(float(self.served[0]), shares)])
        end = next_change(self.users, 1.25, 4 * self.n_arms)
        self.run(-1, (self.late.release(end) if self.late.batches else end) - self.users)
        self.total, self.served[1] = np.zeros(self.n_arms), self.served[0]

    def expected(self) -> Array:
        """Return how many records of the run have each arm, by the probabilities and the promise, shape (K,)."""
        assert self.late is not None
        now, began = self.served.tolist()
        users = np.arange(began if self.late.batches else 0, now)  # others have reported before
        came = self.late.arrived(users, now) - self.late.arrived(users, began)
        places = np.searchsorted(self.shares[:, 0], users, side="right") - 1
        arms = np.bincount(places, came, len(self.shares)) @ self.shares[:, 1:]
        if not arms.sum():  # records of nobody who was served
            arms = self.shares[-1, 1:]
        return np.asarray(self.length * arms / arms.sum())

    def learned_all(self, sums: Array, records: Array) -> None:
        """Choose the next run, given the noisy sum of y - 1/2 for each arm, and how many records have it."""
        here = np.maximum(records, 1e-9)
        precision = 1 / (0.25 / here + 2 / (self.config.epsilon * here) ** 2)
        self.evidence += [precision, precision * sums / here]
        self.means = 0.5 + self.evidence[1] / self.evidence[0]
        self.run_of_all(self.share(1 / np.sqrt(self.evidence[0])))

    def to_release(self) -> Array:
        shares = () if self.late is None else self.shares[-1, 1:]
        return np.concatenate([[float(self.arm)], self.means, shares])

    def select_action(self, context: Array) -> Action:
        """Return the arm of this run, or one by the probabilities of a run of all."""
        if self.late is not None:
            self.served[0] += context.size
            drawn = self.rng_users.random(context.shape)
            arms = np.searchsorted(np.cumsum(self.release[1 + self.n_arms : -1]), drawn, side="right")
            return arms[()]
        arms = np.full(context.shape, int(self.release[0]))
        return arms[()]

    def law(self, contexts: Array, draws: int, rng: Generator) -> Probabilities:
        if self.late is None:
            return super().law(contexts, draws, rng)
        shares = np.tile(self.release[1 + self.n_arms :], (len(contexts), 1))
        return Probabilities.of(shares)

    def frozen_rounds(self) -> int:
        return max(self.left, 1)

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        """Add up the run's rewards; release their sum when it ends."""
        new = None
        for arms, rewards in blocks(self.frozen_rounds, actions, feedback):
            if self.length:
                self.total = added(self.total, self.moved(arms, rewards))
            if self.passed(len(rewards)):
                new = self.release = self.to_release()
        return new

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        return "exact" if self.late is None else ""

    def update_counts(self, contexts: Array, actions: Action, feedback: Feedback, counts: Array) -> None:
        """Learn from users by counts; they are of one run.

        Raises:
            TypeError: the promise is to people, who have no names in counts.
        """
        refuse_people(self)
        _, arms, rewards = self.records_of(contexts, actions, feedback)
        if self.length:
            self.total = self.total + counts @ self.moved(arms, rewards)
        if self.passed(int(counts.sum())):
            self.release = self.to_release()

    def moved(self, arms: Array, rewards: Array) -> Array:
        """Return what each record adds to the sums of its run, in steps of the grid, at most half a reward in all."""
        sums = np.array([self.arm]) if self.late is None else np.arange(self.n_arms)
        told = np.isfinite(rewards)[:, None] & (arms[:, None] == sums)
        centred = np.clip(np.where(told, rewards[:, None], 0.5), 0.0, 1.0) - 0.5
        return np.asarray(np.rint(STEPS * centred))

    def passed(self, users: int) -> bool:
        """Go on by n users of this run; return whether it ended and was released."""
        self.users += users
        if not self.length:
            return False
        self.left -= users
        if self.left > 0:
            return False
        # one more run of the arm, if no other is chosen, is open and paid for before this one is released
        group, total, length = self.ledger.group, self.total, self.length
        self.ledger.spend(self.noise.cost, group=group + 1)
        draw = partial(self.noise.release, total, self.rng)
        if self.late is None:
            self.run(self.arm, length)
            noisy = self.publish(self.noise, total, draw, group=group)
            self.learned(self.arm, 0.5 + float(noisy[0]) / (STEPS * length))
        else:
            records = self.expected()
            self.run_of_all(self.shares[-1, 1:])
            self.learned_all(self.publish(self.noise, total, draw, group=group) / STEPS, records)
        return True

    def predict(self, contexts: Array) -> Array:
        """Return the estimated mean reward of every arm, in [0, 1], shape (m, K)."""
        return np.tile(np.clip(self.release[1 : 1 + self.n_arms], 0.0, 1.0), (len(contexts), 1))
