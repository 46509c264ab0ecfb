"""Audits of gradients and Hessians of Newton steps, and of minimisers of perturbed likelihoods.

Canaries are users whose records are chosen by a coin; all other users are the adversary's.
"""

import math
from typing import Any, ClassVar

import numpy as np

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Claim, Floats
from privbandit_agents.privacy.accounting.conversions import rho_to_epsilon


class NewtonGame(AgentGame):
    """Each batch of ``newton-mnl`` has a canary, and one of the two releases has nearly all of the budget.

    The gradients: the canary bought the only item it was offered, far out along e1 or -e1. A strong prior holds theta
    near 0.

    The Hessians: the canary was offered +-e1 or +-e2 and bought nothing. Its gradient is 0, its Hessian moves most. The
    others of its batch hold the Hessian so far from a multiple of the identity that nothing is shrunk away.
    """

    part = "gradients"
    pair = "a purchase at a far feature e1 or -e1"
    canaries = 8
    seen = f"the gradients of {canaries} batches, as the released theta tells them"
    unseen = "later steps of a batch, and other pairs of records"
    runs = 1000
    world: ClassVar = {"id": "privbandit/Assortment-v0", "n_items": 4, "capacity": 2, "dim": 2, "horizon": 4096}
    settings: ClassVar = {"steps": 1, "growth": 1.0001, "gradient_share": 0.95, "ridge": 1e5}
    hessians: bool = False

    def prepare(self) -> None:
        """Prepare users who are offered one or two items along e1 or e2, or nothing; batches just have room for all."""
        agent = self.agent(0)
        self.noises = [mechanism.sigma for mechanism in agent.mechanisms()[:2]]
        self.contexts, self.offers = np.ones((4, 4, 3)), np.zeros((4, 4), dtype=np.int8)
        self.contexts[:, :, :2], self.others, self.bought = 0.0, list[int](), 0
        if self.hessians:
            for kind in (0, 1):
                # their Hessians are beyond any clip
                self.contexts[kind, :2, kind], self.offers[kind, :2] = [3.0, -3.0], 1
            # the eigenvalues of the others' Hessian are 12 standard deviations of its noise apart
            few = math.ceil(12 * self.noises[1] / agent.config.trace)
            self.apart, self.bought = few * agent.config.trace, -1
            self.others = [0] * (2 * few) + [1] * few
        else:
            self.contexts[:2, 0, 0], self.offers[:2, 0] = [50.0, -50.0], 1  # their gradients are beyond any clip
        self.config.setdefault("first", 1 + len(self.others))

    def claimed(self) -> Claim:
        """Return the claim of the derivatives that the game reads: their share of rho."""
        agent = self.agent(0)
        share = agent.config.gradient_share
        promise, rho = agent.guarantee, max(share, 1 - share) * agent.rho
        return Claim(promise.epsilon or math.inf, promise.delta or self.delta, rho)

    def served(self, agent: Any, coins: Floats) -> Floats:
        """Serve a batch for each canary; return the releases, the first one before any batch: shape (k + 1, 2, 3)."""
        releases = [agent.release]
        for coin in coins:
            kinds = np.array([0 if coin > 0 else 1, *self.others])
            kinds = np.concatenate([kinds, np.full(max(agent.length - len(kinds), 0), 3)])
            agent.update(self.contexts[kinds], self.offers[kinds], np.where(kinds < 2, self.bought, -1))
            releases.append(agent.release)
        return np.array(releases)

    def scores(self, readings: Floats) -> Floats:
        """Undo the Newton step: -slope is (I + v H^-1) times the new precision times the move.

        Of the Hessians undo the shrinkage, H (H + v I)^-1 H, and that of the eigenvalues too: H11 - H22 less that of
        the others.
        """
        values, vectors = np.linalg.eigh(np.diff(readings[:, :, :2], axis=0))
        values = np.maximum(values, 1e-9)
        values = (values + np.sqrt(values * (values + 4 * self.noises[0] ** 2))) / 2
        if self.hessians:
            shrunk = (values[:, 1] - values[:, 0]) / math.sqrt(2)  # norm of H less its trace's share
            size = (shrunk + np.sqrt(shrunk**2 + 8 * self.noises[1] ** 2)) / 2
            direction = vectors[:, 0, 1] ** 2 - vectors[:, 1, 1] ** 2
            return np.asarray(math.sqrt(2) * size * direction - self.apart)
        pulls = np.einsum("kij,kj->ki", readings[1:, :, :2], np.diff(readings[:, :, 2], axis=0))
        turned = np.einsum("kij,ki->kj", vectors, pulls) * (1 + self.noises[0] ** 2 / values)
        return np.asarray(np.einsum("kj,kj->k", vectors[:, 0], turned))


class Hessians(NewtonGame):
    """The same with nearly all of the budget for the Hessians."""

    besides = ()
    part = "Hessians"
    pair = "no purchase from +-e1, or from +-e2"
    seen = f"the Hessians of {NewtonGame.canaries} batches, as the released precision tells them"
    runs = 800
    settings: ClassVar = {"steps": 1, "growth": 1.0001, "gradient_share": 0.05}
    hessians = True


NewtonGame.besides = (Hessians,)


class MinimiserGame(AgentGame):
    """Each canary has a coordinate of its own, and buys an item at e_j from others at -e_j, or the other way round.

    PrivateMLE is called once, for the canaries alone; theta_j is the guess.
    """

    part = "PrivateMLE"
    pair = "an item at e_j that was bought from others at -e_j, or all turned round"
    canaries = 16
    seen = "theta after one call of PrivateMLE"
    unseen = "later calls, and other pairs of records"
    runs = 1500
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
            return Claim(rho_to_epsilon(rho, self.delta), self.delta, rho)
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
