"""Sequential private gradient descent from a public start: PSGD-L and PSGD-N.

Andrew Lowy, Zeman Li, Tianjian Huang and Meisam Razaviyayn, "Optimal Differentially Private Model Training with Public
Data", 2023, as a competitor in Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with
Public Data", 2023, section 7.2.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from scipy.optimize import minimize
from scipy.special import expit

from privbandit_agents.base.agent import C
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.local.gradients.descent import GradientAgent, Plan
from privbandit_agents.local.gradients.features import PublicFeatures, logistic_fit
from privbandit_envs.validate import at_least, count, fraction, positive

MOST_HIDDEN = 256
PRETRAINING = 200
"""Most steps of L-BFGS on the public rows."""


@dataclass(frozen=True)
class Config:
    """Settings of PSGD.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
        step: learning rate of one user's gradient, > 0; the paper's grid is 1e-5, 1e-4, ..., 1.
        ridge: of the public start, > 0.
        power: the iterate after t users weighs t^power in predictions, >= 0; 0: the plain average.
        exploration: probability of a random label; None: 0.
    """

    epsilon: float = 1.0
    step: float = 1e-3
    ridge: float = 1.0
    power: float = 0.0
    exploration: float | None = None

    def __post_init__(self) -> None:
        """Check the ranges; epsilon is checked by the randomizer."""
        positive(step=self.step)
        positive(ridge=self.ridge)
        at_least(0, power=self.power)
        if self.exploration is not None:
            fraction(exploration=self.exploration)


@dataclass(frozen=True)
class NetworkConfig(Config):
    """Settings of PSGD with a hidden layer; more of them in ``Config``.

    Attributes:
        hidden: number of neurons, >= 1; None: as many as features, but at most 256. The paper takes d/2, d or 2 d.
    """

    hidden: int | None = None

    def __post_init__(self) -> None:
        """Check the ranges."""
        super().__post_init__()
        if self.hidden is not None:
            count(hidden=self.hidden)


class PSGD(GradientAgent[C]):
    """The model is fitted to the public rows; then every user's private gradient is a step of its own.

    *Formal guarantees.* Those of ``GradientAgent``; gradients are clipped to norm 1.

    Deviations:
        Directions come from the best cap with its exact law (``BinCapSign`` with one cell) in place of PrivUnitG, which
        approximates it; features are standardised by the public rows, with a constant 1 among them; predictions
        average the iterates.
    """

    Config: ClassVar[type[Any]] = Config

    def kind_of_report(self) -> str:
        """Return the cap."""
        return "bin-cap"

    def start(self) -> Floats:
        """Fit the public rows."""
        x, y = self.public_data
        self.features = PublicFeatures.of(x, unit=False)
        return self.pretrained(self.features(x), y)

    @abstractmethod
    def pretrained(self, features: Floats, labels: Labels) -> Floats:
        """Return theta from features (n, D) and labels (n,) of public rows."""

    def plan(self) -> Plan:
        """Return steps of one length, one user each."""
        return Plan(self.config.step, power=self.config.power)


class PSGDLinear(PSGD):
    """The logistic loss of a linear score; see ``PSGD``."""

    def pretrained(self, features: Floats, labels: Labels) -> Floats:
        """Return the minimiser on the public rows."""
        return logistic_fit(features, labels, self.config.ridge)

    def scores(self, contexts: Floats, theta: Floats) -> Floats:
        """Return u . theta for the features u."""
        return np.asarray(np.vecdot(self.features(contexts), theta))

    def gradients(self, contexts: Floats, labels: Labels, theta: Floats) -> Floats:
        """Return (p - y) u."""
        u = self.features(contexts)
        return np.asarray((expit(np.vecdot(u, theta)) - labels)[:, None] * u)


class PSGDNetwork(PSGD):
    """The logistic loss of a network with one hidden layer of rectifiers; see ``PSGD``.

    Theta holds the weights (h, D) of the hidden layer, those of the output (h,), and its offset. A public fit starts
    from seeded normal weights; without public rows of both labels it is left out.
    """

    Config: ClassVar[type[Any]] = NetworkConfig
    fixed: ClassVar[frozenset[str]] = PSGD.fixed | {"hidden"}

    def pretrained(self, features: Floats, labels: Labels) -> Floats:
        """Return a stationary point of the regularised loss on the public rows."""
        self.hidden = self.config.hidden or min(features.shape[1] - 1, MOST_HIDDEN)
        theta = normal_start(self.hidden, features.shape[1], self.luck.spawn(1)[0])
        if len(np.unique(labels)) < 2:
            return theta

        def loss(theta: Floats) -> tuple[float, Floats]:
            score = self.forward(features, theta)[1]
            value = np.logaddexp(0, np.where(labels == 1, -score, score)).sum()
            penalty = self.config.ridge / 2 * theta @ theta
            return float(value + penalty), self.summed_gradient(features, labels, theta) + self.config.ridge * theta

        return np.asarray(minimize(loss, theta, jac=True, method="L-BFGS-B", options={"maxiter": PRETRAINING}).x)

    def split(self, theta: Floats) -> tuple[Floats, Floats, Any]:
        """Return the hidden weights (h, D), the output's weights (h,) and its offset."""
        inner = len(theta) - self.hidden - 1
        return theta[:inner].reshape(self.hidden, -1), theta[inner:-1], theta[-1]

    def forward(self, features: Floats, theta: Floats) -> tuple[Floats, Floats]:
        """Return the hidden layer (n, h) and the scores (n,)."""
        inner, outer, offset = self.split(theta)
        layer = np.maximum(features @ inner.T, 0.0)
        return layer, np.asarray(layer @ outer + offset)

    def backward(self, features: Floats, labels: Labels, theta: Floats) -> Floats:
        """Return every row's gradient, shape (n, D)."""
        layer, score = self.forward(features, theta)
        residual = expit(score) - labels
        inner = (residual[:, None] * (layer > 0) * self.split(theta)[1])[:, :, None] * features[:, None, :]
        outer = residual[:, None] * layer
        return np.concatenate([inner.reshape(len(features), -1), outer, residual[:, None]], axis=1)

    def summed_gradient(self, features: Floats, labels: Labels, theta: Floats) -> Floats:
        """Return the sum of the rows' gradients, shape (D,), without a copy of theta for each row."""
        layer, score = self.forward(features, theta)
        residual = expit(score) - labels
        inner = (residual[:, None] * (layer > 0) * self.split(theta)[1]).T @ features
        return np.concatenate([inner.ravel(), residual @ layer, [residual.sum()]])

    def scores(self, contexts: Floats, theta: Floats) -> Floats:
        """Return the network's output."""
        return self.forward(self.features(contexts), theta)[1]

    def gradients(self, contexts: Floats, labels: Labels, theta: Floats) -> Floats:
        """Return the gradients of the network's loss."""
        return self.backward(self.features(contexts), labels, theta)


def normal_start(hidden: int, dim: int, rng: Generator) -> Floats:
    """Return normal weights, of variance 2 / D in the hidden layer and 1 / h in the output, whose offset is 0."""
    inner = rng.standard_normal(hidden * dim) * (2 / dim) ** 0.5
    return np.concatenate([inner, rng.standard_normal(hidden) / hidden**0.5, np.zeros(1)])
