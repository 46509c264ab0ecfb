"""A curator's sums, and when they are released: a statistic of records, and the protocol of its schedule."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

from privbandit_agents.base.arms import ArmModels, optimistic_scorer, ridge_width
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.guarantee import Guarantee
from privbandit_agents.base.rows import Products, blocks, keep_pages
from privbandit_agents.base.spaces import Action, Array, arms_or_context
from privbandit_agents.joint.settings import GaussianSettings, refuse_beyond
from privbandit_agents.privacy.contributions.moments import (
    SENSITIVITY,
    packed_size,
    packed_sum,
    perturbed_ridge,
    sanitise,
)

C = TypeVar("C", bound=GaussianSettings)


class Schedule(Protocol):
    """When the sum of users' records is released, by which noise, and at what cost: ``joint/linear/schedules.py``.

    ``ends`` is a function of public constants and of earlier releases alone. ``release`` takes the exact sum out of
    the state and sets the next ``ends`` before it publishes, so that an interrupted agent uses no record again.

    Attributes:
        ends: the number of users at which the next sum is released; an action reads no later user.
        horizon: how many users are counted.
        most: users whose records are taken in at once.
    """

    ends: int
    horizon: int
    most: int

    def promise(self, agent: "SummedRecords[C]") -> Guarantee:
        """Return the guarantee of all that is released."""

    def add(self, agent: "SummedRecords[C]", features: Array, rewards: Array, models: Array | int) -> None:
        """Add records to the sum, as ``ArmModels.regressed`` returns them."""

    def release(self, agent: "SummedRecords[C]") -> Array:
        """Publish the sum when ``ends`` users have come, and return the agent's scorer."""


class SummedRecords(ArmModels, CentralAgent[C, Array]):
    """A statistic: what a record adds to a sum of z z', z = (x, y), and the scorer that a noisy sum gives.

    A subclass says in ``scheduled`` when its sum is released, and in ``learned`` what follows from it.

    *Formal guarantees.* A schedule's noise covers ``moved`` and the rounding of sums. So replacing one record, whatever
    it is, must move the sum of terms by at most ``moved`` in the l2 norm, and no record may add more than sqrt(1.5).
    The moments of clipped records, which are the default, move by at most 2 (``pack``), those of two arms by sqrt(3).

    Attributes:
        schedule: when the sum is released, and by which noise.
        users: how many have been counted.
        rho: the whole budget.
        release: [bonus A^(-1/2) | theta] of each model, shape (d, models (d + 1)).
        proof: the place of the proof.
    """

    schedule: Schedule
    gaussian = True
    proof: str
    plays = staticmethod(arms_or_context)

    def begin(self) -> None:
        self.dim, self.users = self.width, 0
        keep_pages(self.counted)
        self.rho, self.ledger = self.config.concentrated(), self.config.ledger()
        self.release = np.zeros((self.dim, self.models * (self.dim + 1)))
        self.schedule = self.scheduled()
        self.guarantee = self.schedule.promise(self)

    def promised(self, proof: str, numbers: int) -> Guarantee:
        """Return joint DP at the budget, exact if it is so for all ``numbers`` that get noise for one user."""
        return self.config.guarantee(proof, arithmetic=self.config.arithmetic(numbers))

    @abstractmethod
    def scheduled(self) -> Schedule:
        """Return the schedule that the settings ask for."""

    @property
    def counted(self) -> int:
        """How many numbers are added up."""
        return self.models * packed_size(self.dim)

    @property
    def moved(self) -> float:
        """How far replacing one record moves the exact sum of terms, in the l2 norm."""
        return SENSITIVITY

    def sums(self, clean: Callable[[Array], Array]) -> Any:
        """Return what adds up rows z, each to its model, and gives them up: ``clean`` brings rows within bounds."""
        return Products(self.dim + 1, self.models, clean)

    def rows(self, features: Array, rewards: Array, models: Array | int) -> Array:
        """Return z of n records, shape (n, d + 1), before they are ``clipped``."""
        return np.concatenate([features, rewards[:, None]], axis=1)

    def clipped(self, features: Array, rewards: Array) -> tuple[Array, Array]:
        """Return x and y of rows z within their bounds: |x| <= 1, |y| <= 1, and (0, 0) of what is not finite."""
        return sanitise(features, rewards)

    def term(self, products: Array) -> Array:
        """Return the numbers to release, shape (counted,), given the sums of z z' of each model."""
        return packed_sum(products).reshape(-1)

    def learned(self, noisy: Array, sigma: float, users: int) -> Array:
        """Return the scorer, given a noisy sum of terms over n users and the deviation of its noise.

        Unless a subclass says otherwise it is optimism on the ridge regressions of the models.
        """
        config: Any = self.config
        roots, thetas, added = self.solved(noisy.reshape(self.models, -1), sigma)
        return optimistic_scorer(roots, thetas, config.bonus_scale * ridge_width(sigma, added, self.dim, users))

    def solved(self, noisy: Array, sigma: float) -> tuple[Array, Array, float]:
        """Return (R, theta, lambda) of the models, as ``perturbed_ridge``, given their noisy sums, a row each."""
        config: Any = self.config
        return perturbed_ridge(noisy, self.dim, sigma, config.shift)

    def select_action(self, context: Array) -> Action:
        """Return argmax of x . theta + bonus |x|_(A^-1)."""
        if self.users >= self.schedule.horizon:  # nobody is counted any more
            return self.settled(context)
        best: Action = self.optimistic(context, self.release)
        return best

    def settled(self, context: Array) -> Action:
        """Return argmax of x . theta, for users who are not counted."""
        best: Action = self.greedy(context, self.release)
        return best

    def refuse(self, users: int) -> None:
        refuse_beyond(self.schedule.horizon, self.users + users, self.name)

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        """Add up records; release a scorer when the schedule says so."""
        scorer = None
        for x, arms, rewards in blocks(self.frozen_rounds, contexts, actions, feedback, most=self.schedule.most):
            if self.users >= self.schedule.horizon:
                break
            self.schedule.add(self, *self.regressed(x, arms, rewards))
            self.users += len(rewards)
            if self.users >= self.schedule.ends:
                scorer = self.release = self.schedule.release(self)
        return scorer

    def frozen_rounds(self) -> int:
        return max(self.schedule.ends - self.users, 1)
