"""What curators of arms without a context share: users in a row get one arm, and their sum is released once."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

import numpy as np

from privbandit_agents.base.agent import NEVER, refuse_people
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.guarantee import Guarantee
from privbandit_agents.base.rows import added, blocks
from privbandit_agents.base.settings import Budget, PrivateSettings
from privbandit_agents.base.spaces import Action, Array, Feedback, n_arms, no_context
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.mechanisms.geometric import GridLaplace

STEPS = 2**20
"""Steps of the grid in a reward of 1."""


@dataclass(frozen=True)
class RunSettings(PrivateSettings):
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

    Attributes:
        release: the arm of this run, and the arms' estimated means, shape (1 + K,).
        means: those means, by the last release on each arm, shape (K,).
        left: users of this run who are still to come.
    """

    plays = staticmethod(no_context)

    def begin(self) -> None:
        self.n_arms, epsilon = n_arms(self.action_space), self.config.epsilon
        self.noise = GridLaplace.of_integers(epsilon, STEPS, self.config.noise)
        self.guarantee = Guarantee.joint(epsilon, 0.0, None, "docs/privacy/finite-arms.md", arithmetic="exact")
        self.ledger = Ledger(epsilon=epsilon)
        self.rng_runs = self.rng.spawn(1)[0]
        self.means, self.total = np.full(self.n_arms, 0.5), np.zeros(1)
        self.users, self.length, self.left = 0, 0, 0
        self.release = np.zeros(1 + self.n_arms)
        self.ledger.spend(self.noise.cost, group=0)
        self.first()
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

    def to_release(self) -> Array:
        return np.append(float(self.arm), self.means)

    def select_action(self, context: Array) -> Action:
        """Return the arm of this run."""
        arms: Array = np.full(context.shape, int(self.release[0]))
        return arms[()]

    def frozen_rounds(self) -> int:
        return max(self.left, 1)

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        """Add up the run's rewards; release their sum when it ends."""
        new = None
        for arms, rewards in blocks(self.frozen_rounds, actions, feedback):
            if self.length:
                self.total = added(self.total, self.moved(arms, rewards)[:, None])
            if self.passed(len(rewards)):
                new = self.release = self.to_release()
        return new

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        return "exact"

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
        """Return what each record adds to the sum of its run, in steps of the grid, at most half a reward, (n,)."""
        told = np.isfinite(rewards) & (arms == self.arm)
        centred = np.clip(np.where(told, rewards, 0.5), 0.0, 1.0) - 0.5
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
        group, total = self.ledger.group, self.total
        self.ledger.spend(self.noise.cost, group=group + 1)
        self.run(self.arm, self.length)
        draw = partial(self.noise.release, total, self.rng)
        noisy = self.publish(self.noise, total, draw, group=group)
        self.learned(self.arm, 0.5 + float(noisy[0]) / (STEPS * self.length))
        return True

    def predict(self, contexts: Array) -> Array:
        """Return the estimated mean reward of every arm, in [0, 1], shape (m, K)."""
        return np.tile(np.clip(self.release[1:], 0.0, 1.0), (len(contexts), 1))
