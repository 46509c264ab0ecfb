"""Generalised linear models from noisy moments, with a scale found on public features (PGLM).

Di Wang, Lijie Hu, Huanyu Zhang, Marco Gaboardi and Jinhui Xu, "Generalized Linear Models in Non-interactive Local
Differential Privacy with Public Data", JMLR 24, 2023.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from privbandit_agents.base.agent import Array, Space
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.local.gradients.features import PublicFeatures, two_labels
from privbandit_agents.local.label_agent import LocalLabelAgent, added
from privbandit_agents.privacy.accounting.ledger import Cost, Ledger, approximate, pure
from privbandit_agents.privacy.contributions.moments import NORM, SENSITIVITY, pack, packed_size, perturbed_ridge
from privbandit_agents.privacy.mechanisms.additive import Gaussian
from privbandit_agents.privacy.randomizers.sphere import Hemisphere
from privbandit_envs.validate import above, at_least, count, fraction, one_of, positive

REPORTS = ("gaussian", "hemisphere")
USERS = 10_000
"""How many users are expected where no horizon is given."""
ENTRIES = 2**21
"""Numbers that are randomized at once."""
ENOUGH = 1000
"""Public rows, evenly chosen, that the scale is taken from if there are more of them."""
SCALES = np.geomspace(1e-3, 1e6, 400)


@dataclass(frozen=True)
class Config:
    """Settings of PGLM.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
        delta: of the report, in (0, 1); None: 1/n^2 for the expected number n of users, as in Ma and Yang (2023).
        report: ``"gaussian"``, or ``"hemisphere"`` (delta is then 0).
        shift: ridge in units of the spectral norm of the noise, >= 0; 0 is the paper's plain inverse.
        ridge: least eigenvalue, > 0.
        exploration: probability of a random label; None: 0.
        growth: the policy changes when the number of users has grown by this factor, > 1.
        horizon: expected number of users, for delta.
    """

    epsilon: float = 1.0
    delta: float | None = None
    report: str = "gaussian"
    shift: float = 1.0
    ridge: float = 1.0
    exploration: float | None = None
    growth: float = 1.05
    horizon: int | None = None

    def __post_init__(self) -> None:
        """Check the ranges; epsilon and delta are checked by the mechanism."""
        one_of(REPORTS, report=self.report)
        at_least(0, shift=self.shift)
        positive(ridge=self.ridge)
        if self.exploration is not None:
            fraction(exploration=self.exploration)
        above(1, growth=self.growth)
        if self.horizon is not None:
            count(horizon=self.horizon)


class PGLM(LocalLabelAgent[Config, Array]):
    """Every user sends (x y, x x') with noise; the server solves least squares and scales the solution.

    For a generalised linear model and normal features the coefficients are w = c w_ols, where 1 = c E Phi''(<x, w>)
    with Phi'' = p (1 - p) of the logistic link. The mean over public features takes the expectation's place.

    *Formal guarantees.* (epsilon, delta)-local DP under replacement of a user's whole record: one report a user, the
    Gaussian mechanism on a vector of l2 sensitivity 2 (``pack``), calibrated exactly; with ``report="hemisphere"``
    pure epsilon-local DP by the l2-ball mechanism. Features are standardised by public statistics, divided by a public
    constant and scaled into the unit ball on the device. Records are clipped as ``LocalLabelAgent`` says.

    Deviations:
        One joint report in place of two with half the budget each; standardised features with a constant 1 among them;
        labels are -1 and 1, whose regression is twice that of the centred ones; features are divided by the largest
        norm of a public row; the noisy second moment is shifted, and eigenvalues below ``ridge`` are raised to it.
        Where no c solves the equation, as after noise that makes w_ols long, the c with the largest right side is
        taken.
    """

    Config: ClassVar[type[Any]] = Config
    gaussian = True
    fixed: ClassVar[frozenset[str]] = LocalLabelAgent.fixed | {"features", "device", "sigma", "bound", "known", "dim"}
    proof: ClassVar[str] = "docs/privacy/linear-classifiers.md"

    def begin(self) -> None:
        """Calibrate the devices; start at w = 0."""
        super().begin()
        config = self.config
        self.features = PublicFeatures.of(self.public_data[0], unit=False)
        self.dim = self.features.dim
        self.known = self.features(self.public_data[0])
        self.bound = float(np.linalg.norm(self.known, axis=1).max(initial=np.sqrt(self.dim)))
        size = packed_size(self.dim)
        self.device: Gaussian | Hemisphere
        if config.report == "gaussian":
            self.device = Gaussian.from_epsilon(config.epsilon, self.cost.delta, SENSITIVITY)
            self.sigma = self.device.sigma
        else:
            self.device = Hemisphere(config.epsilon, 1, size, radius=NORM)
            self.sigma = self.device.variance(own=True) ** 0.5
        self.total, self.w, self.scale = np.zeros(size), np.zeros(self.dim), 1.0

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        """Classification with two labels in the unit cube."""
        return super().plays(observation_space, action_space) or two_labels(action_space)

    def budget(self) -> tuple[Cost, Ledger]:
        """Return the cost of a report, and the ledger of so much."""
        epsilon = self.config.epsilon
        if self.config.report == "hemisphere":
            return pure(epsilon), Ledger(epsilon=epsilon)
        users = max(self.config.horizon or USERS, 2)
        delta = users**-2.0 if self.config.delta is None else self.config.delta
        return approximate(epsilon, delta), Ledger(epsilon=epsilon, delta=delta)

    def encode(self, contexts: Floats, labels: Labels) -> Floats:
        """Return (x y, x x') of scaled features and labels -1 and 1, packed, shape (n, D)."""
        return pack(self.features(contexts) / self.bound, 2.0 * labels - 1)

    def privatise(self, contexts: Floats, labels: Labels) -> Array:
        """Return the reports of n users."""
        packed = self.encode(contexts, labels)
        if isinstance(self.device, Gaussian):
            return self.device.release(packed, self.rng)
        return self.device.randomize(np.zeros(len(packed), np.intp), packed, self.rng)[:, 0]

    def estimate(self, report: Array) -> Floats:
        """Return unbiased estimates of the packed records."""
        return report if isinstance(self.device, Gaussian) else self.device.estimate(report[:, None])[:, 0]

    def absorb(self, report: Array) -> None:
        """Add up reports in order; solve when it is time."""
        estimates, done = self.estimate(report), 0
        while done < len(estimates):
            part = estimates[done : done + self.frozen_rounds()]
            self.total = added(self.total, part)
            self.pay(len(part))
            done += len(part)
            if self.users >= self.refit_at:
                self.conclude()

    def learn_labels(self, contexts: Array, labels: Labels, aggregate: bool = False) -> None:
        """Let users report whose labels are known."""
        rows, labels, chunk = self.rows(contexts), self.existing(labels), max(ENTRIES // len(self.total), 1)
        self.pay(len(rows))
        for start in range(0, len(rows), chunk):
            part = slice(start, start + chunk)
            if aggregate and isinstance(self.device, Gaussian):
                exact = self.encode(rows[part], labels[part])
                self.total = self.total + self.device.release_sum(exact.sum(axis=0), len(exact), self.rng)
            else:
                self.total = self.total + self.estimate(self.privatise(rows[part], labels[part])).sum(axis=0)

    def conclude(self) -> None:
        """Solve, scale, and say when to do so next."""
        if self.users:
            noise = self.sigma * self.users**0.5
            _, twice, _ = perturbed_ridge(self.total, self.dim, noise, self.config.ridge, self.config.shift)
            self.w = twice / 2 / self.bound
            self.scale = link_scale(self.known @ self.w)
        self.schedule()

    def chances(self, contexts: Array) -> Floats:
        """Return the probabilities of the labels, shape (n, 2)."""
        one = expit(self.scale * np.vecdot(self.features(contexts), self.w))
        return np.stack([1 - one, one], axis=1)


def link_scale(scores: Floats) -> float:
    """Return the least c with 1 = c mean p (1 - p) at p = 1/(1 + exp(-c score)); else the c that comes nearest to it.

    Args:
        scores: of public features by least squares, shape (m,); none at all count as a score 0.
    """
    values = scores[:: max(len(scores) // ENOUGH, 1)] if len(scores) else np.zeros(1)

    def excess(c: Any) -> Any:
        p = expit(np.multiply.outer(c, values))
        return c * (p * (1 - p)).mean(axis=-1) - 1

    found = excess(SCALES)
    if found.max() < 0:
        return float(SCALES[found.argmax()])
    first = int(np.argmax(found >= 0))
    return float(brentq(excess, SCALES[first - 1], SCALES[first]))
