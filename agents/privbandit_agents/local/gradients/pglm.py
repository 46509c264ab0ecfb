"""Generalised linear models from noisy moments, with a scale found on public features (PGLM).

Di Wang, Lijie Hu, Huanyu Zhang, Marco Gaboardi and Jinhui Xu, "Generalized Linear Models in Non-interactive Local
Differential Privacy with Public Data", JMLR 24, 2023.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from privbandit_agents.base.kernels.features import PublicFeatures
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.local import Inputs
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.settings import NonNegative, Open01
from privbandit_agents.base.spaces import Array
from privbandit_agents.local.label_agent import LocalLabelAgent, SummingSettings
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


class PGLM(LocalLabelAgent[Config]):
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

    Attributes:
        bound: largest norm of a public row's features.
        known: features of the public rows.
        w: coefficients of the regression, shape (D,).
        scale: c.
    """

    Config = Config
    fixed: ClassVar[frozenset[str]] = LocalLabelAgent.fixed | {"known"}
    proof = "docs/privacy/linear-classifiers.md"
    gaussian = True
    binary = True

    def begin(self) -> None:
        super().begin()
        config, x = self.config, self.public_data[0]
        self.features = PublicFeatures.of(x, unit=False)
        self.dim, self.known = self.features.dim, self.features(x)
        self.bound = float(np.linalg.norm(self.known, axis=1).max(initial=np.sqrt(self.dim)))
        size = packed_size(self.dim)
        if config.report == "hemisphere":
            self.equip(Hemisphere(config.epsilon, 1, size, radius=NORM))
        else:
            delta = min(config.expected_users**-2.0, 1e-5) if config.delta is None else config.delta
            noise = Gaussian.from_epsilon(config.epsilon, delta, SENSITIVITY)
            self.equip(GaussianReport(noise, config.epsilon, delta, size))
        self.w, self.scale = np.zeros(self.dim), 1.0

    def encode(self, contexts: Floats, labels: Labels) -> tuple[Array, Floats]:
        """Return (x y, x x') of scaled features and labels -1 and 1, packed, shape (n, D)."""
        return np.zeros(len(labels), np.intp), pack(self.features(contexts) / self.bound, 2.0 * labels - 1)

    def take(self, contexts: Floats, labels: Labels, aggregate: bool) -> None:
        self.users += len(labels)
        users = max(2**21 // len(self.total), 1)  # 16 MiB of reports
        for x, y in blocks(lambda: users, contexts, labels):
            if aggregate and self.config.report == "gaussian":
                self.total = self.total + self.device.total(*self.encode(x, y), self.rng)
            else:
                report = Inputs(self.device, *self.encode(x, y)).randomize(self.rng)
                self.total = self.total + self.estimate(report).sum(axis=0)

    def learn(self) -> None:
        if self.users:
            noise = self.device.deviation * self.users**0.5
            _, twice, _ = perturbed_ridge(self.total, self.dim, noise, self.config.shift)
            self.w = twice / 2 / self.bound
            self.scale = link_scale(self.known @ self.w)

    def chances(self, contexts: Array) -> Floats:
        one = scipy.special.expit(self.scale * np.vecdot(self.features(contexts), self.w))
        return np.stack([1 - one, one], axis=1)


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
