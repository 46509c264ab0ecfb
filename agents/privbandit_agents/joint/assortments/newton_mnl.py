"""Noisy Newton steps for assortments: clipped derivatives of disjoint batches of users, each at the full budget.

The project's own algorithm for the setting of Young Hyun Cho and Will Wei Sun, "Privacy-Preserving Dynamic Assortment
Selection"; the proof is in docs/privacy/newton-steps.md.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privbandit_agents.base.agent import NEVER, Array, CentralAgent, Guarantee, assortments
from privbandit_agents.base.choices import Choices, best_sets, random_sets, stacked_records
from privbandit_agents.joint.assortments.quadratic import improved
from privbandit_agents.privacy._validate import failure, within
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.contributions.choices import LIMIT, clipped_sums, sensitivities
from privbandit_agents.privacy.mechanisms.additive import Gaussian
from privbandit_agents.privacy.mechanisms.symmetric import smat, svec
from privbandit_envs.spaces import Assortments
from privbandit_envs.validate import above, at_least, count, numbers

BLOCK = 512
"""Users whose sets are chosen at once, so that their contexts stay in cache."""


@dataclass(frozen=True)
class Config:
    """Settings of the Newton agent; clips and prior are public knowledge, wrong ones cost regret and no privacy.

    Attributes:
        rho: zCDP budget, > 0; infinity adds no noise. Default: 1, if epsilon is not given either.
        epsilon: budget of (epsilon, delta) instead of rho.
        delta: of (epsilon, delta), in (0, 1).
        horizon: number of users T; default: the environment's. The first batch is at most T/4.
        first: length of the first batch, which is offered random sets; default: sqrt(d) (9 + 3/sqrt(rho)).
        growth: length of a batch over that of the one before, > 1.
        steps: Newton steps on the first batch, which share its budget; later batches have one.
        radius: to which features are scaled before anything else; it need not be typical.
        gradient_norm: G, to which a user's gradient is clipped; about the norm of a feature vector or below.
        trace: h, to which the trace of a user's Hessian is clipped.
        gradient_share: share of the budget that goes to gradients, in (0, 1); the rest goes to Hessians.
        ridge: precision of the prior on theta, which is 0 in the mean, or the middle of the box.
        bonus_scale: multiplier of |x| in the norm of the inverse precision, added to utilities, >= 0.
        box: (low, high) between which all entries of theta are known to lie.
    """

    rho: float | None = None
    epsilon: float | None = None
    delta: float = 1e-5
    horizon: int | None = None
    first: int | None = None
    growth: float = 1.4
    steps: int = 1
    radius: float = 100.0
    gradient_norm: float = 0.7
    trace: float = 0.7
    gradient_share: float = 0.88
    ridge: float = 3.0
    bonus_scale: float = 0.0
    box: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Check the ranges; budgets are checked by the ledger."""
        if self.rho is not None and self.epsilon is not None:
            raise ValueError(f"give rho or epsilon, not both; got rho={self.rho!r} and epsilon={self.epsilon!r}.")
        failure(delta=self.delta)
        for name in ("horizon", "first"):
            if getattr(self, name) is not None:
                count(**{name: getattr(self, name)})
        above(1, growth=self.growth)
        count(steps=self.steps)
        for name in ("radius", "gradient_norm", "trace", "ridge"):
            within(1 / LIMIT, LIMIT, **{name: getattr(self, name)})
        failure(gradient_share=self.gradient_share)
        at_least(0, bonus_scale=self.bonus_scale)
        if self.box is not None:
            low, high = numbers(2, box=self.box)
            if not -LIMIT <= low < high <= LIMIT:
                raise ValueError(f"box must be (low, high) with low < high within +-{LIMIT:g}; got {self.box!r}.")

    def budget(self) -> float:
        """Return the zCDP budget."""
        if self.epsilon is not None:
            return epsilon_to_rho(self.epsilon, self.delta)
        return 1.0 if self.rho is None else self.rho

    def exploration(self, dim: int) -> int:
        """Return the length of the first batch for d features."""
        if self.first is not None:
            return self.first
        wanted = math.sqrt(dim) * (9 + 3 / math.sqrt(self.budget()))
        return max(1, math.ceil(min(wanted, (self.horizon or 10_000) / 4)))


class NewtonMNL(CentralAgent[Config, Array]):
    """Batches of users, each used once: the noisy derivatives of their likelihood correct theta.

    The likelihood of the first batch, offered random sets, is developed at the prior's mean; that of every later batch,
    offered the best sets for theta, at theta itself. The sums of clipped gradients and Hessians are released, the
    quadratic model that they give is weighted against its noise, and added to the models of the earlier batches, which
    the precision and theta sum up. So every user counts for ever after though used once, no step overshoots, and no
    batch is worth more than it is known to be.

    *Formal guarantees.* rho-zCDP (hence (epsilon, delta)-joint DP) under replacement of a user's whole record, for any
    record whatever: by ``clipped_sums`` the sums have l2 sensitivities 2 G and sqrt(2) h, and each is released with
    Gaussian noise, at shares of rho that add up to 1 over all the steps of a batch. Theta at which derivatives are
    taken, weights, floors and batch ends are functions of releases and public constants. A user is in one batch, so
    batches compose in parallel (adaptively), and actions read releases only.

    The release is [precision | theta], shape (d, d + 1). The curator keeps the users of the running batch, 8 K (d + 2)
    bytes each at most, and nothing else that grows.
    """

    Config = Config
    gaussian = True
    fixed: ClassVar[frozenset[str]] = CentralAgent.fixed | {"guarantee", "rho"}

    def begin(self) -> None:
        """Declare the budget and begin the first batch."""
        super().begin()
        config = self.config
        assert isinstance(self.action_space, Assortments) and self.observation_space.shape is not None
        self.action_space: Assortments = self.action_space
        self.capacity, self.dim = self.action_space.capacity, self.observation_space.shape[1] - 1
        given_rho = config.epsilon is None
        self.ledger = Ledger(config.epsilon, config.delta, config.budget() if given_rho else None)
        self.rho = config.budget()
        self.guarantee = Guarantee(
            notion="joint",
            epsilon=config.epsilon,
            delta=None if given_rho else config.delta,
            rho=self.rho,
            protects="context, set and purchase of every user, from all others",
            reference="docs/privacy/newton-steps.md",
        )
        self.noise = self.rng.spawn(1)[0]
        middle = 0.0 if config.box is None else sum(config.box) / 2
        self.release = np.column_stack([config.ridge * np.eye(self.dim), np.full(self.dim, middle)])
        self.choices = Choices(self.capacity, self.dim)
        self.batch = 0
        self.length: int = config.exploration(self.dim)

    plays = staticmethod(assortments)

    def select_action(self, context: Array) -> Array:
        """Return the best assortment for x . theta plus the bonus; a random one in the first batch."""
        if self.batch == 0:
            return random_sets(self.rng, context, self.action_space)
        theta, x = self.release[:, -1].astype(context.dtype), context[..., :-1]
        with np.errstate(over="ignore", invalid="ignore"):  # of a record that is not finite: its own user's loss
            utilities: Array = x @ theta
            if self.config.bonus_scale:
                root = np.linalg.inv(np.linalg.cholesky(self.release[:, :-1])).T.astype(context.dtype)
                width = x @ root
                utilities = utilities + context.dtype.type(self.config.bonus_scale) * np.sqrt(np.vecdot(width, width))
        return best_sets(context, utilities, self.capacity)

    def curate(self, context: Array, action: Any, feedback: Any) -> Array | None:
        """Keep what was offered and bought; release a new theta when the batch is full."""
        assert self.observation_space.shape is not None
        contexts, sets, bought = stacked_records(context, action, feedback, self.observation_space.shape)
        released, done = None, 0
        while done < len(contexts):
            part = slice(done, done + self.length - len(self.choices))
            self.choices.append(contexts[part], sets[part], bought[part])
            done = part.stop
            if len(self.choices) == self.length:
                released = self.release = self._estimate()
                self.choices.clear()
                self.batch, self.length = self.batch + 1, math.ceil(min(self.length * self.config.growth, NEVER))
        return released

    def frozen_rounds(self) -> int:
        """Return the number of users left in the batch, or of those in a block."""
        return min(self.length - len(self.choices), BLOCK)

    def mechanisms(self) -> tuple[Gaussian, Gaussian, int]:
        """Return what releases gradients and Hessians in this batch, and how often."""
        config, steps = self.config, self.config.steps if self.batch == 0 else 1
        of_gradient, of_hessian = sensitivities(config.gradient_norm, config.trace)
        gradients = Gaussian.from_rho(self.rho * config.gradient_share / steps, of_gradient)
        hessians = Gaussian.from_rho(self.rho * (1 - config.gradient_share) / steps, of_hessian)
        return gradients, hessians, steps

    def _estimate(self) -> Array:
        """Take the steps of a batch; return [precision | theta].

        The model of the batch is the mean of those of its steps so far, whose noise averages out.
        """
        precision, anchor = self.release[:, :-1], self.release[:, -1]
        gradients, hessians, steps = self.mechanisms()
        theta, slope, curvature = anchor, np.zeros(self.dim), np.zeros((self.dim, self.dim))
        for step in range(1, steps + 1):
            gradient, hessian = self._released(theta, gradients, hessians)
            slope += gradient - hessian @ (theta - anchor)
            curvature += hessian
            noise = gradients.sigma / math.sqrt(step), hessians.sigma / math.sqrt(step)
            reached, move = improved(precision, slope / step, curvature / step, *noise)
            theta = anchor + move if self.config.box is None else np.clip(anchor + move, *self.config.box)
        return np.column_stack([reached, theta])

    def _released(self, theta: Array, gradients: Gaussian, hessians: Gaussian) -> tuple[Array, Array]:
        """Return noisy sums of clipped gradients (d,) and Hessians (d, d) of the batch at a public theta."""
        for mechanism in (gradients, hessians):
            self.ledger.spend(mechanism.cost, group=self.batch)
        clips = {name: getattr(self.config, name) for name in ("radius", "gradient_norm", "trace")}
        x, there, bought = (rows.view() for rows in (self.choices.features, self.choices.offered, self.choices.bought))
        gradient, hessian = clipped_sums(x, bought, theta, there, **clips)
        return gradients.release(gradient, self.noise), smat(hessians.release(svec(hessian), self.noise))
