"""Neural-linear: Thompson sampling on the last layer of a network.

Carlos Riquelme, George Tucker and Jasper Snoek, "Deep Bayesian Bandits Showdown: An Empirical Comparison of Bayesian
Deep Networks for Thompson Sampling", ICLR 2018. The network learns by the steps of Diederik Kingma and Jimmy Ba, "Adam:
A Method for Stochastic Optimization", ICLR 2015.
"""

from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.agent import next_change
from privbandit_agents.base.records import usable
from privbandit_agents.base.rows import KEPT_BYTES, Rows, blocks
from privbandit_agents.base.settings import Count, Growth, NonNegative, Positive
from privbandit_agents.base.spaces import Action, Array, Feedback
from privbandit_agents.baselines.lints import Config as LinTSConfig
from privbandit_agents.baselines.lints import LinTS
from privbandit_agents.baselines.linucb import inverse_of
from privbandit_envs.spaces import in_unit_cube

FIRST = 32
"""Users before the first training."""
BATCH, EPOCHS = 128, 5
"""Users of a step of training, and how often a training sees each at most."""
HELD_OUT = 5
"""One user of so many judges the network, and does not teach it."""


@dataclass(frozen=True)
class NeuralSettings(LinTSConfig):
    """Settings of neural-linear.

    Attributes:
        v: scale of the posterior N(theta, v^2 A^-1), >= 0.
        hidden: units of each of the two hidden layers.
        growth: the network is trained again when the number of users has grown by this factor, > 1.
        steps: of a training, at most.
        rate: of its steps, > 0; it falls to 0 within a training.
    """

    v: NonNegative = 0.25
    hidden: Count = 50
    growth: Growth = 1.2
    steps: Count = 500
    rate: Positive = 0.003


class NeuralLinear(LinTS):
    """Play the arm with the largest z . theta~, theta~ drawn from N(theta, v^2 A^-1), z the features of a network.

    z(x) is (x, 1) and the last of two layers of rectified units, which see contexts in the unit cube and are shared by
    the arms; (x, 1) is x where arms have features of their own. The network, z . w for each arm, is fitted to the
    rewards of the played arms. When the users have grown by ``growth`` it learns on, and A and theta are computed anew
    from all users; in between they learn from every user, as in ``lints``.

    Deviations:
        The last layer sees the context too. The hidden layers count only while regression on them predicts a fifth of
        the users, who do not teach the network, better than regression on the context, by one standard error.
        The noise of rewards has a fixed scale, in place of a posterior of its own. Records are kept up to 16 MiB
        (65,536 of them at most); then the network stays, and its last layer learns on.
    """

    Config = NeuralSettings
    config: NeuralSettings

    def begin(self) -> None:
        super().begin()
        inner = self.context_shape[-1] if self.context_shape else 0
        units, groups = self.config.hidden if inner else 0, len(self.regression.matrices)
        self.batches, rng = self.rng.spawn(2)
        self.first = rng.normal(0, (2 / max(inner, 1)) ** 0.5, (inner + 1, units)).astype(np.float32)
        self.second = rng.normal(0, 0.2 / max(units, 1) ** 0.5, (units + 1, units)).astype(np.float32)
        self.head = np.zeros((self.dim + units, groups), np.float32)
        self.counts = 0.0  # 1: hidden layers do
        self.users, self.train_at = 0, FIRST
        self.most = KEPT_BYTES // max(256, 4 * self.dim + 8) if inner else 0
        self.x, self.y = Rows((self.dim,), np.float32), Rows((2,), np.float32)  # a reward, and its group
        self.regression.matrices = self.fitted(np.zeros((0, len(self.head))), *np.zeros((2, 0)))

    def features(self, context: Array) -> Array:
        return self.deep(super().features(context))

    def deep(self, x: Array) -> Array:
        """Return z of features (..., d): shape (..., d + units)."""
        if len(self.head) == self.dim:
            return x
        return np.concatenate([x, self.counts * self.layers(x)[-1]], axis=-1)

    def layers(self, x: Array) -> list[Array]:
        """Return what the first layer sees of features (..., d), and what both layers make of it."""
        own = x[..., : len(self.first) - 1]
        values = [2 * np.clip(in_unit_cube(own, self.observation_space), 0.0, 1.0) - 1]
        for layer in (self.first, self.second):
            values.append(np.maximum(values[-1] @ layer[:-1] + layer[-1], 0.0))
        return values

    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        records = self.records_of(context, action, feedback)
        if len(records[-1]) == 1:
            super().update(context, action, feedback)
            return self.keep(*records)
        for some in blocks(lambda: self.train_at - self.users, *records):
            super().update(*some)
            self.keep(*some)

    def keep(self, contexts: Array, arms: Array, rewards: Array) -> None:
        """Keep records while there is room, and train if it is time."""
        self.users += len(rewards)
        if len(self.y) < self.most:
            x, groups = self.observed(contexts, arms)
            good = usable(x, rewards) & x.any(axis=1)
            self.x.append(x[good, : self.dim])
            self.y.append(np.column_stack([rewards, groups])[good])
            if self.users >= self.train_at and len(self.y) > HELD_OUT:
                self.train()
                self.refit()
        if self.users >= self.train_at:
            self.train_at = next_change(self.users, self.config.growth)

    def refit(self) -> None:
        """Say whether the hidden layers count, and fit the last layer to all users."""
        self.forget()
        x, (y, groups) = self.x.view().astype(np.float64), self.y.view().T
        self.counts = 1.0
        z = self.deep(x)
        gains = self.wrong(x, y, groups) - self.wrong(z, y, groups)
        self.counts = float(gains.mean() > gains.std() / len(gains) ** 0.5)
        z[:, self.dim :] *= self.counts
        self.regression.matrices = self.fitted(z, y, groups)

    def wrong(self, z: Array, y: Array, groups: Array) -> Array:
        """Return the squared errors at users who are held out, by regression on the others."""
        held = np.arange(len(y)) % HELD_OUT == 0
        thetas = self.fitted(z[~held], y[~held], groups[~held])[..., -1]
        return np.asarray((np.vecdot(z[held], thetas[groups[held].astype(np.intp)]) - y[held]) ** 2)

    def fitted(self, z: Array, y: Array, groups: Array) -> Array:
        """Return [A^-1 | theta] of every group, by rows z (n, d)."""
        found = np.zeros((self.head.shape[1], z.shape[1], z.shape[1] + 1))
        for group, matrix in enumerate(found):
            own = z[groups == group]
            matrix[:, :-1] = inverse_of(own.T @ own + self.config.ridge * np.eye(z.shape[1]))
            matrix[:, -1] = matrix[:, :-1] @ (own.T @ y[groups == group])
        return found

    def train(self) -> None:
        """Let the network take steps down the squared error of the users who teach it."""
        x, (y, groups) = self.x.view(), self.y.view().T
        teachers, steps = np.flatnonzero(np.arange(len(y)) % HELD_OUT), self.config.steps
        steps = min(steps, 1 + EPOCHS * len(teachers) // BATCH)
        weights = self.first, self.second, self.head
        means, squares = ([np.zeros_like(weight) for weight in weights] for _ in range(2))
        for step in range(1, steps + 1):
            rows = teachers[self.batches.integers(len(teachers), size=BATCH)]
            rate = self.config.rate * (1 - (step - 1) / steps) * (1 - 0.999**step) ** 0.5 / (1 - 0.9**step)
            gradients = self.gradients(x[rows], y[rows], groups[rows].astype(np.intp))
            for weight, gradient, mean, square in zip(weights, gradients, means, squares, strict=True):
                mean += 0.1 * (gradient - mean)
                square += 0.001 * (gradient * gradient - square)
                weight -= rate * mean / (np.sqrt(square) + 1e-8)

    def gradients(self, x: Array, y: Array, groups: Array) -> tuple[Array, ...]:
        """Return the gradients of half the mean squared error of records, by the weights."""
        inner, middle, outer = self.layers(x)
        z, each = np.concatenate([x, outer], axis=1), np.arange(len(x))
        wrong = np.zeros((len(x), self.head.shape[1]), np.float32)
        wrong[each, groups] = ((z @ self.head)[each, groups] - y) / len(x)
        upper = (wrong @ self.head[self.dim :].T) * (outer > 0)
        lower = (upper @ self.second[:-1].T) * (middle > 0)
        ones = np.ones((len(x), 1), np.float32)
        first, second = (np.hstack([value, ones]).T @ back for value, back in ((inner, lower), (middle, upper)))
        return first, second, z.T @ wrong
