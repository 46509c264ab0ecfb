"""Locally private greedy play on ridge regression: the simplest strong baseline under pure local privacy.

The statistics are those of Zheng et al., "Locally Differentially Private (Contextual) Bandits Learning", NeurIPS 2020;
the release is that of John Duchi, Michael Jordan and Martin Wainwright, "Minimax Optimal Procedures for Locally Private
Estimation", JASA 2018 (the l2-ball mechanism).
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from privbandit_agents.base.settings import NonNegative
from privbandit_agents.base.spaces import Array
from privbandit_agents.local.linear.moments import MomentAgent, MomentSettings
from privbandit_agents.local.sums import Device
from privbandit_agents.privacy.contributions.moments import NORM, noise_of_gram, packed_size, perturbed_ridge, unpack
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot


@dataclass(frozen=True)
class Config(MomentSettings):
    """Settings of LDP-greedy, beside those in ``MomentSettings``.

    Attributes:
        release: what randomizes a record.
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded, and for hemispheres.
        statistics: ``"ridge"`` shifts the Gram matrix by a ridge; ``"threshold"`` leaves out its eigenvectors with an
            eigenvalue below three standard deviations of the noise.
        shift: ridge in units of the noise's spectral norm, >= 0.
    """

    release: Literal["hemisphere", "laplace"] = "hemisphere"
    statistics: Literal["ridge", "threshold"] = "ridge"
    shift: NonNegative = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise == "secure" and self.release == "laplace":
            raise ValueError("noise='secure' is for release='hemisphere'; got release='laplace'.")


class LDPGreedy(MomentAgent[Config]):
    """Every user reports (y x, w svec(x x')) by one private direction; the server plays the arm with the best estimate.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by a
    randomizer with likelihood ratio at most e^epsilon for any two inputs. Records are clipped to |x| <= 1, |y| <= 1
    on the device; those that are not finite count as (0, 0).
    """

    Config = Config

    def opened(self) -> Device:
        size = packed_size(self.dim)
        if self.config.release == "hemisphere":
            return self.directions(size, NORM)
        return LaplaceOneHot(self.config.epsilon, 1, size, bound=l1_bound(self.dim))

    def learn(self) -> None:
        config, noise = self.config, self.device.deviation * math.sqrt(self.users)
        if config.statistics == "ridge":
            theta = perturbed_ridge(self.total, self.dim, noise, config.shift)[1]
        else:
            gram, moment = unpack(self.total, self.dim)
            clear = 3 * (math.sqrt(2 * self.users) * noise_of_gram(self.device.deviation))
            theta = clear_solution(gram, moment, max(1.0, clear))
        self.scorer[:, -1] = theta


def clear_solution(gram: Array, moment: Array, least: float) -> Array:
    """Return the least-squares solution in the eigenvectors of the Gram matrix with eigenvalues of at least that."""
    values, vectors = np.linalg.eigh(gram)
    inverse = np.where(values >= least, 1 / np.maximum(values, least), 0.0)
    return np.asarray(vectors @ (inverse * (vectors.T @ moment)))


def l1_bound(dim: int) -> float:
    """Return the largest l1 norm of a packed record: sqrt(d) + w (1 + sqrt(2) (d - 1) / 2), at x = 1/sqrt(d)."""
    return float(dim**0.5 + 0.5**0.5 * (1 + 2**0.5 * (dim - 1) / 2))
