"""KernelUCB on a dictionary of contexts, in bounded memory.

Michal Valko, Nathaniel Korda, Remi Munos, Ilias Flaounas and Nello Cristianini, "Finite-Time Analysis of Kernelised
Contextual Bandits", UAI 2013. The dictionary is after Houssam Zenati, Alberto Bietti, Eustache Diemert, Julien Mairal,
Matthieu Martin and Pierre Gaillard, "Efficient Kernel UCB for Contextual Bandits", AISTATS 2022.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from privbandit_agents.base.kernels.features import distances
from privbandit_agents.base.rows import Rows
from privbandit_agents.base.settings import CountUpTo, LateSettings, NonNegative, Open01, Positive
from privbandit_agents.base.spaces import Action, Array, Feedback
from privbandit_agents.base.state import Arrays
from privbandit_agents.base.ties import best
from privbandit_agents.baselines.ridge import RidgeAgent, RidgeSettings
from privbandit_envs.spaces import in_unit_cube


@dataclass(frozen=True)
class Config(RidgeSettings, LateSettings):
    """Settings of KernelUCB.

    Attributes:
        alpha: width of the confidence bonus, >= 0.
        length: of the Gaussian kernel, as a share of a number's range; the kernel's length is this times sqrt(d).
        places: the most contexts in the dictionary.
        novelty: a context joins the dictionary if the others leave more than this share of its kernel unexplained.
    """

    alpha: NonNegative = 1.0
    length: Positive = 0.3
    places: Annotated[int, CountUpTo(4096)] = 200
    novelty: Open01 = 0.01


class KernelUCB(RidgeAgent[Config]):
    """Play the arm with the largest k'(K + ridge I)^-1 y + alpha sqrt(ridge^-1 (k(x, x) - k'(K + ridge I)^-1 k)).

    K and k are kernels between those who were served, and between them and x (Valko et al., Algorithm 1). The kernel
    is 1 + x . z + exp(-|u - v|^2 / (2 d length^2)), u and v the contexts in the unit cube; without the 1 where arms
    have features of their own. It is the inner product of features phi(x): (x, 1) and one for each context z_j of a
    dictionary, by Gram and Schmidt. So the index is phi . theta + alpha sqrt(phi' A^-1 phi) of ``linucb``, and memory
    and time a user are quadratic in the size of the dictionary, whatever the number of users.

    Deviations:
        Zenati et al. sample the dictionary by leverage scores. Here the played context joins it that is new enough,
        until it is full. Users before are taken to have 0 along the new feature; they have ``novelty``^(1/2) at most.
        What the dictionary leaves unexplained of a context adds nothing to the width.
    """

    Config = Config
    optimistic = True

    def begin(self) -> None:
        super().begin()
        dim = self.context_shape[-1] if self.context_shape else 0
        self.most = self.config.places if dim else 0
        self.places = Rows((dim,), np.float64)
        self.basis = Rows((self.most,), np.float64)  # features are sums over the kernels with places, by these weights

    def features(self, context: Array) -> Array:
        straight = super().features(context)
        if not len(self.places):
            return straight
        x, weights = self.placed(context), self.basis.view()[:, : len(self.places)]
        apart = distances(x.reshape(-1, x.shape[-1]), self.places.view())
        near = np.exp(apart / (-2 * self.config.length**2 * x.shape[-1]))
        bent = (near @ weights.T).reshape(*x.shape[:-1], len(weights))
        return np.concatenate([straight, bent[..., None, :] if self.shared_context else bent], axis=-1)

    def placed(self, contexts: Array) -> Array:
        """Return contexts in the unit cube."""
        return np.asarray(np.clip(in_unit_cube(np.asarray(contexts, np.float64), self.observation_space), 0.0, 1.0))

    def choose(self, features: Array, directions: Array, estimates: Array, random: Array | None) -> Array:
        widths = np.sqrt(np.maximum(np.vecdot(directions, features), 0.0))
        arms: Array = best(estimates + self.config.alpha * widths, self.ties)
        return arms

    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        last, features, _ = self.last
        if context is last and features.ndim == 2 and type(action) is np.int64:
            self.discover(context, int(action), features)
            return super().update(context, action, feedback)
        records = self.records_of(context, action, feedback)
        for user, (x, arm) in enumerate(zip(records[0], records[1].tolist(), strict=True)):
            if 0 <= arm < self.n_arms:
                self.discover(x, int(arm), self.features(x))
            super().update(*(column[user : user + 1] for column in records))

    def discover(self, context: Array, arm: int, features: Array) -> None:
        """Let a context, with the features of its arms, join the dictionary if it is new."""
        size = len(self.places)
        if size == self.most:
            return
        bent = features[0 if self.shared_context else arm, self.dim :]
        unexplained = 1.0 - float(bent.dot(bent))
        place = self.placed(context if self.shared_context else context[arm])
        if not (unexplained > self.config.novelty and np.isfinite(place).all()):
            return
        weights = np.zeros((1, self.most))
        weights[0, :size], weights[0, size] = -bent @ self.basis.view()[:, :size], 1.0
        self.places.append(place[None])
        self.basis.append(weights / unexplained**0.5)
        self.widen()

    def widen(self) -> None:
        """Give the regressions a feature more, which nobody has had."""
        self.forget()
        for regression in (self.regression, self.ahead):
            if regression is not None:
                groups, dim, _ = regression.matrices.shape
                wide = np.zeros((groups, dim + 1, dim + 2))
                wide[:, :dim, :dim], wide[:, :dim, -1] = regression.matrices[..., :-1], regression.matrices[..., -1]
                wide[:, dim, dim] = 1 / self.config.ridge
                regression.matrices = wide

    def restore(self, arrays: Arrays, values: dict[str, Any]) -> None:
        for regression in (self.regression, self.ahead):
            if regression is not None:
                regression.matrices = np.zeros_like(arrays["regression.matrices"])
        super().restore(arrays, values)
