"""Audits of what private assortments release beside what ``assortments`` looks at: Hessians, and minimisers.

Canaries are users whose records are chosen by a coin; all other users are the adversary's.
"""

import math
from typing import Any, ClassVar

import numpy as np

from privbandit_agents.audits.agents import CanaryGame
from privbandit_agents.audits.claims import Claim, Floats
from privbandit_agents.privacy.accounting.conversions import rho_to_epsilon

LONG = 3.0
"""Length of features whose Hessian is beyond any clip, and which do not settle what is bought."""
CLEAR = 12
"""Standard deviations of a Hessian's noise that the eigenvalues of the others' Hessian are apart."""


class HessianGame(CanaryGame):
    """A canary of each batch is offered +-e1 or +-e2 and buys nothing: its gradient is 0, its Hessian moves most.

    The others of its batch hold the Hessian so far from a multiple of the identity that nothing is shrunk away. What a
    batch adds to the precision that is released is a function of the noisy Hessian, which is undone.
    """

    part = "Hessians"
    pair = "no purchase from +-e1, or from +-e2"
    canaries = 16
    seen = f"the Hessians of {canaries} batches, as the released precision tells them"
    unseen = "gradients, and other pairs of records"
    runs = 200
    world: ClassVar = {"id": "privbandit/Assortment-v0", "n_items": 4, "capacity": 2, "dim": 2, "horizon": 4096}
    settings: ClassVar = {"steps": 1, "growth": 1.0001, "gradient_share": 0.05}

    def prepare(self) -> None:
        """Say how many others there are, half as many with +-e2 as with +-e1, and prepare their records."""
        gradients, hessians, _ = self.agent(0).mechanisms()
        self.noises, self.trace = (gradients.sigma, hessians.sigma), self.agent(0).config.trace
        self.few = math.ceil(CLEAR * hessians.sigma / self.trace)
        contexts = np.ones((3, 4, 3))
        contexts[:, :, :2] = 0.0
        for kind in (0, 1):  # the third offers nothing
            contexts[kind, :2, kind] = [LONG, -LONG]
        self.contexts, self.offers = contexts, np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=np.int8)
        self.config.setdefault("first", 3 * self.few + 1)

    def claimed(self) -> Claim:
        """Return the claim of the Hessians' releases: their share of rho."""
        agent = self.agent(0)
        share = 1 - agent.config.gradient_share
        return Claim(agent.guarantee.epsilon or math.inf, agent.guarantee.delta or self.delta, share * agent.rho)

    def served(self, agent: Any, coins: Floats) -> Floats:
        """Serve a batch for each canary; return what each adds to the precision, shape (k, 2, 2)."""
        others = [0] * (2 * self.few) + [1] * self.few
        precisions = [agent.release[:, :2]]
        for coin in coins:
            kinds = np.array([0 if coin > 0 else 1, *others])
            kinds = np.concatenate([kinds, np.full(max(agent.length - len(kinds), 0), 2)])
            agent.update(self.contexts[kinds], self.offers[kinds], np.full(len(kinds), -1))
            precisions.append(agent.release[:, :2])
        return np.diff(precisions, axis=0)

    def scores(self, readings: Floats) -> Floats:
        """Undo trust and shrinkage, which ``quadratic`` has: H11 - H22 less that of the others."""
        values, vectors = np.linalg.eigh(readings)
        values = np.maximum(values, 0)
        values = (values + np.sqrt(values * (values + 4 * self.noises[0] ** 2))) / 2  # of H (H + v I)^-1 H
        half = (values[:, 1] - values[:, 0]) / math.sqrt(2)  # norm of H less its trace's share, shrunk
        half = (half + np.sqrt(half**2 + 8 * self.noises[1] ** 2)) / 2
        direction = vectors[:, 0, 1] ** 2 - vectors[:, 1, 1] ** 2
        return np.asarray(math.sqrt(2) * half * direction - self.few * self.trace)


class MinimiserGame(CanaryGame):
    """Each canary has a coordinate of its own, and buys an item at e_j from others at -e_j, or the other way round.

    PrivateMLE is called once, for the canaries alone; the sign of theta_j is the guess.
    """

    part = "PrivateMLE"
    pair = "an item at e_j that was bought from others at -e_j, or all turned round"
    canaries = 16
    seen = "theta after one call of PrivateMLE"
    unseen = "later calls, and other pairs of records"
    runs = 400
    world: ClassVar = {"id": "privbandit/Assortment-v0", "n_items": 10, "capacity": 10, "dim": 16, "horizon": 64}
    settings: ClassVar = {"mle_share": 0.95, "calls": 1, "exploration": canaries, "horizon": canaries}

    def prepare(self) -> None:
        features = -np.eye(self.canaries)[:, None].repeat(10, axis=1)
        features[:, 0] *= -1
        self.features, self.offers = features, np.ones((self.canaries, 10), dtype=np.int8)

    def claimed(self) -> Claim:
        """Return the claim of the call: its share of rho, not of Gaussian type, or of (epsilon, delta)."""
        agent = self.agent(0)
        promise, share = agent.guarantee, agent.config.mle_share
        if agent.mle.cost.rho:
            rho = agent.mle.cost.rho
            return Claim(rho_to_epsilon(rho, self.delta), self.delta, rho, gaussian_type=False)
        return Claim(share * promise.epsilon, share * promise.delta)

    def served(self, agent: Any, coins: Floats) -> Floats:
        """Serve the canaries at once; return theta, or zeros if there was no certified minimum."""
        x = np.concatenate([self.features * coins[:, None, None], np.ones((self.canaries, 10, 1))], axis=-1)
        try:
            agent.update(x, self.offers, np.zeros(self.canaries, dtype=int))
        except RuntimeError:  # no certified minimum; the release before stays
            return np.zeros(self.canaries)
        return np.asarray(agent.release[:, -1])

    def scores(self, readings: Floats) -> Floats:
        return readings
