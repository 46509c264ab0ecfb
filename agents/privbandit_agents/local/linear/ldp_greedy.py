"""Locally private greedy play on ridge regression: the simplest strong baseline under pure local privacy.

The statistics are those of Zheng et al., "Locally Differentially Private (Contextual) Bandits Learning", NeurIPS 2020;
the release is that of John Duchi, Michael Jordan and Martin Wainwright, "Minimax Optimal Procedures for Locally Private
Estimation", JASA 2018 (the l2-ball mechanism).
"""

import math
from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.agent import Array
from privbandit_agents.local.linear.moments import PureMomentAgent
from privbandit_agents.privacy.contributions.moments import NORM, noise_of_gram, packed_size, unpack
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from privbandit_agents.privacy.randomizers.sphere import Hemisphere
from privbandit_envs.validate import above, at_least, one_of, positive


@dataclass(frozen=True)
class Config:
    """Settings of LDP-greedy.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
        release: ``"hemisphere"`` or ``"laplace"``.
        statistics: ``"ridge"``: the Gram matrix is shifted by a ridge; ``"threshold"``: its eigenvectors with an
            eigenvalue below ``clear`` standard deviations of the noise are left out.
        shift: ridge in units of the noise's spectral norm, >= 0.
        clear: >= 0.
        ridge: least ridge, > 0.
        growth: the policy changes when the number of users has grown by this factor, > 1.
    """

    epsilon: float = 1.0
    release: str = "hemisphere"
    statistics: str = "ridge"
    shift: float = 1.0
    clear: float = 3.0
    ridge: float = 1.0
    growth: float = 1.05

    def __post_init__(self) -> None:
        """Check the ranges; epsilon is checked by the randomizer."""
        one_of(("hemisphere", "laplace"), release=self.release)
        one_of(("ridge", "threshold"), statistics=self.statistics)
        at_least(0, shift=self.shift)
        at_least(0, clear=self.clear)
        positive(ridge=self.ridge)
        above(1, growth=self.growth)


class LDPGreedy(PureMomentAgent[Config]):
    """Every user reports (y x, w svec(x x')) by one private direction; the server plays the arm with the best estimate.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by a
    randomizer whose likelihood ratio is at most e^epsilon for any two inputs. Records are clipped to |x| <= 1, |y| <= 1
    on the device; those that are not finite count as (0, 0).
    """

    Config = Config

    def device(self) -> LocalRandomizer:
        """Return the randomizer that ``release`` names."""
        return randomizer(self.config.release, self.config.epsilon, self.dim)

    def learn(self) -> None:
        """Solve the regression by the statistics of the settings."""
        if self.config.statistics == "ridge":
            super().learn()
        else:
            gram, moment = unpack(self.total, self.dim)
            noise = math.sqrt(2 * self.users) * noise_of_gram(self.sigma)
            self.scorer[:, -1] = clear_solution(gram, moment, max(self.config.ridge, self.config.clear * noise))


def clear_solution(gram: Array, moment: Array, least: float) -> Array:
    """Return the least-squares solution in the eigenvectors of the Gram matrix with eigenvalues of at least that."""
    values, vectors = np.linalg.eigh(gram)
    inverse = np.where(values >= least, 1 / np.maximum(values, least), 0.0)
    return np.asarray(vectors @ (inverse * (vectors.T @ moment)))


def randomizer(release: str, epsilon: float, dim: int) -> LocalRandomizer:
    """Return the randomizer of packed records: norm at most sqrt(3/2), l1 norm at most what ``l1_bound`` says."""
    if release == "hemisphere":
        return Hemisphere(epsilon, 1, packed_size(dim), radius=NORM)
    return LaplaceOneHot(epsilon, 1, packed_size(dim), bound=l1_bound(dim))


def l1_bound(dim: int) -> float:
    """Return the largest l1 norm of a packed record: sqrt(d) + w (1 + sqrt(2) (d - 1) / 2), at x = 1/sqrt(d)."""
    return float(dim**0.5 + 0.5**0.5 * (1 + 2**0.5 * (dim - 1) / 2))
