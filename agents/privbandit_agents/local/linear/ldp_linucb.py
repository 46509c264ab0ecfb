"""Locally private LinUCB by perturbed sufficient statistics.

Kai Zheng, Tianle Cai, Weiran Huang, Zhenguo Li and Liwei Wang, "Locally Differentially Private (Contextual) Bandits
Learning", NeurIPS 2020, Algorithm 1 (LDP-OFUL, linear case).
"""

import math
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.agent import (
    Array,
    Guarantee,
    Ledger,
    LocalAgent,
    Space,
    above,
    at_least,
    one_of,
    plays_arms,
    positive,
)
from privbandit_agents.base.arms import best_arm, optimistic_scorer, played
from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon
from privbandit_agents.privacy.accounting.ledger import Cost, approximate
from privbandit_agents.privacy.contributions.moments import SENSITIVITY, pack, packed_size, perturbed_ridge
from privbandit_agents.privacy.mechanisms.additive import Gaussian


@dataclass(frozen=True)
class Config:
    """Settings of LDP-LinUCB.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
        delta: of the report, in (0, 1).
        noise: ``"numpy"``, or ``"secure"`` (OpenDP; slow and unseeded).
        calibration: ``"correct"`` (analytic Gaussian at sensitivity 2) or ``"published"``
            (sigma = 6 sqrt(2 ln(2.5 / delta)) / epsilon on every packed coordinate: the entries of y x and those of
            x x' off the diagonal have sigma, those on it sqrt(2) sigma). What it really spends is in the ledger.
        bonus_scale: multiplier of the theoretical width of the confidence bonus, >= 0; 1 is the theory.
        shift: ridge in units of the noise's spectral norm, >= 0.
        ridge: least ridge, > 0.
        growth: the policy changes when the number of users has grown by this factor, > 1.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    noise: str = "numpy"
    calibration: str = "correct"
    bonus_scale: float = 0.1
    shift: float = 1.0
    ridge: float = 1.0
    growth: float = 1.05

    def __post_init__(self) -> None:
        """Check the ranges; epsilon and delta are checked by the mechanism."""
        one_of(("correct", "published"), calibration=self.calibration)
        at_least(0, bonus_scale=self.bonus_scale)
        at_least(0, shift=self.shift)
        positive(ridge=self.ridge)
        above(1, growth=self.growth)


class MomentAgent(LocalAgent):
    """A server that adds up noisy (y x, w svec(x x')) and plays by the ridge regression they give.

    A subclass calibrates ``self.guarantee``, ``self.ledger``, ``self.cost`` and ``self.sigma`` (the noise of a packed
    coordinate of one report), and implements ``report``.
    """

    fixed: ClassVar[frozenset[str]] = LocalAgent.fixed | {"guarantee", "cost"}
    cost: Cost
    sigma: float
    least_batch: ClassVar[int] = 1
    """Fewest users between two changes of the policy."""

    def __init__(self, observation_space: Space, action_space: Space, config: Any, rng: Generator) -> None:
        """Start with an empty sum."""
        super().__init__(observation_space, action_space, config, rng)
        assert observation_space.shape is not None
        self.dim = observation_space.shape[1]
        self.total = np.zeros(packed_size(self.dim))
        self.scorer = np.zeros((self.dim, self.dim + 1))
        self.users, self.refit_at = 0, 1

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        """Arms with features each."""
        return plays_arms(observation_space, action_space, per_arm=True)

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


class LDPLinUCB(MomentAgent):
    """Every user reports (y x, x x') with Gaussian noise; the server plays LinUCB on the shifted ridge regression.

    *Formal guarantees.* (epsilon, delta)-local DP under replacement of a user's whole record: the report is the
    Gaussian mechanism on a vector of l2 sensitivity 2 (``pack``), calibrated exactly. One report a user, hence no
    composition. Records are clipped to |x| <= 1, |y| <= 1 on the device; those that are not finite count as (0, 0).

    Deviations:
        One joint report calibrated by the analytic Gaussian, w^2 = 1/2, in place of two classical ones of
        sigma = 6 sqrt(2 ln(2.5/delta))/epsilon; the policy changes at geometric times; the bonus is scaled by
        ``bonus_scale``, since the theoretical width never lets go of exploration at practical horizons.
    """

    Config = Config
    gaussian = True

    def __init__(self, observation_space: Space, action_space: Space, config: Any, rng: Generator) -> None:
        """Calibrate the devices."""
        super().__init__(observation_space, action_space, config, rng)
        correct = Gaussian.from_epsilon(config.epsilon, config.delta, SENSITIVITY, config.noise)
        proven = config.calibration == "correct"
        if not proven:
            warnings.warn("ldp-linucb: the published calibration is kept for comparison only.", stacklevel=4)
        published = 6 * math.sqrt(2 * math.log(2.5 / config.delta)) / config.epsilon
        self.mechanism = correct if proven else Gaussian(published, math.inf, config.noise)
        self.sigma = self.mechanism.sigma
        real = config.epsilon if proven else gaussian_epsilon(config.delta, SENSITIVITY / published)
        self.cost = approximate(max(real, 1e-12), config.delta)
        self.ledger = Ledger(epsilon=config.epsilon if proven else math.inf, delta=config.delta)
        self.guarantee = Guarantee(
            notion="local",
            epsilon=config.epsilon,
            delta=config.delta,
            protects="context, action and reward of every user, from the server on",
            proven=proven,
            reference="docs/privacy.md, moments of a regression",
        )

    def report(self, packed: Array) -> Array:
        """Add Gaussian noise."""
        return self.mechanism.release(packed, self.rng)

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        """A sum of Gaussians is one."""
        return "exact" if self.config.noise == "numpy" else ""

    def report_sum(self, packed: Array, counts: Array) -> Array:
        """Add the noise of all users at once."""
        return self.mechanism.release_sum(counts @ packed, int(counts.sum()), self.rng)

    def bonus(self, users: int, added: float) -> float:
        """Return c (|noise of the moment| / sqrt(lambda) + sqrt(lambda) + sqrt(d ln(1 + t)))."""
        noise = self.sigma * math.sqrt(self.dim * users)
        theory = noise / math.sqrt(added) + math.sqrt(added) + math.sqrt(self.dim * math.log(1 + users))
        return float(self.config.bonus_scale * theory)
