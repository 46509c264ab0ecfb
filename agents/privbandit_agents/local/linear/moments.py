"""What locally private agents share that add up noisy moments of a linear regression."""

import math
from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np

from privbandit_agents.base.agent import Array, C, Guarantee, LocalAgent, arms_with_features
from privbandit_agents.base.arms import best_arm, optimistic_scorer, played
from privbandit_agents.privacy.accounting.ledger import Cost, Ledger, pure
from privbandit_agents.privacy.contributions.moments import pack, packed_size, perturbed_ridge
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer


class MomentAgent(LocalAgent[C, Array]):
    """A server that adds up noisy (y x, w svec(x x')) and plays by the ridge regression they give.

    A subclass calibrates ``self.guarantee``, ``self.ledger``, ``self.cost`` and ``self.sigma`` (the noise of a packed
    coordinate of one report), and implements ``report``.
    """

    fixed: ClassVar[frozenset[str]] = LocalAgent.fixed | {"guarantee", "cost"}
    cost: Cost
    sigma: float
    least_batch: ClassVar[int] = 1
    """Fewest users between two changes of the policy."""

    def begin(self) -> None:
        """Start with an empty sum."""
        super().begin()
        assert self.observation_space.shape is not None
        self.dim = self.observation_space.shape[1]
        self.total = np.zeros(packed_size(self.dim))
        self.scorer = np.zeros((self.dim, self.dim + 1))
        self.users, self.refit_at = 0, 1

    plays = staticmethod(arms_with_features)

    def encode(self, context: Array, action: Any, feedback: Any) -> Array:
        """Return what the devices of users randomize, shape (n, D): of a norm that no record exceeds."""
        contexts = np.asarray(context).reshape(-1, *(self.observation_space.shape or ()))
        return pack(played(contexts, action), np.atleast_1d(feedback))

    def far_apart(self) -> tuple[Array, Array]:
        """Return the features (2, d) and rewards (2,) of two records that a report tells apart best; for audits."""
        return np.tile(np.eye(self.dim)[0], (2, 1)), np.array([1.0, -1.0])

    @abstractmethod
    def report(self, packed: Array) -> Array:
        """Randomize packed records (n, D) with the devices' noise."""

    def decode(self, report: Array) -> Array:
        """Return unbiased estimates of the packed records, shape (n, D)."""
        return report

    def bonus(self, users: int, added: float) -> float:
        """Return the width of the confidence bonus."""
        return 0.0

    def select_action(self, context: Array) -> Any:
        """Return argmax of x . theta + bonus |x|_(A^-1)."""
        return best_arm(context, self.scorer)

    def predict(self, contexts: Array) -> Array:
        """Return x . theta, clipped to [-1, 1] as rewards are, shape (m, K)."""
        return np.clip(contexts @ self.scorer[:, -1], -1.0, 1.0)

    def randomize(self, context: Array, action: Any, feedback: Any) -> Array:
        """Return the reports of one user or of n users, shape (n, D): one release each, whatever the record."""
        return self.report(self.encode(context, action, feedback))

    def absorb(self, report: Array) -> None:
        """Add up reports in order; change the policy when it is time."""
        decoded, done = self.decode(report), 0
        while done < len(decoded):
            part = decoded[done : done + self.frozen_rounds()]
            self.ledger.spend(self.cost, group=self.users, groups=len(part))
            self.total = np.add.reduce(np.concatenate([self.total[None], part]), axis=0)
            self.users += len(part)
            done += len(part)
            if self.users == self.refit_at:
                self.refit()

    @abstractmethod
    def report_sum(self, packed: Array, counts: Array) -> Array:
        """Draw the sum of ``decode(report(packed))`` over ``counts[i]`` users of each record, shape (D,)."""

    def randomize_sum(self, contexts: Array, actions: Any, feedback: Any, counts: Array) -> Array:
        """Return the sum of the users' decoded reports, shape (D,)."""
        return self.report_sum(self.encode(contexts, actions, feedback), counts)

    def absorb_sum(self, total: Array, users: int) -> None:
        """Add the sum of reports of users who come before the policy changes."""
        self.ledger.spend(self.cost, group=self.users, groups=users)
        self.total = self.total + total
        self.users += users
        if self.users == self.refit_at:
            self.refit()

    def frozen_rounds(self) -> int:
        """Return the number of users before the policy changes."""
        return self.refit_at - self.users

    def refit(self) -> None:
        """Change the policy, and say when it changes next."""
        self.learn()
        self.refit_at = max(self.users + self.least_batch, math.ceil(self.users * self.config.growth))

    def learn(self) -> None:
        """Solve the regression."""
        sigma = self.sigma * math.sqrt(self.users)
        a, theta, added = perturbed_ridge(self.total, self.dim, sigma, self.config.ridge, self.config.shift)
        self.scorer = optimistic_scorer(a, theta, self.bonus(self.users, added))


class PureMomentAgent(MomentAgent[C]):
    """A MomentAgent whose devices use a LocalRandomizer with one cell.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by a
    randomizer whose likelihood ratio is at most e^epsilon for any two inputs, whatever ``encode`` makes of the record.
    """

    fixed: ClassVar[frozenset[str]] = MomentAgent.fixed | {"randomizer"}
    proof: ClassVar[str] = "docs/privacy/local-randomizers.md"

    @abstractmethod
    def device(self) -> LocalRandomizer:
        """Return what randomizes a record on a user's device."""

    def begin(self) -> None:
        """Calibrate the devices."""
        super().begin()
        self.randomizer = self.device()
        self.total = np.zeros(self.randomizer.dim)
        self.sigma = self.randomizer.variance(own=True) ** 0.5
        self.cost = pure(self.config.epsilon)
        self.ledger = Ledger(epsilon=self.config.epsilon)
        self.guarantee = Guarantee.local(self.config.epsilon, 0.0, self.proof)

    def report(self, packed: Array) -> Array:
        """Randomize on the device."""
        return self.randomizer.randomize(np.zeros(len(packed), dtype=int), packed, self.rng)

    def decode(self, report: Array) -> Array:
        """Return unbiased estimates of the packed records."""
        return self.randomizer.estimate(report)[:, 0]

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        """Laplace noise has an exact sum."""
        return "exact" if self.randomizer.exact_sum else "normal"

    def report_sum(self, packed: Array, counts: Array) -> Array:
        """Draw the sum of all users' reports at once."""
        cells = np.zeros(len(packed), dtype=int)
        total: Array = self.randomizer.approximate_sum(cells, packed, self.rng, counts)[0]
        return total
