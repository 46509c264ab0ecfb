"""LinUCB for a parameter shared by the arms.

Yasin Abbasi-Yadkori, David Pal and Csaba Szepesvari, "Improved Algorithms for Linear Stochastic Bandits", NeurIPS
2011; the name is from Li, Chu, Langford and Schapire, "A Contextual-Bandit Approach to Personalized News Article
Recommendation", WWW 2010.
"""

from dataclasses import dataclass

import numpy as np

from privbandit_agents.agent import at_least, positive
from privbandit_agents.baselines.ridge import Array, RidgeAgent


@dataclass(frozen=True)
class Config:
    """Settings of LinUCB.

    Attributes:
        alpha: width of the confidence bonus alpha sqrt(x' A^-1 x), >= 0.
        ridge: regularisation of A = ridge I + sum x x', > 0.
    """

    alpha: float = 1.0
    ridge: float = 1.0

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(0, alpha=self.alpha)
        positive(ridge=self.ridge)


class LinUCB(RidgeAgent):
    """Play the arm with the largest x . theta + alpha sqrt(x' A^-1 x)."""

    Config = Config

    def choose(self, features: Array, scored: Array) -> Array:
        """Return argmax of estimate plus bonus."""
        squared_width = np.vecdot(scored[..., :-1], features)
        np.abs(squared_width, out=squared_width)  # rounding may leave a little less than 0
        bound = np.sqrt(squared_width, out=squared_width)
        bound *= self.config.alpha
        bound += scored[..., -1]
        arms: Array = bound.argmax(axis=-1)
        return arms
