"""DPMNL: differentially private assortments under the contextual multinomial-logit model.

Young Hyun Cho and Will Wei Sun, "Privacy-Preserving Dynamic Assortment Selection", 2024, Algorithms 1 (DPMNL),
2 (PrivateMLE) and 3 (PrivateCov); docs/privacy.md has the proofs.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from privbandit_agents.agent import (
    Array,
    Assortments,
    CentralAgent,
    Guarantee,
    Ledger,
    Space,
    above,
    at_least,
    count,
    one_of,
    plays_assortments,
)
from privbandit_agents.choices import Choices, LaidOut, best_sets, lay_out, random_sets, together
from privbandit_agents.joint.private_cov import COUNTERS, PrivateCov, gram_sensitivity, published_sensitivity
from privbandit_agents.privacy.accounting import epsilon_to_rho
from privbandit_agents.privacy.choice import sanitise
from privbandit_agents.privacy.ledger import Cost, zcdp
from privbandit_agents.privacy.objective import ObjectivePerturbation, UserLoss

CHUNK = 256
"""Users laid out at once, so that they stay in cache."""
RADII = (1e-6, 1e6)


@dataclass(frozen=True)
class Settings:
    """What DPMNL and its (epsilon, delta) benchmark have in common.

    Attributes:
        horizon: number of users T, fixed in advance; default: the environment's.
        counter: of PrivateCov: ``"toeplitz"``, whose noise takes memory that grows with T; ``"buffered"``, within 1 %
            of it at memory that grows with log T; or the paper's ``"tree"``.
        mle_share: share of the budget for PrivateMLE, in (0, 1).
        calls: most calls of PrivateMLE, the one after exploration included; each gets an equal share, used or not.
        exploration: users T0 who are offered random assortments first; default: ``exploration_length``.
        trigger: PrivateMLE is called when det V has grown by this factor since the call before, > 1; default:
            ``spread_trigger``; the paper's is 2.
        bonus_scale: c, multiplier of the width of Lemma S10 without its 1 / kappa, >= 0; the paper's study has 1e-4.
        q: share of a call's budget for the noise, in (0, 1), of the published objective perturbation.
        radius: features are scaled into the ball of this radius before anything is learned from them.
        growth: V, the bonus and the trigger are looked at when users have grown by this factor, >= 1; 1: every user.
        calibration: ``"correct"``, or ``"published"``: the paper's constants, without clipping.
    """

    horizon: int | None = None
    counter: str = "toeplitz"
    mle_share: float = 0.9
    calls: int = 8
    exploration: int | None = None
    trigger: float | None = None
    bonus_scale: float = 1e-4
    q: float = 0.5
    radius: float = 1.0
    growth: float = 1.05
    calibration: str = "correct"

    def __post_init__(self) -> None:
        """Check the ranges; budgets are checked by the ledger."""
        for name in ("horizon", "exploration"):
            if getattr(self, name) is not None:
                count(**{name: getattr(self, name)})
        count(calls=self.calls)
        one_of(COUNTERS, counter=self.counter)
        one_of(("correct", "published"), calibration=self.calibration)
        for name in ("mle_share", "q"):
            if not 0 < above(0, **{name: getattr(self, name)}) < 1:
                raise ValueError(f"{name} must lie in (0, 1); got {getattr(self, name)!r}.")
        if self.trigger is not None:
            above(1, trigger=self.trigger)
        at_least(0, bonus_scale=self.bonus_scale)
        at_least(1, growth=self.growth)
        if not RADII[0] <= above(0, radius=self.radius) <= RADII[1]:
            raise ValueError(f"radius must lie in [{RADII[0]:g}, {RADII[1]:g}]; got {self.radius!r}.")


@dataclass(frozen=True)
class Config(Settings):
    """Settings of DPMNL.

    Attributes:
        epsilon: privacy budget, > 0; infinity adds no noise.
        delta: of (epsilon, delta), in (0, 1).
        rho: zCDP budget instead of epsilon; 1 if neither is given.
        objective: calibration of the objective perturbation: ``"dimension-free"`` or ``"published"`` (Theorem 1).
    """

    epsilon: float | None = None
    delta: float = 1e-5
    rho: float | None = None
    objective: str = "dimension-free"

    def __post_init__(self) -> None:
        """Check the ranges; budgets are checked by the ledger."""
        super().__post_init__()
        if self.epsilon is not None and self.rho is not None:
            raise ValueError(f"one of epsilon and rho can be given; got epsilon={self.epsilon}, rho={self.rho}.")
        if not 0 < above(0, delta=self.delta) < 1:
            raise ValueError(f"delta must lie in (0, 1); got {self.delta!r}.")
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


class DPMNL(CentralAgent[Array]):
    """Random assortments, then the best ones for optimistic utilities; theta and V are private releases.

    *Formal guarantees.* rho-zCDP (hence (epsilon, delta)-joint DP) under replacement of a user's whole record, for any
    record whatever. What was offered is sanitised first: a record that is not finite counts as items of feature 0 and
    no purchase, features are scaled into the ball of ``radius``. Then a Gram matrix has sensitivity sqrt(2) K R^2
    (``gram_sensitivity``) and all releases of V together cost (1 - mle_share) rho; a choice's loss is within
    ``UserLoss.multinomial_logit`` and a call of PrivateMLE costs mle_share rho / calls, entered before it is made, so
    that no more than ``calls`` are. When a call is made depends on releases of V and public constants. Actions read
    the release, [alpha V^(-1/2) | theta]. With ``calibration="published"`` nothing is guaranteed: norms are unbounded.

    Memory grows by 8 K (d + 1) bytes a user for the likelihood (and K for the offered mask), besides the counter's.

    Deviations:
        The determinant is compared with that at the last call; the published test, with that of the user before,
        hardly ever fires. Its factor 2 is ``trigger``. V is renewed, and the trigger looked at, when users have grown
        by ``growth``. Each call, the one after exploration included, costs the same; printed is rho1 / D with D the
        number of calls so far, which adds up to more than rho1. V is shifted by a bound on its own noise at that time,
        lambda instead of Lemma S6's 2 lambda, and repaired to eigenvalues of at least K R^2. alpha_t has no 1 / kappa.
        Exploration is shorter for larger budgets. Features are clipped, which the proof needs and Gaussian ones
        violate; actions use them unclipped.
    """

    Config: ClassVar[type[Any]] = Config
    fixed: ClassVar[frozenset[str]] = CentralAgent.fixed | {
        *("guarantee", "mle", "n_items", "dim", "capacity", "horizon", "radius", "exploration", "trigger")
    }

    def __init__(self, observation_space: Space, action_space: Space, config: Any, rng: Generator) -> None:
        """Declare the budget, spend what counting costs, and begin to explore."""
        super().__init__(observation_space, action_space, config, rng)
        assert isinstance(action_space, Assortments) and observation_space.shape is not None
        self.action_space: Assortments = action_space
        self.n_items, self.dim = action_space.n_items, observation_space.shape[1] - 1
        self.capacity, self.horizon = action_space.capacity, config.horizon or 100_000
        published = config.calibration == "published"
        if published:
            refuse_rank_zero(self.capacity)
            warnings.warn(f"{self.name}: the published calibration is kept for comparison only.", stacklevel=4)
        self.radius = math.inf if published else float(config.radius)
        self.ledger, self.guarantee, counting, rho, self.mle = self._plan()
        self.ledger.spend(counting)
        for_counter, self.noise = rng.spawn(2)
        R = 1.0 if published else self.radius
        sensitivity = published_sensitivity(self.capacity) if published else gram_sensitivity(self.capacity, R)
        floor = self.capacity * R**2
        self.cov = PrivateCov(config.counter, self.horizon, self.dim, sensitivity, floor, rho, for_counter, published)
        self.choices = Choices(self.capacity, self.dim)
        self.exploration: int = config.exploration or exploration_length(self.mle.sigma / R, self.dim, self.horizon)
        self.trigger = config.trigger or spread_trigger(self.horizon, self.exploration, self.dim, config.calls)
        self.release = np.zeros((self.dim, self.dim + 1))  # [alpha_t V^(-1/2) | theta]
        self.users, self.calls, self.renew_at = 0, 0, self.exploration
        self.log_det = -math.inf  # of V at the last call

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        """Assortments."""
        return plays_assortments(observation_space, action_space)

    def _plan(self) -> Plan:
        """Split the budget: mle_share of rho to the calls, the rest to PrivateCov (Alg. 1, lines 8 and 14)."""
        config = self.config
        given_rho = config.epsilon is None
        rho = (config.rho or 1.0) if given_rho else epsilon_to_rho(config.epsilon, config.delta)
        published = config.calibration == "published"
        ledger = Ledger(rho=rho) if given_rho else Ledger(config.epsilon, config.delta)
        guarantee = Guarantee(
            notion="joint",
            epsilon=config.epsilon,
            delta=None if given_rho else config.delta,
            rho=rho,
            protects="context, assortment and purchase of every user, from all others",
            proven=not published,
            reference="docs/privacy.md, DPMNL",
        )
        for_cov = (1 - config.mle_share) * rho
        mle = self._private_mle(config.mle_share * rho / config.calls, published)
        if published:
            return Plan(Ledger(rho=math.inf), guarantee, zcdp(math.inf), for_cov, mle)
        return Plan(ledger, guarantee, zcdp(for_cov), for_cov, mle)

    def _private_mle(self, rho: float, published: bool) -> ObjectivePerturbation:
        """Return one call of PrivateMLE (Alg. 2); the published L = 2, eta = 4, R = min(d, K - 1) leave out |x|."""
        method = self.config.objective
        if published:
            user = UserLoss(self.dim, 2.0, 1.0, rank=min(self.dim, self.capacity - 1))
            return ObjectivePerturbation.calibrate(rho, user, method="published", split=self.config.q)
        user = UserLoss.multinomial_logit(self.dim, self.capacity, self.radius)
        return ObjectivePerturbation.calibrate(rho, user, method=method, split=self.config.q, eta=user.curvature)

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
        contexts, sets, bought = together(context, action, feedback, (self.n_items, self.dim + 1))
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
        self.renew_at = max(self.users + 1, math.ceil(self.users * self.config.growth))
        V = self.cov.matrix()
        log_det = float(np.linalg.slogdet(V)[1])
        theta = self.release[:, -1]
        if self.calls < self.config.calls and log_det > self.log_det + math.log(self.trigger):
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


def exploration_length(noise: float, dim: int, horizon: int) -> int:
    """Return T0 for noise of so many radii on every coordinate of the likelihood's gradient: d (4 + 0.6 noise).

    A random user tells about R^2 / d of every direction, so that after T0 users the noise moves utilities by about 1 at
    first. No more than a twentieth of the users explore.

    Args:
        noise: sigma of PrivateMLE over R.
        dim: number of features d.
        horizon: number of users T.
    """
    return max(1, min(horizon // 20, math.ceil(dim * (4 + 0.6 * noise))))


def spread_trigger(horizon: int, exploration: int, dim: int, calls: int) -> float:
    """Return the factor of det V, at least 2, that spreads the calls: (T / T0)^(d / (2 calls)).

    If V grew like t, half of the calls would last until T; but noise and shift hold V up at first.
    """
    return max(2.0, (horizon / exploration) ** (dim / (2 * calls)))


def refuse_rank_zero(capacity: int) -> None:
    """Raise ValueError where the published rank min(d, K - 1) of a user's Hessian is 0."""
    if capacity == 1:
        raise ValueError("capacity must be >= 2 for the published calibration, which divides by K - 1; got 1.")
