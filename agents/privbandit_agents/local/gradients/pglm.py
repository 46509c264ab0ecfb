"""Generalised linear models from noisy moments, with a scale found on public features (PGLM).

Di Wang, Lijie Hu, Huanyu Zhang, Marco Gaboardi and Jinhui Xu, "Generalized Linear Models in Non-interactive Local
Differential Privacy with Public Data", JMLR 24, 2023.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike

from privbandit_agents.base.agent import Array
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.reports import Inputs, inputs_of
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.settings import NonNegative, Open01
from privbandit_agents.local.gradients.models import PublicFeatures
from privbandit_agents.local.label_agent import LocalLabelAgent, Summing, SummingSettings
from privbandit_agents.privacy.accounting.costs import Cost, approximate
from privbandit_agents.privacy.contributions.moments import NORM, SENSITIVITY, pack, packed_size, perturbed_ridge
from privbandit_agents.privacy.mechanisms.additive import Gaussian
from privbandit_agents.privacy.randomizers.gaussian import GaussianReport
from privbandit_agents.privacy.randomizers.sphere import Hemisphere

SCALES = np.geomspace(1e-3, 1e6, 400)


@dataclass(frozen=True)
class Config(SummingSettings):
    """Settings of PGLM, beside those in ``SummingSettings``.

    Attributes:
        delta: of the report, in (0, 1); None: 1/n^2 for n expected users, as in Ma and Yang (2023), and 1e-5
            for fewer than 317.
        report: ``"gaussian"``, or ``"hemisphere"`` (delta is then 0).
        shift: ridge in units of the spectral norm of the noise, >= 0; 0 is the paper's plain inverse.
    """

    delta: Open01 | None = None
    report: Literal["gaussian", "hemisphere"] = "gaussian"
    shift: NonNegative = 1.0


class NoisyMoments(Summing[Config]):
    """The algorithm of ``PGLM``.

    Attributes:
        device: what randomizes a packed record, with noise ``sigma`` in every coordinate.
        bound: largest norm of a public row's features.
        known: features of the public rows.
        w: coefficients of the regression, shape (D,).
        scale: c.
    """

    fixed: ClassVar[frozenset[str]] = Summing.fixed | {"device", "known"}

    def begin(self, rng: Generator) -> None:
        super().begin(rng)
        config, x = self.config, self.public_data[0]
        self.features = PublicFeatures.of(x, unit=False)
        self.dim, self.known = self.features.dim, self.features(x)
        self.bound = float(np.linalg.norm(self.known, axis=1).max(initial=np.sqrt(self.dim)))
        size = packed_size(self.dim)
        self.device: GaussianReport | Hemisphere
        if config.report == "gaussian":
            noise = Gaussian.from_epsilon(config.epsilon, self.cost.delta, SENSITIVITY)
            self.device, self.sigma = GaussianReport(noise, config.epsilon, self.cost.delta, size), noise.sigma
        else:
            self.device = Hemisphere(config.epsilon, 1, size, radius=NORM)
            self.sigma = self.device.variance(own=True) ** 0.5
        self.total, self.w, self.scale = np.zeros(size), np.zeros(self.dim), 1.0

    @property
    def cost(self) -> Cost:
        if self.config.report == "hemisphere":
            return super().cost
        delta = min(self.config.expected_users**-2.0, 1e-5) if self.config.delta is None else self.config.delta
        return approximate(self.config.epsilon, delta)

    def encode(self, contexts: Floats, labels: Labels) -> Floats:
        """Return (x y, x x') of scaled features and labels -1 and 1, packed, shape (n, D)."""
        return pack(self.features(contexts) / self.bound, 2.0 * labels - 1)

    def inputs(self, contexts: Floats, labels: Labels) -> Inputs:
        return inputs_of(self.device, self.encode(contexts, labels))

    def estimate(self, reports: Array) -> Floats:
        return reports if isinstance(self.device, GaussianReport) else self.device.estimate(reports)[:, 0]

    def learn(self, contexts: Floats, labels: Labels, rng: Generator, aggregate: bool) -> None:
        self.users += len(labels)
        users = max(2**21 // len(self.total), 1)  # 16 MiB of reports
        for x, y in blocks(lambda: users, contexts, labels):
            if aggregate and isinstance(self.device, GaussianReport):
                noise = self.device.mechanism
                self.total = self.total + noise.release_sum(self.encode(x, y).sum(axis=0), len(y), rng)
            else:
                self.total = self.total + self.estimate(self.randomize(x, y, rng)).sum(axis=0)

    def look(self) -> None:
        if self.users:
            noise = self.sigma * self.users**0.5
            _, twice, _ = perturbed_ridge(self.total, self.dim, noise, self.config.shift)
            self.w = twice / 2 / self.bound
            self.scale = link_scale(self.known @ self.w)

    def chances(self, contexts: Array) -> Floats:
        one = scipy.special.expit(self.scale * np.vecdot(self.features(contexts), self.w))
        return np.stack([1 - one, one], axis=1)


class PGLM(LocalLabelAgent[Config, NoisyMoments]):
    """Every user sends (x y, x x') with noise; the server solves least squares and scales the solution.

    For a generalised linear model and normal features the coefficients are w = c w_ols, where 1 = c E Phi''(<x, w>)
    with Phi'' = p (1 - p) of the logistic link. The mean over public features takes the expectation's place.

    *Formal guarantees.* (epsilon, delta)-local DP under replacement of a user's whole record: one report a user, the
    Gaussian mechanism on a vector of l2 sensitivity 2 (``pack``), calibrated exactly; with ``report="hemisphere"``
    pure epsilon-local DP by the l2-ball mechanism. Features are standardized by public statistics, divided by a public
    constant and scaled into the unit ball on the device. Records are clipped as in ``LocalLabelAgent``.

    Deviations:
        One joint report in place of two with half the budget each; standardized features with a constant 1 among them;
        labels are -1 and 1, which doubles the regression of the centred ones; features are divided by the largest
        norm of a public row; the noisy second moment is shifted, and eigenvalues below 1 are raised to it.
        Where no c solves the equation, as after noise that makes w_ols long, the c with the largest right side is
        taken.
    """

    Config = Config
    learns_by = NoisyMoments
    proof = "docs/privacy/linear-classifiers.md"
    gaussian = True
    binary = True


def link_scale(scores: Floats) -> float:
    """Return the least c with 1 = c mean p (1 - p) at p = 1/(1 + exp(-c score)); else the c that comes nearest to it.

    Args:
        scores: of public features by least squares, shape (m,); none at all count as a score 0.
    """
    values = scores[:: max(len(scores) // 1000, 1)] if len(scores) else np.zeros(1)  # 1000 and a few are enough

    def excess(c: ArrayLike) -> Floats:
        p = scipy.special.expit(np.multiply.outer(c, values))
        return np.asarray(c * (p * (1 - p)).mean(axis=-1) - 1)

    found = excess(SCALES)
    if found.max() < 0:
        return float(SCALES[found.argmax()])
    first = int(np.argmax(found >= 0))
    return float(scipy.optimize.brentq(excess, SCALES[first - 1], SCALES[first]))
