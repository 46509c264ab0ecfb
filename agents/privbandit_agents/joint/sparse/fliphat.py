"""FLIPHAT: forgetful iterative private hard thresholding.

Sunrit Chakraborty, Saptarshi Roy and Debabrota Basu, "FLIPHAT: Joint Differential Privacy for High Dimensional Sparse
Linear Bandits", 2024, Algorithms 1 (N-IHT), 2 (FLIPHAT) and 3 (peeling).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, Self

import numpy as np

from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.guarantee import warn_unproven
from privbandit_agents.base.records import played
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.settings import Budget, Calibration, Count, CountUpTo, NonNegative, Open01, Positive, Within
from privbandit_agents.base.spaces import Action, Array, arms_with_features
from privbandit_agents.joint.settings import DELTA, JointSettings
from privbandit_agents.joint.sparse.estimate import best_by_support
from privbandit_agents.joint.sparse.squared_loss import SquaredLoss
from privbandit_agents.privacy.accounting.costs import Cost, approximate, zcdp
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.mechanisms import selection as peeling
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK, LaplacePeeling

PRESETS: dict[str, dict[str, Any]] = {
    "text": {"eta": 0.4, "M0": 1.6, "sigma": 0.1, "x_max": 4.0},
    "authors": {"eta": 1e-4, "M0": 0.16, "sigma": 1.0},
}
FROM_PRESET: Any = None


@dataclass(frozen=True)
class Config(JointSettings):
    """Settings of FLIPHAT, besides the budget; ``rho`` needs composition ``"zcdp"``.

    Bounds on the world are public knowledge that the agent is given, never reads.

    Attributes:
        preset: of eta, M0, sigma and x_max: ``"text"`` is the paper's appendix F.1 but for the step size;
            ``"authors"`` has the values of the authors' repository, which give the paper's figures.
        s: sparsity guess, the number of coordinates that an iteration keeps.
        eta: step size along the gradient of the mean, > 0; text: 0.4; authors: 1e-4.
        M0: number of iterations M = M0 log N after an episode of N users, rounded, at least 1; text: 1.6; authors:
            0.16, which is one iteration.
        M: the same number of iterations for every episode, instead of M0.
        C: bound b_max on the l1 norm of beta; iterates are projected there.
        R: bound on rewards; default: x_max C + sigma sqrt(2 log N) (Proposition 5.5).
        sigma: scale of the reward's noise, for R; text: 0.1; authors: 1.
        x_max: bound on the features; contexts are clipped to it; text: 4; authors: sqrt(2 log d).
        calibration: ``"correct"``, or ``"published"``: noise for eta B / n, a quarter of 1/x_max of the sensitivity.
        composition: of the iterations: ``"zcdp"`` (one Gumbel vector selects, Gaussian noise releases), or ``"basic"``
            (the paper's epsilon/M and delta/M, Laplace peeling; the published calibration has no other).
        selection: share of an iteration's rho that goes into selection, in (0, 1); it has to outdo d coordinates.
    """

    epsilon: Budget = 1.0
    delta: Open01 = DELTA
    preset: Literal["text", "authors"] = "text"
    s: Count = 10
    eta: Positive = FROM_PRESET
    M0: Annotated[float, Within(0, 100)] = FROM_PRESET
    M: Annotated[int, CountUpTo(1000)] | None = None
    C: Positive = 5**0.5
    R: Positive | None = None
    sigma: NonNegative = FROM_PRESET
    x_max: Positive | None = None
    calibration: Calibration = "correct"
    composition: Literal["zcdp", "basic"] = "zcdp"
    selection: Open01 = 0.75

    def __post_init__(self) -> None:
        for name, value in PRESETS.get(self.preset, {}).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        super().__post_init__()
        if self.rho is not None and (self.composition, self.calibration) != ("zcdp", "correct"):
            raise ValueError(f"rho needs calibration correct and composition zcdp; give epsilon instead of {self.rho}.")

    def in_dimension(self, dim: int) -> Self:
        """Return these settings with the x_max of the preset where it depends on d: sqrt(2 log d)."""
        return replace(self, x_max=self.x_max or math.sqrt(2 * math.log(max(2, dim))))

    def iterations(self, users: int) -> int:
        """Return M after an episode of ``users`` users."""
        return self.M or max(1, round(self.M0 * math.log(users)))

    def bounds(self, users: int) -> tuple[float, float]:
        """Return x_max and R of an episode of ``users`` users (Proposition 5.5): records are clipped to them."""
        assert self.x_max is not None, "in_dimension sets it"
        return self.x_max, self.R or self.x_max * self.C + self.sigma * math.sqrt(2 * math.log(users))


class FLIPHAT(CentralAgent[Config, Array]):
    """Episodes of doubling length; each is played on an estimate from the one before, which is then forgotten.

    *Formal guarantees.* (epsilon, delta)-joint DP (or rho-zCDP) under replacement of a user's whole record, whatever
    the records: features are clipped to x_max in sup norm and rewards to R by the curator, records that are not finite
    count as (0, 0), iterates lie in the l1 ball of radius C, so a gradient step has sup-norm sensitivity
    4 eta x_max (R + x_max C) / n, attained. A user is in one episode, with bounds 1, 2, 4, ... whatever the data, so
    episodes compose in parallel; the M iterations of N-IHT add up in zCDP, or basically. Actions read the released
    estimate only. With ``calibration="published"`` nothing is guaranteed; the ledger has the real cost.

    Deviations:
        The published noise covers eta B / n, which is 4 x_max times less than the sensitivity; correct is
        4 eta x_max B / n. Contexts are clipped, which the proof needs and Gaussian contexts violate.
        ``composition="zcdp"`` replaces s Laplace vectors by one Gumbel vector and Gaussian noise on the values, and
        epsilon/M by rho/M: for the same guarantee a tenth of the noise. ``composition="basic"`` keeps the paper's
        peeling scale where its lemma is proved and otherwise takes the least that is. Steps are along the gradient of
        the mean, as in the authors' repository. The text has M0 = 1.6; the figures were made with 0.16 and can be had
        with ``preset="authors"``, ``calibration="published"`` and C = |beta|_1. theta^0 = 0 in every episode. M is
        rounded and at least 1; the authors' M is rounded down, and 0 in episodes of fewer than 37 users.
    """

    Config = Config
    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        self.dim = self.context_shape[1]
        self.config = config = self.config.in_dimension(self.dim)
        proven = config.calibration == "correct"
        self.ledger = config.ledger() if proven else Ledger(math.inf, config.delta)
        guarantee = config.guarantee("docs/privacy/iterative-hard-thresholding.md", proven)
        self.guarantee = guarantee if proven and config.composition == "zcdp" else replace(guarantee, rho=None)
        if not proven:
            warn_unproven(self.name)
        self.rho = config.concentrated()
        calibrate(config, 1, min(config.s, self.dim), self.rho)  # refuses noise that floats cannot hold
        self.rng_noise = self.rng.spawn(1)[0]
        self.release = np.zeros(self.dim)
        self.episode, self.users = 0, 0
        self.loss = self._empty()

    def select_action(self, context: Array) -> Action:
        """Return argmax x . beta (Alg. 2, line 11), an arm at random before the first estimate (line 2)."""
        return best_by_support(context, self.release, self.ties)

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        """Store the played features and the reward (Alg. 2, line 13); estimate when the episode ends (line 8)."""
        estimate = None
        records = contexts, actions, feedback
        for x, arms, rewards in blocks(self.frozen_rounds, *records, most=128):  # users that stay in cache
            self.loss.add(played(x, arms, dtype=None), rewards)
            self.users += len(rewards)
            if self.users >= 2 ** (self.episode + 1) - 1:
                estimate = self._estimate()
        return estimate

    def frozen_rounds(self) -> int:
        """Return the number of users left in the episode; it begins with user 2^episode."""
        return max(int(2 ** (self.episode + 1)) - 1 - self.users, 1)

    def _estimate(self) -> Array:
        n, config, loss, group = 2**self.episode, self.config, self.loss, self.ledger.group + 1
        peel, cost = calibrate(config, n, min(config.s, self.dim), self.rho)
        unpaid = [cost]  # the first iteration pays for all of them
        self.episode += 1
        self.loss = self._empty()  # forget (line 9)

        def released(step: Array) -> tuple[Array, Array]:
            paid = unpaid.pop() if unpaid else None
            return self.publish(peel, step, partial(peel.release, step, self.rng_noise), paid, group)

        return n_iht(loss, released, config.iterations(n), config.eta, config.C)

    def _empty(self) -> SquaredLoss:
        n, config = 2**self.episode, self.config
        # a Gram matrix costs d / 20 iterations over the rows (measured, float64, one core)
        sooner = config.iterations(n) > max(6, self.dim / 20)
        gram = self.dim <= 1000 and (sooner or n * self.dim > 2**23)  # such rows take 96 MiB
        return SquaredLoss(self.dim, self.observation_space.dtype, *config.bounds(n), users=n, gram=gram)


def n_iht(loss: SquaredLoss, released: Callable[[Array], tuple[Array, Array]], M: int, eta: float, C: float) -> Array:
    """Run M iterations of noisy iterative hard thresholding (Alg. 1) from theta = 0 and return theta, shape (d,).

    *Formal guarantees.* M adaptive releases; each returns coordinates of a gradient step and their noisy
    values. They have to cover the sensitivity of a step: |theta|_1 is at most C at every one.
    """
    gradient = loss.gradient()
    theta = np.zeros(len(loss.moment))
    for _ in range(M):
        kept, values = released(theta - eta * gradient(theta))  # lines 3 and 4
        theta = np.zeros(len(theta))
        theta[kept] = peeling.project_on_l1_ball(values, C)  # line 5
    return theta


def calibrate(config: Config, users: int, s: int, rho: float) -> tuple[GumbelTopK | LaplacePeeling, Cost]:
    """Return the peeling of every iteration after an episode of ``users`` users, and the cost of all M."""
    M = config.iterations(users)
    bounds = config.eta, *config.bounds(users), config.C
    sensitivity = peeling.step_sensitivity(*bounds, users)
    if config.calibration == "published":
        stated = peeling.published_sensitivity(*bounds, users)
        peel = peeling.published(config.epsilon, config.delta, M, s, sensitivity, stated)
        return peel, zcdp(M * peel.cost.rho)
    if config.composition == "basic":
        return peeling.basic(config.epsilon, config.delta, M, s, sensitivity), approximate(config.epsilon, config.delta)
    one = peeling.concentrated(rho, M, s, sensitivity, config.selection)
    return one, zcdp(M * one.cost.rho)
