"""Sequential private gradient descent from a public start: PSGD-L and PSGD-N.

Andrew Lowy, Zeman Li, Tianjian Huang and Meisam Razaviyayn, "Optimal Differentially Private Model Training with Public
Data", 2023, as a competitor in Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with
Public Data", 2023, section 7.2.
"""

import math
from dataclasses import dataclass
from typing import Annotated

from privbandit_agents.base.kernels.features import PublicFeatures
from privbandit_agents.base.labels import Floats
from privbandit_agents.base.settings import CountUpTo, Positive
from privbandit_agents.local.gradients.descent import GradientAgent, Schedule
from privbandit_agents.local.gradients.models import Linear, Model, Network, logistic_fit
from privbandit_agents.local.label_agent import LocalLabelSettings


@dataclass(frozen=True)
class Config(LocalLabelSettings):
    """Settings of PSGD, beside those in ``LocalLabelSettings``.

    Attributes:
        step: learning rate of one user's gradient, > 0; the paper's grid is 1e-5, 1e-4, ..., 1.
    """

    step: Positive = 1e-3


@dataclass(frozen=True)
class NetworkConfig(Config):
    """Settings of PSGD with a hidden layer, beside those in ``Config``.

    Attributes:
        hidden: number of neurons, >= 1; None: ``per_feature`` for each feature, but at most 256.
        per_feature: neurons for each feature, > 0; the paper takes 1/2, 1 or 2.
    """

    hidden: Annotated[int, CountUpTo(4096)] | None = None
    per_feature: Positive = 1.0


class PSGDLinear(GradientAgent[Config]):
    """PSGD: a linear score is fitted to the public rows; then every user's private gradient is a step of its own.

    *Formal guarantees.* Those of ``GradientAgent``; gradients are clipped to norm 1.

    Deviations:
        Directions come from the best cap with its exact law (``BinCapSign`` with one cell) in place of PrivUnitG, which
        approximates it; features are standardized by the public rows, with a constant 1 among them; predictions
        average the iterates.
    """

    Config = Config
    kind = "bin-cap"

    def start(self) -> tuple[Model, Floats]:
        x, y = self.public_data
        features = PublicFeatures.of(x, unit=False)
        return Linear(features), logistic_fit(features(x), y, ridge=1.0)

    def scheduled(self) -> Schedule:
        return Schedule(self.config.step)


class PSGDNetwork(GradientAgent[NetworkConfig]):
    """PSGD with the logistic loss of a network with one hidden layer of rectifiers; else as ``PSGDLinear``.

    *Formal guarantees.* Those of ``GradientAgent``; gradients are clipped to norm 1.
    """

    Config = NetworkConfig
    kind = "bin-cap"

    def start(self) -> tuple[Model, Floats]:
        config, (x, y) = self.config, self.public_data
        features = PublicFeatures.of(x, unit=False)
        neurons = math.ceil(min(config.per_feature * (features.dim - 1), 256))
        network = Network(features, config.hidden or max(neurons, 1))
        return network, network.pretrained(features(x), y, 1.0, self.rng_exploration.spawn(1)[0])

    def scheduled(self) -> Schedule:
        return Schedule(self.config.step)
