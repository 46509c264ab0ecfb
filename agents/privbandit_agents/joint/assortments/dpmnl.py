"""DPMNL: differentially private assortments under the contextual multinomial-logit model.

Young Hyun Cho and Will Wei Sun, "Privacy-Preserving Dynamic Assortment Selection", 2024, Algorithms 1 (DPMNL),
2 (PrivateMLE) and 3 (PrivateCov); docs/privacy/dpmnl.md has the proofs.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from privbandit_agents.base.agent import next_change
from privbandit_agents.base.arms import optimistic_scorer
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.choices import Choices, LaidOut, best_sets, lay_out, random_sets, sizes
from privbandit_agents.base.guarantee import warn_unproven
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.spaces import Array, assortments
from privbandit_agents.joint.assortments.dpmnl_settings import (
    RECORD,
    DPMNLSettings,
    Spending,
    exploration_length,
    published_loss,
    spread_trigger,
)
from privbandit_agents.joint.assortments.private_cov import PrivateCov, gram_sensitivity
from privbandit_agents.joint.settings import refuse_beyond
from privbandit_agents.privacy.accounting.costs import zcdp
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.contributions.choices import sanitise
from privbandit_agents.privacy.contributions.moments import inverse_root
from privbandit_agents.privacy.mechanisms.counters import MOST_BYTES
from privbandit_agents.privacy.mechanisms.objective import Method, ObjectivePerturbation, UserLoss


@dataclass(frozen=True)
class Config(DPMNLSettings):
    """Settings of DPMNL.

    Attributes:
        objective: calibration of the objective perturbation: ``"dimension-free"`` or ``"published"`` (Theorem 1).
        price: of a call of PrivateMLE: the share rho_1 / calls, ``"equal"`` for all; or ``"printed"``: rho_1 / calls
            for the one after exploration, then rho_1, rho_1 / 2, rho_1 / 3, ..., which add up to more than rho_1, so
            that only ``calibration="published"`` takes it.
    """

    objective: Method = "dimension-free"
    price: Literal["equal", "printed"] = "equal"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.price == "printed" and not self.published:
            raise ValueError("price printed adds up to more than the budget; it needs calibration published.")

    def share(self, calls: int) -> float:
        """Return the share of rho_1 that a call claims, given how many there were before."""
        return 1 / calls if self.price == "printed" and calls else 1 / self.calls

    def call(self, first: ObjectivePerturbation, calls: int, dim: int, capacity: int) -> ObjectivePerturbation:
        if self.price == "equal" or not calls:
            return first
        rho = self.mle_share * self.concentrated() * self.share(calls)
        user = published_loss(dim, capacity)
        return ObjectivePerturbation.from_rho(rho, user, method="published", split=0.5, eta=4.0)

    def spending(self, dim: int, capacity: int, horizon: int) -> Spending:
        """Give mle_share of rho to the calls of PrivateMLE (Alg. 2; published, eta = 4), the rest to PrivateCov."""
        rho, calibrate = self.concentrated(), ObjectivePerturbation.from_rho
        one_call, for_cov = self.mle_share * rho / self.calls, (1 - self.mle_share) * rho
        guarantee = self.guarantee("docs/privacy/dpmnl.md", not self.published, RECORD)
        if self.published:
            mle = calibrate(one_call, published_loss(dim, capacity), method="published", split=0.5, eta=4.0)
            return Spending(Ledger(rho=math.inf), guarantee, zcdp(math.inf), for_cov, mle)
        user = UserLoss.multinomial_logit(dim, capacity, self.radius)
        mle = calibrate(one_call, user, method=self.objective, split=0.5, eta=user.curvature, users=horizon)
        return Spending(self.ledger(), guarantee, zcdp(for_cov), for_cov, mle)


class DPMNL(CentralAgent[DPMNLSettings, Array]):
    """Random assortments, then the best ones for optimistic utilities; theta and V are private releases.

    *Formal guarantees.* rho-zCDP (hence (epsilon, delta)-joint DP) under replacement of a user's whole record, for any
    record whatever. The offer is sanitized first: a record that is not finite counts as items of feature 0 and
    no purchase, features are scaled into the ball of ``radius``. Then a Gram matrix has sensitivity sqrt(2) K R^2
    (``gram_sensitivity``) and all releases of V together cost (1 - mle_share) rho. A choice's loss is within
    ``UserLoss.multinomial_logit``; a call of PrivateMLE costs mle_share rho / calls, entered before it is made, so
    that no more than ``calls`` are. When a call is made depends on releases of V and public constants. Actions read
    the release, [alpha V^(-1/2) | theta]. With ``calibration="published"`` nothing is guaranteed: norms are unbounded.

    The likelihood needs every choice: memory grows by 8 (K d + 1) + K bytes a user, besides the counter's.

    Deviations:
        The determinant is compared with that at the last call; the published test, with that of the user before
        (``compare="user" growth=1``), hardly ever fires. Its factor 2 is ``trigger``. V is renewed, and the trigger
        looked at, when users have grown by ``growth``. Each call, the one after exploration included, costs the same;
        printed (``price="printed"``) is rho1 / D with D the number of calls so far, which adds up to more than rho1.
        V is shifted by a bound on its own noise at that time,
        lambda instead of Lemma S6's 2 lambda, and repaired to eigenvalues of at least K R^2. alpha_t has no 1 / kappa.
        Exploration is shorter for larger budgets. Features are clipped, which the proof needs and Gaussian ones
        violate; actions use them unclipped. That stretches theta, which does no harm where all revenues are equal; with
        different ones ``radius`` should be about the typical norm.
    """

    Config: ClassVar[type[DPMNLSettings]] = Config
    plays = staticmethod(assortments)

    def begin(self) -> None:
        config, published = self.config, self.config.published
        _, self.capacity, self.dim = sizes(self.observation_space, self.action_space)
        self.horizon = config.counted(config.horizon or 100_000)
        # the budget: counting is paid for at once, calls one by one
        spending = config.spending(self.dim, self.capacity, self.horizon)
        self.ledger, self.guarantee, counting, rho, self.mle = spending
        self.ledger.spend(counting)
        if published:
            warn_unproven(self.name)
        # what is kept of users; Lemma S5's sqrt(2 K) overlooks that inner products of equal items do not vanish
        self.radius = math.inf if published else float(config.radius)
        R = 1.0 if published else self.radius
        sensitivity = math.sqrt(2 * self.capacity) if published else gram_sensitivity(self.capacity, R)
        floor = self.capacity * R**2
        rng_counter, self.rng_mle = self.rng.spawn(2)
        room = MOST_BYTES - self._refuse_to_fill_the_memory()
        self.cov = PrivateCov(
            config.counter, self.horizon, self.dim, sensitivity, floor, rho, rng_counter, published, room
        )
        self.choices = Choices(self.capacity, self.dim, self.horizon)
        # the schedule
        self.exploration = config.exploration or exploration_length(self.mle.sigma / R, self.dim, self.horizon)
        spread = spread_trigger(self.horizon, self.exploration, self.dim, config.calls)
        self.log_trigger = math.log(config.trigger) if config.trigger else spread
        self.release = np.zeros((self.dim, self.dim + 1))  # [alpha_t V^(-1/2) | theta]
        self.users, self.calls, self.renew_at = 0, 0, self.exploration
        self.log_det = -math.inf  # of V at the last call, or at the last look
        self.tally = {"calls": 0.0, "claimed": 0.0}  # of PrivateMLE, and their sum over rho_1

    def _refuse_to_fill_the_memory(self) -> int:
        """Return how many bytes the choices of all users take, or raise ValueError: they are too many."""
        each = 8 * (self.capacity * self.dim + 1) + self.capacity
        needed = each * self.horizon
        if needed > MOST_BYTES:
            most = f"it takes {MOST_BYTES / 2**20:.0f} MiB, and so a horizon of {MOST_BYTES // each:,} at most"
            kept = f"the choices of {self.horizon:,} users, {each:,} bytes each, are {needed / 2**20:,.0f} MiB"
            raise ValueError(f"{self.name} keeps every choice: {kept}; {most}, and newton-mnl takes any.")
        return needed

    def select_action(self, context: Array) -> Array:
        """Return the best assortment for the optimistic utilities (lines 12 and 13); a random one at first (line 5)."""
        if self.users < self.exploration:
            return random_sets(self.rng, context, self.capacity)
        with np.errstate(over="ignore", invalid="ignore"):  # a non-finite record only hurts the user who sent it
            scored: Array = context[..., :-1] @ self.release
            width = np.sqrt(np.vecdot(scored[..., :-1], scored[..., :-1]))
            return best_sets(context, scored[..., -1] + width, self.capacity, self.ties)

    def settled(self, context: Array) -> Array:
        """Return the best assortments for the estimate, for n users who are not counted."""
        with np.errstate(over="ignore", invalid="ignore"):  # a non-finite record only hurts the user who sent it
            return best_sets(context, context[..., :-1] @ self.release[:, -1], self.capacity, self.ties)

    def refuse(self, users: int) -> None:
        refuse_beyond(self.horizon, self.users + users, self.name)

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        """Count every user's Gram matrix, keep the choice; release theta and V when it is time.

        Raises:
            RuntimeError: the perturbed likelihood had no certified minimum: then all users are taken in, the call
                counts, and the release before stays.
        """
        released, failure = None, None
        records = contexts, actions, feedback
        most = max(1, min(256, 2**24 // (8 * self.dim**2)))  # users that stay in cache
        for x, sets, bought in blocks(self.frozen_rounds, *records, most=most):
            # sanitise, then count and keep (lines 6 and 14)
            laid_out = lay_out(x, sets, bought, self.capacity)
            features, items = sanitise(laid_out.features, laid_out.bought, self.radius)
            self.choices.store(LaidOut(features, laid_out.offered, items))
            self.users += len(items)
            due = self.users >= self.renew_at
            self.renew_at = next_change(self.users, self.config.growth) if due else self.renew_at
            self.cov.extend(features, self.publish)
            if due:
                try:
                    released = self.release = self._renew()
                except RuntimeError as error:
                    failure = error
        if failure is not None:
            raise failure
        return released

    def frozen_rounds(self) -> int:
        return max(self.renew_at - self.users, 1)

    def _renew(self) -> Array:
        """Return the release after this user: a new V, and a new theta if the trigger fires (lines 14 to 19)."""
        V = self.cov.matrix()
        log_det = float(np.linalg.slogdet(V)[1])
        theta = self.release[:, -1]
        fires = log_det > self.log_det + self.log_trigger
        if fires or self.config.compare == "user":
            self.log_det = log_det
        if fires and self.calls < self.config.calls:
            mle = self.config.call(self.mle, self.calls, self.dim, self.capacity)
            self.tally["claimed"] += self.config.share(self.calls)
            self.calls += 1
            self.tally["calls"] += 1
            ridge = 0.0 if mle.Delta else min(self.radius, 1.0) ** 2  # without noise it keeps the minimum finite
            likelihood = partial(self.choices.likelihood, ridge=ridge)
            draw = partial(mle.minimise, likelihood, self.rng_mle, theta)
            theta = self.publish(mle, likelihood, draw, mle.cost)
        return optimistic_scorer(inverse_root(V), theta, self.config.bonus_scale * self._width())

    def _width(self) -> float:
        """Return alpha_t (Lemma S10, Delta over sqrt(K) as in the modified width of S.3.3), without 1 / kappa."""
        t, d, T = self.users, self.dim, self.horizon
        mle = self.config.call(self.mle, max(self.calls - 1, 0), d, self.capacity)
        learning = math.sqrt(d / 2 * math.log1p(t / d) + math.log(t))
        perturbing = (mle.Delta + mle.sigma * math.sqrt(4 * d * math.log(T))) / math.sqrt(self.capacity)
        return learning + perturbing + math.sqrt(3 * self.cov.shift())
