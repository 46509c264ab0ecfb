"""Joint agents as somebody else writes them: they use no mechanism of the package, and publish in ways of their own.

``law`` says which: ``laplace``, ``gaussian`` and ``gram`` make one release of each batch of users, ``tree`` one of all
prefixes. ``claim`` says what is promised: by default epsilon (of Gaussian noise with delta, and it says so), by
``approx`` the same without a word about Gaussian noise, by ``zcdp`` rho alone. ``fault`` says what is wrong, if
anything is. With ``trigger`` a batch ends when its sum seems to be above 1, as the sparse vector technique says with so
many times the noise that half of epsilon needs; the other half is for the sums.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.guarantee import Guarantee
from privbandit_agents.base.spaces import arms_with_features
from privbandit_agents.privacy.accounting.conversions import gaussian_mu
from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.zoo.plugins import register_agent

BATCH, LEVELS = 8, 10
NOISE = {"noise x 0.8": 0.8, "noise x 0.5": 0.5, "ten times epsilon": 0.1, "no noise": 0.0}


@dataclass(frozen=True)
class Config:
    epsilon: float = 1.0
    delta: float = 1e-5
    law: str = "laplace"
    claim: str = ""
    fault: str = ""
    trigger: float = 0.0


class Stranger(CentralAgent[Config, Any]):
    """Greedy on the noisy sum of y x, and on nothing else."""

    Config = Config
    plays = staticmethod(arms_with_features)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)

    def begin(self) -> None:
        config = self.config
        self.normal = config.law != "laplace"
        self.gaussian = self.normal and not config.claim  # type: ignore[misc]
        delta = config.delta if self.normal else 0.0
        mu = gaussian_mu(config.epsilon, config.delta) if self.normal else config.epsilon
        budget: dict[str, Any] = {"rho": mu**2 / 2} if config.claim == "zcdp" else {}
        budget = budget or {"epsilon": config.epsilon, "delta": delta}
        self.guarantee = Guarantee("joint", protects="the record", reference="this file", **budget)
        self.ledger = Ledger(**budget)
        self.ledger.spend(Cost(**budget))
        # y x moves by 2, in l1 and in l2, and x x' by the root of 2
        self.scale = (2**0.5 if config.law == "gram" else 2) * NOISE.get(config.fault, 1.0) / mu
        if config.law == "tree":
            self.scale *= math.sqrt(LEVELS)
        self.doubt = 2 * 2 * config.trigger / (config.epsilon / 2)  # the sum moves by 2
        self.scale *= 2 if config.trigger else 1
        d = self.context_shape[1] ** (2 if config.law == "gram" else 1)
        self.release, self.exact, self.batch, self.users = np.zeros(d), np.zeros(d), np.zeros(d), 0
        self.first, self.full = np.zeros(d), BATCH
        self.bar = self.barrier()
        self.nodes, self.began = np.zeros((LEVELS, d)), np.full(LEVELS, -1)
        self.sums = np.zeros((1, d))

    def barrier(self) -> float:
        return 1.0 + self.rng.laplace() * self.doubt if self.doubt else 1.0

    def noise(self) -> Any:
        draw = self.rng.normal if self.normal else self.rng.laplace
        return draw(scale=self.scale, size=self.release.shape) if self.scale else 0.0

    def select_action(self, context: Any) -> Any:
        theta = self.exact if self.config.fault == "raw reads" else self.release
        x = self.contexts_of(context)
        if self.config.law == "gram":
            return np.einsum("...i,...j->...ij", x, x).reshape(*x.shape[:-1], -1).dot(theta).argmax(axis=-1)
        return (x @ theta).argmax(axis=-1)

    def curate(self, contexts: Any, actions: Any, feedback: Any) -> Any:
        published = None
        x = np.nan_to_num(contexts[np.arange(len(actions)), actions].astype(float), posinf=0, neginf=0)
        x = x / np.maximum(np.abs(x).sum(axis=1, keepdims=True), 1)
        values = x * np.clip(np.nan_to_num(feedback, posinf=0, neginf=0), -1, 1)[:, None]
        if self.config.law == "gram":
            values = np.einsum("ni,nj->nij", x, x).reshape(len(x), -1)
        for z in values:
            self.exact = self.exact + z
            self.users += 1
            published = self.prefix(z) if self.config.law == "tree" else self.in_batch(z, published)
        return published

    def in_batch(self, z: Any, published: Any) -> Any:
        if self.full == BATCH and not self.batch.any():
            self.first = z
        self.batch = self.batch + z
        self.full -= 1
        early = self.config.fault == "schedule leak" and self.full == 1 and self.batch.sum() > 0
        if self.doubt:
            queried = 0 if self.config.fault == "no query noise" else 2 * self.doubt * self.rng.laplace()
            early = self.batch.sum() + queried > self.bar
        if self.full > 0 and not early:
            return published
        published = self.release = self.release + self.batch + self.noise()
        if self.config.fault == "one more report":
            published = self.release = np.concatenate([self.release[:0], self.release + self.batch + self.noise()])
        again = self.config.fault == "counted twice"
        self.batch, self.full = self.first if again else np.zeros_like(z), BATCH
        self.bar = self.barrier()
        return published

    def prefix(self, z: Any) -> Any:
        """The binary tree: node i holds the noisy sum of the last block of length 2^i that ends here."""
        self.batch = self.batch + z
        t, total = self.users, np.zeros_like(z)
        self.sums = np.concatenate([self.sums, self.batch[None]])
        for level in reversed(range(LEVELS)):
            if t >> level & 1:
                start = (t >> level + 1) << level + 1
                if self.began[level] != start:
                    self.began[level] = start
                    self.nodes[level] = self.sums[start + 2**level] - self.sums[start] + self.noise()
                total = total + self.nodes[level]
        return total

    def frozen_rounds(self) -> int:
        return 1 if self.config.law == "tree" or self.config.fault == "schedule leak" or self.doubt else self.full


register_agent("stranger", "joint_strangers:Stranger", "somebody else's")
