"""DPMNL: differentially private assortments under the contextual multinomial-logit model.

Young Hyun Cho and Will Wei Sun, "Privacy-Preserving Dynamic Assortment Selection", 2024, Algorithms 1 (DPMNL),
2 (PrivateMLE) and 3 (PrivateCov); docs/privacy/dpmnl.md has the proofs.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from privbandit_agents.base.agent import NEVER, Array, CentralAgent, Guarantee, assortments
from privbandit_agents.base.choices import Choices, LaidOut, best_sets, lay_out, random_sets, stacked_records
from privbandit_agents.joint.assortments.dpmnl_settings import Settings, exploration_length, spread_trigger
from privbandit_agents.joint.assortments.private_cov import PrivateCov, gram_sensitivity, published_sensitivity
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho
from privbandit_agents.privacy.accounting.ledger import Cost, Ledger, zcdp
from privbandit_agents.privacy.contributions.choices import sanitise
from privbandit_agents.privacy.mechanisms.objective import ObjectivePerturbation, UserLoss
from privbandit_envs.spaces import Assortments
from privbandit_envs.validate import one_of

CHUNK = 256
"""Users laid out at once, so that they stay in cache."""


@dataclass(frozen=True)
class Config(Settings):
    """Settings of DPMNL.

    Attributes:
        objective: calibration of the objective perturbation: ``"dimension-free"`` or ``"published"`` (Theorem 1).
    """

    objective: str = "dimension-free"

    def __post_init__(self) -> None:
        """Check the ranges; budgets are checked by the ledger."""
        super().__post_init__()
        one_of(("dimension-free", "published"), objective=self.objective)


class Plan(NamedTuple):
    """How a budget is spent.

    Attributes:
        ledger: with the budget declared.
        guarantee: of the agent.
        counting: cost of all releases of PrivateCov.
        rho: that PrivateCov's noise is scaled to.
        mle: one call of PrivateMLE.
    """

    ledger: Ledger
    guarantee: Guarantee
    counting: Cost
    rho: float
    mle: ObjectivePerturbation


class DPMNL(CentralAgent[Config, Array]):
    """Random assortments, then the best ones for optimistic utilities; theta and V are private releases.

    *Formal guarantees.* rho-zCDP (hence (epsilon, delta)-joint DP) under replacement of a user's whole record, for any
    record whatever. What was offered is sanitised first: a record that is not finite counts as items of feature 0 and
    no purchase, features are scaled into the ball of ``radius``. Then a Gram matrix has sensitivity sqrt(2) K R^2
    (``gram_sensitivity``) and all releases of V together cost (1 - mle_share) rho; a choice's loss is within
    ``UserLoss.multinomial_logit`` and a call of PrivateMLE costs mle_share rho / calls, entered before it is made, so
    that no more than ``calls`` are. When a call is made depends on releases of V and public constants. Actions read
    the release, [alpha V^(-1/2) | theta]. With ``calibration="published"`` nothing is guaranteed: norms are unbounded.

    The likelihood needs every choice: memory grows by 8 (K d + 1) + K bytes a user, besides the counter's.

    Deviations:
        The determinant is compared with that at the last call; the published test, with that of the user before,
        hardly ever fires. Its factor 2 is ``trigger``. V is renewed, and the trigger looked at, when users have grown
        by ``growth``. Each call, the one after exploration included, costs the same; printed is rho1 / D with D the
        number of calls so far, which adds up to more than rho1. V is shifted by a bound on its own noise at that time,
        lambda instead of Lemma S6's 2 lambda, and repaired to eigenvalues of at least K R^2. alpha_t has no 1 / kappa.
        Exploration is shorter for larger budgets. Features are clipped, which the proof needs and Gaussian ones
        violate; actions use them unclipped. That stretches theta, which does no harm where all revenues are equal; with
        different ones ``radius`` should be about the typical norm.
    """

    Config: ClassVar[type[Any]] = Config
    fixed: ClassVar[frozenset[str]] = CentralAgent.fixed | {
        *("guarantee", "mle", "n_items", "dim", "capacity", "horizon", "radius", "exploration", "log_trigger")
    }

    def begin(self) -> None:
        """Declare the budget, spend what counting costs, and begin to explore."""
        super().begin()
        config = self.config
        assert isinstance(self.action_space, Assortments) and self.observation_space.shape is not None
        self.action_space: Assortments = self.action_space
        self.n_items, self.dim = self.action_space.n_items, self.observation_space.shape[1] - 1
        self.capacity, self.horizon = self.action_space.capacity, config.horizon or 100_000
        published = config.calibration == "published"
        if published:
            refuse_rank_zero(self.capacity)
            self.warn_unproven()
        self.radius = math.inf if published else float(config.radius)
        self.ledger, self.guarantee, counting, rho, self.mle = self._plan()
        self.ledger.spend(counting)
        for_counter, self.noise = self.rng.spawn(2)
        R = 1.0 if published else self.radius
        sensitivity = published_sensitivity(self.capacity) if published else gram_sensitivity(self.capacity, R)
        floor = self.capacity * R**2
        self.cov = PrivateCov(config.counter, self.horizon, self.dim, sensitivity, floor, rho, for_counter, published)
        self.choices = Choices(self.capacity, self.dim)
        self.exploration: int = config.exploration or exploration_length(self.mle.sigma / R, self.dim, self.horizon)
        spread = spread_trigger(self.horizon, self.exploration, self.dim, config.calls)
        self.log_trigger: float = math.log(config.trigger) if config.trigger else spread
        self.release = np.zeros((self.dim, self.dim + 1))  # [alpha_t V^(-1/2) | theta]
        self.users, self.calls, self.renew_at = 0, 0, self.exploration
        self.log_det = -math.inf  # of V at the last call

    plays = staticmethod(assortments)

    def _plan(self) -> Plan:
        """Split the budget: mle_share of rho to the calls, the rest to PrivateCov (Alg. 1, lines 8 and 14)."""
        config = self.config
        given_rho, delta = config.epsilon is None, config.delta or 1e-5
        rho = epsilon_to_rho(config.epsilon, delta) if not given_rho else 1.0 if config.rho is None else config.rho
        published = config.calibration == "published"
        ledger = Ledger(rho=rho) if given_rho else Ledger(config.epsilon, delta)
        guarantee = Guarantee(
            notion="joint",
            epsilon=config.epsilon,
            delta=None if given_rho else delta,
            rho=rho,
            protects="context, assortment and purchase of every user, from all others",
            proven=not published,
            reference="docs/privacy/dpmnl.md",
        )
        for_cov = (1 - config.mle_share) * rho
        mle = self._private_mle(config.mle_share * rho / config.calls, published)
        if published:
            return Plan(Ledger(rho=math.inf), guarantee, zcdp(math.inf), for_cov, mle)
        return Plan(ledger, guarantee, zcdp(for_cov), for_cov, mle)

    def _private_mle(self, rho: float, published: bool) -> ObjectivePerturbation:
        """Return one call of PrivateMLE (Alg. 2); the published L = 2, eta = 4, R = min(d, K - 1) leave out |x|."""
        method, q = self.config.objective, self.config.q
        if published:
            user = UserLoss(self.dim, 2.0, 1.0, rank=min(self.dim, self.capacity - 1))
            return ObjectivePerturbation.calibrate(rho, user, method="published", split=q, eta=4.0)
        user = UserLoss.multinomial_logit(self.dim, self.capacity, self.radius)
        return ObjectivePerturbation.calibrate(rho, user, method=method, split=q, eta=user.curvature)

    def select_action(self, context: Array) -> Array:
        """Return the best assortment for the optimistic utilities (lines 12 and 13); a random one at first (line 5)."""
        if self.users < self.exploration:
            return random_sets(self.rng, context, self.action_space)
        with np.errstate(over="ignore", invalid="ignore"):  # of a record that is not finite: its own user's loss
            scored: Array = context[..., :-1] @ self.release
            width = np.sqrt(np.vecdot(scored[..., :-1], scored[..., :-1]))
            return best_sets(context, scored[..., -1] + width, self.capacity)

    def curate(self, context: Array, action: Any, feedback: Any) -> Array | None:
        """Count every user's Gram matrix, keep the choice; release theta and V when it is time.

        Raises:
            RuntimeError: more users than the horizon, none of whom is taken in; or the perturbed likelihood had no
                certified minimum: then all users are taken in, the call counts, and the release before stays.
        """
        contexts, sets, bought = stacked_records(context, action, feedback, (self.n_items, self.dim + 1))
        if len(bought) > self.horizon - self.users:
            raise RuntimeError(
                f"{self.name} ends after its horizon of {self.horizon} users; make it with a longer one."
            )
        released, failure, done = None, None, 0
        while done < len(contexts):
            part = slice(done, min(len(contexts), done + min(self.frozen_rounds(), CHUNK)))
            self._take_in(lay_out(contexts[part], sets[part], bought[part], self.capacity))
            done = part.stop
            if self.users == self.renew_at:
                try:
                    released = self.release = self._renew()
                except RuntimeError as error:
                    failure = error
        if failure is not None:
            raise failure
        return released

    def frozen_rounds(self) -> int:
        """Return the number of users before V is renewed."""
        return self.renew_at - self.users

    def _take_in(self, records: LaidOut) -> None:
        """Sanitise records, then count and keep them (lines 6 and 14)."""
        features, bought = sanitise(records.features, records.bought, self.radius)
        self.cov.extend(features)
        self.choices.store(LaidOut(features, records.offered, bought))
        self.users += len(bought)

    def _renew(self) -> Array:
        """Return the release after this user: a new V, and a new theta if the trigger fires (lines 14 to 19)."""
        self.renew_at = max(self.users + 1, math.ceil(min(self.users * self.config.growth, NEVER)))
        V = self.cov.matrix()
        log_det = float(np.linalg.slogdet(V)[1])
        theta = self.release[:, -1]
        if self.calls < self.config.calls and log_det > self.log_det + self.log_trigger:
            self.log_det = log_det
            theta = self._call(theta)
        root = np.linalg.inv(np.linalg.cholesky(V)).T  # V^-1 = root root'
        return np.column_stack([self.config.bonus_scale * self._width() * root, theta])

    def _call(self, start: Array) -> Array:
        """Call PrivateMLE (Alg. 2) on all users so far; without noise a ridge of R^2 keeps the minimum finite."""
        self.ledger.spend(self.mle.cost)
        self.calls += 1
        ridge = 0.0 if self.mle.Delta else min(self.radius, 1.0) ** 2
        return self.mle.minimise(lambda theta: self.choices.likelihood(theta, ridge), self.noise, start)

    def _width(self) -> float:
        """Return alpha_t (Lemma S10, Delta over sqrt(K) as in the modified width of S.3.3), without 1 / kappa."""
        t, d, T, mle = self.users, self.dim, self.horizon, self.mle
        learning = math.sqrt(d / 2 * math.log1p(t / d) + math.log(t))
        perturbing = (mle.Delta + mle.sigma * math.sqrt(4 * d * math.log(T))) / math.sqrt(self.capacity)
        return learning + perturbing + math.sqrt(3 * self.cov.shift())


def refuse_rank_zero(capacity: int) -> None:
    """Raise ValueError where the published rank min(d, K - 1) of a user's Hessian is 0."""
    if capacity == 1:
        raise ValueError("capacity must be >= 2 for the published calibration, which divides by K - 1; got 1.")
