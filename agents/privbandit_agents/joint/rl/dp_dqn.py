"""A private deep Q-network at discount 0: one shared scorer, clipped gradients, correlated noise.

After Mnih et al., "Human-level control through deep reinforcement learning", Nature 2015 (fitted Q); Abadi et al.,
"Deep Learning with Differential Privacy", CCS 2016 (clipped gradients); Kairouz et al., "Practical and Private (Deep)
Learning without Sampling or Shuffling", ICML 2021 (noise correlated over steps); Rahimi and Recht, "Random Features for
Large-Scale Kernel Machines", NeurIPS 2007. Proof: docs/privacy/dp-dqn.md.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np

from privbandit_agents.base.arms import ArmModels, in_blocks, with_intercept
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.rows import Rows, blocks
from privbandit_agents.base.settings import Budget, Count, CountUpTo, Open01, Positive
from privbandit_agents.base.spaces import Action, Array, arms_or_context
from privbandit_agents.base.ties import best
from privbandit_agents.joint.settings import GaussianSettings, refuse_beyond
from privbandit_agents.privacy.accounting.costs import gaussian_dp
from privbandit_agents.privacy.contributions.gradients import clipped_gradients, sensitivity
from privbandit_agents.privacy.contributions.moments import sanitise
from privbandit_agents.privacy.mechanisms.counters import BufferedToeplitz
from privbandit_agents.privacy.vectors import modest


@dataclass(frozen=True)
class Config(GaussianSettings):
    """Settings of the private DQN, besides the budget.

    Attributes:
        horizon: number of users T, fixed in advance; default: the environment's.
        scorer: ``"linear"`` in an arm's features, or ``"features"``: linear in fixed random features of them, for means
            that are not monotone in any direction.
        features: number of random features m.
        batch: users a step; default: T / 200, from 1 to 200.
        clip: largest norm C of one user's gradient; default: 1 for the linear scorer, 0.5 for random features.
        rate: multiplies every step, > 0.
    """

    epsilon: Budget = 1.0
    delta: Open01 = 1e-5
    horizon: Count | None = None
    scorer: Literal["linear", "features"] = "linear"
    features: Annotated[int, CountUpTo(4096)] = 128
    batch: Annotated[int, CountUpTo(10**6)] | None = None
    clip: Positive | None = None
    rate: Positive = 1.0


class DPDQN(ArmModels, CentralAgent[Config, Array]):
    """A curator learns one scorer for all arms by gradient steps, each on the noisy gradients of a batch of new users.

    Algorithm:
        1. Serve the first batch random arms, and every later one the arms of the largest scores.
        2. g <- sum over the users of the batch of the gradient of (score - reward)^2 / 2 at the played arm, each
           clipped to norm C; forget the users.
        3. Give g to a continual counter of one term a batch. The difference of its last two releases is the noisy g.
        4. Take a step along it; release the parameters; go to 1.

        If the arms share a context, each has parameters of its own, on the features of ``jdp-linucb``, with rewards
        clipped to [0, 1] and learned as 2 y - 1. A gradient is then one of all parameters, 0 for those of other arms.

    *Formal guarantees.* sqrt(2 rho)-Gaussian DP (hence (epsilon, delta)-joint DP and rho-zCDP) under replacement of a
    user's whole record: one continual counter runs over the batches, which end at public times, and every action
    reads its releases only. A user is in one batch, so replacing the record moves one term, by at most
    ``sensitivity``. The curator scales features into the unit ball and clips rewards to [-1, 1]; a record that is not
    finite counts as (0, 0); gradients are clipped by their own norms whatever the record. It holds for the numbers that
    leave: the counter's noise is discrete, on a grid, and its sensitivity covers the rounding of the sums.

    Deviations:
        There is no replay buffer, no target network and no subsampling: the discount is 0, and every user is in one
        batch. Random features stand for a network; they are drawn before anybody comes.
    """

    Config = Config
    gaussian = True
    plays = staticmethod(arms_or_context)

    def begin(self) -> None:
        """Spend the whole budget at once: all releases of a counter are one mechanism."""
        config, rho = self.config, self.config.concentrated()
        linear = config.scorer == "linear"
        self.dim = self.width
        self.ledger = config.ledger()
        self.horizon = config.counted(config.horizon or 100_000)
        self.batch = config.batch or min(max(self.horizon // 200, 1), 200)  # about 200 batches
        self.clip = config.clip or (1.0 if linear else 0.5)
        rng_noise, rng_features = self.rng.spawn(2)
        waves = 0 if linear else config.features
        self.waves, self.phases = np.zeros((self.dim, waves)), np.zeros(waves)
        if not linear:
            self.waves = rng_features.standard_normal((self.dim, waves)) * math.sqrt(self.dim)
            self.phases = rng_features.uniform(0, 2 * math.pi, waves)
        size = self.models * (self.dim if linear else waves)
        batches = -(-self.horizon // self.batch)
        moved = sensitivity(self.clip, self.batch, size)
        mass = 1.01 * self.clip * self.horizon  # of all gradients, and what rounding adds to their norms
        self.counter = BufferedToeplitz(batches, size, moved, rho, rng_noise, mass=mass, noise=config.noise)
        self.ledger.spend(gaussian_dp(rho))
        reference = "docs/privacy/dp-dqn.md and docs/privacy/continual-counting.md"
        self.guarantee = config.guarantee(reference, arithmetic=config.arithmetic(batches * size))
        self.open = Rows((self.dim + 2,), np.float64, min(self.batch, 4096))  # (x, y) and its model
        self.summed, self.velocity = np.zeros(size), np.zeros(size)  # the counter's last release; steps with momentum
        self.release = np.zeros(size)
        self.users = 0

    def select_action(self, context: Array) -> Action:
        """Return the arm of the largest score; any arm before the first release, when all are 0."""
        chosen: Array = best(self.scores(context), self.ties)
        return chosen

    def scores(self, contexts: Array) -> Array:
        """Return the score of every arm, shape (..., K)."""
        with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
            if self.shared_context:
                return np.asarray(self.lifted(with_intercept(contexts)) @ self.release.reshape(self.models, -1).T)
            return np.asarray(self.lifted(contexts) @ self.release)

    def predict(self, contexts: Array) -> Array:
        """Return the score of every arm; if arms share a context, the reward in [0, 1] that it stands for."""
        scores = self.scores(contexts)
        return np.clip((1 + scores) / 2, 0.0, 1.0) if self.shared_context else scores

    def lifted(self, x: Array) -> Array:
        """Return what scores are linear in, for features (..., d): themselves, or random features of norm at most 1."""
        if self.config.scorer == "linear":
            return x
        inside, _ = sanitise(x, np.zeros(x.shape[:-1]))
        return np.asarray(np.cos(inside @ self.waves + self.phases) / math.sqrt(len(self.phases)))

    def refuse(self, users: int) -> None:
        refuse_beyond(self.horizon, self.users + users, self.name)

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        """Keep the batch's records; take a step when it ends."""
        parameters = None
        for x, arms, rewards in blocks(self.frozen_rounds, contexts, actions, feedback):
            features, learned, models = self.regressed(x, arms, rewards)
            rows = self.open.more(len(rewards))
            rows[:, :-2], rows[:, -2], rows[:, -1] = features, learned, models
            if not modest(rows, 1e100):  # what is not finite counts as (0, 0), and the state is finite at any time
                rows[~np.isfinite(rows).all(axis=1), :-1] = 0.0
            self.users += len(rewards)
            if len(self.open) >= self.batch:
                self.release = parameters = self._stepped(self.open.take())
        return parameters

    def stiffness(self, users: int) -> float:
        """Return the divisor of a batch's noisy gradients in a linear scorer's step after ``users`` users.

        It has a share of the curvature of all users so far, if they are on the unit sphere, and enough besides for the
        first steps to be stable and for their noise to be small.
        """
        # curvature of the users so far, and scale of the noise
        return 0.2 * users / (self.models * self.dim) + max(self.batch, 25.0 * self.counter.scale)

    def frozen_rounds(self) -> int:
        return max(self.batch - len(self.open), 1)

    def _stepped(self, rows: Array) -> Array:
        """Return the parameters after a step on a batch's records (B, d + 2)."""
        features, rewards = sanitise(rows[:, :-2], rows[:, -2])
        lifted, config = in_blocks(self.lifted(features), rows[:, -1].astype(np.intp), self.models), self.config
        gradients = clipped_gradients(lifted @ self.release, rewards, lifted, self.clip)
        terms = gradients.sum(axis=0, keepdims=True)
        summed = self.publish(self.counter, terms, partial(self.counter.extend, terms))[-1]
        noisy, self.summed = summed - self.summed, summed
        far = 1e6  # no step overflows, whatever the noise
        if config.scorer == "linear":
            step = config.rate * noisy / self.stiffness(self.users)
        else:
            self.velocity = np.clip(0.9 * self.velocity + noisy / self.batch, -far, far)  # momentum
            step = config.rate * self.velocity / (1 + 3 * self.users / self.horizon)
        return np.asarray(np.clip(self.release - step, -far, far))
